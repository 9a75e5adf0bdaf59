"""A serial bench is opened and closed in order, and tolerates some faults meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from math import inf, nan
from typing import Any, ClassVar

import pytest

from macontrol.config import Config, load_config
from macontrol.config.model.errors import ConfigError, HardwareError, ProbeError, StageError
from macontrol.config.model.reward import Reward
from macontrol.controller.runtime.clock import VirtualClock
from macontrol.controller.runtime.stop import StopToken
from macontrol.hal import Measurement, StageDescription
from macontrol.hal.noise_floor import NoiseFloor
from macontrol.hal.probe import TONE_LOST
from macontrol.hal.serial.latency import AnswerTimes
from macontrol.serial_bench import SWITCH_ON, SerialBench, require_consent

LOST_SAMPLES = "radio: noise floor not measured: gap"


class Stage:
    """A stage that executes every command at once."""

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

    def __init__(self, log: list[str], clock: VirtualClock) -> None:
        self._log = log
        self._clock = clock
        self.slow_until_s = 0.0
        """Until then the computer is too busy to time the stage."""

    @property
    def description(self) -> StageDescription:
        is_slow = self._clock.now() < self.slow_until_s
        return replace(self.quickest_description, latency_s=0.5 if is_slow else 0.0)

    def time_again(self, deadline_s: float, keep_on: Callable[[], bool]) -> None:
        self._log.append("timed again")

    def connect(self, deadline_s: float, keep_on: Callable[[], bool]) -> None:
        self._log.append("connected")

    def home(self, deadline_s: float, keep_on: Callable[[], bool]) -> None:
        self._log.append("homed")

    def close(self) -> None:
        self._log.append("stage closed")


class Radio:
    """A probe with scripted measurements: a reward, or the message of a fault."""

    name = "radio"

    def __init__(
        self, clock: VirtualClock, log: list[str], script: Callable[[], float | str]
    ) -> None:
        self.noise_floor: NoiseFloor | None = None
        self.reason = self.hint = ""
        """Reason and hint of a measurement at the noise floor."""
        self._clock = clock
        self._log = log
        self._script = script
        self._asked = 0
        self.losses = 0
        """How many measurements of the noise floor will lose samples."""

    def open(self) -> None:
        self._log.append("radio opened")

    def measure_noise_floor(self) -> NoiseFloor:
        if self.losses:
            self.losses -= 1
            raise ProbeError(LOST_SAMPLES)
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
        return [Measurement(self._asked, Reward(outcome), reason, outcome, hint)]

    def close(self) -> None:
        self._log.append("radio closed")


class Setting:
    """A bench of both on a virtual clock, and the log of calls and reports."""

    def __init__(
        self, script: Callable[[], float | str], earlier_floor_dbfs: float | None = None
    ) -> None:
        self.config: Config = load_config(preset="lab-2g4-grbl")
        self.clock = VirtualClock(1000.0)
        self.log: list[str] = []
        self.stop = StopToken()
        self.bench = SerialBench(
            self.config,
            self.clock,
            confirm_homing=lambda: True,
            report=self.log.append,
            stop=self.stop,
            earlier_floor_dbfs=earlier_floor_dbfs,
        )
        self.stage = Stage(self.log, self.clock)
        self.bench._stage = self.stage  # type: ignore[assignment]
        self.radio = Radio(self.clock, self.log, script)
        self.bench._probe = self.radio

    def open(self) -> None:
        with ExitStack() as closing:
            self.bench.open(closing)


def test_a_board_is_timed_again_while_the_computer_is_busy() -> None:
    setting = Setting(lambda: 2.0)
    setting.stage.slow_until_s = setting.clock.now() + 2.5
    setting.open()
    assert setting.log.count("timed again") == 3
    assert sum("busy" in line for line in setting.log) == 1
    assert setting.log.index("timed again") < setting.log.index("homed")


def test_a_computer_that_stays_busy_ends_the_opening() -> None:
    setting = Setting(lambda: 2.0)
    setting.stage.slow_until_s = setting.clock.now() + 1000.0
    with pytest.raises(StageError):
        setting.open()
    assert setting.clock.now() == pytest.approx(1030.0)
    assert "homed" not in setting.log


def test_a_stop_ends_the_timing() -> None:
    setting = Setting(lambda: 2.0)
    setting.stage.slow_until_s = setting.clock.now() + 1000.0
    setting.stop.request()
    with pytest.raises(StageError):
        setting.open()
    assert "timed again" not in setting.log


def test_it_asks_for_the_transmitter_while_the_power_is_at_the_noise_floor() -> None:
    setting = Setting(lambda: 0.9 if setting.clock.now() < 1010.0 else 1.1)
    setting.open()
    assert SWITCH_ON in setting.log
    assert setting.clock.now() >= 1010.0


def test_a_tone_outside_the_band_is_reported_with_its_fix() -> None:
    setting = Setting(lambda: 0.0)
    setting.radio.reason, setting.radio.hint = TONE_LOST, "set probe.tone_offset_hz to 300000"
    with pytest.raises(ProbeError) as refusal:
        setting.open()
    assert refusal.value.fix == setting.radio.hint
    assert setting.log.count(SWITCH_ON) == 1
    assert setting.log.count(setting.radio.hint) == 1


@pytest.mark.fault("resume-with-transmitter-on")
@pytest.mark.parametrize(
    ("earlier_dbfs", "used_dbfs"), [(None, -40.0), (-39.0, -40.0), (-40.5, -40.0), (-60.0, -60.0)]
)
def test_a_continued_run_with_the_transmitter_on_keeps_its_noise_floor(
    earlier_dbfs: float | None, used_dbfs: float
) -> None:
    """After the restart of a service nobody switches the transmitter off."""
    setting = Setting(lambda: 3.0, earlier_dbfs)
    setting.open()
    assert setting.radio.noise_floor is not None
    assert setting.radio.noise_floor.dbfs == pytest.approx(used_dbfs)
    assert f"radio: noise floor {used_dbfs:.1f} dBFS" in setting.log


@pytest.mark.fault("process-ends")
def test_the_stage_is_closed_before_the_radio() -> None:
    """The radio's threads may take seconds to end, and the stage may be moving."""
    setting = Setting(lambda: 3.0)
    setting.open()
    assert setting.log[-2:] == ["stage closed", "radio closed"]


