"""The guard: what passes, what is refused, and what reaches the stage."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isnan, nan

import pytest

from macontrol.config.model.errors import CommandRefusedError, StageError
from macontrol.controller.runtime.guard import Guard
from macontrol.hal import Arrival, StageDescription


class Stage:
    """Moves as commanded, and reports what `reports` contains."""

    def __init__(self, *, step_mm: float = 0.0, travel_mm: float = 60.0) -> None:
        self.description = StageDescription("test", travel_mm, step_mm, 600.0, inf, 0.0, 0.0)
        self.reports = Arrival(30.0, True, 0.0)
        self.commands: list[float] = []
        self.stops = 0

    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        self.commands.append(position_mm)
        return self.reports

    def where(self, deadline_s: float) -> Arrival:
        return self.reports

    def stop(self) -> None:
        self.stops += 1

    homing_is_due = False

    def recover(self, deadline_s: float, keep_on: Callable[[], bool]) -> None: ...

    def close(self) -> None: ...


def guarded(stage: Stage, *, at: float = 30.0, region: float = 60.0, stroke: float = 0.6) -> Guard:
    guard = Guard(stage, region_mm=region, stroke_mm=stroke)
    stage.reports = Arrival(at, True, 0.0)
    guard.locate(1.0)
    return guard


@pytest.mark.parametrize("wanted", [29.4, 29.7, 30.0, 30.123456, 30.6])
def test_a_command_within_reach_passes_unchanged(wanted: float) -> None:
    stage = Stage()
    guarded(stage).move(wanted, 1.0)
    assert stage.commands == [wanted]


@pytest.mark.parametrize("wanted", [30.6 + 5e-7, 29.4 - 5e-7])
def test_a_rounding_error_beyond_a_limit_is_reduced_to_the_limit(wanted: float) -> None:
    stage = Stage()
    guarded(stage).move(wanted, 1.0)
    assert abs(stage.commands[0] - 30.0) <= 0.6 + 1e-12


@pytest.mark.fault("guard")
@pytest.mark.parametrize(
    ("at", "wanted"),
    [
        (30.0, 30.601),
        (30.0, 29.399),
        (30.0, 1e9),
        (30.0, -1e9),
        (30.0, nan),
        (30.0, inf),
        (30.0, -inf),
        (0.3, -0.001),
        (59.9, 60.001),
        (-5.0, 0.0),
        (70.0, 60.0),
    ],
)
def test_a_command_out_of_reach_or_not_a_number_never_passes(at: float, wanted: float) -> None:
    stage = Stage()
    guard = guarded(stage, at=at)
    with pytest.raises(CommandRefusedError):
        guard.command_for(wanted)
    with pytest.raises(CommandRefusedError):
        guard.move(wanted, 1.0)
    assert not stage.commands


@pytest.mark.parametrize(
    ("at", "wanted", "command"),
    [
        (30.0, 30.29, 30.3),
        (30.0, 30.31, 30.3),
        (30.0, 30.6, 30.6),
        (30.0, 29.4, 29.4),
        (30.05, 30.65, 30.6),  # 30.7 would be beyond the stroke
        (59.95, 60.0, 60.0),
        (30.0, 30.04, 30.0),
    ],
)
def test_commands_are_whole_steps_within_reach(at: float, wanted: float, command: float) -> None:
    stage = Stage(step_mm=0.1)
    guarded(stage, at=at).move(wanted, 1.0)
    assert stage.commands == [pytest.approx(command)]


def test_a_command_stays_in_a_region_that_ends_between_two_steps() -> None:
    stage = Stage(step_mm=0.7)
    guard = guarded(stage, at=59.5, region=60.0, stroke=0.75)
    guard.move(60.0, 1.0)
    assert stage.commands == [pytest.approx(59.5)]


def test_without_a_whole_step_in_reach_nothing_passes() -> None:
    stage = Stage(step_mm=0.5)
    guard = guarded(stage, at=30.25, stroke=0.2)
    with pytest.raises(CommandRefusedError):
        guard.move(30.25, 1.0)


def test_reach_is_measured_from_the_last_reported_position() -> None:
    stage = Stage()
    guard = guarded(stage)
    stage.reports = Arrival(31.5, True, 0.0)
    guard.move(30.5, 1.0)
    assert guard.reported_mm == 31.5
    with pytest.raises(CommandRefusedError):
        guard.move(30.5, 1.0)
    guard.move(31.0, 1.0)
    assert stage.commands == [30.5, 31.0]


def test_a_moving_stage_takes_no_commands() -> None:
    stage = Stage()
    guard = guarded(stage)
    stage.reports = Arrival(30.2, False, 0.0)
    guard.move(30.5, 1.0)
    assert guard.reported_mm == 30.2
    with pytest.raises(CommandRefusedError):
        guard.move(30.3, 1.0)
    stage.reports = Arrival(30.5, True, 0.0)
    guard.locate(1.0)
    guard.move(30.3, 1.0)


@pytest.mark.parametrize("reported", [nan, inf, -inf, 1e308, 121.0, -61.0])
def test_a_report_that_is_not_a_number_is_a_fault_and_clears_the_position(reported: float) -> None:
    stage = Stage()
    guard = guarded(stage)
    stage.reports = Arrival(reported, True, 0.0)
    with pytest.raises(StageError):
        guard.locate(1.0)
    assert isnan(guard.reported_mm)
    with pytest.raises(CommandRefusedError):
        guard.move(30.0, 1.0)


def test_the_stage_takes_no_commands_before_its_first_report() -> None:
    stage = Stage()
    guard = Guard(stage, region_mm=60.0, stroke_mm=0.6)
    with pytest.raises(CommandRefusedError):
        guard.move(30.0, 1.0)


@pytest.mark.parametrize("shake", ["stop", "doubt", "move", "locate"])
def test_after_a_stop_a_doubt_or_a_failed_call_a_new_report_is_required(
    shake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage()
    guard = guarded(stage)
    if shake == "stop":
        guard.stop()
        assert stage.stops == 1
    elif shake == "doubt":
        guard.doubt()
    else:

        def fail(*_: float) -> Arrival:
            raise StageError("no answer")

        monkeypatch.setattr(stage, "move_to" if shake == "move" else "where", fail)
        with pytest.raises(StageError):
            guard.move(30.1, 1.0) if shake == "move" else guard.locate(1.0)
        monkeypatch.undo()
    assert not guard.is_standing
    with pytest.raises(CommandRefusedError):
        guard.move(30.1, 1.0)
    guard.locate(1.0)
    guard.move(30.1, 1.0)


@pytest.mark.parametrize("stroke", [0.0, -1.0, nan, inf])
def test_a_stroke_must_be_positive_and_finite(stroke: float) -> None:
    with pytest.raises(ValueError, match="stroke"):
        Guard(Stage(), region_mm=60.0, stroke_mm=stroke)


@pytest.mark.parametrize("region", [0.0, -1.0, nan, inf, 60.1])
def test_a_region_must_fit_the_rail(region: float) -> None:
    with pytest.raises(ValueError, match="region"):
        Guard(Stage(travel_mm=60.0), region_mm=region, stroke_mm=0.6)


@pytest.mark.parametrize(
    ("at", "reach"), [(-0.6, True), (-0.7, False), (60.6, True), (61.0, False)]
)
def test_is_within_reach_if_any_position_of_the_region_is(at: float, reach: bool) -> None:
    assert guarded(Stage(), at=at).is_within_reach is reach


def test_a_stage_just_off_the_region_may_come_back() -> None:
    stage = Stage()
    guarded(stage, at=-0.2).move(0.0, 1.0)
    assert stage.commands == [0.0]
