"""Homing a scripted GRBL board."""

from __future__ import annotations

import pytest

from macontrol.config.model.errors import (
    NotHomedError,
    StageError,
    StageLostError,
    StopRequestedError,
)
from support.scripted_grbl import (
    HOMING,
    MOVE,
    Desk,
    greeting,
    homed_desk,
    status,
    work_status,
)


def test_homing_makes_the_position_known() -> None:
    desk = homed_desk()
    assert desk.stage.is_homed
    desk.line.extend((b"?", [status("Idle", -2.0)]))
    arrival = desk.stage.where(desk.soon())
    assert (arrival.position_mm, arrival.arrived) == (0.0, True)
    desk.line.assert_consumed()


def test_a_build_with_single_axis_homing_homes_only_its_axis() -> None:
    script = greeting()
    script[2:4] = [(b"$I\n", [b"[VER:1.1h.20190830:]", b"[OPT:VH,15,128]", b"ok"])] * 2
    desk = Desk(*script, (b"$HX\n", [(2.0, b"ok")]), *HOMING[1:])
    desk.stage.connect(desk.soon())
    desk.stage.home(desk.soon())
    desk.line.assert_consumed()


def test_nothing_is_homed_without_permission() -> None:
    desk = Desk(*greeting(), homing="ask")
    desk.confirmed = False
    desk.stage.connect(desk.soon())
    with pytest.raises(StageError, match="give --yes"):
        desk.stage.home(desk.soon())
    with pytest.raises(NotHomedError):
        desk.stage.move_to(1.0, desk.soon())
    desk.line.assert_consumed()


def test_homing_runs_with_permission() -> None:
    desk = Desk(*greeting(), *HOMING, homing="ask")
    desk.stage.connect(desk.soon())
    desk.stage.home(desk.soon())
    desk.line.assert_consumed()


def test_homing_that_finds_no_switch_loses_the_stage() -> None:
    desk = Desk(*greeting(), (b"$H\n", [(4.0, b"ALARM:9")]), (b"\x18", []))
    desk.stage.connect(desk.soon())
    with pytest.raises(StageLostError, match="ALARM:9"):
        desk.stage.home(desk.soon())
    with pytest.raises(StageLostError):
        desk.stage.move_to(1.0, desk.soon())
    desk.line.assert_consumed()


def test_homing_that_does_not_end_is_aborted_by_a_reset() -> None:
    desk = Desk(*greeting(), (b"$H\n", []), (b"\x18", []))
    desk.stage.connect(desk.soon())
    deadline = desk.soon(3.0)
    with pytest.raises(StageError, match="homing in time"):
        desk.stage.home(deadline)
    assert desk.clock.now() <= deadline
    desk.line.assert_consumed()


@pytest.mark.fault("homing-wrong-end")
def test_homing_at_the_wrong_end_is_refused() -> None:
    ending = (b"?", [status("Idle", -98.0)])
    desk = Desk(*greeting(), (b"$H\n", [(2.0, b"ok")]), ending, ending, (b"\x18", []))
    desk.stage.connect(desk.soon())
    with pytest.raises(StageError, match=r"\$23"):
        desk.stage.home(desk.soon())
    desk.line.assert_consumed()


@pytest.mark.fault("homing-wrong-end")
def test_a_switch_still_closed_after_homing_is_refused() -> None:
    ending = (b"?", [status("Idle", -2.0, "|Pn:X")])
    desk = Desk(*greeting(), (b"$H\n", [(2.0, b"ok")]), ending, (b"\x18", []))
    desk.stage.connect(desk.soon())
    with pytest.raises(StageError, match=r"\$27"):
        desk.stage.home(desk.soon())
    desk.line.assert_consumed()


def test_homing_is_aborted_on_a_stop_request() -> None:
    desk = Desk(*greeting(), (b"$H\n", [(20.0, b"ok")]), (b"\x18", []))
    desk.stage.connect(desk.soon())
    until = desk.soon(3.0)
    with pytest.raises(StopRequestedError):
        desk.stage.home(desk.soon(60.0), lambda: desk.clock.now() < until)
    assert desk.clock.now() <= until + 0.2
    with pytest.raises(StageLostError, match="homing failed"):
        desk.stage.move_to(1.0, desk.soon())


