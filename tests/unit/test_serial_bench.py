"""The order in which a serial bench is brought up and let go of, and what it bears meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import nan

import pytest

from macontrol.config import Config, load_config
from macontrol.config.errors import HardwareError
from macontrol.controller.clock import VirtualClock
from macontrol.hal import Measurement, ProbeError, StageDescription
from macontrol.hal.sdr_probe import NoiseFloor
from macontrol.serial_bench import SerialBench


class Stage:
    """One that does at once whatever it is told."""

    description = StageDescription(
        name="rail",
        travel_mm=320.0,
        step_mm=0.0125,
        speed_mm_per_s=200.0,
        acceleration_mm_per_s2=2000.0,
        latency_s=0.0,
        settling_s=0.0,
    )

    def __init__(self, told: list[str]) -> None:
        self._told = told

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
        return NoiseFloor(1e-4, 0.1, nan)

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        self._asked = slot

    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        self._clock.sleep_until(deadline_s)
        outcome = self._script()
        if isinstance(outcome, str):
            raise ProbeError(outcome)
        return [Measurement(self._asked, outcome, True, uncertainty=0.01)]

    def close(self) -> None:
        self._told.append("radio closed")


class Setting:
    """A bench of the two on a virtual clock, and all that was told."""

    def __init__(self, script: Callable[[], float | str]) -> None:
        self.config: Config = load_config(preset="lab-2g4-grbl")
        self.clock = VirtualClock(1000.0)
        self.told: list[str] = []
        self.is_stopped = False
        self.bench = SerialBench(
            self.config,
            self.clock,
            confirm_homing=lambda: True,
            tell=self.told.append,
            is_stopped=lambda: self.is_stopped,
        )
        self.bench._stage = Stage(self.told)  # type: ignore[assignment]
        self.radio = Radio(self.clock, self.told, script)
        self.bench._probe = self.radio  # type: ignore[assignment]

    def open(self) -> None:
        with ExitStack() as closing:
            self.bench.open(closing)


def test_the_stage_is_let_go_of_before_the_radio() -> None:
    """The radio's threads may take seconds to end, and the stage may be moving."""
    setting = Setting(lambda: 3.0)
    setting.open()
    assert setting.told[-2:] == ["stage closed", "radio closed"]


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


@pytest.mark.parametrize("lasts_s", [0.0, 10.0, 25.0])
def test_a_radio_that_drops_out_while_the_signal_is_awaited_is_borne(lasts_s: float) -> None:
    setting = Setting(lambda: "hung up" if setting.clock.now() < 1000.0 + lasts_s else 3.0)
    setting.open()
    assert ("probe-fault: hung up" in setting.told) == (lasts_s > 0)


def test_one_that_does_not_come_back_is_not_borne_for_longer_than_the_patience() -> None:
    setting = Setting(lambda: "hung up")
    with pytest.raises(HardwareError, match=r"the probe has failed for 3\d s .*hung up"):
        setting.open()
    assert setting.clock.now() - 1000.0 == pytest.approx(30.0, abs=2.0)


@pytest.mark.parametrize("outcome", [0.0, "hung up"])
def test_a_stop_while_the_signal_is_awaited_ends_the_opening(outcome: float | str) -> None:
    def script() -> float | str:
        setting.is_stopped = setting.clock.now() > 1003.0
        return outcome

    setting = Setting(script)
    with pytest.raises(ProbeError, match="told to stop"):
        setting.open()
    assert setting.clock.now() < 1005.0
