"""The line probe: by given arrival times, and on a pseudo-terminal."""

from __future__ import annotations

import os
import threading
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from math import log10
from pathlib import Path
from statistics import stdev

import pytest

from macontrol.config.model.errors import ProbeError
from macontrol.config.model.reward import DB_PER_NEPER, Power
from macontrol.controller.runtime.clock import WallClock
from macontrol.hal import Clock, Measurement
from macontrol.hal.probes.line import probe as line_probe
from macontrol.hal.probes.line.probe import LineProbe
from macontrol.hal.probes.line.settings import LineSettings, parse_option
from macontrol.sim.bench.boards.port import VirtualPort
from support.waiting import wait_until

INTERVAL_S = 0.002


def volts(dbm: float) -> bytes:
    """An AD8318's output: 0.75 V at -10 dBm, 25 mV less per dB."""
    return f"{0.75 - 0.025 * (dbm + 10):.5f}\r\n".encode()


def made(clock: Clock, **changes: object) -> LineProbe:
    given = {"settling_s": 0.05, "noise_floor": -60.0, **changes}
    return LineProbe(LineSettings.model_validate(given), clock)


def collected(probe: LineProbe, clock: Clock) -> Measurement:
    found: list[Measurement] = []

    def is_answered() -> bool:
        found.extend(probe.collect(clock.now()))
        return bool(found)

    wait_until(is_answered)
    (measurement,) = found
    return measurement


class ScriptedDetector:
    """A clock, and a line that prints what `text` returns for every 2 ms of it.

    The time of the clock is that of the last line. It passes as fast as the probe reads, up to
    `end_s`: so no load of the machine changes when a line arrives.
    """

    def __init__(self) -> None:
        self._printed = 0
        self.end_s = 1.0
        self.text: Callable[[float], bytes] = lambda _: volts(-60)

    def now(self) -> float:
        return self._printed * INTERVAL_S

    def sleep_until(self, moment: float) -> None:
        raise NotImplementedError

    def read_message(self, _deadline_s: float) -> bytes | None:
        if self.now() >= self.end_s:
            time.sleep(0.001)
            return None
        self._printed += 1
        return self.text(self.now()).rstrip() or None

    def close(self) -> None:
        pass

    def measured(self, probe: LineProbe, seconds: float = 0.15) -> Measurement:
        """What the probe measures in the time that follows."""
        start_s = self.end_s
        probe.request(1, start_s, start_s + seconds)
        self.end_s = start_s + seconds + 1.0
        return collected(probe, self)


@contextmanager
def scripted(**changes: object) -> Iterator[tuple[ScriptedDetector, LineProbe]]:
    detector = ScriptedDetector()
    probe = made(detector, **changes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_probe, "SerialLine", lambda *_: detector)
        try:
            probe.open()
            yield detector, probe
        finally:
            probe.close()


def test_a_slot_has_the_mean_power_above_the_floor() -> None:
    with scripted(guard_s=0.001, lead_s=0.0) as (detector, probe):
        levels = count()
        detector.text = lambda _: volts(-30 if next(levels) % 2 else -40)
        measurement = detector.measured(probe, 0.202)  # 100 lines are inside the guards
        assert isinstance(measurement.value, Power)
        assert measurement.value.power == pytest.approx((1e-3 + 1e-4) / 2, rel=1e-9)
        powers = [1e-3, 1e-4] * 50
        sigma_db = DB_PER_NEPER * stdev(powers) / (5.5e-4 * 10)
        assert measurement.value.sigma_db == pytest.approx(sigma_db, rel=1e-9)
        assert measurement.value.noise == pytest.approx(1e-6)
        assert measurement.above_floor > 1


def test_only_lines_inside_the_interval_count() -> None:
    with scripted(guard_s=0.02, lead_s=0.03) as (detector, probe):
        start_s = detector.end_s
        inside = start_s + 0.02, start_s + 0.2 - 0.02 - 0.03
        detector.text = lambda t: volts(-30 if inside[0] <= t <= inside[1] else -10)
        measurement = detector.measured(probe, 0.2)
        assert isinstance(measurement.value, Power)
        assert measurement.value.power == pytest.approx(1e-3)


def test_the_noise_floor_is_measured() -> None:
    with scripted(noise_floor="measure", noise_floor_s=0.2) as (detector, probe):
        assert detector.measured(probe).reason == "no-noise-floor"
        detector.end_s += 100.0  # it passes during the measurement
        assert 10 * log10(probe.measure_noise_floor().power) == pytest.approx(-60.0)
        assert detector.measured(probe).reason == "no-signal"
        detector.text = lambda _: volts(-20)
        assert detector.measured(probe).reason == ""
        detector.end_s += 100.0
        with pytest.raises(ProbeError, match="not plausible"):
            probe.measure_noise_floor()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"hello\r\n", "not-a-number"),
        (b"nan\r\n", "not-a-number"),
        (b"3.30\r\n", "clipping"),
        (b"0\r\n", "clipping"),
        (b"", "too-few-samples"),
    ],
)
def test_bad_lines_give_a_reason_and_no_value(text: bytes, reason: str) -> None:
    with scripted() as (detector, probe):
        detector.text = lambda _: text
        measurement = detector.measured(probe)
        assert (measurement.value, measurement.reason) == (None, reason)
        assert (measurement.signal.clipped_share == 1.0) == (reason == "clipping")


