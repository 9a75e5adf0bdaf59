"""Every fault a GRBL stage can have, through the wire: recover, or say what is wrong."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from grbl_bench import stage_settings

from macontrol.controller.clock import WallClock
from macontrol.hal import Arrival, StageError, StageLostError
from macontrol.hal.grbl import GrblStage
from macontrol.sim.boards.grbl import VirtualGrbl

CLOCK = WallClock()
# A short rail with a quick homing, so that faults can be had by the dozen.
QUICK = {130: 60.0, 25: 6000.0, 24: 3000.0, 26: 5.0, 27: 1.0}


def soon(seconds: float = 30.0) -> float:
    return CLOCK.now() + seconds


class Rig:
    """A virtual board, a stage on it, and a watch on where the carriage really goes."""

    def __init__(self, link: Path) -> None:
        self.board = VirtualGrbl(CLOCK, settings=QUICK, link=link, distance_mm=3.0)
        self.stage = GrblStage(stage_settings(str(link)), CLOCK)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, action)
        timer.daemon = True
        timer.start()

    def true_mm(self) -> float:
        return self.board.position_at(CLOCK.now())

    def motions(self) -> int:
        return sum("G1" in line or "$H" in line for line in self.board.lines)

    def assert_works(self) -> None:
        assert self.stage.is_homed
        arrival = self.stage.move_to(12.0, soon())
        assert arrival.arrived
        assert arrival.position_mm == pytest.approx(12.0)
        assert self.true_mm() == pytest.approx(12.0, abs=0.03)

    def refuse_to_move(self) -> None:
        before = self.motions()
        with pytest.raises(StageLostError):
            self.stage.move_to(20.0, soon())
        assert self.motions() == before


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path / "tty")
    with rig.board:
        try:
            rig.stage.connect(soon())
            rig.stage.home(soon())
            assert rig.true_mm() == pytest.approx(0.0, abs=0.02)
            yield rig
        finally:
            rig.stage.close()


def follow(stage: GrblStage) -> Arrival:
    """Ask until it stands or fails."""
    deadline = soon()
    while CLOCK.now() < deadline:
        arrival = stage.where(soon(5.0))
        if arrival.arrived:
            return arrival
        CLOCK.sleep_until(CLOCK.now() + 0.02)
    raise AssertionError("neither arrived nor failed")


def test_unplugged_in_motion_it_is_lost_and_homed_once_it_is_back(rig: Rig) -> None:
    rig.after(0.2, rig.board.unplug)
    with pytest.raises(StageLostError, match="gone"):
        rig.stage.move_to(50.0, soon())
    rig.refuse_to_move()
    rig.after(0.5, rig.board.plug_in)
    rig.stage.recover(soon())
    rig.assert_works()


def test_unplugged_for_good_the_recovery_ends_in_time_and_says_which_port(rig: Rig) -> None:
    rig.board.unplug()
    with pytest.raises(StageLostError):
        rig.stage.move_to(50.0, soon())
    begun = CLOCK.now()
    with pytest.raises(StageError, match="tty does not exist"):
        rig.stage.recover(soon(1.0))
    assert CLOCK.now() - begun < 5.0
    rig.stage.stop()  # there is nobody to be told
    rig.board.plug_in()


def test_a_board_reset_in_motion_is_noticed_and_homed(rig: Rig) -> None:
    rig.after(0.2, rig.board.reset)
    with pytest.raises(StageLostError, match="reset in mid-run"):
        rig.stage.move_to(50.0, soon())
    assert 0.0 < rig.true_mm() < 50.0  # and the board says 0 there
    rig.refuse_to_move()
    rig.stage.recover(soon())
    rig.assert_works()


def test_a_board_reset_between_moves_is_noticed_before_the_next(rig: Rig) -> None:
    rig.stage.move_to(5.0, soon())
    rig.board.reset()
    CLOCK.sleep_until(CLOCK.now() + 0.1)
    rig.refuse_to_move()
    rig.stage.recover(soon())
    rig.assert_works()


def test_a_limit_alarm_is_forgiven_once_and_told_the_second_time(rig: Rig) -> None:
    rig.after(0.2, rig.board.trip_limit)
    with pytest.raises(StageLostError, match="limit switch was hit"):
        rig.stage.move_to(50.0, soon())
    rig.refuse_to_move()
    rig.stage.recover(soon())
    rig.assert_works()
    rig.after(0.1, rig.board.trip_limit)
    with pytest.raises(StageLostError, match="limit switch was hit"):
        rig.stage.move_to(50.0, soon())
    with pytest.raises(StageError, match="check the switch and its wiring"):
        rig.stage.recover(soon())


def test_a_limit_alarm_in_which_the_program_died_is_no_obstacle_to_the_next(rig: Rig) -> None:
    rig.board.trip_limit()
    rig.stage.close()
    rig.board.reset_on_open = False  # such boards stay as they were left
    CLOCK.sleep_until(CLOCK.now() + 0.7)
    rig.stage.connect(soon())
    rig.stage.home(soon())
    rig.assert_works()


def test_a_hung_board_is_lost_within_seconds_and_comes_back_by_being_opened(rig: Rig) -> None:
    rig.after(0.2, rig.board.hang)
    assert not rig.stage.move_to(50.0, soon(1.0)).arrived
    with pytest.raises(StageLostError, match="has not answered"):
        rig.stage.where(soon(1.5))
    rig.refuse_to_move()
    rig.stage.recover(soon(60.0))
    rig.assert_works()


def test_garbage_on_the_wire_changes_nothing(rig: Rig) -> None:
    for garbage in (b"\xff\x00\x80", b"\r\n\r\n", b"<Idle|MPos:", b"o", b"$100=1\n"):
        rig.after(0.1, lambda data=garbage: rig.board.say(data))  # type: ignore[misc]
        target = 10.0 if rig.true_mm() > 20.0 else 25.0
        arrival = rig.stage.move_to(target, soon(1.0))
        if not arrival.arrived:  # its `ok` was spoilt
            arrival = follow(rig.stage)
        assert arrival.position_mm == pytest.approx(target)
        assert rig.true_mm() == pytest.approx(target, abs=0.03)
        assert rig.stage.is_homed


def test_answers_that_come_late_are_never_taken_for_others(rig: Rig) -> None:
    rig.board.slow_down(0.4)
    arrivals = 0
    for target in (5.0, 10.0, 3.0):
        assert not rig.stage.move_to(target, soon(0.3)).arrived
        for _ in range(20):
            with contextlib.suppress(StageError):
                arrival = rig.stage.where(soon(0.6))
                if arrival.arrived:
                    assert arrival.position_mm == pytest.approx(rig.true_mm(), abs=0.03)
                    arrivals += 1
                    break
    assert arrivals > 0
    rig.board.slow_down(0.0)
    CLOCK.sleep_until(CLOCK.now() + 0.5)
    rig.stage.recover(soon())
    rig.assert_works()


def test_a_deadline_is_kept_whatever_the_board_does(rig: Rig) -> None:
    rig.board.hang()
    for call in (rig.stage.where, lambda deadline: rig.stage.move_to(1.0, deadline)):
        begun = CLOCK.now()
        with contextlib.suppress(StageError):
            call(begun + 0.2)
        assert CLOCK.now() - begun < 3.0


def test_lost_steps_do_not_show_and_homing_again_mends_them(rig: Rig) -> None:
    rig.board.lose_steps(0.5)
    arrival = rig.stage.move_to(10.0, soon())
    assert arrival.arrived
    assert arrival.position_mm == pytest.approx(10.0)
    assert rig.true_mm() != pytest.approx(10.0, abs=0.3)
    rig.stage.home(soon())
    rig.assert_works()


def test_a_carriage_that_is_stuck_is_found_out_by_homing(rig: Rig) -> None:
    rig.stage.move_to(5.0, soon())
    rig.board.stick()
    assert rig.stage.move_to(10.0, soon()).arrived  # so the board believes
    with pytest.raises(StageLostError, match="no limit switch was found"):
        rig.stage.home(soon())
    rig.refuse_to_move()
    rig.board.release()
    rig.stage.recover(soon())
    rig.assert_works()


def test_lost_steps_towards_the_switch_end_in_a_limit_alarm_not_in_a_crash(rig: Rig) -> None:
    rig.stage.move_to(10.0, soon())
    rig.board.lose_steps(-3.0)
    with pytest.raises(StageLostError, match="limit switch was hit"):
        rig.stage.move_to(0.0, soon())
    assert rig.true_mm() > -2.0
    rig.stage.recover(soon())
    rig.assert_works()


def test_a_board_put_on_hold_by_hand_is_told_and_recovered(rig: Rig) -> None:
    rig.after(0.1, rig.board.press_hold)
    assert not rig.stage.move_to(50.0, soon(1.5)).arrived
    with pytest.raises(StageError, match="Hold"):
        rig.stage.where(soon())
    rig.stage.recover(soon())
    rig.assert_works()


def test_another_board_in_its_place_is_refused(rig: Rig) -> None:
    rig.board.unplug()
    with pytest.raises(StageLostError):
        rig.stage.where(soon())
    rig.board.settings[100] = 160.0
    rig.board.plug_in()
    with pytest.raises(StageError, match="other settings"):
        rig.stage.recover(soon())
    with pytest.raises(StageLostError):
        rig.stage.move_to(1.0, soon())


def test_closing_in_motion_stops_the_carriage(rig: Rig) -> None:
    assert not rig.stage.move_to(50.0, soon(0.2)).arrived
    rig.stage.close()
    here = rig.true_mm()
    assert here < 50.0
    CLOCK.sleep_until(CLOCK.now() + 0.3)
    assert rig.true_mm() == here
