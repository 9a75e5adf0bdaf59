"""Moves of a scripted GRBL board."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from macontrol.config.model.errors import (
    NoAnswerError,
    OffRailError,
    StageBusyError,
    StageError,
    StageLostError,
)
from support.scripted_grbl import (
    HOMING,
    MOVE,
    SETTINGS,
    Desk,
    greeting,
    homed_desk,
    moving_desk,
    status,
    with_setting,
    work_status,
)


@pytest.mark.fault("one-motion-in-flight")
def test_a_move_ends_with_the_answer_to_its_dwell() -> None:
    desk = homed_desk()
    answers = [(0.003, b"ok"), (0.28, b"ok")]
    desk.line.extend((MOVE % b"-12.0000", answers), (b"?", [status("Idle", -12.0)]))
    start = desk.clock.now()
    arrival = desk.stage.move_to(10.0, desk.soon())
    assert arrival.arrived
    assert arrival.position_mm == pytest.approx(10.0)
    assert arrival.time_s - start == pytest.approx(0.283)
    desk.line.assert_consumed()


@pytest.mark.parametrize(
    ("changes", "position", "sent"),
    [
        ({"offset_mm": 5.0, "travel_mm": 60.0}, 10.0, b"-17.0000"),
        ({"inverted": True}, 10.0, b"-88.0000"),
        ({"inverted": True, "travel_mm": 60.0}, 60.0, b"-2.0000"),
        ({"offset_mm": 5.0, "travel_mm": 60.0, "inverted": True}, 60.0, b"-7.0000"),
    ],
)
def test_offset_travel_and_inversion_place_the_rail(
    changes: dict[str, Any], position: float, sent: bytes
) -> None:
    approach = []
    if "offset_mm" in changes:  # homing then ends at the near end of the rail
        approach = [(MOVE % b"-7.0000", [b"ok", b"ok"]), (b"?", [status("Idle", -7.0)])]
    desk = Desk(*greeting(), *HOMING, *approach, **changes)
    desk.stage.connect(desk.soon())
    desk.stage.home(desk.soon())
    ends = [status("Idle", float(sent))]
    desk.line.extend((MOVE % sent, [b"ok", b"ok"]), (b"?", ends))
    arrival = desk.stage.move_to(position, desk.soon())
    assert arrival.position_mm == pytest.approx(position)
    desk.line.assert_consumed()


def test_a_stage_that_homes_to_its_negative_end_moves_away_from_there() -> None:
    settings = with_setting(23, "1")
    ending = (b"?", [status("Idle", -98.0)])
    desk = Desk(*greeting(settings=settings), (b"$H\n", [(2.0, b"ok")]), ending, ending)
    desk.stage.connect(desk.soon())
    desk.stage.home(desk.soon())
    desk.line.extend((MOVE % b"-88.0000", [b"ok", b"ok"]), (b"?", [status("Idle", -88.0)]))
    assert desk.stage.move_to(10.0, desk.soon()).position_mm == pytest.approx(10.0)
    desk.line.assert_consumed()


@pytest.mark.parametrize("position", [nan, inf, -inf, -0.01, 96.01, 1e9])
def test_nothing_is_sent_for_a_position_off_the_rail(position: float) -> None:
    desk = homed_desk()
    with pytest.raises(OffRailError):
        desk.stage.move_to(position, desk.soon())
    desk.line.assert_consumed()


def test_a_rounding_error_beyond_the_rail_is_limited_to_its_end() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-98.0000", [b"ok", b"ok"]), (b"?", [status("Idle", -98.0)]))
    assert desk.stage.move_to(96.0000005, desk.soon()).position_mm == pytest.approx(96.0)
    desk.line.assert_consumed()


def test_after_a_refused_motion_the_next_move_works() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-12.0000", [b"error:20", b"ok"]), (b"\n", [b"ok"]))
    with pytest.raises(StageError, match="error:20"):
        desk.stage.move_to(10.0, desk.soon())
    desk.line.extend((b"?", [status("Idle", -2.0)]))
    assert desk.stage.where(desk.soon()).arrived  # it has not moved, and does not start
    desk.line.extend((MOVE % b"-12.0000", [b"ok", b"ok"]), (b"?", [status("Idle", -12.0)]))
    assert desk.stage.move_to(10.0, desk.soon()).arrived
    desk.line.assert_consumed()


def test_a_late_move_continues_and_where_reports_its_end() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-52.0000", [b"ok"]))
    deadline = desk.soon(0.2)
    arrival = desk.stage.move_to(50.0, deadline)
    assert not arrival.arrived
    assert desk.clock.now() <= deadline
    with pytest.raises(StageBusyError):
        desk.stage.move_to(0.0, desk.soon(0.0))
    desk.line.extend((b"?", [status("Run", -30.0), (0.5, b"ok")]))
    arrival = desk.stage.where(desk.soon(0.1))
    assert arrival.position_mm == pytest.approx(28.0)
    assert not arrival.arrived
    desk.clock.sleep_until(desk.soon(1.0))
    desk.line.extend((b"?", [status("Idle", -52.0)]))
    arrival = desk.stage.where(desk.soon(0.1))
    assert arrival.arrived
    assert arrival.position_mm == pytest.approx(50.0)
    desk.line.assert_consumed()


@pytest.mark.fault("stray-ok")
def test_a_garbled_ok_does_not_block_the_stage() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-12.0000", [b"ok", b"o\xffk"]))
    assert not desk.stage.move_to(10.0, desk.soon(0.5)).arrived
    desk.line.extend((b"?", [status("Idle", -12.0)]))
    arrival = desk.stage.where(desk.soon(0.5))
    assert arrival.arrived
    assert arrival.position_mm == pytest.approx(10.0)
    desk.line.assert_consumed()


def test_an_idle_board_that_has_not_started_its_move_has_not_arrived() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-52.0000", []))
    assert not desk.stage.move_to(50.0, desk.soon(0.01)).arrived
    desk.line.extend((b"?", [status("Idle", -2.0)]))
    assert not desk.stage.where(desk.soon(0.5)).arrived
    with pytest.raises(StageBusyError):
        desk.stage.move_to(1.0, desk.soon())
    desk.line.extend((b"?", [b"ok", status("Run", -2.5)]))
    assert not desk.stage.where(desk.soon(0.5)).arrived
    desk.line.extend((b"?", [b"ok", status("Idle", -52.0)]))
    assert desk.stage.where(desk.soon(0.5)).arrived
    desk.line.assert_consumed()


@pytest.mark.fault("move-not-started")
def test_a_move_that_is_neither_started_nor_answered_loses_the_stage() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-52.0000", []))
    assert not desk.stage.move_to(50.0, desk.soon(0.01)).arrived
    for _ in range(2):
        desk.line.extend((b"?", [status("Idle", -2.0)]))
        assert not desk.stage.where(desk.soon(0.5)).arrived
        desk.clock.sleep_until(desk.soon(0.4))
    desk.line.extend((b"?", [status("Idle", -2.0)]))
    with pytest.raises(StageLostError, match="neither started nor refused"):
        desk.stage.where(desk.soon(0.5))
    with pytest.raises(StageLostError):
        desk.stage.move_to(1.0, desk.soon())
    desk.line.assert_consumed()


@pytest.mark.fault("confirmed-without-position")
def test_a_confirmed_move_without_a_report_is_no_arrival() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-12.0000", [b"ok", b"ok"]), (b"?", []))
    assert not desk.stage.move_to(10.0, desk.soon(0.1)).arrived
    desk.line.assert_consumed()


def test_a_stray_ok_is_no_arrival() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-12.0000", [b"ok", b"ok"]), (b"?", [status("Run", -5.0)]))
    arrival = desk.stage.move_to(10.0, desk.soon(0.5))
    assert not arrival.arrived
    assert arrival.position_mm == pytest.approx(3.0)
    with pytest.raises(StageBusyError):
        desk.stage.move_to(20.0, desk.soon(0.5))
    desk.line.assert_consumed()


def test_a_late_report_is_not_used_for_a_later_query() -> None:
    desk = moving_desk()
    desk.line.extend((b"?", [(0.5, status("Run", -20.0))]))
    with pytest.raises(NoAnswerError):
        desk.stage.where(desk.soon(0.1))
    desk.line.extend((b"", [(1.0, b"ok")]))
    desk.clock.sleep_until(desk.soon(2.0))
    desk.line.extend((b"?", [status("Idle", -92.0)]))
    assert desk.stage.where(desk.soon(1.0)).position_mm == pytest.approx(90.0)
    desk.line.assert_consumed()


def test_a_late_report_is_read_before_the_next_query() -> None:
    desk = homed_desk()
    desk.line.extend((b"?", [(0.5, status("Run", -2.0))]))
    with pytest.raises(NoAnswerError):
        desk.stage.where(desk.soon(0.1))
    desk.line.extend((b"\n", [b"ok"]), (b"?", [status("Idle", -2.0)]))
    assert desk.stage.where(desk.soon(1.0)).arrived
    desk.line.assert_consumed()


def test_a_report_precedes_every_move_unless_the_last_one_is_fresh() -> None:
    desk = homed_desk()
    for place, asks in ((10.0, False), (20.0, False), (30.0, True)):
        if asks:
            desk.clock.sleep_until(desk.soon(0.1))
            desk.line.append((b"?", [status("Idle", -22.0)]))
        desk.line.append((MOVE % b"%.4f" % (-2.0 - place), [b"ok", b"ok"]))
        desk.line.append((b"?", [status("Idle", -2.0 - place)]))
        assert desk.stage.move_to(place, desk.soon()).arrived
    desk.line.assert_consumed()


@pytest.mark.fault("moved-by-hand")
@pytest.mark.parametrize(
    ("report", "error", "reason"),
    [
        (status("Idle", -52.0), StageLostError, "where it was never sent"),
        (status("Idle", -4.0), StageLostError, "where it was never sent"),
        (status("Jog", -52.0), StageLostError, "where it was never sent"),
        (status("Run", -7.0), StageError, r"reports Run at 5\.0000 mm.*: it moves"),
        (status("Hold:0", -7.0), StageError, "paused"),
        (status("Alarm", -7.0), StageLostError, "locked by an alarm"),
        (b"\xff", StageError, "does not answer"),
    ],
)
def test_a_board_that_does_not_rest_where_it_was_is_not_moved(
    report: bytes, error: type[StageError], reason: str
) -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-7.0000", [b"ok", b"ok"]), (b"?", [status("Idle", -7.0)]))
    assert desk.stage.move_to(5.0, desk.soon()).arrived
    desk.clock.sleep_until(desk.soon(0.1))
    desk.line.extend((b"?", [report]))  # and no move
    with pytest.raises(error, match=reason):
        desk.stage.move_to(7.5, desk.soon(0.1))
    desk.line.assert_consumed()


def test_a_late_move_that_has_ended_is_reported_before_the_next() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-52.0000", [b"ok", (0.5, b"ok")]))
    assert not desk.stage.move_to(50.0, desk.soon(0.1)).arrived
    desk.clock.sleep_until(desk.soon(0.6))
    desk.line.extend((b"?", [status("Idle", -52.0)]))  # and no move: the previous report was 0 mm
    with pytest.raises(StageError, match=r"is at 50\.0000 mm, and the previous report was 0\.0000"):
        desk.stage.move_to(2.0, desk.soon())
    desk.line.assert_consumed()


@pytest.mark.fault("confirmed-without-position")
def test_an_ok_alone_is_no_arrival_even_without_time_for_a_report() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-4.5000", [(0.098, b"ok"), (0.002, b"ok")]))
    arrival = desk.stage.move_to(2.5, desk.soon(0.1))
    assert (arrival.position_mm, arrival.arrived) == (0.0, False)
    desk.line.assert_consumed()
    # It may still start to move: it has not arrived, neither now nor later.
    desk.line.extend((b"?", [status("Idle", -2.0)]))
    with pytest.raises(StageError, match=r"last move ends at 2\.5000 mm.* may start"):
        desk.stage.move_to(1.0, desk.soon())
    for _ in range(2):
        desk.line.extend((b"?", [status("Idle", -2.0)]))
        assert not desk.stage.where(desk.soon(0.1)).arrived
        desk.clock.sleep_until(desk.soon(0.5))
    desk.line.extend((b"?", [status("Idle", -2.0)]))
    with pytest.raises(StageLostError, match="neither started nor refused"):
        desk.stage.where(desk.soon(0.5))


@pytest.mark.fault("stray-ok")
def test_rest_beside_the_target_is_no_arrival() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-12.0000", [b"ok", b"ok"]), (b"?", [status("Idle", -2.0)]))
    assert not desk.stage.move_to(10.0, desk.soon(0.5)).arrived
    desk.line.extend((b"?", [status("Idle", -12.0)]))
    assert desk.stage.where(desk.soon(0.5)).arrived  # only now is it there
    desk.line.assert_consumed()


def test_settling_is_part_of_a_move() -> None:
    desk = homed_desk(settling_s=0.05)
    desk.line.extend((MOVE % b"-12.0000", [b"ok", b"ok"]), (b"?", [status("Idle", -12.0)]))
    start = desk.clock.now()
    arrival = desk.stage.move_to(10.0, desk.soon())
    assert arrival.time_s - start == pytest.approx(0.052)
    desk.line.extend(
        (b"?", [status("Idle", -12.0)]),
        (MOVE % b"-22.0000", [b"ok", b"ok"]),
        (b"?", [status("Idle", -22.0)]),
    )
    deadline = desk.soon(0.02)
    assert not desk.stage.move_to(20.0, deadline).arrived
    assert desk.clock.now() <= deadline
    desk.line.extend((b"?", [status("Idle", -22.0)]))
    assert not desk.stage.where(desk.soon(0.01)).arrived
    desk.clock.sleep_until(desk.soon(0.05))
    desk.line.extend((b"?", [status("Idle", -22.0)]))
    assert desk.stage.where(desk.soon(0.01)).arrived
    desk.line.assert_consumed()


def test_a_work_position_is_converted_by_its_offset() -> None:
    desk = homed_desk()
    desk.line.extend((b"?", [work_status()]), (b"?", [work_status(-5.0)]))
    for _ in range(8):
        desk.line.append((b"?", [work_status()]))
    desk.line.append((b"?", [work_status(-5.0)]))  # a single offset may be garbled
    assert desk.stage.where(desk.soon()).position_mm == pytest.approx(0.0)
    desk.line.extend((b"?", [work_status()]))
    assert desk.stage.where(desk.soon()).position_mm == pytest.approx(0.0)
    desk.line.assert_consumed()


@pytest.mark.fault("report-without-axis")
@pytest.mark.parametrize("machine", [b"MPos:0.000|", b""])
def test_a_report_without_the_axis_is_completed_from_its_work_position(machine: bytes) -> None:
    def report(state: bytes, rest: bytes) -> bytes:
        return b"<" + state + b"|" + rest + b">"

    full = b"MPos:0.000,-2.000,0.000|WCO:0.000,0.000,0.000"
    settings = [line.replace(b"0=", b"1=") if line[1:2] == b"1" else line for line in SETTINGS]
    script = greeting(settings=[*SETTINGS[:-1], *settings[-5:]])
    desk = Desk(
        *[
            (sent, [report(b"Alarm", full)] if sent == b"?" else answers)
            for sent, answers in script
        ],
        (b"$H\n", [b"ok"]),
        *[(b"?", [report(b"Idle", full)])] * 2,
        axis="Y",
    )
    desk.stage.connect(desk.soon())
    desk.stage.home(desk.soon())
    desk.line.extend((b"?", [report(b"Idle", machine + b"WPos:0.000,-2.000,0.000")]))
    assert desk.stage.where(desk.soon()).position_mm == pytest.approx(0.0)
    desk.line.extend((b"?", [report(b"Idle", machine + b"WPos:0.000")]))
    with pytest.raises(NoAnswerError):
        desk.stage.where(desk.soon(0.1))
