"""Stopping a scripted GRBL board."""

from __future__ import annotations

import pytest

from macontrol.config.model.errors import StageLostError
from macontrol.testing import UNPLUGGED
from support.scripted_grbl import (
    BANNER,
    LOCKED,
    MOVE,
    homed_desk,
    moving_desk,
    status,
)


@pytest.mark.fault("stop-while-silent")
def test_stopping_a_silent_board_ends_soon() -> None:
    desk = moving_desk()
    desk.line.extend((b"!", []), (b"?", []), (b"\x18", []), (b"!\x18", []))
    start = desk.clock.now()
    with pytest.raises(StageLostError):
        desk.stage.stop()
    desk.stage.close()
    assert desk.clock.now() - start < 1.5
    desk.line.assert_consumed()


def test_a_stop_in_motion_decelerates_and_keeps_the_position() -> None:
    desk = moving_desk()
    desk.line.extend(
        (b"!", []),
        (b"?", [status("Hold:1", -22.0)]),
        (b"?", [status("Hold:0", -23.0)]),
        (b"\x18", [b"ok", b"", BANNER]),
        (b"?", [status("Idle", -23.0)]),
    )
    desk.stage.stop()
    assert desk.stage.is_homed
    desk.line.extend((MOVE % b"-12.0000", [b"ok", b"ok"]), (b"?", [status("Idle", -12.0)]))
    assert desk.stage.move_to(10.0, desk.soon()).arrived
    desk.line.assert_consumed()


def test_a_stop_with_an_open_door_does_not_wait() -> None:
    desk = homed_desk()
    desk.line.extend(
        (b"?", [status("Door:1", -2.0)]),
        (b"!", []),
        (b"?", [status("Door:1", -2.0)]),
        (b"\x18", [b"", BANNER]),
        (b"?", [status("Idle", -2.0)]),
    )
    desk.stage.stop()
    assert desk.stage.is_homed
    desk.line.assert_consumed()


def test_a_stop_at_rest_sends_only_a_query() -> None:
    desk = homed_desk()
    desk.line.extend((b"?", [status("Idle", -2.0)]))
    desk.stage.stop()
    desk.line.assert_consumed()


@pytest.mark.fault("confirmed-without-position")
def test_a_stop_drops_a_confirmed_move_that_has_not_started() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-12.0000", [(0.09, b"ok"), (0.02, b"ok")]))
    assert not desk.stage.move_to(10.0, desk.soon(0.1)).arrived
    desk.clock.sleep_until(desk.soon(0.1))
    desk.line.extend(
        (b"?", [status("Idle", -2.0)]),
        (b"!", []),
        (b"?", [status("Hold:0", -2.0)]),
        (b"\x18", [b"", BANNER]),
        (b"?", [status("Idle", -2.0)]),
    )
    desk.stage.stop()
    desk.line.extend((b"?", [status("Idle", -2.0)]))
    assert desk.stage.where(desk.soon()).arrived
    desk.line.assert_consumed()


def test_a_stop_that_ends_in_an_alarm_loses_the_stage() -> None:
    desk = moving_desk()
    desk.line.extend(
        (b"!", []),
        (b"?", [status("Hold:0", -23.0)]),
        (b"\x18", [b"ALARM:3", (0.5, BANNER), LOCKED]),
        (b"?", [status("Alarm", -23.0)]),
    )
    with pytest.raises(StageLostError, match="ALARM:3"):
        desk.stage.stop()
    assert not desk.stage.is_homed
    desk.line.assert_consumed()


def test_closing_stops_and_always_closes_the_port() -> None:
    desk = moving_desk()
    desk.line.extend((b"!", []), (b"?", [UNPLUGGED]))
    desk.stage.close()
    assert not desk.line.is_open
    with pytest.raises(StageLostError, match="closed"):
        desk.stage.move_to(1.0, desk.soon())
    desk.line.assert_consumed()