@pytest.mark.parametrize("reading", [b"3075", b"5000"])  # the mean overflows, and the power
def test_a_power_beyond_all_numbers_is_not_a_number(reading: bytes) -> None:
    dbm = {"reading_a": 0.0, "dbm_a": 0.0, "reading_b": 1.0, "dbm_b": 1.0}
    with scripted(**dbm, highest_reading=1e6) as (detector, probe):
        detector.text = lambda _: reading
        assert detector.measured(probe).reason == "not-a-number"


@pytest.mark.parametrize(("silent_s", "reason"), [(0.45, ""), (0.55, "gap")])
def test_half_an_interval_without_a_line_is_a_gap(silent_s: float, reason: str) -> None:
    with scripted(silence_s=5.0, guard_s=0.001, lead_s=0.0) as (detector, probe):
        begin_s = detector.end_s + 0.2
        detector.text = lambda t: b"" if begin_s < t < begin_s + silent_s else volts(-30)
        assert detector.measured(probe, 1.0).reason == reason


class Detector:
    """A pseudo-terminal where a thread prints what `text` returns, every 2 ms."""

    def __init__(self) -> None:
        self._master, slave = os.openpty()
        tty.setraw(slave)
        os.set_blocking(self._master, False)
        self.port = os.ttyname(slave)
        self._slave = slave
        self.text: Callable[[], bytes] = lambda: volts(-60)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._print, daemon=True)
        self._thread.start()

    def _print(self) -> None:
        while not self._stop.wait(INTERVAL_S):
            try:
                os.write(self._master, self.text())
            except BlockingIOError:
                continue

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        os.close(self._master)
        os.close(self._slave)


@contextmanager
def opened(**changes: object) -> Iterator[tuple[Detector, LineProbe]]:
    detector = Detector()
    probe = made(WallClock(), port=detector.port, **changes)
    try:
        probe.open()
        yield detector, probe
    finally:
        probe.close()
        detector.close()


def measure(probe: LineProbe, slot: int = 1) -> Measurement:
    now = time.monotonic()
    probe.request(slot, now, now + 0.15)
    measurement = collected(probe, WallClock())
    assert measurement.slot == slot
    return measurement


def first_valid(probe: LineProbe) -> Power:
    """Measure again while a busy machine delays the threads, which leaves gaps."""
    found: list[Measurement] = []

    def is_valid() -> bool:
        found.append(measure(probe, len(found) + 1))
        return found[-1].valid

    wait_until(is_valid)
    assert {measurement.reason for measurement in found[:-1]} <= {
        "gap",
        "too-few-samples",
        "settling",
    }
    value = found[-1].value
    assert isinstance(value, Power)
    return value


def test_lines_arrive_through_a_pseudo_terminal() -> None:
    with opened(noise_floor=-80.0) as (_, probe):
        assert 10 * log10(first_valid(probe).power) == pytest.approx(-60.0, abs=0.01)


def test_silence_is_a_fault_and_lines_end_it() -> None:
    with opened(silence_s=0.2, noise_floor=-80.0) as (detector, probe):
        detector.text = lambda: b""
        wait_until(lambda: bool(probe.health().fault))
        with pytest.raises(ProbeError):
            probe.request(1, 0.0, 1.0)
        detector.text = lambda: volts(-60)
        wait_until(lambda: not probe.health().fault)
        first_valid(probe)
        assert probe.health().reopened >= 1


def test_an_unplugged_detector_is_a_fault_until_it_is_plugged_in(tmp_path: Path) -> None:
    clock, link = WallClock(), tmp_path / "detector"
    wire, stop = VirtualPort(clock, link), threading.Event()
    do: list[Callable[[], None]] = []

    def run() -> None:
        while not stop.is_set():
            while do:
                do.pop()()
            wire.wait(clock.now() + 0.002)
            wire.send(volts(-30))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    probe = made(clock, port=str(link))
    try:
        probe.open()
        do.append(wire.unplug)
        wait_until(lambda: bool(probe.health().fault))
        with pytest.raises(ProbeError):
            probe.request(1, 0.0, 1.0)
        do.append(wire.plug_in)
        wait_until(lambda: not probe.health().fault)
        first_valid(probe)
    finally:
        probe.close()
        stop.set()
        thread.join()
        wire.close()


def test_a_flood_of_lines_is_answered_in_time() -> None:
    with opened() as (detector, probe):
        detector.text = lambda: volts(-30) * 100
        first_valid(probe)
        assert len(probe._readings) <= 200_000


def test_a_port_that_does_not_exist_is_an_error() -> None:
    probe = LineProbe(LineSettings(port="/dev/no-such-port"), WallClock())
    with pytest.raises(ProbeError, match="does not exist") as refusal:
        probe.open()
    assert "--probe line://" in refusal.value.fix
    probe.close()


def test_the_option_names_a_port() -> None:
    assert parse_option("line:///dev/ttyACM0") == {"port": "/dev/ttyACM0"}
    assert parse_option("rtl_tcp://x") is None
    with pytest.raises(ValueError, match="path"):
        parse_option("line://ttyACM0")


@pytest.mark.parametrize(
    "changes", [{"reading_b": 0.75}, {"dbm_b": -10.0}, {"lowest_reading": 4.0}]
)
def test_contradictory_settings_are_refused(changes: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"calibration|lowest_reading"):
        LineSettings.model_validate(changes)
