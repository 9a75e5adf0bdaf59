"""How a serial bench is opened and closed, and which faults it tolerates meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from math import nan
from typing import ClassVar

import pytest

from macontrol.config import Config, load_config
from macontrol.config.model.errors import ConfigError, HardwareError, ProbeError, StageError
from macontrol.controller.runtime.clock import VirtualClock
from macontrol.controller.runtime.stop import StopToken
from macontrol.hal import Measurement, StageDescription
from macontrol.hal.noise_floor import NoiseFloor
from macontrol.hal.probe import TONE_LOST
from macontrol.hal.serial.latency import AnswerTimes
from macontrol.serial_bench import SerialBench, require_consent


class Stage:
    """One that does every command at once."""

    quickest_description = StageDescription(
        name="rail",
        travel_mm=320.0,
        step_mm=0.0125,
        speed_mm_per_s=200.0,
        acceleration_mm_per_s2=2000.0,
        latency_s=0.0,
        settling_s=0.0,
    )
    answer_times = AnswerTimes()
    identity_parts: ClassVar = {"firmware": "1.1h"}

    def __init__(self, told: list[str], clock: VirtualClock) -> None:
        self._told = told
        self._clock = clock
        self.slow_until_s = 0.0
        """How long the computer is too busy to time it."""

    @property
    def description(self) -> StageDescription:
        is_slow = self._clock.now() < self.slow_until_s
        return replace(self.quickest_description, latency_s=0.5 if is_slow else 0.0)

    def time_again(self, deadline_s: float, keep_on: Callable[[], bool]) -> None:
        self._told.append("timed again")

    def connect(self, deadline_s: float, keep_on: Callable[[], bool]) -> None:
        self._told.append("connected")

    def home(self, deadline_s: float, keep_on: Callable[[], bool]) -> None:
        self._told.append("homed")

    def close(self) -> None:
        self._told.append("stage closed")


class Radio:
    """One whose measurements are as a script says: a reward, or a fault with its words."""

    name = "radio"

    def __init__(
        self, clock: VirtualClock, told: list[str], script: Callable[[], float | str]
    ) -> None:
        self.noise_floor: NoiseFloor | None = None
        self.reason = self.hint = ""
        """What a measurement at the noise floor means."""
        self._clock = clock
        self._told = told
        self._script = script
        self._asked = 0
        self.losses = 0
        """How often samples will be lost while the noise floor is measured."""

    def open(self) -> None:
        self._told.append("radio opened")

    def measure_noise_floor(self) -> NoiseFloor:
        if self.losses:
            self.losses -= 1
            raise ProbeError("radio: noise floor not measured: gap")
        self.noise_floor = NoiseFloor(1e-4, 0.1, nan)
        return self.noise_floor

    def use_noise_floor(self, floor: NoiseFloor) -> None:
        self.noise_floor = floor

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        self._asked = slot

    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        self._clock.sleep_until(deadline_s)
        outcome = self._script()
        if isinstance(outcome, str):
            raise ProbeError(outcome)
        reason, hint = (self.reason, self.hint) if outcome < 1 else ("", "")
        return [Measurement(self._asked, outcome, True, nan, reason, outcome, hint)]

    def close(self) -> None:
        self._told.append("radio closed")


class Setting:
    """A bench of the two on a virtual clock, and all that was told."""

    def __init__(
        self, script: Callable[[], float | str], earlier_floor_dbfs: float | None = None
    ) -> None:
        self.config: Config = load_config(preset="lab-2g4-grbl")
        self.clock = VirtualClock(1000.0)
        self.told: list[str] = []
        self.stop = StopToken()
        self.bench = SerialBench(
            self.config,
            self.clock,
            confirm_homing=lambda: True,
            tell=self.told.append,
            stop=self.stop,
            earlier_floor_dbfs=earlier_floor_dbfs,
        )
        self.stage = Stage(self.told, self.clock)
        self.bench._stage = self.stage  # type: ignore[assignment]
        self.radio = Radio(self.clock, self.told, script)
        self.bench._probe = self.radio

    def open(self) -> None:
        with ExitStack() as closing:
            self.bench.open(closing)


def test_a_board_is_timed_again_while_the_computer_is_busy() -> None:
    setting = Setting(lambda: 2.0)
    setting.stage.slow_until_s = setting.clock.now() + 2.5
    setting.open()
    assert setting.told.count("timed again") == 3
    assert setting.told.count("this computer is busy: timing the board again, for 30 s") == 1
    assert setting.told.index("timed again") < setting.told.index("homed")


def test_a_computer_that_stays_busy_is_refused() -> None:
    setting = Setting(lambda: 2.0)
    setting.stage.slow_until_s = setting.clock.now() + 1000.0
    with pytest.raises(StageError, match="too busy to time the board"):
        setting.open()
    assert setting.clock.now() == pytest.approx(1030.0)
    assert "homed" not in setting.told


def test_a_stop_ends_the_timing_too() -> None:
    setting = Setting(lambda: 2.0)
    setting.stage.slow_until_s = setting.clock.now() + 1000.0
    setting.stop.request()
    with pytest.raises(StageError, match="too busy to time the board"):
        setting.open()
    assert "timed again" not in setting.told


def test_the_transmitter_is_asked_for_while_the_power_is_at_the_noise_floor() -> None:
    setting = Setting(lambda: 0.9 if setting.clock.now() < 1010.0 else 1.1)
    setting.open()
    assert "no signal yet: switch the transmitter on" in setting.told
    assert setting.clock.now() >= 1010.0


def test_a_tone_outside_the_band_is_reported_with_what_to_set() -> None:
    setting = Setting(lambda: 0.0)
    setting.radio.reason, setting.radio.hint = TONE_LOST, "set probe.tone_offset_hz to 300000"
    with pytest.raises(ProbeError, match=r"s; set probe\.tone_offset_hz to 300000"):
        setting.open()
    assert setting.told.count("no signal yet: switch the transmitter on") == 1
    assert setting.told.count("set probe.tone_offset_hz to 300000") == 1


@pytest.mark.fault("resume-with-transmitter-on")
@pytest.mark.parametrize(
    ("earlier_dbfs", "used_dbfs"), [(None, -40.0), (-39.0, -40.0), (-40.5, -40.0), (-60.0, -60.0)]
)
def test_a_run_that_is_continued_with_the_transmitter_on_keeps_its_noise_floor(
    earlier_dbfs: float | None, used_dbfs: float
) -> None:
    """A service that is started again after a fault: nobody switches the transmitter off."""
    setting = Setting(lambda: 3.0, earlier_dbfs)
    setting.open()
    assert setting.radio.noise_floor is not None
    assert setting.radio.noise_floor.dbfs == pytest.approx(used_dbfs)
    assert f"radio: noise floor {used_dbfs:.1f} dBFS" in setting.told


@pytest.mark.fault("process-ends")
def test_the_stage_is_let_go_of_before_the_radio() -> None:
    """The radio's threads may take seconds to end, and the stage may be moving."""
    setting = Setting(lambda: 3.0)
    setting.open()
    assert setting.told[-2:] == ["stage closed", "radio closed"]


