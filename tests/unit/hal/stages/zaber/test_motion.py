"""Moves of a scripted Zaber device."""

from __future__ import annotations

from math import inf, nan

import pytest

from macontrol.config.model.errors import (
    CommandRefusedError,
    OffRailError,
    StageBusyError,
    StageError,
)
from macontrol.controller.runtime.guard import Guard
from support.scripted_zaber import Desk, homed_desk, summed


def test_a_move_ends_when_the_device_is_idle() -> None:
    desk = homed_desk()
    desk.expects("get pos", "OK IDLE -- 0")
    desk.expects("move abs 12500", "OK BUSY -- 0")
    desk.expects_positions("OK BUSY -- 3000", "OK BUSY -- 9000", "OK BUSY -- 12400")
    desk.expects("get pos", "OK BUSY -- 12499")
    desk.expects("get pos", "OK IDLE -- 12500")
    start = desk.clock.now()
    arrival = desk.stage.move_to(12.5, desk.soon())
    desk.finish()
    assert arrival.arrived
    assert arrival.position_mm == pytest.approx(12.5)
    # 0.2 s of motion: questions are rare at first and frequent at its end.
    assert 0.2 < arrival.time_s - start < 0.225


def test_an_alert_ends_the_wait_for_a_motion() -> None:
    desk = homed_desk()
    desk.expects("get pos", "OK IDLE -- 0")
    desk.expects("move abs 12500", "OK BUSY -- 0", (0.01, summed("!01 1 IDLE --")))
    desk.expects("get pos", "OK IDLE -- 12500")
    start = desk.clock.now()
    assert desk.stage.move_to(12.5, desk.soon()).arrived
    assert desk.clock.now() - start < 0.02
    desk.finish()


def test_an_alert_of_another_device_or_a_garbled_one_is_none() -> None:
    desk = homed_desk()
    desk.expects("get pos", "OK IDLE -- 0")
    desk.expects(
        "move abs 1000",
        "OK BUSY -- 0",
        summed("!02 1 IDLE FS"),
        b"!01 1 IDLE FS:00",
        b"!01 1 IDLE FS",  # without a checksum
        summed("!01 2 IDLE FS"),
    )
    desk.expects("get pos", "OK IDLE -- 1000")
    assert desk.stage.move_to(1.0, desk.soon()).arrived
    desk.finish()


def test_a_move_goes_to_the_nearest_microstep() -> None:
    desk = homed_desk()
    desk.expects("get pos", "OK IDLE -- 0")
    desk.expects("move abs 2", "OK BUSY -- 0")
    desk.expects("get pos", "OK IDLE -- 2")
    assert desk.stage.move_to(0.00154, desk.soon()).position_mm == pytest.approx(0.002)
    desk.finish()


def test_a_configured_speed_is_sent_with_every_move() -> None:
    desk = homed_desk(speed_mm_per_s=50.0)
    assert desk.stage.description.speed_mm_per_s == 50.0
    desk.expects("get pos", "OK IDLE -- 0")
    desk.expects("move abs 1000 81920", "OK BUSY -- 0")
    desk.expects_positions("OK BUSY -- 900", "OK IDLE -- 1000")
    assert desk.stage.move_to(1.0, desk.soon()).arrived
    desk.finish()


@pytest.mark.parametrize("where", [-0.001, 100.001, nan, inf, -inf, 1e300])
def test_nothing_is_sent_for_a_position_off_the_rail(where: float) -> None:
    desk = homed_desk()
    with pytest.raises(OffRailError):
        desk.stage.move_to(where, desk.soon())
    desk.finish()


def test_an_inverted_rail_with_an_offset_is_within_the_limits() -> None:
    desk = Desk(offset_mm=10.0, travel_mm=50.0, inverted=True)
    desk.expects_greeting()
    desk.expects_homing()
    desk.expects("get pos", "OK IDLE -- 0")
    desk.expects("move abs 10000", "OK BUSY -- 0")
    desk.expects_positions("OK BUSY -- 500", "OK BUSY -- 5000", "OK BUSY -- 9999")
    desk.expects("get pos", "OK BUSY -- 9999")
    desk.expects("get pos", "OK IDLE -- 10000")
    desk.expects("get pos", "OK IDLE -- 10000")
    desk.expects("move abs 60000", "RJ IDLE -- BADDATA")
    desk.stage.connect(desk.soon())
    desk.stage.home(desk.soon())
    with pytest.raises(StageError, match=r"refuses to move to 0\.0000 mm: BADDATA"):
        desk.stage.move_to(0.0, desk.soon())
    desk.finish()


def test_a_rail_from_the_positive_end_counts_down() -> None:
    desk = homed_desk(homing_direction="positive", position=100_000)
    desk.expects("get pos", "OK IDLE -- 100000")
    desk.expects("move abs 99000", "OK BUSY -- 0")
    desk.expects_positions("OK IDLE -- 99000")
    assert desk.stage.move_to(1.0, desk.soon()).position_mm == pytest.approx(1.0)
    desk.finish()


