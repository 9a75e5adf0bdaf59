"""A bench for the contract of serial stages: a board, real or emulated, and the stage on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from macontrol.config import load_config
from macontrol.config.model.registry import resolve
from macontrol.config.sections.stage import StageSettings
from macontrol.controller.runtime.clock import WallClock
from macontrol.hal.clock import Clock
from macontrol.hal.registry import STAGES
from macontrol.hal.serial.stage import SerialStage
from macontrol.sim.bench.boards.device import VirtualDevice
from macontrol.testing.stage_subject import await_rest


@dataclass
class StageBench:
    """A board, the settings for it, and all traffic with it."""

    settings: StageSettings
    board: VirtualDevice | None = None
    """The emulated board; None for a real one."""
    clock: Clock = field(default_factory=WallClock)
    deadline_s: float = 60.0
    traffic: list[tuple[str, bytes]] = field(default_factory=list)
    _ready: SerialStage | None = None

    def stage(self, *, may_home: bool = True, **changes: Any) -> SerialStage:
        """A new stage with the settings of the bench, or changed ones; it is not connected."""
        settings = self.settings.model_copy(update=changes)
        return STAGES[settings.driver].make(
            settings,
            self.clock,
            confirm_homing=lambda: may_home,
            log=lambda way, data: self.traffic.append((way, data)),
        )

    def new_stage(self) -> SerialStage:
        """A new stage: connected and homed."""
        stage = self.stage()
        try:
            stage.connect(self.soon())
            stage.home(self.soon(2 * self.deadline_s))
        except BaseException:
            stage.close()
            raise
        return stage

    def ready_stage(self) -> SerialStage:
        """The one stage that the rules share: homed and at rest, recovered if it is lost."""
        if self._ready is None:
            self._ready = self.new_stage()
        self._ready.recover(self.soon(2 * self.deadline_s))
        await_rest(self._ready, self.clock, self.deadline_s)
        return self._ready

    def close(self) -> None:
        if self._ready is not None:
            self._ready.close()

    def soon(self, seconds: float | None = None) -> float:
        return self.clock.now() + (self.deadline_s if seconds is None else seconds)

    def carriage_mm(self) -> float:
        """Where the carriage itself is along the usable rail, on an emulated board."""
        assert self.board is not None
        along = self.board.position_at(self.clock.now()) - self.settings.offset_mm
        if not self.settings.inverted:
            return along
        assert self._ready is not None
        return self._ready.description.travel_mm - along

    def assert_true_position(self, stage: SerialStage, position_mm: float) -> None:
        """Check the carriage itself, on an emulated board."""
        if self.board is not None:
            margin = 2 * stage.description.step_mm
            assert self.carriage_mm() == pytest.approx(position_mm, abs=margin)


@contextmanager
def emulated_bench(driver: str) -> Iterator[StageBench]:
    """The emulated board of a driver, with the settings of the driver's preset."""
    description, clock = STAGES[driver], WallClock()
    config = load_config(preset=description.preset)
    with resolve(description.emulator)(config, clock, None) as board:
        config = config.replace(stage__port=board.port, stage__homing="allow")
        bench = StageBench(config.stage, board, clock)
        try:
            yield bench
        finally:
            bench.close()