def test_the_identity_of_a_bench_is_its_board_and_its_port() -> None:
    setting = Setting(lambda: 3.0)
    setting.open()
    assert setting.bench.identity == {"firmware": "1.1h", "port": "not on the USB"}


def test_after_lost_samples_the_noise_floor_is_measured_again() -> None:
    setting = Setting(lambda: 3.0)
    setting.radio.losses = 2
    setting.open()
    assert sum(line.startswith(LOST_SAMPLES) for line in setting.log) == 2
    assert "homed" in setting.log
    setting = Setting(lambda: 3.0)
    setting.radio.losses = 3
    with pytest.raises(ProbeError) as refusal:
        setting.open()
    assert refusal.value.detail == LOST_SAMPLES
    assert "homed" not in setting.log


@pytest.mark.fault("radio-lost-awaiting-signal")
@pytest.mark.parametrize("lasts_s", [0.0, 10.0, 25.0])
def test_a_radio_that_fails_before_the_signal_may_recover(lasts_s: float) -> None:
    setting = Setting(lambda: "hung up" if setting.clock.now() < 1000.0 + lasts_s else 3.0)
    setting.open()
    assert ("probe-fault: hung up" in setting.log) == (lasts_s > 0)


@pytest.mark.fault("radio-lost-awaiting-signal")
def test_a_radio_that_does_not_recover_ends_the_opening_after_the_patience() -> None:
    setting = Setting(lambda: "hung up")
    with pytest.raises(HardwareError) as refusal:
        setting.open()
    assert "hung up" in str(refusal.value)
    assert setting.clock.now() - 1000.0 == pytest.approx(30.0, abs=2.0)


@pytest.mark.fault("stop-while-radio-opens")
@pytest.mark.parametrize("outcome", [0.0, "hung up"])
def test_a_stop_before_the_signal_ends_the_opening(outcome: float | str) -> None:
    def script() -> float | str:
        if setting.clock.now() > 1003.0:
            setting.stop.request()
        return outcome

    setting = Setting(script)
    with pytest.raises(ProbeError):
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
def test_homing_without_a_terminal_needs_consent(
    homing: str, yes: bool, at_terminal: bool, is_refused: bool
) -> None:
    config = load_config(preset="lab-2g4-grbl", assignments=[f"stage.homing={homing}"])
    if is_refused:
        with pytest.raises(ConfigError) as refusal:
            require_consent(config, yes=yes, at_terminal=at_terminal)
        assert refusal.value.detail.startswith("stage.homing: ")
    else:
        require_consent(config, yes=yes, at_terminal=at_terminal)


@pytest.mark.fault("driver-raises")
@pytest.mark.parametrize(
    ("device", "method", "kind"),
    [
        ("stage", "connect", StageError),
        ("stage", "home", StageError),
        ("stage", "close", StageError),
        ("radio", "open", ProbeError),
        ("radio", "measure_noise_floor", ProbeError),
        ("radio", "close", ProbeError),
    ],
)
@pytest.mark.parametrize("error", [KeyError("x"), SystemExit(0)])
def test_whatever_a_driver_raises_is_an_error_of_its_device(
    device: str,
    method: str,
    kind: type[Exception],
    error: BaseException,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise error

    setting = Setting(lambda: 5.0)
    monkeypatch.setattr(getattr(setting, device), method, fail)
    with pytest.raises(kind):
        setting.open()
    other = "radio closed" if device == "stage" else "stage closed"
    assert other in setting.log


@pytest.mark.fault("driver-raises")
@pytest.mark.parametrize(
    "wrong",
    [
        {"travel_mm": nan},
        {"travel_mm": inf},
        {"travel_mm": 0.0},
        {"speed_mm_per_s": -1.0},
        {"speed_mm_per_s": 0.0},
        {"acceleration_mm_per_s2": nan},
        {"settling_s": -0.1},
        {"step_mm": nan},
        {"tolerance_mm": inf},
    ],
)
def test_a_stage_that_no_stage_can_be_is_refused_before_it_moves(wrong: dict[str, Any]) -> None:
    setting = Setting(lambda: 5.0)
    about = replace(Stage.quickest_description, **wrong)
    setting.stage.quickest_description = about
    with pytest.raises(StageError):
        setting.open()
    assert "homed" not in setting.log


@pytest.mark.fault("driver-raises")
def test_a_radio_that_measures_anything_while_the_signal_is_awaited_is_a_fault() -> None:
    answers = iter([None, 5.0])
    setting = Setting(lambda: 5.0)
    real = setting.radio.collect

    def collect(deadline_s: float) -> Sequence[Measurement]:
        (found,) = real(deadline_s)
        return [replace(found, above_floor=next(answers))]  # type: ignore[arg-type]

    setting.radio.collect = collect  # type: ignore[method-assign]
    setting.open()
    assert next(answers, "none") == "none"
    assert "homed" in setting.log
