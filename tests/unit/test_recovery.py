"""A lost stage is brought back while signals are heard and the watchdog is fed."""

from __future__ import annotations

import threading
import time

import pytest

from macontrol.controller.guard import Guard
from macontrol.controller.recovery import recover_stage
from macontrol.hal import Arrival, StageDescription, StageError


class SlowStage:
    """A stage whose recovery takes as long as it is told, or fails."""

    description = StageDescription("slow", 60.0, 0.0, 600.0, 1e9, 0.0, 0.0)

    def __init__(self, *, takes_s: float = 0.0, fails: bool = False) -> None:
        self.takes_s, self.fails = takes_s, fails
        self.released = threading.Event()

    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        return Arrival(position_mm, True, 0.0)

    def where(self, deadline_s: float) -> Arrival:
        return Arrival(0.0, True, 0.0)

    def stop(self) -> None:
        pass

    def close(self) -> None:
        pass

    def recover(self, deadline_s: float) -> None:
        self.released.wait(self.takes_s)
        if self.fails:
            raise StageError("it is gone")


def guard(stage: SlowStage) -> Guard:
    return Guard(stage, region_mm=60.0, stroke_mm=0.6)


def test_it_returns_when_the_stage_is_back_and_gives_signs_of_life_meanwhile() -> None:
    signs: list[float] = []
    stage = SlowStage(takes_s=0.5)
    assert recover_stage(
        guard(stage), 10.0, is_stopped=lambda: False, on_wait=lambda: signs.append(time.monotonic())
    )
    assert len(signs) >= 2


def test_what_the_stage_raises_is_raised() -> None:
    with pytest.raises(StageError, match="it is gone"):
        recover_stage(
            guard(SlowStage(fails=True)), 10.0, is_stopped=lambda: False, on_wait=lambda: None
        )


def test_a_signal_ends_the_wait_long_before_the_recovery_does() -> None:
    stage = SlowStage(takes_s=60.0)
    begun = time.monotonic()
    try:
        assert not recover_stage(guard(stage), 100.0, is_stopped=lambda: True, on_wait=lambda: None)
        assert time.monotonic() - begun < 30.0
    finally:
        stage.released.set()