def test_a_bench_is_known_by_its_board_and_its_port() -> None:
    setting = Setting(lambda: 3.0)
    setting.open()
    assert setting.bench.identity == {"firmware": "1.1h", "port": "not on the USB"}


def test_samples_that_are_lost_in_the_noise_floor_cost_another_attempt_and_not_the_run() -> None:
    setting = Setting(lambda: 3.0)
    setting.radio.losses = 2
    setting.open()
    assert setting.told.count("radio: noise floor not measured: gap; once more") == 2
    assert "homed" in setting.told
    setting = Setting(lambda: 3.0)
    setting.radio.losses = 3
    with pytest.raises(ProbeError, match="noise floor not measured: gap"):
        setting.open()
    assert "homed" not in setting.told


@pytest.mark.fault("radio-lost-awaiting-signal")
@pytest.mark.parametrize("lasts_s", [0.0, 10.0, 25.0])
def test_a_radio_that_drops_out_while_the_signal_is_awaited_is_waited_for(lasts_s: float) -> None:
    setting = Setting(lambda: "hung up" if setting.clock.now() < 1000.0 + lasts_s else 3.0)
    setting.open()
    assert ("probe-fault: hung up" in setting.told) == (lasts_s > 0)


@pytest.mark.fault("radio-lost-awaiting-signal")
def test_one_that_does_not_come_back_ends_the_opening_after_the_patience() -> None:
    setting = Setting(lambda: "hung up")
    with pytest.raises(HardwareError, match=r"the probe has failed for 3\d s .*hung up"):
        setting.open()
    assert setting.clock.now() - 1000.0 == pytest.approx(30.0, abs=2.0)


@pytest.mark.fault("stop-while-radio-opens")
@pytest.mark.parametrize("outcome", [0.0, "hung up"])
def test_a_stop_while_the_signal_is_awaited_ends_the_opening(outcome: float | str) -> None:
    def script() -> float | str:
        if setting.clock.now() > 1003.0:
            setting.stop.request()
        return outcome

    setting = Setting(script)
    with pytest.raises(ProbeError, match="told to stop"):
        setting.open()
    assert setting.clock.now() < 1005.0


@pytest.mark.fault("homing-without-consent")
@pytest.mark.parametrize(
    ("homing", "yes", "at_terminal", "is_refused"),
    [
        ("ask", False, False, True),
        ("ask", True, False, False),
        ("ask", False, True, False),
        ("allow", False, False, False),
    ],
)
def test_homing_without_anybody_to_ask_needs_consent_beforehand(
    homing: str, yes: bool, at_terminal: bool, is_refused: bool
) -> None:
    config = load_config(preset="lab-2g4-grbl", assignments=[f"stage.homing={homing}"])
    if is_refused:
        with pytest.raises(ConfigError, match=r"stage\.homing") as refusal:
            require_consent(config, yes=yes, at_terminal=at_terminal)
        assert refusal.value.exit_code == 78
    else:
        require_consent(config, yes=yes, at_terminal=at_terminal)
