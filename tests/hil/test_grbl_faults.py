"""Faults that only a GRBL stage can have, through the wire: recover, or say what is wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from stage_rigs import CLOCK, GrblRig, grbl_rig, soon

from macontrol.hal import StageError, StageLostError


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[GrblRig]:
    with grbl_rig(tmp_path / "tty") as rig:
        yield rig


def test_a_limit_alarm_is_forgiven_once_and_told_the_second_time(rig: GrblRig) -> None:
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


def test_a_limit_alarm_in_which_the_program_died_is_no_obstacle_to_the_next(rig: GrblRig) -> None:
    rig.board.trip_limit()
    rig.stage.close()
    rig.board.reset_on_open = False  # such boards stay as they were left
    CLOCK.sleep_until(CLOCK.now() + 0.7)
    rig.stage.connect(soon())
    rig.stage.home(soon())
    rig.assert_works()


def test_a_hung_board_is_lost_within_seconds_and_comes_back_by_being_opened(rig: GrblRig) -> None:
    rig.after(0.2, rig.board.hang)
    assert not rig.stage.move_to(50.0, soon(1.0)).arrived
    with pytest.raises(StageLostError, match="has not answered"):
        rig.stage.where(soon(1.5))
    rig.refuse_to_move()
    rig.stage.recover(soon(60.0))
    rig.assert_works()


def test_answers_that_come_late_are_never_taken_for_others(rig: GrblRig) -> None:
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


def test_a_carriage_that_is_stuck_is_found_out_by_homing(rig: GrblRig) -> None:
    rig.stage.move_to(5.0, soon())
    rig.board.stick()
    assert rig.stage.move_to(10.0, soon()).arrived  # so the board believes
    with pytest.raises(StageLostError, match="no limit switch was found"):
        rig.stage.home(soon())
    rig.refuse_to_move()
    rig.board.release()
    rig.stage.recover(soon())
    rig.assert_works()


def test_lost_steps_towards_the_switch_end_in_a_limit_alarm_not_in_a_crash(rig: GrblRig) -> None:
    rig.stage.move_to(10.0, soon())
    rig.board.lose_steps(-3.0)
    with pytest.raises(StageLostError, match="limit switch was hit"):
        rig.stage.move_to(0.0, soon())
    assert rig.true_mm() > -2.0
    rig.stage.recover(soon())
    rig.assert_works()


def test_a_board_put_on_hold_by_hand_is_told_and_recovered(rig: GrblRig) -> None:
    rig.after(0.1, rig.board.press_hold)
    assert not rig.stage.move_to(50.0, soon(1.5)).arrived
    with pytest.raises(StageError, match="Hold"):
        rig.stage.where(soon())
    rig.stage.recover(soon())
    rig.assert_works()


def test_another_board_in_its_place_is_refused(rig: GrblRig) -> None:
    rig.board.unplug()
    with pytest.raises(StageLostError):
        rig.stage.where(soon())
    rig.board.settings[100] = 160.0
    rig.board.plug_in()
    with pytest.raises(StageError, match="other settings"):
        rig.stage.recover(soon())
    with pytest.raises(StageLostError):
        rig.stage.move_to(1.0, soon())
