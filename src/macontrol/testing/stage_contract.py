"""The contract of a stage: one test per rule of `macontrol.hal.Stage`.

The rules move the stage over its whole usable rail [0, travel_mm], and never beyond.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from math import isfinite

import pytest

from macontrol.config.model.errors import StageError
from macontrol.config.model.registry import require_members
from macontrol.hal import Arrival, Stage
from macontrol.testing.stage_subject import StageSubject, await_rest


class StageContract(StageSubject):
    """The rules of any stage: a subclass `Test...` overrides `make`, and inherits them."""

    # -- Description --------------------------------------------------------------------------

    def test_it_has_the_members_of_the_protocol(self, stage: Stage) -> None:
        require_members(stage, Stage, "the stage")

    def test_the_description_is_plausible(self, stage: Stage) -> None:
        about, wrong = stage.description, "the description must be plausible"
        assert about.name, f"{wrong}: a stage has a name"
        assert 0 < about.travel_mm < float("inf"), wrong
        assert 0 <= about.step_mm < about.travel_mm, wrong
        assert 0 < about.speed_mm_per_s < float("inf"), wrong
        assert about.acceleration_mm_per_s2 > 0, wrong
        assert 0 <= about.latency_s < self.deadline_s, wrong
        assert 0 <= about.settling_s < self.deadline_s, wrong
        assert 0 <= about.tolerance_mm < about.travel_mm, wrong

    def test_a_move_takes_as_long_as_the_description_says(self, stage: Stage) -> None:
        here = await_rest(stage, self.clock).position_mm
        for share in (0.1, 0.6, 0.3):
            target, start_s = self.at(stage, share), self.clock.now()
            stage.move_to(target, self.soon())
            planned_s = self.planned_s(stage, abs(target - here))
            took_s, here = self.clock.now() - start_s, target
            assert took_s <= planned_s + self.slack_s, (
                f"a move from the description takes {planned_s:.3g} s; it took {took_s:.3g} s"
            )

    # -- Moves --------------------------------------------------------------------------------

    def test_a_move_waits_for_the_arrival(self, stage: Stage) -> None:
        here = await_rest(stage, self.clock).position_mm
        for share in (0.1, 0.11, 0.105, 0.3, 0.05):
            target, start_s = self.at(stage, share), self.clock.now()
            arrival = stage.move_to(target, self.soon())
            took_s = self.clock.now() - start_s
            assert arrival.arrived, f"move_to must wait for the arrival at {target} mm"
            # The answer to the command alone would come long before the motion is over.
            motion_s = stage.description.motion.time_s(abs(target - here))
            assert took_s >= 0.9 * motion_s, (
                f"move_to must wait for the arrival: it returned after {took_s:.3g} s, "
                f"and the motion takes {motion_s:.3g} s"
            )
            await_rest(stage, self.clock, self.deadline_s)
            here = target

    def test_a_move_ends_at_its_target(self, stage: Stage) -> None:
        for share in (0.1, 0.11, 0.105, 0.3, 0.05):
            target = self.at(stage, share)
            arrival = stage.move_to(target, self.soon())
            assert stage.description.is_near(arrival.position_mm, target), (
                f"a move must end a step and the tolerance from {target} mm at most; "
                f"it ended at {arrival.position_mm} mm"
            )

    def test_the_carriage_is_where_the_stage_reports(self, stage: Stage) -> None:
        for share in (0.1, 0.11, 0.105, 0.3, 0.05):
            moved = stage.move_to(self.at(stage, share), self.soon())
            asked = await_rest(stage, self.clock, self.deadline_s)
            self.require_truth(stage, moved.position_mm)
            self.require_truth(stage, asked.position_mm)

    def test_both_ends_of_the_rail_can_be_reached(self, stage: Stage) -> None:
        for end in (stage.description.travel_mm, 0.0):
            stage.move_to(end, self.soon())
            self.require_at(stage, end)

    def test_the_time_of_a_report_is_on_the_clock(self, stage: Stage) -> None:
        for share in (0.2, 0.1):
            start_s = self.clock.now()
            moved = stage.move_to(self.at(stage, share), self.soon())
            for report in (moved, stage.where(self.soon())):
                assert start_s <= report.time_s <= self.clock.now(), "time_s must be on the clock"

    def test_a_move_to_the_present_position_arrives(self, stage: Stage) -> None:
        here = await_rest(stage, self.clock).position_mm
        here = min(max(here, 0.0), stage.description.travel_mm)
        arrival = stage.move_to(here, self.soon())
        assert arrival.arrived, "a move to the present position must arrive"
        assert stage.description.is_near(arrival.position_mm, here)

    def test_a_move_returns_at_its_deadline(self, stage: Stage) -> None:
        stage.move_to(0.0, self.soon())
        deadline_s, arrived = self.soon(0.0), False
        with suppress(StageError):
            arrived = stage.move_to(self.at(stage, 0.9), deadline_s).arrived
        assert not arrived, "move_to must return at its deadline, and report that it is under way"
        self.require_in_time(deadline_s, "move_to")

    def test_a_late_move_continues(self, stage: Stage) -> None:
        target = self.start_move(stage)
        self.clock.sleep_until(self.soon(self.planned_s(stage, target)))
        self.require_at(stage, target)

    # -- Reports ------------------------------------------------------------------------------

    def test_where_reports_the_progress_of_a_move(self, stage: Stage) -> None:
        target = self.start_move(stage)
        about = stage.description
        margin = about.step_mm + about.tolerance_mm
        until_s = self.soon(self.planned_s(stage, target))
        reports: list[Arrival] = []
        while self.clock.now() < until_s and sum(report.arrived for report in reports) < 3:
            reports.append(stage.where(self.soon()))
            self.clock.sleep_until(self.soon(0.01))
        for report in reports:
            assert isfinite(report.position_mm), "where must report a position"
            assert -margin <= report.position_mm <= target + margin, (
                f"where must report the progress to {target} mm, not {report.position_mm} mm"
            )
        for before, after in pairwise(reports):
            change = after.position_mm - before.position_mm
            assert change >= -margin, f"where must report the progress: it went by {change} mm"
            assert not before.arrived or change <= margin, (
                "where must not report an arrival while the stage moves"
            )
        under_way = [report.position_mm for report in reports if not report.arrived]
        if len(under_way) > 10:
            assert under_way[-1] - under_way[0] > margin, (
                f"where must measure the position now: it is always {under_way[0]} mm"
            )

    def test_where_moves_nothing(self, stage: Stage) -> None:
        target = self.at(stage, 0.25)
        stage.move_to(target, self.soon())
        for _ in range(20):
            stage.where(self.soon())
        self.require_at(stage, target)

    def test_where_returns_at_its_deadline(self, stage: Stage) -> None:
        deadline_s = self.soon(0.0)
        with suppress(StageError):
            stage.where(deadline_s)
        self.require_in_time(deadline_s, "where")

    # -- Stops --------------------------------------------------------------------------------

    def test_a_stop_ends_the_motion(self, stage: Stage) -> None:
        target = self.depart(stage)
        stage.stop()
        self.require_still(stage, "stop must end the motion")
        with suppress(StageError):  # a stage may lose its position
            position_mm = await_rest(stage, self.clock).position_mm
            assert position_mm < target - stage.description.tolerance_mm, (
                "stop must end the motion: the stage continued to its target"
            )

    def test_the_position_after_a_stop_is_true(self, stage: Stage) -> None:
        self.depart(stage)
        stage.stop()
        try:
            position_mm = await_rest(stage, self.clock).position_mm
        except StageError:
            return  # it does not know its position, and reports this
        self.require_truth(stage, position_mm)
        self.require_can_move(stage)

    def test_a_stop_at_rest_changes_nothing(self, stage: Stage) -> None:
        target = self.at(stage, 0.25)
        stage.move_to(target, self.soon())
        await_rest(stage, self.clock, self.deadline_s)
        stage.stop()
        self.require_at(stage, target)
        self.require_can_move(stage)

    # -- Recovery -----------------------------------------------------------------------------

    def leave(self, stage: Stage) -> bool:
        """Lose a stage in the middle of the rail; whether it is lost."""
        stage.move_to(self.at(stage, 0.5), self.soon())
        await_rest(stage, self.clock, self.deadline_s)
        return self.lose(stage)

    def recover(self, stage: Stage, keep_on: Callable[[], bool] = lambda: True) -> None:
        stage.recover(self.soon(2 * self.deadline_s), keep_on)

    def test_a_lost_stage_raises_stage_errors_only(self, stage: Stage) -> None:
        target = self.at(stage, 0.1)
        self.leave(stage)
        self.require_stage_errors(stage, target)

    def test_a_recovery_leads_to_a_known_position(self, stage: Stage) -> None:
        self.leave(stage)
        self.recover(stage)
        self.require_truth(stage, await_rest(stage, self.clock).position_mm)
        self.require_can_move(stage)

    def test_homing_is_not_due_after_a_recovery(self, stage: Stage) -> None:
        self.leave(stage)
        self.recover(stage)
        assert stage.homing_is_due is False, "homing must not be due after a recovery"

    def test_keep_on_is_called_several_times_per_second(self, stage: Stage) -> None:
        calls: list[float] = []

        def keep_on() -> bool:
            calls.append(self.clock.now())
            return True

        self.leave(stage)
        start_s = self.clock.now()
        self.recover(stage, keep_on)
        took_s = self.clock.now() - start_s
        assert len(calls) >= int(2 * took_s), (
            f"recover must call keep_on several times per second: {len(calls)} in {took_s:.3g} s"
        )

    def interrupt(self, stage: Stage) -> bool:
        """Lose a stage and end its recovery after three calls of keep_on; whether it ended."""
        is_lost, calls = self.leave(stage), iter((True, True, True))
        ended_s: list[float] = []

        def keep_on() -> bool:
            if next(calls, False):
                return True
            ended_s.append(self.clock.now())
            return False

        try:
            self.recover(stage, keep_on)
        except StageError:
            if ended_s:
                self.require_in_time(ended_s[0], "after keep_on returned False, recover")
            return True
        return not is_lost  # it had nothing to do

    def test_a_recovery_ends_soon_after_keep_on_returns_false(self, stage: Stage) -> None:
        assert self.interrupt(stage), (
            "recover must raise StageError soon after keep_on returned False"
        )

    def test_a_stage_is_at_rest_after_keep_on_returned_false(self, stage: Stage) -> None:
        self.interrupt(stage)
        self.require_still(stage, "after keep_on returned False the stage must be at rest")

    def test_a_recovery_returns_at_its_deadline(self, stage: Stage) -> None:
        self.leave(stage)
        deadline_s = self.soon(0.1)
        with suppress(StageError):
            stage.recover(deadline_s, lambda: True)
        self.require_in_time(deadline_s, "recover")

    def test_a_recovery_that_fails_raises_stage_error(self, stage: Stage) -> None:
        self.leave(stage)
        try:
            stage.recover(self.soon(0.1), lambda: True)
        except StageError:
            return
        try:
            await_rest(stage, self.clock, self.deadline_s)
        except StageError as error:
            pytest.fail(f"recover must raise StageError if the stage is still lost: {error}")

    # -- The end ------------------------------------------------------------------------------

    def test_close_stops_the_motion(self, stage: Stage) -> None:
        target = self.depart(stage)
        tolerance_mm = stage.description.tolerance_mm
        stage.close()
        self.require_still(stage, "close must stop the motion")
        carriage_mm = self.carriage_mm(stage)
        assert carriage_mm is None or carriage_mm < target - tolerance_mm, (
            "close must stop the motion: the carriage continued to its target"
        )

    def test_close_releases_the_hardware(self, stage: Stage) -> None:
        stage.close()
        try:
            other = self.make()
        except StageError as error:
            pytest.fail(f"close must release the hardware; a new stage fails: {error}")
        other.close()

    def test_a_closed_stage_raises_stage_errors_only(self, stage: Stage) -> None:
        target = self.at(stage, 0.1)
        stage.close()
        self.require_stage_errors(stage, target)
