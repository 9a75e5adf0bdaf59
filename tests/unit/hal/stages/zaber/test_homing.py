"""Homing a scripted Zaber device."""

from __future__ import annotations

import pytest

from macontrol.config.model.errors import (
    StageError,
    StageLostError,
)
from support.scripted_zaber import Desk, homed_desk


def test_homing_makes_the_position_known() -> None:
    desk = homed_desk()
    assert desk.stage.is_homed
    desk.expects("get pos", "OK IDLE -- 0")
    arrival = desk.stage.where(desk.soon())
    assert (arrival.position_mm, arrival.arrived) == (0.0, True)
    desk.finish()


def test_nothing_is_homed_without_permission() -> None:
    desk = Desk(homing="ask")
    desk.confirmed = False
    desk.expects_greeting()
    desk.stage.connect(desk.soon())
    with pytest.raises(StageError, match="give --yes"):
        desk.stage.home(desk.soon())
    desk.finish()


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        (["OK BUSY WR 0", "OK IDLE FS 900"], "homing failed: FS, the motor stalled"),
        (["OK BUSY WR 0", "OK BUSY FE 900"], "homing failed: FE"),
    ],
)
def test_a_failed_homing_is_stopped_and_loses_the_stage(answers: list[str], reason: str) -> None:
    desk = Desk()
    desk.expects_greeting()
    desk.expects_homing_begun()
    desk.expects_positions(*answers)
    desk.expects("stop")
    desk.stage.connect(desk.soon())
    with pytest.raises(StageError, match=reason):
        desk.stage.home(desk.soon())
    with pytest.raises(StageLostError):
        desk.stage.move_to(1.0, desk.soon())
    desk.finish()


@pytest.mark.parametrize("flags", ["01 WH", "01 WR", "02 WT WR", "01 NI"])
def test_homing_with_a_flag_left_is_refused(flags: str) -> None:
    desk = Desk()
    desk.expects_greeting()
    desk.expects_homing_begun()
    desk.expects("get pos", "OK IDLE NI 0")
    desk.expects("warnings", f"OK IDLE NI {flags}")
    desk.expects("stop")
    desk.stage.connect(desk.soon())
    with pytest.raises(StageError, match="homing failed"):
        desk.stage.home(desk.soon())
    assert not desk.stage.is_homed
    desk.finish()


@pytest.mark.fault("homing-fails")
def test_a_refused_homing_names_the_reason() -> None:
    desk = Desk()
    desk.expects_greeting()
    desk.expects("warnings clear", "OK IDLE WR 01 WR")
    desk.expects("home", "RJ IDLE WR PARKED")
    desk.expects("stop")
    desk.stage.connect(desk.soon())
    with pytest.raises(StageError, match=r"refuses to home: PARKED.*unpark"):
        desk.stage.home(desk.soon())
    desk.finish()


def test_homing_that_does_not_end_is_stopped_in_time() -> None:
    desk = Desk(homing_time_s=0.2)
    desk.expects_greeting()
    desk.expects_homing_begun()
    desk.expects_positions(*["OK BUSY WR 0"] * 3)
    desk.expects("get pos")
    desk.expects("stop")
    desk.stage.connect(desk.soon())
    start = desk.clock.now()
    with pytest.raises(StageError, match="did not end in time"):
        desk.stage.home(desk.soon())
    assert desk.clock.now() - start <= 0.2 + 1e-9
    desk.finish()


@pytest.mark.fault("home-moved")
def test_a_home_that_differs_from_the_previous_one_is_refused() -> None:
    desk = homed_desk(travel_mm=60.0, homing_direction="negative")
    desk.expects_homing(position=5000)
    desk.expects("stop")
    with pytest.raises(StageError, match=r"at 5000 microsteps, and the previous time it was at 0"):
        desk.stage.home(desk.soon())
    assert not desk.stage.is_homed
    desk.finish()


@pytest.mark.fault("zaber-home-not-zero")
@pytest.mark.parametrize(("direction", "is_refused"), [("auto", True), ("negative", False)])
def test_a_home_that_is_not_at_zero_needs_a_homing_direction(
    direction: str, is_refused: bool
) -> None:
    desk = Desk(travel_mm=60.0, homing_direction=direction)
    desk.expects_greeting()
    desk.expects_homing(position=5000)
    desk.stage.connect(desk.soon())
    if is_refused:
        desk.expects("stop")
        with pytest.raises(StageError, match=r"at 5000 microsteps, and not at 0"):
            desk.stage.home(desk.soon())
    else:
        desk.stage.home(desk.soon())
    assert desk.stage.is_homed is not is_refused
    desk.finish()


@pytest.mark.fault("homing-wrong-end")
def test_a_home_from_which_the_rail_exceeds_the_limits_is_refused() -> None:
    desk = Desk()
    desk.expects_greeting()
    desk.expects_homing(position=1)
    desk.expects("stop")
    desk.stage.connect(desk.soon())
    with pytest.raises(StageError, match=r"at 1 microsteps.*homing_direction"):
        desk.stage.home(desk.soon())
    assert not desk.stage.is_homed
    desk.finish()


@pytest.mark.fault("offset-move-never-ends")
def test_a_carriage_that_does_not_reach_the_usable_rail_is_lost_soon() -> None:
    desk = Desk(offset_mm=10.0)
    desk.expects_greeting()
    desk.expects_homing()
    desk.expects("get pos", "OK IDLE -- 0")
    desk.expects("move abs 10000", "OK BUSY -- 0")
    for _ in range(60):
        desk.expects("get pos", (0.05, "OK BUSY -- 5000"))
    desk.stage.connect(desk.soon())
    start = desk.clock.now()
    with pytest.raises(StageLostError, match="did not reach the usable rail"):
        desk.stage.home(desk.soon(3600.0))
    assert desk.clock.now() - start < 5.0