@pytest.mark.fault("offset-move-never-ends")
def test_a_carriage_that_does_not_reach_the_usable_rail_is_lost_soon() -> None:
    desk = Desk(*greeting(), *HOMING, (MOVE % b"-7.0000", [b"ok"]), offset_mm=5.0)
    desk.stage.connect(desk.soon())
    start = desk.clock.now()
    with pytest.raises(StageLostError, match="did not reach the usable rail"):
        desk.stage.home(desk.soon(3600.0))
    assert desk.clock.now() - start < 5.0
    desk.line.assert_consumed()


@pytest.mark.fault("home-moved")
@pytest.mark.parametrize("home_mm", [1e11, -2e6])
def test_a_home_beyond_single_precision_is_refused(home_mm: float) -> None:
    ending = (b"?", [status("Idle", home_mm)])
    desk = Desk(*greeting(), (b"$H\n", [b"ok"]), ending, ending, (b"\x18", []))
    desk.stage.connect(desk.soon())
    with pytest.raises(StageError, match="do not resolve a step"):
        desk.stage.home(desk.soon())
    assert not desk.stage.is_homed
    desk.line.assert_consumed()


@pytest.mark.fault("home-moved")
def test_a_home_that_differs_from_the_previous_one_is_refused() -> None:
    desk = homed_desk()
    ending = (b"?", [status("Idle", -40.0)])
    desk.line.extend((b"$H\n", [b"ok"]), ending, ending, (b"\x18", []))
    with pytest.raises(StageError, match=r"-40\.000 mm, and the previous time it was -2\.000 mm"):
        desk.stage.home(desk.soon())
    assert not desk.stage.is_homed
    desk.line.assert_consumed()


@pytest.mark.fault("report-digit-garbled")
def test_one_garbled_digit_of_an_offset_does_not_move_the_origin() -> None:
    desk = Desk(*greeting(), (b"$H\n", [b"ok"]))
    for offset in (-5.0, None, -11.0, None, -5.0, None, -5.0, None):
        desk.line.append((b"?", [work_status(offset)]))
    desk.stage.connect(desk.soon())
    desk.stage.home(desk.soon())
    desk.line.extend((MOVE % b"-12.0000", [b"ok", b"ok"]), (b"?", [status("Idle", -12.0)]))
    assert desk.stage.move_to(10.0, desk.soon()).arrived
    desk.line.assert_consumed()


@pytest.mark.fault("report-digit-garbled")
def test_one_garbled_digit_after_homing_does_not_move_the_origin() -> None:
    desk = Desk(*greeting(), (b"$H\n", [b"ok"]), offset_mm=5.0)
    for x in (-8.0, -2.0, -2.0):
        desk.line.append((b"?", [status("Idle", x)]))
    desk.line.append((MOVE % b"-7.0000", [b"ok", b"ok"]))
    desk.line.append((b"?", [status("Idle", -7.0)]))
    desk.stage.connect(desk.soon())
    desk.stage.home(desk.soon())
    assert desk.stage.is_homed
    desk.line.assert_consumed()
    # So the next homing is compared with the true end of this one.
    desk.line.extend(*HOMING, (MOVE % b"-7.0000", [b"ok", b"ok"]), (b"?", [status("Idle", -7.0)]))
    desk.stage.home(desk.soon())
    desk.line.assert_consumed()


@pytest.mark.fault("report-digit-garbled")
def test_a_home_without_two_equal_reports_is_refused() -> None:
    desk = Desk(*greeting(), (b"$H\n", [b"ok"]))
    for x in (-2.0, -3.0, -2.0, -3.0, -2.0):
        desk.line.append((b"?", [status("Idle", x)]))
    desk.line.append((b"\x18", []))
    desk.stage.connect(desk.soon())
    with pytest.raises(StageError, match="twice in a row"):
        desk.stage.home(desk.soon())
    assert not desk.stage.is_homed
    desk.line.assert_consumed()
