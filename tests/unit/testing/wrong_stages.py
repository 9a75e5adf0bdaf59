"""Stages that break one rule each; `test_wrong_drivers.py` runs the suite on every one of them.

All are variants of one stage that keeps every rule, on a virtual clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any, ClassVar

from macontrol.config.model.errors import StageError
from macontrol.controller.runtime.clock import VirtualClock
from macontrol.hal import Arrival, Stage, StageDescription
from macontrol.sim.bench.simulated import SimulatedStage
from macontrol.testing import StageContract

CLOCK = VirtualClock(100.0)
ABOUT = StageDescription("model", 200.0, 0.0125, 100.0, 500.0, 0.01, 0.02)
KEEP_ON_S = 0.1


class RightStage(SimulatedStage):
    """A stage that keeps every rule. It can lose its position, and homes to the low end."""

    def __init__(self) -> None:
        super().__init__(ABOUT, CLOCK, 3.0)
        self.lost = ""

    def require_known(self) -> None:
        if self.lost:
            raise StageError(self.lost)

    def put(self, position_mm: float) -> None:
        self._carriage.put(position_mm, CLOCK.now())
        self._still_s = CLOCK.now()

    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        self.require_known()
        assert 0 <= position_mm <= ABOUT.travel_mm, "the suite asks for a position off the rail"
        return super().move_to(position_mm, deadline_s)

    def where(self, deadline_s: float) -> Arrival:
        self.require_known()
        return super().where(deadline_s)

    def recover(self, deadline_s: float, keep_on: Callable[[], bool]) -> None:
        if self.lost:
            self.home(deadline_s, keep_on)
            self.lost = ""

    def home(self, deadline_s: float, keep_on: Callable[[], bool]) -> None:
        """Search for the switch at the low end, slowly."""
        slow = replace(ABOUT, speed_mm_per_s=20.0).motion
        self._carriage.move(0.0, CLOCK.now(), slow)
        self._still_s = self._carriage.still_at
        while CLOCK.now() < self._still_s:
            CLOCK.sleep_until(min(CLOCK.now() + KEEP_ON_S, deadline_s))
            if not keep_on() or CLOCK.now() >= deadline_s:
                self.interrupt()

    def interrupt(self) -> None:
        SimulatedStage.stop(self)
        raise StageError("the recovery was interrupted")

    def close(self) -> None:
        SimulatedStage.stop(self)
        self.lost = "it is closed"


class WrongStage(StageContract):
    """The suite for a stage of this module."""

    clock = CLOCK
    slack_s = 0.5
    limit_s = 20.0
    stage_class: ClassVar[type[Any]] = RightStage
    breaks: ClassVar[tuple[str, ...]] = ()

    def make(self) -> Stage:
        stage: Stage = self.stage_class()
        return stage

    def carriage_mm(self, stage: Stage) -> float:
        assert isinstance(stage, RightStage)
        return stage.position_now()

    def lose(self, stage: Stage) -> bool:
        assert isinstance(stage, RightStage)
        stage.lost = "an alarm"
        return True


def breaks(*rules: str) -> Callable[[type[RightStage]], type[RightStage]]:
    """Register a stage that breaks these rules."""

    def register(stage: type[RightStage]) -> type[RightStage]:
        title = f"Test{stage.__name__}"
        body = {"stage_class": stage, "breaks": rules, "__module__": __name__}
        globals()[title] = type(title, (WrongStage,), body)
        return stage

    return register


breaks()(RightStage)


# -- Description --------------------------------------------------------------------------


@breaks("test_it_has_the_members_of_the_protocol", "test_homing_is_not_due_after_a_recovery")
class HasNoHomingIsDue(RightStage):
    homing_is_due = None  # type: ignore[assignment]


class Described(RightStage):
    """Its description differs from the stage."""

    described: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.description = replace(ABOUT, **self.described)


@breaks("test_the_description_is_plausible")
class HasNoName(Described):
    described: ClassVar[dict[str, Any]] = {"name": ""}


@breaks("test_the_description_is_plausible")
class HasNegativeLatency(Described):
    described: ClassVar[dict[str, Any]] = {"latency_s": -0.001}


@breaks("test_the_description_is_plausible")
class HasNegativeSettling(Described):
    described: ClassVar[dict[str, Any]] = {"settling_s": -0.001}


@breaks("test_the_description_is_plausible")
class HasNegativeTolerance(Described):
    described: ClassVar[dict[str, Any]] = {"tolerance_mm": -1e-9}


@breaks("test_a_move_takes_as_long_as_the_description_says")
class IsSlowerThanDescribed(RightStage):
    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        arrival = super().move_to(position_mm, deadline_s)
        if arrival.arrived:
            CLOCK.sleep_until(CLOCK.now() + 1.0)
        return replace(arrival, time_s=CLOCK.now())


# -- Moves --------------------------------------------------------------------------------


@breaks("test_a_move_waits_for_the_arrival")
class TakesTheAnswerForTheArrival(RightStage):
    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        is_short = deadline_s - CLOCK.now() < 1.0
        report = super().move_to(position_mm, deadline_s if is_short else CLOCK.now())
        return report if is_short else replace(report, position_mm=position_mm, arrived=True)


def is_short(stage: RightStage, position_mm: float) -> bool:
    return 0 < abs(position_mm - stage.position_now()) < 2.5


@breaks("test_a_move_ends_at_its_target")
class HasBacklash(RightStage):
    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        shift = 0.1 if is_short(self, position_mm) else 0.0
        return super().move_to(position_mm - shift, deadline_s)


@breaks("test_the_carriage_is_where_the_stage_reports")
class ReportsTheCommand(RightStage):
    """It loses the steps of short moves, and reports the position that it was sent to."""

    commanded: float | None = None

    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        shift = 0.1 if is_short(self, position_mm) else 0.0
        report = super().move_to(position_mm - shift, deadline_s)
        self.commanded = position_mm if shift else None
        return replace(report, position_mm=position_mm) if shift else report

    def where(self, deadline_s: float) -> Arrival:
        report = super().where(deadline_s)
        return report if self.commanded is None else replace(report, position_mm=self.commanded)


@breaks("test_both_ends_of_the_rail_can_be_reached")
class ClipsAtTheEnd(RightStage):
    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        return super().move_to(min(position_mm, 195.0), deadline_s)


@breaks("test_the_time_of_a_report_is_on_the_clock")
class HasAnotherClock(RightStage):
    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        return replace(super().move_to(position_mm, deadline_s), time_s=1.8e9)


@breaks("test_a_move_to_the_present_position_arrives")
class WaitsForAMotionThatIsNone(RightStage):
    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        if position_mm != self.position_now():
            return super().move_to(position_mm, deadline_s)
        CLOCK.sleep_until(deadline_s)
        return Arrival(position_mm, False, CLOCK.now())


@breaks("test_a_move_returns_at_its_deadline")
class IgnoresTheDeadlineOfAMove(RightStage):
    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        return super().move_to(position_mm, inf)


@breaks("test_a_late_move_continues")
class StopsAtTheDeadline(RightStage):
    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        report = super().move_to(position_mm, deadline_s)
        if not report.arrived:
            self.put(report.position_mm)
        return report


# -- Reports ------------------------------------------------------------------------------


@breaks("test_where_reports_the_progress_of_a_move")
class ReportsAnArrivalUnderWay(RightStage):
    def where(self, deadline_s: float) -> Arrival:
        return replace(super().where(deadline_s), arrived=True)


@breaks("test_where_reports_the_progress_of_a_move")
class ReportsTheStartUntilTheEnd(RightStage):
    start_mm = 0.0

    def where(self, deadline_s: float) -> Arrival:
        report = super().where(deadline_s)
        return report if report.arrived else replace(report, position_mm=self.start_mm)


@breaks("test_where_moves_nothing")
class MovesWhenAsked(RightStage):
    def where(self, deadline_s: float) -> Arrival:
        report = super().where(deadline_s)
        if report.arrived:
            self.put(report.position_mm + 0.004)
        return report


@breaks("test_where_returns_at_its_deadline")
class IgnoresTheDeadlineOfAReport(RightStage):
    def where(self, deadline_s: float) -> Arrival:
        if deadline_s - CLOCK.now() < 1.0:
            CLOCK.sleep_until(CLOCK.now() + 5.0)
        return super().where(deadline_s)


# -- Stops --------------------------------------------------------------------------------


@breaks("test_a_stop_ends_the_motion")
class DoesNotStop(RightStage):
    def stop(self) -> None:
        """The motion continues."""


@breaks("test_the_position_after_a_stop_is_true")
class ForgetsWhereItStopped(RightStage):
    shift_mm = 0.0

    def stop(self) -> None:
        self.shift_mm = 0.0 if super().where(inf).arrived else 5.0
        super().stop()

    def where(self, deadline_s: float) -> Arrival:
        report = super().where(deadline_s)
        return replace(report, position_mm=report.position_mm - self.shift_mm)


@breaks("test_a_stop_at_rest_changes_nothing")
class IsLostByAStopAtRest(RightStage):
    def stop(self) -> None:
        if not self.lost and super().where(inf).arrived:
            self.lost = "it was stopped"
        super().stop()


# -- Recovery -----------------------------------------------------------------------------


@breaks("test_a_lost_stage_raises_stage_errors_only")
class RaisesOtherErrorsWhenLost(RightStage):
    def require_known(self) -> None:
        if self.lost == "an alarm":
            raise RuntimeError("no position")
        super().require_known()


@breaks("test_a_recovery_leads_to_a_known_position")
class ReportsAWrongHome(RightStage):
    shift_mm = 0.0

    def recover(self, deadline_s: float, keep_on: Callable[[], bool]) -> None:
        super().recover(deadline_s, keep_on)
        self.shift_mm = 5.0

    def where(self, deadline_s: float) -> Arrival:
        report = super().where(deadline_s)
        return replace(report, position_mm=report.position_mm + self.shift_mm)


@breaks("test_homing_is_not_due_after_a_recovery")
class IsAlwaysDue(RightStage):
    homing_is_due = True


@breaks("test_keep_on_is_called_several_times_per_second")
class RarelyCallsKeepOn(RightStage):
    def recover(self, deadline_s: float, keep_on: Callable[[], bool]) -> None:
        if self.lost:  # every tenth step
            self.steps = 0
            super().recover(deadline_s, lambda: self.asks(keep_on))

    def asks(self, keep_on: Callable[[], bool]) -> bool:
        self.steps += 1
        return self.steps % 10 != 0 or keep_on()


@breaks("test_a_recovery_ends_soon_after_keep_on_returns_false")
class IgnoresKeepOn(RightStage):
    def home(self, deadline_s: float, keep_on: Callable[[], bool]) -> None:
        super().home(deadline_s, lambda: keep_on() or True)


@breaks("test_a_stage_is_at_rest_after_keep_on_returned_false")
class MovesAfterKeepOn(RightStage):
    def interrupt(self) -> None:
        raise StageError("the recovery was interrupted")


@breaks("test_a_recovery_returns_at_its_deadline")
class IgnoresTheDeadlineOfARecovery(RightStage):
    def recover(self, deadline_s: float, keep_on: Callable[[], bool]) -> None:
        super().recover(inf, keep_on)


@breaks("test_a_recovery_that_fails_raises_stage_error")
class FailsToRecoverSilently(RightStage):
    def recover(self, deadline_s: float, keep_on: Callable[[], bool]) -> None:
        is_short = deadline_s - CLOCK.now() < 1.0
        try:
            super().recover(deadline_s, keep_on)
        except StageError:
            if not is_short:
                raise


# -- The end ------------------------------------------------------------------------------


@breaks("test_close_stops_the_motion")
class MovesAfterClose(RightStage):
    def close(self) -> None:
        self.lost = "it is closed"


class TestKeepsTheHardware(WrongStage):
    breaks = ("test_close_releases_the_hardware",)
    is_free = True

    def make(self) -> Stage:
        if not self.is_free:
            raise StageError("the port is in use")
        self.is_free = False
        return RightStage()


@breaks("test_a_closed_stage_raises_stage_errors_only")
class RaisesOtherErrorsWhenClosed(RightStage):
    def require_known(self) -> None:
        if self.lost == "it is closed":
            raise AttributeError("no port")
        super().require_known()


class NeverReturns(RightStage):
    """It hangs at the tenth question at one moment."""

    asked: tuple[float, int] = (0.0, 0)

    def where(self, deadline_s: float) -> Arrival:
        moment_s, count = self.asked
        self.asked = (CLOCK.now(), count + 1 if moment_s == CLOCK.now() else 1)
        if self.asked[1] == 10:
            threading.Event().wait()
        return super().where(deadline_s)


class TestNeverReturns(WrongStage):
    """A call that never returns ends the test of its rule, and no more."""

    limit_s = 0.5
    breaks = ("test_where_moves_nothing",)
    stage_class = NeverReturns
