"""The simulated stage keeps the contract of any stage."""

from __future__ import annotations

import pytest

from macontrol.controller.runtime.clock import VirtualClock
from macontrol.hal import Stage, StageDescription
from macontrol.sim.bench.simulated import SimulatedStage
from macontrol.testing import StageContract

CLOCK = VirtualClock(100.0)


@pytest.mark.parametrize("step_mm", [0.0, 0.0125])
class TestSimulatedStage(StageContract):
    clock = CLOCK

    @pytest.fixture(autouse=True)
    def _step(self, step_mm: float) -> None:
        self.step_mm = step_mm

    def make(self) -> SimulatedStage:
        about = StageDescription("sim", 200.0, self.step_mm, 100.0, 500.0, 0.01, 0.02)
        return SimulatedStage(about, CLOCK, 3.0)

    def carriage_mm(self, stage: Stage) -> float:
        assert isinstance(stage, SimulatedStage)
        return stage.position_now()
