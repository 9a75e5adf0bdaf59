"""What loses the position of a scripted GRBL board."""

from __future__ import annotations

import pytest

from macontrol.config.model.errors import LineLostError, NoAnswerError, StageError, StageLostError
from macontrol.testing import UNPLUGGED
from support.scripted_grbl import (
    BANNER,
    LOCKED,
    MOVE,
    homed_desk,
    status,
)


def test_a_banner_during_a_run_loses_the_stage() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-12.0000", [b"ok", b"", BANNER, LOCKED]))
    with pytest.raises(StageLostError, match="was reset during the run"):
        desk.stage.move_to(10.0, desk.soon())
    assert not desk.stage.is_homed
    with pytest.raises(StageLostError):
        desk.stage.move_to(10.0, desk.soon())
    with pytest.raises(StageLostError):
        desk.stage.where(desk.soon())


def test_a_banner_between_two_moves_is_noticed_before_the_next() -> None:
    desk = homed_desk()
    desk.line.extend((b"", [BANNER]))
    desk.clock.sleep_until(desk.soon(1.0))
    with pytest.raises(StageLostError, match="was reset during the run"):
        desk.stage.move_to(10.0, desk.soon())
    desk.line.assert_consumed()


def test_an_alarm_state_loses_the_stage_without_its_alarm_line() -> None:
    desk = homed_desk()
    desk.line.extend((b"?", [status("Alarm", -30.0)]))
    with pytest.raises(StageLostError, match="locked by an alarm"):
        desk.stage.where(desk.soon())
    desk.line.assert_consumed()


@pytest.mark.parametrize("x", [0.0, -22.1, 3.0])
def test_a_position_where_it_was_never_sent_loses_the_stage(x: float) -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-22.0000", [b"ok", b"ok"]), (b"?", [status("Idle", -22.0)]))
    assert desk.stage.move_to(20.0, desk.soon()).arrived
    desk.line.extend((MOVE % b"-12.0000", [b"ok", b"ok"]), (b"?", [status("Idle", x)]))
    with pytest.raises(StageLostError, match="never sent"):
        desk.stage.move_to(10.0, desk.soon())
    assert not desk.stage.is_homed


@pytest.mark.fault("hold-by-hand")
@pytest.mark.parametrize("state", ["Hold:0", "Door:1", "Sleep"])
def test_a_board_paused_by_hand_is_reported_and_not_lost(state: str) -> None:
    desk = homed_desk()
    desk.line.extend((b"?", [status(state, -2.0)]))
    with pytest.raises(StageError, match=state[:4]):
        desk.stage.where(desk.soon())
    desk.line.extend((b"?", [status("Idle", -2.0)]))
    assert desk.stage.where(desk.soon()).arrived
    desk.line.assert_consumed()


@pytest.mark.fault("slow-answers")
def test_late_answers_are_not_silence() -> None:
    desk = homed_desk()
    for _ in range(5):
        desk.line.extend((b"?", [(0.5, status("Idle", -2.0))]))
        with pytest.raises(NoAnswerError):
            desk.stage.where(desk.soon(0.1))
        desk.clock.sleep_until(desk.soon(0.6))
    assert desk.stage.is_homed


def test_a_silent_board_is_lost_after_a_second() -> None:
    desk = homed_desk()
    desk.line.extend((b"?", []))
    with pytest.raises(NoAnswerError) as first:
        desk.stage.where(desk.soon(0.3))
    assert not isinstance(first.value, StageLostError)
    desk.line.extend((b"\n", []))
    with pytest.raises(StageLostError, match="has not answered for"):
        desk.stage.where(desk.soon(0.8))


def test_an_unplugged_board_is_closed_immediately() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-12.0000", [b"ok", UNPLUGGED]))
    with pytest.raises(LineLostError):
        desk.stage.move_to(10.0, desk.soon())
    assert not desk.line.is_open
    with pytest.raises(StageLostError, match=r"^/dev/ttyTEST: the port is gone; it must be"):
        desk.stage.move_to(10.0, desk.soon())
