"""No command beyond reach, for adversarial requests and wrong reports of the stage."""

from __future__ import annotations

import os
from collections.abc import Callable
from math import inf, nan
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from macontrol.config.model.errors import CommandRefusedError, StageError
from macontrol.controller.runtime.guard import Guard
from macontrol.hal import Arrival, StageDescription
from support.watched_stage import WatchedStage

# Commands to try in the long test; millions take a few seconds each.
COMMANDS = int(os.environ.get("MACONTROL_GUARD_COMMANDS", "200000"))

RAILS = [
    (60.0, 0.6, 0.0),
    (60.0, 0.6, 0.0125),
    (59.9584916, 0.599584916, 1 / 160),
    (10.0, 3.3, 0.7),
    (1.0, 5.0, 0.3),
    (300.0, 0.05, 0.1),  # a stroke shorter than a step
]


class LyingStage:
    """Moves, and reports its position, or what the test puts into `reports`."""

    def __init__(self, travel_mm: float, step_mm: float) -> None:
        self.description = StageDescription("liar", travel_mm, step_mm, 600.0, inf, 0.0, 0.0)
        self.at = travel_mm / 2
        self.reports: float | None = None
        self.arrived = True
        self.silent = False

    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        if self.silent:
            raise StageError("silent")
        self.at = position_mm
        return self.where(deadline_s)

    def where(self, deadline_s: float) -> Arrival:
        if self.silent:
            raise StageError("silent")
        reported = self.at if self.reports is None else self.reports
        return Arrival(reported, self.arrived, deadline_s)

    def stop(self) -> None: ...

    homing_is_due = False

    def recover(self, deadline_s: float, keep_on: Callable[[], bool]) -> None: ...
    def close(self) -> None: ...


def attempt(guard: Guard, wanted: float | None) -> None:
    """Locate (None) or move, as a loop does: locate again after a refusal or a fault."""
    try:
        if wanted is None:
            guard.locate(1.0)
        else:
            guard.move(wanted, 1.0)
    except (CommandRefusedError, StageError):
        guard.doubt()


@pytest.mark.parametrize(("region", "stroke", "step"), RAILS)
def test_adversarial_requests_and_reports_in_the_hundred_thousands(
    region: float, stroke: float, step: float
) -> None:
    rng = Random(f"{region} {stroke} {step}")
    stage = LyingStage(region, step)
    watched = WatchedStage(stage, region_mm=region, stroke_mm=stroke)
    guard = Guard(watched, region_mm=region, stroke_mm=stroke)
    odd = [nan, inf, -inf, 1e308, -1e308, 1e9, -1e-6, 0.0, -0.0, region, region + 1e-6, 5e-324]
    for _ in range(COMMANDS // len(RAILS)):
        stage.silent = rng.random() < 0.01
        stage.arrived = rng.random() >= 0.02
        stage.reports = None
        if rng.random() < 0.05:
            stage.reports = rng.choice(
                [*odd, rng.uniform(-region, 2 * region), rng.gauss(0, stroke)]
            )
        elif rng.random() < 0.1:
            stage.reports = stage.at + rng.gauss(0, step or 1e-3)
        if not guard.is_standing and rng.random() < 0.8:
            attempt(guard, None)
            continue
        here, kind = guard.reported_mm, rng.random()
        if kind < 0.1:
            wanted = rng.choice(odd)
        elif kind < 0.2:
            wanted = rng.uniform(-region, 2 * region)
        elif kind < 0.6:
            edge = here + rng.choice([-stroke, stroke])
            wanted = edge + rng.choice([0.0, 1e-12, -1e-12, 1e-7, -1e-7, 1.1e-6, -1.1e-6, 1e-3])
        else:
            wanted = here + rng.uniform(-1.2, 1.2) * stroke
        attempt(guard, wanted)
    assert watched.objections == []
    if stroke > step:
        assert watched.commands > COMMANDS / len(RAILS) / 40
        assert watched.farthest_mm > min(stroke, region) * 0.9 - step


ODD = st.sampled_from([nan, inf, -inf, 1e308, -1e308, 1e9, 0.0, -0.0])
SHARES = st.floats(-1.5, 1.5)


@settings(max_examples=200)
@given(
    region=st.floats(0.5, 1e3),
    stroke=st.floats(1e-3, 1e2),
    step=st.one_of(st.just(0.0), st.floats(1e-4, 10.0)),
    script=st.lists(
        st.tuples(
            st.one_of(st.none(), ODD, SHARES.map(lambda share: ("share", share))),
            st.one_of(st.none(), ODD, st.floats(-2e3, 2e3)),
            st.booleans(),
            st.booleans(),
        ),
        max_size=30,
    ),
)
def test_any_rail_any_requests_any_reports(
    region: float,
    stroke: float,
    step: float,
    script: list[tuple[float | tuple[str, float] | None, float | None, bool, bool]],
) -> None:
    """The same once more, with rails of any size, for hypothesis to shrink."""
    stage = LyingStage(region, step)
    watched = WatchedStage(stage, region_mm=region, stroke_mm=stroke)
    guard = Guard(watched, region_mm=region, stroke_mm=stroke)
    attempt(guard, None)
    for wanted, reports, arrived, silent in script:
        stage.reports, stage.arrived, stage.silent = reports, arrived, silent
        attempt(
            guard, guard.reported_mm + wanted[1] * stroke if isinstance(wanted, tuple) else wanted
        )
        stage.reports, stage.arrived, stage.silent = None, True, False
        if not guard.is_standing:
            attempt(guard, None)
    assert watched.objections == []


@given(
    wanted=st.floats(allow_nan=True, allow_infinity=True),
    at=st.floats(-60, 120),
    step=st.sampled_from([0.0, 0.0125, 1 / 160]),
)
def test_a_command_is_the_requested_position_to_the_nearest_step_or_nothing(
    wanted: float, at: float, step: float
) -> None:
    stage = LyingStage(60.0, step)
    stage.reports = at
    guard = Guard(stage, region_mm=60.0, stroke_mm=0.6)
    guard.locate(1.0)
    try:
        command = guard.command_for(wanted)
    except CommandRefusedError:
        inside = 0 <= wanted <= 60 and abs(wanted - at) <= 0.6
        assert not inside, "a wanted within reach was refused"
    else:
        assert abs(command - wanted) <= max(step, 1e-6)