def test_settling_is_part_of_a_move() -> None:
    desk = homed_desk(settling_s=0.5)
    desk.expects("get pos", "OK IDLE -- 0")
    desk.expects("move abs 1", "OK BUSY -- 0")
    desk.expects("get pos", "OK IDLE -- 1")
    start = desk.clock.now()
    assert desk.stage.move_to(0.001, desk.soon()).time_s - start > 0.5
    desk.finish()


def test_a_late_move_continues_and_another_is_refused_meanwhile() -> None:
    desk = homed_desk()
    desk.expects("get pos", "OK IDLE -- 0")
    desk.expects("move abs 90000", "OK BUSY -- 0")
    desk.expects("get pos", "OK BUSY -- 1000")
    deadline = desk.soon(0.06)
    arrival = desk.stage.move_to(90.0, deadline)
    assert not arrival.arrived
    assert desk.clock.now() <= deadline
    assert arrival.position_mm == pytest.approx(1.0)
    desk.expects("get pos", "OK BUSY -- 2000")
    desk.expects("get pos", "OK BUSY -- 3000")
    desk.expects("get pos", "OK IDLE -- 90000")
    with pytest.raises(StageBusyError):
        desk.stage.move_to(0.0, desk.soon())
    assert not desk.stage.where(desk.soon()).arrived
    assert desk.stage.where(desk.soon()).arrived
    desk.finish()


def test_a_move_whose_answer_is_garbled_is_followed_all_the_same() -> None:
    desk = homed_desk()
    desk.expects("get pos", "OK IDLE -- 0")
    desk.expects("move abs 100", b"@01 1 ?")
    desk.expects("get pos", "OK IDLE -- 100")
    assert desk.stage.move_to(0.1, desk.soon()).arrived
    desk.finish()


def test_an_interrupted_motion_is_an_error() -> None:
    desk = homed_desk()
    desk.expects("get pos", "OK IDLE -- 0")
    desk.expects("move abs 10000", "OK BUSY -- 0")
    desk.expects("get pos", "OK IDLE NI 4000")
    with pytest.raises(StageError, match=r"sent to 10\.0000 mm and is at 4\.0000 mm: NI"):
        desk.stage.move_to(10.0, desk.soon())
    assert desk.stage.is_homed
    desk.finish()


@pytest.mark.fault("approach-beside-target")
@pytest.mark.parametrize("microstep_mm", [0.0001, 0.001, 0.01])
def test_driver_and_guard_agree_about_an_arrival(microstep_mm: float) -> None:
    desk = homed_desk(microstep_mm=microstep_mm, travel_mm=5.0)
    guard = Guard(desk.stage, region_mm=5.0, stroke_mm=5.0)
    desk.expects("get pos", "OK IDLE -- 0")
    guard.locate(desk.soon())
    target = round(1.0 / microstep_mm)
    for beside in range(-8, 9):
        here = round(guard.reported_mm / microstep_mm)
        desk.expects("get pos", f"OK IDLE -- {here}")
        desk.expects(f"move abs {target}", "OK BUSY -- 0", summed("!01 1 IDLE --"))
        desk.expects("get pos", f"OK IDLE -- {target + beside}")
        assert guard.move(1.0, desk.soon()).arrived
        assert guard.is_close(1.0)
        desk.finish()
    here = round(guard.reported_mm / microstep_mm)
    off = target + 12
    desk.expects("get pos", f"OK IDLE -- {here}")
    desk.expects(f"move abs {target}", "OK BUSY -- 0", summed("!01 1 IDLE --"))
    desk.expects("get pos", f"OK IDLE -- {off}")
    with pytest.raises(StageError, match="it did not arrive"):
        guard.move(1.0, desk.soon())
    desk.finish()


@pytest.mark.fault("moved-by-hand")
def test_a_stage_that_was_moved_meanwhile_is_not_moved() -> None:
    desk = homed_desk()
    guard = Guard(desk.stage, region_mm=60.0, stroke_mm=0.5)
    desk.expects("get pos", "OK IDLE -- 0")
    guard.locate(desk.soon())
    desk.expects("get pos", "OK IDLE -- 40000")  # and no move
    with pytest.raises(StageError, match=r"is at 40\.0000 mm, and the previous report was 0\.0000"):
        guard.move(0.4, desk.soon())
    desk.finish()
    desk.expects("get pos", "OK IDLE -- 40000")
    assert guard.locate(desk.soon()).position_mm == pytest.approx(40.0)
    with pytest.raises(CommandRefusedError):
        guard.move(0.4, desk.soon())
    desk.expects("get pos", "OK IDLE -- 40000")
    desk.expects("move abs 39500", "OK BUSY -- 0", summed("!01 1 IDLE --"))
    desk.expects("get pos", "OK IDLE -- 39500")
    assert guard.move(39.5, desk.soon()).arrived
    desk.finish()


def test_a_stage_moved_by_its_knob_is_an_error() -> None:
    desk = homed_desk()
    desk.expects("get pos", "OK BUSY NC 4000")
    with pytest.raises(StageError, match="knob"):
        desk.stage.move_to(10.0, desk.soon())
    desk.finish()
