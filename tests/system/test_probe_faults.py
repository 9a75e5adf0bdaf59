"""The daemon with a radio that fails: whole processes, a pseudo-terminal and a real socket.

What the transmitter sends rises and falls with time, so that a reward shows when its samples were
taken: a reward of another slot would differ.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from math import log2, pi, sin
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from macontrol import serial_bench
from macontrol.config import Config, load_config
from macontrol.config.model.errors import ProbeError
from macontrol.controller.recording.records import EventKind
from macontrol.controller.recording.runfile.reader import Run, read_run
from macontrol.controller.runtime.clock import WallClock
from macontrol.serial_bench import SWITCH_ON, SerialBench
from macontrol.sim.bench.boards.grbl.board import VirtualGrbl
from macontrol.sim.bench.radio import VirtualRadio
from support.probe_settings import wait_until
from support.switched import Switch
from support.virtual_radio import virtual_radio

pytestmark = [pytest.mark.any_user, pytest.mark.timeout(300)]

SLOT_S, ACTUATION_S, GUARD_S = 0.25, 0.13, 0.01
PERIOD_S, NOISE = 3.0, 1e-4
RAIL = {110: 12000.0, 120: 2000.0, 130: 320.0}
SETTINGS = {
    "physical.slot_duration_s": SLOT_S,
    "physical.actuation_time_s": ACTUATION_S,
    "physical.actuation": "fixed",  # every slot is measured in the same part
    "physical.region_length": 0.06,
    "survey.samples": 2,
    "probe.sample_rate_hz": 300e3,
    "probe.tuner_frequency_hz": 433.85e6,
    "probe.guard_s": GUARD_S,
    "probe.lead_s": 0.0,
    "probe.noise_floor": -40.0,
    "probe.noise_floor_s": 0.5,
    "probe.silence_s": 4,
    "probe.connect_timeout_s": 3,
}


def power_at(moment_s: float) -> float:
    return float(NOISE * 10 ** (1.5 + sin(2 * pi * moment_s / PERIOD_S)))


@pytest.fixture
def stage() -> Iterator[VirtualGrbl]:
    with VirtualGrbl(WallClock(), settings=RAIL) as board:
        yield board


@pytest.fixture
def radio() -> Iterator[VirtualRadio]:
    with virtual_radio(power_at, noise_power=NOISE, block_bytes=16_384, rest_s=0.5) as served:
        yield served


class Controller:
    """The daemon, and what is done to its radio, each at a time (s) after slot 1 began."""

    def __init__(self, folder: Path, stage: VirtualGrbl, address: str, *options: str) -> None:
        self.file = folder / "run.sqlite"
        # Locks of its own: names of pseudo-terminals are used again, by other tests' stages.
        places = {"XDG_STATE_HOME": str(folder / "state"), "RUNTIME_DIRECTORY": str(folder)}
        words = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
        words += ["--port", stage.port, "--probe", f"rtl_tcp://{address}", "--yes", "--cold"]
        command = [sys.executable, "-m", "macontrol", "--backend", "serial", "--log", "json"]
        self.process = subprocess.Popen(
            [*command, "--preset", "lab-2g4-grbl", *words, "--run", str(self.file), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | places,
        )
        self.events: list[dict[str, Any]] = []

    def follow(self, *actions: tuple[float, Callable[[], None]]) -> tuple[Run, str]:
        """Return the recorded run and the error output."""
        return self.run_with(lambda: self._do(actions))

    def run_with(self, action: Callable[[], None]) -> tuple[Run, str]:
        """The same; `action` starts with the first slot, and may wait for events."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        doing = Doing(action, self.process.kill)
        with self.process:
            try:
                for line in self.process.stdout:
                    self.events.append(event := json.loads(line))
                    if event["event"] == "start":
                        doing.start()
                errors = self.process.stderr.read()
                self.process.wait(60.0)
            finally:
                self.process.kill()
        doing.end()
        assert self.file.exists(), errors
        return read_run(self.file), errors

    def await_event(self, kind: EventKind, detail: str = "", *, more_than: int = 0) -> None:
        def is_reported() -> bool:
            found = [e for e in self.events if e["event"] == kind and detail in e.get("detail", "")]
            return len(found) > more_than

        wait_until(lambda: is_reported() or self.process.poll() is not None)
        assert is_reported(), f"no {kind} {detail!r} in {self.events}"

    def await_rewards(self, count: int, since_s: float = 0.0) -> None:
        """Wait until `count` slots that began after `since_s` have a reward in the run file."""

        def are_in() -> bool:
            slots = read_run(self.file).slots
            return int(np.isfinite(slots["reward"][slots["start_s"] > since_s]).sum()) >= count

        wait_until(are_in, every_s=0.2)

    def _do(self, actions: tuple[tuple[float, Callable[[], None]], ...]) -> None:
        begun = time.monotonic()
        for moment, action in actions:
            time.sleep(max(0.0, begun + moment - time.monotonic()))
            action()


