"""Serial stages that break one rule each; `test_wrong_drivers.py` runs the suite on each of them.

All are variants of one stage that keeps every rule, on a virtual clock and without a port.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, cast

import pytest
from unit.testing.wrong_stages import ABOUT, CLOCK, RightStage

from macontrol.config.model.errors import (
    LineBusyError,
    StageError,
    StageLostError,
    StopRequestedError,
)
from macontrol.hal import Arrival, StageDescription
from macontrol.hal.serial.latency import AnswerTimes
from macontrol.hal.serial.stage import SerialStage
from macontrol.sim.bench.simulated import SimulatedStage
from macontrol.sim.world.carriage import Carriage
from macontrol.testing import SerialStageContract, StageBench


def always() -> bool:
    return True


class ModelBoard:
    """What all stages at one port share: the carriage, and who has the port."""

    def __init__(self) -> None:
        self.carriage = Carriage(3.0, history_s=0.0)
        self.owner: RightSerialStage | None = None


class RightSerialStage(RightStage):
    """A stage that keeps every rule. It is lost until it is connected and homed."""

    def __init__(self, board: ModelBoard, *, may_home: bool) -> None:
        super().__init__()
        self._carriage = board.carriage
        self._board, self._may_home = board, may_home
        self._known: StageDescription | None = None
        self.answer_times = AnswerTimes()
        self.lost = "it is not connected"

    @property
    def description(self) -> StageDescription:
        if self._known is None:
            raise StageError("nothing is known of it", "connect first")
        return self._known

    @description.setter
    def description(self, about: StageDescription) -> None:
        self._known = about

    @property
    def quickest_description(self) -> StageDescription:
        return replace(self.description, latency_s=min(self.answer_times.quickest))

    @property
    def identity_parts(self) -> Mapping[str, str]:
        return {"firmware": "model-1", "settings": "none"}

    @property
    def is_open(self) -> bool:
        return self._board.owner is self

    @property
    def is_homed(self) -> bool:
        return not self.lost

    def require_known(self) -> None:
        if self.lost:
            raise StageLostError(self.lost)

    def connect(self, deadline_s: float, keep_on: Callable[[], bool] = always) -> None:
        if self._board.owner not in (None, self):
            raise LineBusyError("another stage has the port")
        self._board.owner = self
        self.description = ABOUT
        self.answer_times = AnswerTimes(((0.008,), (ABOUT.latency_s,), (0.012,)))
        self.lost = "it is not homed"

    def home(self, deadline_s: float, keep_on: Callable[[], bool] = always) -> None:
        if not self.is_open:
            raise StageLostError("it is not connected")
        if not self._may_home:
            raise StageError("homing is not permitted", "give --yes")
        self.lost = "it is being homed"
        super().home(deadline_s, keep_on)
        self.lost = ""

    def interrupt(self) -> None:
        SimulatedStage.stop(self)
        raise StopRequestedError("the homing was interrupted")

    def recover(self, deadline_s: float, keep_on: Callable[[], bool] = always) -> None:
        if not self.is_open:
            self.connect(deadline_s)
        if not self.is_homed:
            self.home(deadline_s, keep_on)

    def stop(self) -> None:
        if self.is_open:
            super().stop()

    def close(self) -> None:
        if self.is_open:
            SimulatedStage.stop(self)
            self._board.owner = None
        self.lost = "it is closed"


class ModelBench(StageBench):
    """A bench with a stage of this module in place of a board and its driver."""

    def __init__(self, stage_class: type[RightSerialStage]) -> None:
        self._model, self._class = ModelBoard(), stage_class
        super().__init__(settings=cast(Any, None), board=cast(Any, self._model), clock=CLOCK)

    def stage(self, *, may_home: bool = True, **_: Any) -> SerialStage:
        return cast(SerialStage, self._class(self._model, may_home=may_home))

    def carriage_mm(self) -> float:
        return self._model.carriage.position_at(CLOCK.now())


class WrongSerialStage(SerialStageContract):
    """The suite for a stage of this module."""

    clock = CLOCK
    slack_s = 0.5
    limit_s = 20.0
    stage_class: ClassVar[type[RightSerialStage]] = RightSerialStage
    breaks: ClassVar[tuple[str, ...]] = ()

    @pytest.fixture(scope="class")
    @classmethod
    def bench(cls) -> Iterator[StageBench]:
        bench = ModelBench(cls.stage_class)
        yield bench
        bench.close()


def breaks(*rules: str) -> Callable[[type[RightSerialStage]], type[RightSerialStage]]:
    """Register a stage that breaks these rules."""

    def register(stage: type[RightSerialStage]) -> type[RightSerialStage]:
        title = f"Test{stage.__name__}"
        body = {"stage_class": stage, "breaks": rules, "__module__": __name__}
        globals()[title] = type(title, (WrongSerialStage,), body)
        return stage

    return register


breaks()(RightSerialStage)


# -- Connecting ---------------------------------------------------------------------------


@breaks("test_nothing_is_known_before_it_is_connected")
class GuessesItsDescription(RightSerialStage):
    def __init__(self, board: ModelBoard, *, may_home: bool) -> None:
        super().__init__(board, may_home=may_home)
        self.description = ABOUT


@breaks("test_nothing_is_known_before_it_is_connected")
class RequiresAConnectionToStop(RightSerialStage):
    def stop(self) -> None:
        if self._known is None:
            raise RuntimeError("no port")
        super().stop()


@breaks("test_the_identity_has_named_parts")
class HasNoFirmware(RightSerialStage):
    @property
    def identity_parts(self) -> Mapping[str, str]:
        return {"settings": "none"}


@breaks("test_the_identity_has_named_parts")
class HasAnEmptyPart(RightSerialStage):
    @property
    def identity_parts(self) -> Mapping[str, str]:
        return {"firmware": "model-1", "settings": ""}


@breaks("test_the_quickest_answers_give_the_least_latency")
class IsSlowestWhenQuick(RightSerialStage):
    @property
    def quickest_description(self) -> StageDescription:
        return replace(self.description, latency_s=max(map(max, self.answer_times.samples)))


@breaks("test_the_quickest_answers_give_the_least_latency")
class TimesNoAnswers(RightSerialStage):
    quickest_description = ABOUT

    def connect(self, deadline_s: float, keep_on: Callable[[], bool] = always) -> None:
        super().connect(deadline_s, keep_on)
        self.answer_times = AnswerTimes()


@breaks("test_the_port_has_one_owner")
class SharesThePort(RightSerialStage):
    def connect(self, deadline_s: float, keep_on: Callable[[], bool] = always) -> None:
        owner = self._board.owner
        self._board.owner = None
        super().connect(deadline_s, keep_on)
        self._board.owner = owner or self


# -- Homing -------------------------------------------------------------------------------


@breaks("test_homing_needs_permission")
class HomesWithoutPermission(RightSerialStage):
    def home(self, deadline_s: float, keep_on: Callable[[], bool] = always) -> None:
        self._may_home = True
        super().home(deadline_s, keep_on)


@breaks("test_homing_needs_permission")
class MovesBeforeItAsks(RightSerialStage):
    def home(self, deadline_s: float, keep_on: Callable[[], bool] = always) -> None:
        if self.is_open and not self._may_home:
            self._carriage.put(5.0, CLOCK.now())
        super().home(deadline_s, keep_on)


@breaks("test_a_stop_request_ends_a_homing")
class FailsWhenItIsStopped(RightSerialStage):
    def interrupt(self) -> None:
        SimulatedStage.stop(self)
        raise StageError("homing failed")


@breaks("test_a_stop_request_ends_a_homing")
class IsHomedWhenItIsStopped(RightSerialStage):
    is_stopped = False

    def interrupt(self) -> None:
        self.is_stopped = True
        super().interrupt()

    @property
    def is_homed(self) -> bool:
        return not self.lost or (self.is_stopped and self.lost == "it is being homed")

    def recover(self, deadline_s: float, keep_on: Callable[[], bool] = always) -> None:
        self.is_stopped = False
        super().recover(deadline_s, keep_on)


@breaks("test_homing_again_ends_at_the_same_place")
class HomesElsewhere(RightSerialStage):
    homings = 0

    def home(self, deadline_s: float, keep_on: Callable[[], bool] = always) -> None:
        super().home(deadline_s, keep_on)
        self.homings += 1
        self.put(ABOUT.step_mm * self.homings)


@breaks("test_a_stage_that_is_connected_again_is_not_homed")
class IsHomedWhenItIsConnected(RightSerialStage):
    was_homed = False

    def connect(self, deadline_s: float, keep_on: Callable[[], bool] = always) -> None:
        super().connect(deadline_s, keep_on)
        if self.was_homed:
            self.lost = ""

    def close(self) -> None:
        self.was_homed = self.is_homed
        super().close()

    def recover(self, deadline_s: float, keep_on: Callable[[], bool] = always) -> None:
        if not self.is_open:
            self.was_homed = False
        super().recover(deadline_s, keep_on)


# -- Moves --------------------------------------------------------------------------------


@breaks("test_reports_are_exact")
class ReportsLessThanTheEnd(RightSerialStage):
    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        report = super().move_to(position_mm, deadline_s)
        return replace(report, position_mm=min(report.position_mm, ABOUT.travel_mm - 1e-4))


@breaks("test_single_steps_are_possible")
class LosesSingleSteps(RightSerialStage):
    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        if 0 < abs(position_mm - self.position_now()) < 1.5 * ABOUT.step_mm:
            position_mm = self.position_now()
        return super().move_to(position_mm, deadline_s)


@breaks("test_a_stop_keeps_it_homed")
class IsLostByAStop(RightSerialStage):
    def stop(self) -> None:
        is_moving = self._still_s > CLOCK.now()
        super().stop()
        if is_moving and self.is_open:
            self.lost = "it was stopped"
