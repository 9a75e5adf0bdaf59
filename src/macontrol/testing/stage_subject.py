"""What the rules of a stage have in common: the stage, and questions to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from macontrol.config.model.errors import StageError
from macontrol.hal import Arrival, Clock, Stage
from macontrol.testing.contract import Contract


def await_rest(stage: Stage, clock: Clock, seconds: float = 60.0) -> Arrival:
    """Ask a stage until it is at rest."""
    deadline_s = clock.now() + seconds
    while not (arrival := stage.where(deadline_s)).arrived:
        assert clock.now() < deadline_s, f"the stage is not at rest after {seconds:g} s"
        clock.sleep_until(clock.now() + 0.02)
    return arrival


class StageSubject(Contract):
    """The stage of a suite."""

    deadline_s: float = 60.0
    """How long one move or one homing takes at most."""
    slack_s: float = 2.0
    """How much later than planned a call can return on a busy computer."""

    def make(self) -> Stage:
        """A new stage: connected, homed and at rest. The suite closes it."""
        raise NotImplementedError("override make: return a stage that is homed and at rest")

    @pytest.fixture
    def stage(self) -> Iterator[Stage]:
        """The stage of one rule, which can leave it elsewhere, lost or closed."""
        stage = self.make()
        yield stage
        with suppress(StageError):
            stage.close()

    def carriage_mm(self, stage: Stage) -> float | None:
        """Where the carriage itself is (mm); None if only the stage knows.

        Override it for an emulated stage, and the rules compare the reports with it.
        """
        return None

    def lose(self, stage: Stage) -> bool:
        """Make the stage lose its position, so that `recover` has to home; whether it did."""
        return False

    # -- Helpers ------------------------------------------------------------------------------

    def soon(self, seconds: float | None = None) -> float:
        return self.clock.now() + (self.deadline_s if seconds is None else seconds)

    def at(self, stage: Stage, share: float) -> float:
        """A position (mm) at a share of the rail, in whole steps, and never beyond the rail."""
        step, travel = stage.description.step_mm, stage.description.travel_mm
        position = share * travel
        return position if step == 0 else min(round(position / step) * step, travel)

    def planned_s(self, stage: Stage, distance_mm: float) -> float:
        """How long a move takes by the description."""
        about = stage.description
        return about.latency_s + about.motion.time_s(distance_mm) + about.settling_s

    def start_move(self, stage: Stage) -> float:
        """Start a long move from the low end and return soon; its target."""
        stage.move_to(0.0, self.soon())
        target, about = self.at(stage, 0.9), stage.description
        under_way_s = about.latency_s + 0.35 * about.motion.time_s(target)
        stage.move_to(target, self.soon(min(under_way_s, 0.3)))
        return target

    def depart(self, stage: Stage) -> float:
        """`start_move`; the rule is skipped if the stage is not moving now."""
        target = self.start_move(stage)
        if stage.where(self.soon()).arrived:
            pytest.skip("no motion to observe: the stage breaks a rule of moves or reports")
        return target

    def require_at(self, stage: Stage, position_mm: float) -> None:
        """The stage comes to rest, reports this position, and the carriage is there."""
        arrival = await_rest(stage, self.clock, self.deadline_s)
        assert stage.description.is_near(arrival.position_mm, position_mm), (
            f"the stage must be at {position_mm} mm; it reports {arrival.position_mm} mm"
        )
        self.require_truth(stage, arrival.position_mm)

    def require_truth(self, stage: Stage, reported_mm: float) -> None:
        """The carriage is where the stage reports, if that is known."""
        carriage_mm = self.carriage_mm(stage)
        if carriage_mm is not None:
            about = stage.description
            margin = 2 * about.step_mm + about.tolerance_mm
            assert abs(carriage_mm - reported_mm) <= margin, (
                f"a report must be true: it is {reported_mm} mm, the carriage is at {carriage_mm}"
            )

    def require_still(self, stage: Stage, rule: str) -> None:
        """The carriage comes to rest within the slack."""
        until, before = self.soon(self.slack_s), self.carriage_mm(stage)
        while before is not None:
            self.clock.sleep_until(self.soon(0.1))
            here = self.carriage_mm(stage)
            if here == before:
                return
            assert self.clock.now() < until, f"{rule}: the carriage still moves at {here} mm"
            before = here

    def require_in_time(self, deadline_s: float, what: str) -> None:
        late_s = self.clock.now() - deadline_s
        assert late_s <= self.slack_s, f"{what} returned {late_s:.3g} s late"

    def require_can_move(self, stage: Stage) -> None:
        for share in (0.15, 0.1):
            stage.move_to(self.at(stage, share), self.soon())
            self.require_at(stage, self.at(stage, share))

    def require_stage_errors(self, stage: Stage, target: float) -> None:
        calls: tuple[Callable[[], object], ...] = (
            lambda: stage.move_to(target, self.soon()),
            lambda: stage.where(self.soon(1.0)),
            stage.stop,
        )
        for call in calls:
            try:
                call()
            except StageError:
                pass
            except Exception as error:
                pytest.fail(f"a stage must raise StageError only, not {error!r}")