class Doing:
    """Something that is done beside; if it goes wrong, all is broken off and it shows."""

    def __init__(self, action: Callable[[], None], break_off: Callable[[], None]) -> None:
        self._action = action
        self._break_off = break_off
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            self._action()
        except BaseException as error:
            self._error = error
            self._break_off()

    def end(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error


def reward_of(start_s: float) -> float:
    """What a slot's own samples are worth: those of its transmission interval less the guards."""
    begin, end = start_s + ACTUATION_S + 0.02 * SLOT_S + GUARD_S, start_s + 0.94 * SLOT_S - GUARD_S
    powers = [power_at(moment) for moment in np.linspace(begin, end, 50)]
    return (1 - ACTUATION_S / SLOT_S) * log2(1 + float(np.mean(powers)) / NOISE)


@pytest.mark.fault("stop-while-radio-opens")
def test_a_signal_while_the_radio_gets_ready_is_heard_at_once(
    tmp_path: Path, stage: VirtualGrbl, radio: VirtualRadio
) -> None:
    """First a server that accepts and sends nothing, then a long measurement of the noise floor."""
    measured = ("--set", 'probe.noise_floor="measure"', "--set", "probe.noise_floor_s=30")
    with socket.create_server(("127.0.0.1", 0)) as busy:
        busy.settimeout(60.0)
        address = f"127.0.0.1:{busy.getsockname()[1]}"
        waiting = Controller(tmp_path, stage, address, "--set", "probe.connect_timeout_s=30")
        with busy.accept()[0]:
            _end_at_once(waiting)
    measuring = Controller(tmp_path, stage, radio.address, *measured)
    assert measuring.process.stdout is not None
    assert "grbl stage" in measuring.process.stdout.readline()
    time.sleep(2.0)
    _end_at_once(measuring)
    assert not any("$H" in line for line in stage.lines)


def _end_at_once(controller: Controller) -> None:
    controller.process.terminate()
    begun = time.monotonic()
    _, errors = controller.process.communicate(timeout=20.0)
    assert (controller.process.returncode, errors) == (0, "")
    assert time.monotonic() - begun < 10.0  # what it was about would take 30 s


@pytest.mark.fault("radio-drops-client", "radio-stalls", "clipping", "reward-late")
def test_a_run_survives_its_radio_and_every_reward_is_of_its_own_slot(
    tmp_path: Path, stage: VirtualGrbl, radio: VirtualRadio
) -> None:
    controller = Controller(tmp_path, stage, radio.address, "--slots", "60")
    run, errors = controller.follow(
        (0.8, lambda: radio.clip(0.5)),
        (2.3, lambda: radio.lose(0.1)),
        (4.5, lambda: radio.stall(2.0)),
        (8.0, radio.drop),
    )
    assert controller.process.returncode == 0, errors
    slots = run.slots
    valid = np.isfinite(slots["reward"])
    why = slots["invalid"]
    print(f"{np.count_nonzero(valid)} of {len(valid)} valid; not:", list(why[~valid]))
    expected = np.array([reward_of(start) for start in slots["start_s"]])
    assert slots["reward"][valid] == pytest.approx(expected[valid], abs=0.1)
    assert np.count_nonzero(valid) > len(valid) / 3
    assert valid[-6:].any(), "it works again at the end"
    assert not why[valid].any(), "a reward has no reason why there is none"
    reasons = {event.detail for event in run.events if event.kind is EventKind.INVALID}
    assert {"clipping", "stale"} <= reasons
    drop = 1 + 8.0 / SLOT_S
    assert any(e.detail == "gap" and e.slot < drop for e in run.events), "of the lost samples"
    assert slots["late"].any(), "some came after their slots"
    faults = [event.detail for event in run.events if event.kind is EventKind.PROBE_FAULT]
    assert any(f"rtl_tcp://{radio.address}: the server disconnected" in fault for fault in faults)
    assert any(event.kind is EventKind.RECOVERY for event in run.events)
    assert radio.clients == 2


@pytest.mark.fault("radio-gone")
def test_a_radio_that_never_comes_back_ends_the_run_with_the_cause_and_the_stage_at_rest(
    tmp_path: Path, stage: VirtualGrbl, radio: VirtualRadio
) -> None:
    patience = ("--set", "timing.fault_patience_s=2")
    address = radio.address
    controller = Controller(tmp_path, stage, address, *patience)
    run, errors = controller.follow((1.0, radio.close))
    assert controller.process.returncode == 69
    assert "the probe has failed for " in errors
    assert f"rtl_tcp://{address}: no server listens at this address; start rtl_tcp" in errors
    assert run.events[-1].kind is EventKind.STOP
    assert "no server listens" in run.events[-1].detail
    first = next(e.slot for e in run.events if e.kind is EventKind.PROBE_FAULT)
    assert not np.isfinite(run.slots["reward"][run.slots["slot"] > first]).any()
    stands_at = stage.position_at(time.monotonic())
    time.sleep(0.3)
    assert stage.position_at(time.monotonic()) == stands_at


@pytest.mark.fault("radio-unreachable")
def test_a_radio_that_is_not_there_is_named_with_its_address(
    tmp_path: Path, stage: VirtualGrbl
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    controller = Controller(tmp_path, stage, address)
    _, errors = controller.process.communicate(timeout=60)
    assert controller.process.returncode == 69
    assert f"rtl_tcp://{address}: no server listens at this address; start rtl_tcp" in errors
    assert not controller.file.exists()


@pytest.mark.fault("radio-lost-in-survey")
def test_a_radio_that_drops_its_client_in_the_survey_is_waited_for(
    tmp_path: Path, stage: VirtualGrbl, radio: VirtualRadio
) -> None:
    survey = ("--set", "survey.samples=8", "--set", "physical.region_length=0.1")
    controller = Controller(tmp_path, stage, radio.address, "--slots", "4", *survey)
    wait_until(lambda: radio.clients == 1)
    time.sleep(1.0)
    radio.drop()
    run, errors = controller.follow()
    assert controller.process.returncode == 0, errors
    assert radio.clients == 2
    assert run.header.survey is not None
    assert len(run.header.survey.reward) == 8


class Bench:
    """The serial bench, brought up in this process."""

    def __init__(self, stage: VirtualGrbl, radio: VirtualRadio, **changes: Any) -> None:
        settings = SETTINGS | {"probe.noise_floor": '"measure"', "stage.port": f'"{stage.port}"'}
        settings |= {"probe.rtl_tcp.address": f'"{radio.address}"', **changes}
        config: Config = load_config(
            preset="lab-2g4-grbl", assignments=[f"{key}={value}" for key, value in settings.items()]
        )
        self.reports: list[str] = []
        self._radio = radio
        self.bench = SerialBench(
            config, WallClock(), confirm_homing=lambda: True, report=self._report
        )
        self.on: Callable[[], None] = lambda: None

    def _report(self, text: str) -> None:
        self.reports.append(text)
        if "switch the transmitter on" in text:
            self.on()

    def open(self) -> None:
        with ExitStack() as closing:
            self.bench.open(closing)


@pytest.mark.fault("signal-never-above-floor")
@pytest.mark.parametrize("transmitting", [True, False])
def test_a_signal_that_never_rises_above_the_noise_floor_ends_the_run(
    stage: VirtualGrbl, monkeypatch: pytest.MonkeyPatch, transmitting: bool
) -> None:
    """The transmitter is never on, or it is on while the floor is measured."""
    monkeypatch.setattr(serial_bench, "_SIGNAL_S", 0.8)
    with virtual_radio(lambda _: 30 * NOISE, noise_power=NOISE, block_bytes=16_384) as radio:
        radio.transmitting = transmitting
        bench = Bench(stage, radio)
        message = "no signal above the noise floor .* was it off while the noise floor was measured"
        with pytest.raises(ProbeError, match=message):
            bench.open()
    assert SWITCH_ON in bench.reports


@pytest.mark.fault("transmitter-off-at-start")
def test_the_transmitter_is_asked_for_and_waited_for(stage: VirtualGrbl) -> None:
    with virtual_radio(lambda _: 30 * NOISE, noise_power=NOISE, block_bytes=16_384) as radio:
        radio.transmitting = False
        bench = Bench(stage, radio)
        bench.on = lambda: setattr(radio, "transmitting", True)
        bench.open()
    assert bench.reports[-1] == SWITCH_ON


def test_the_noise_floor_is_measured_again_on_request(tmp_path: Path, stage: VirtualGrbl) -> None:
    """The config's floor is 3 dB too high, until a signal asks for another."""
    is_on = [True]

    def power(_: float) -> float:
        return 30 * NOISE if is_on[0] else 0.0

    switched: list[float] = []
    with virtual_radio(power, noise_power=NOISE, block_bytes=16_384) as radio:
        wrong = ("--set", "probe.noise_floor=-37")
        controller = Controller(tmp_path, stage, radio.address, *wrong)

        def switch(on: bool) -> None:
            is_on[0] = on
            switched.append(time.monotonic())

        def ask() -> None:
            controller.await_rewards(6)
            switch(False)
            time.sleep(0.5)
            controller.process.send_signal(signal.SIGUSR1)
            controller.await_event(EventKind.NOISE_FLOOR, "measured again")
            switch(True)
            controller.await_rewards(10, since_s=time.monotonic())
            controller.process.terminate()

        run, errors = controller.run_with(ask)
    assert controller.process.returncode == 0, errors
    given, measured = (event for event in run.events if event.kind is EventKind.NOISE_FLOOR)
    assert given.value == pytest.approx(-37.0)
    assert measured.detail == "measured again"
    assert measured.value == pytest.approx(-40.0, abs=0.3)
    slots = run.slots
    assert "noise-floor" in set(slots["invalid"]), "slots meanwhile have no reward"
    share = 1 - ACTUATION_S / SLOT_S
    off_s, on_s = switched
    before = slots["reward"][slots["start_s"] < off_s - SLOT_S]
    after = slots["reward"][slots["start_s"] > on_s + SLOT_S]
    floor = 10**-3.7
    expected = share * log2(1 + (31 * NOISE - floor) / floor)
    assert np.nanmedian(before) == pytest.approx(expected, abs=0.05)
    assert np.nanmedian(after) == pytest.approx(share * log2(1 + 30), abs=0.05)


@pytest.mark.fault("transmitter-stops", "floor-with-transmitter-on")
def test_a_transmitter_that_stops_is_not_learned_and_one_that_is_on_is_no_noise_floor(
    tmp_path: Path, stage: VirtualGrbl
) -> None:
    """Muted for 2.5 s of the run, then asked for the noise floor while it transmits."""
    switched: list[float] = []
    with virtual_radio(lambda _: 30 * NOISE, noise_power=NOISE, block_bytes=16_384) as radio:
        few = ("--set", "probe.no_signal_slots=4", "--set", "probe.noise_floor_s=0.3")
        controller = Controller(tmp_path, stage, radio.address, *few)

        def switch(on: bool) -> None:
            radio.transmitting = on
            switched.append(time.monotonic())

        def mute_and_ask() -> None:
            controller.await_rewards(4)
            switch(False)
            time.sleep(2.5)
            controller.await_event(EventKind.NO_SIGNAL)
            switch(True)
            controller.await_event(EventKind.RECOVERY, "the signal is back")
            controller.process.send_signal(signal.SIGUSR1)
            controller.await_event(EventKind.NOISE_FLOOR, "keeping the previous")
            controller.await_rewards(2, since_s=time.monotonic())
            controller.process.terminate()

        run, errors = controller.run_with(mute_and_ask)
    assert controller.process.returncode == 0, errors
    off_s, on_s = switched
    start, why = run.slots["start_s"], run.slots["invalid"]
    muted = (start > off_s) & (start + SLOT_S < on_s)
    assert np.isnan(run.slots["reward"][muted]).all(), "also those before it was recognised"
    lost = why == "no-signal"
    # On a busy machine a slot may have no reward for another reason, too.
    assert np.count_nonzero(lost & muted) >= max(4, np.count_nonzero(muted) / 2)
    assert not lost[(start < off_s - 2 * SLOT_S) | (start > on_s + 3 * SLOT_S)].any(), "both ends"
    rewards = run.slots["reward"][~np.isnan(run.slots["reward"])]
    whole = (1 - ACTUATION_S / SLOT_S) * log2(1 + 30)
    assert rewards == pytest.approx(whole, abs=0.1), "none of a slot in which it was switched"
    kinds = [event.kind for event in run.events]
    assert kinds.count(EventKind.NO_SIGNAL) == 1
    back = [e.detail for e in run.events if e.kind is EventKind.RECOVERY]
    # On a busy machine a stage or a radio may come back as well.
    assert [detail for detail in back if "works again" not in detail] == ["the signal is back"]
    used, floor = (event for event in run.events if event.kind is EventKind.NOISE_FLOOR)
    assert used.value == pytest.approx(-40.0, abs=0.3), "for a run that continues this one"
    assert floor.value is None
    assert floor.detail.endswith("keeping the previous noise floor")
    assert rewards[-1] == pytest.approx(whole, abs=0.1), "by the floor from before"


def by_command(switch: Switch, **changed: object) -> list[str]:
    tx = {**switch.settings, "tx.settling_s": 0.2, "tx.timeout_s": 5.0, **changed}
    return [word for key, value in tx.items() for word in ("--set", f"{key}={json.dumps(value)}")]


def test_the_noise_floor_is_measured_without_a_person(
    stage: VirtualGrbl, radio: VirtualRadio, tmp_path: Path
) -> None:
    switch = Switch(tmp_path / "switch")
    options = ["--set", 'probe.noise_floor="measure"', "--set", "algorithm.policy=sweep-and-hold"]
    options += by_command(switch, **{"tx.floor_every_s": 5.0})
    controller = Controller(tmp_path, stage, radio.address, *options)

    def measure_twice() -> None:
        controller.process.send_signal(signal.SIGUSR1)
        controller.await_event(EventKind.NOISE_FLOOR, "measured again")
        controller.await_event(EventKind.NOISE_FLOOR, "measured again", more_than=1)
        controller.await_rewards(3, since_s=time.monotonic())
        controller.process.terminate()

    with switch.switching(radio):
        run, errors = controller.run_with(measure_twice)
    assert controller.process.returncode == 0, errors
    assert switch.is_on
    floors = [event.value for event in run.events if event.kind == EventKind.NOISE_FLOOR]
    assert floors == pytest.approx([-40.0] * 3, abs=0.3)
    silent = run.slots["invalid"] == "transmitter-off"
    assert silent.sum() >= 2 * 0.5 / SLOT_S
    assert np.isnan(run.slots["reward"][silent]).all()
    assert np.isfinite(run.slots["level_db"][silent]).any()
    # The antenna holds from the second slot on: the first one may have begun before.
    for slot in np.flatnonzero(silent[1:] & silent[:-1]) + 1:
        assert run.slots["commanded"][slot] == pytest.approx(run.slots["position"][slot - 1]) or (
            np.isnan(run.slots["commanded"][slot])
        )
    # No slot that the transmitter was off in has a reward: it would be that of the noise.
    assert (run.slots["reward"][~silent & np.isfinite(run.slots["reward"])] > 0.5).all()
    assert not [event for event in run.events if event.kind == EventKind.NO_SIGNAL]


@pytest.mark.fault("killed-with-transmitter-off")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_ends_with_the_transmitter_off_switches_it_on(
    stage: VirtualGrbl, radio: VirtualRadio, tmp_path: Path, number: signal.Signals
) -> None:
    switch = Switch(tmp_path / "switch")
    options = by_command(switch, **{"tx.settling_s": 1.0})
    begun = ["on"]  # the floor is given: the start makes sure that the transmitter is on

    def end_in_the_middle() -> None:
        assert switch.runs == begun
        controller.process.send_signal(signal.SIGUSR1)
        wait_until(lambda: not switch.is_on)
        controller.process.send_signal(number)
        controller.process.wait(30.0)

    controller = Controller(tmp_path, stage, radio.address, *options)
    with switch.switching(radio):
        controller.run_with(end_in_the_middle)
        wait_until(lambda: switch.is_on)
    assert switch.runs == [*begun, "off", "on"]


@pytest.mark.fault("tx-command-fails")
def test_a_command_that_fails_in_a_run_is_an_event_and_the_previous_floor_stays(
    stage: VirtualGrbl, radio: VirtualRadio, tmp_path: Path
) -> None:
    switch = Switch(tmp_path / "switch")
    controller = Controller(tmp_path, stage, radio.address, *by_command(switch))

    def fail_once() -> None:
        switch.fail(1)
        controller.process.send_signal(signal.SIGUSR1)
        controller.await_event(EventKind.NOISE_FLOOR, "exit code 3: the relay does not answer")
        controller.await_rewards(2, since_s=time.monotonic())
        controller.process.terminate()

    with switch.switching(radio):
        run, errors = controller.run_with(fail_once)
    assert controller.process.returncode == 0, errors
    assert switch.is_on
    floors = [event.value for event in run.events if event.kind == EventKind.NOISE_FLOOR]
    assert floors == [-40.0, None]


@pytest.mark.fault("reference-fails")
def test_a_reference_receiver_is_recorded_beside_and_its_loss_costs_no_reward(
    stage: VirtualGrbl, radio: VirtualRadio, tmp_path: Path
) -> None:
    fixed = virtual_radio(lambda _: 100 * NOISE, noise_power=NOISE, block_bytes=16_384)
    options = ["--set", "reference.driver=rtl_tcp", "--set", "reference.sample_rate_hz=300e3"]
    options += ["--set", f"reference.rtl_tcp.address={fixed.address}"]
    options += ["--set", "reference.tuner_frequency_hz=433.85e6"]
    options += ["--set", "reference.noise_floor=-40.0", "--set", f"reference.guard_s={GUARD_S}"]
    lost_s: list[float] = []

    def lose_it() -> None:
        controller.await_rewards(12)
        lost_s.append(time.monotonic())
        fixed.close()
        controller.await_event(EventKind.REFERENCE)
        controller.await_rewards(8, since_s=time.monotonic())
        controller.process.terminate()

    with fixed:
        controller = Controller(tmp_path, stage, radio.address, *options)
        run, errors = controller.run_with(lose_it)
    assert controller.process.returncode == 0, errors
    snr = run.slots["reference_snr_db"]
    before = run.slots["start_s"] + SLOT_S < lost_s[0]
    # The radio settles at first; then only a slot whose samples were late has no reading.
    assert np.isfinite(snr[before]).sum() >= 8
    assert np.nanmedian(snr) == pytest.approx(20.0, abs=0.3)
    assert np.nanmax(run.slots["snr_db"]) - np.nanmin(run.slots["snr_db"]) > 5
    assert np.isnan(snr[run.slots["start_s"] > lost_s[0] + 1]).all()
    after = run.slots["start_s"] > lost_s[0] + 1
    assert np.isfinite(run.slots["reward"][after]).mean() > 0.7
    assert not [event for event in run.events if event.kind == EventKind.PROBE_FAULT]
