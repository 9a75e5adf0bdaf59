"""Measure through SoapySDR what the test plays; test_soapy_audio runs this as a process.

Each line on standard input is a command. The answer is a line of JSON.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from math import nan
from typing import Any

from macontrol.config.model.errors import ProbeError
from macontrol.controller.runtime.clock import WallClock
from macontrol.hal import Measurement
from macontrol.hal.probes.sdr.probe import SdrProbe
from macontrol.hal.probes.soapy.stream import SoapyStream
from support.delayed_reader import delayed_reader
from support.probe_settings import probe_settings, wait_until

SLOT_S = 0.2


def measure(probe: SdrProbe, clock: WallClock, slots: int) -> list[Measurement]:
    found: list[Measurement] = []
    for slot in range(slots):
        start = clock.now()
        probe.request(slot, start, start + SLOT_S)
        clock.sleep_until(start + SLOT_S)
        found += probe.collect(start + SLOT_S)

    def are_complete() -> bool:
        found.extend(probe.collect(0.0))
        return len(found) >= slots

    wait_until(are_complete)
    return found


def reward(measurement: Measurement) -> float:
    return nan if measurement.value is None else measurement.value.reward(1.0)[0]


def main() -> None:
    settings = probe_settings(
        driver="soapy",
        soapy_arguments="driver=audio",
        soapy_stream="chan=stereo_iq",
        sample_rate_hz=48_000.0,
        tone_offset_hz=6_000.0,
        tone_bandwidth_hz=2_000.0,
        guard_s=0.03,
        silence_s=8.0,
    )
    clock = WallClock()
    probe = SdrProbe(settings, SoapyStream(settings, clock), clock)
    answer: Any
    for line in sys.stdin:
        command, _, value = line.strip().partition(" ")
        try:
            if command == "open":
                probe.open()
                answer = {}
            elif command == "floor":
                answer = {"dbfs": probe.measure_noise_floor().dbfs}
            elif command == "measure":
                found = measure(probe, clock, int(value))
                answer = {
                    "rewards": [{**asdict(m), "valid": m.valid, "reward": reward(m)} for m in found]
                }
                answer["lateness_s"] = probe.health().lateness_s
            elif command == "delay-reader":
                with delayed_reader(float(value), clock) as delayed:
                    delayed.wait(10.0)
                wait_until(lambda: "overflow" in probe.health().breaks, 15.0)
                answer = {"breaks": dict(probe.health().breaks)}
            elif command == "await-fault":
                wait_until(lambda: bool(probe.health().fault), float(value))
                answer = {"fault": probe.health().fault}
            elif command == "await-samples":
                wait_until(lambda: not probe.health().fault, float(value))
                answer = {"reopened": probe.health().reopened}
            else:
                probe.close()
                answer = {}
        except ProbeError as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
