"""The Zaber driver, by scripted dialogues that must be consumed whole."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from macontrol.config.model.errors import (
    CommandRefusedError,
    ConfigError,
    StageError,
    StageLostError,
)
from macontrol.controller.runtime.guard import Guard
from support.scripted_stage import UNPLUGGED
from support.scripted_zaber import Desk, homed_desk, summed


def stalled_desk(**changes: Any) -> Desk:
    desk = homed_desk(**changes)
    desk.expects("get pos", "OK IDLE FS 500")
    with pytest.raises(StageLostError):
        desk.stage.where(desk.soon())
    return desk


# -- Connecting -------------------------------------------------------------------------------


def test_connecting_reads_what_the_device_is() -> None:
    desk = Desk()
    desk.expects_greeting()
    desk.stage.connect(desk.soon())
    desk.finish()
    identity, description = desk.stage.identity, desk.stage.description
    assert (identity.firmware, identity.serial) == ("7.38", 12345)
    assert desk.stage.identity_parts["firmware"] == "7.38"
    assert desk.stage.identity_parts["device"].endswith("serial number 12345")
    assert description.travel_mm == pytest.approx(100.0)
    assert description.step_mm == pytest.approx(0.001)
    assert description.speed_mm_per_s == pytest.approx(93.75)
    assert description.acceleration_mm_per_s2 == pytest.approx(1251.2, rel=1e-4)
    assert [each for (each,) in desk.stage.answer_times.samples] == pytest.approx([0.003] * 8)
    assert description.latency_s == pytest.approx(0.013)
    assert not desk.stage.is_homed


@pytest.mark.fault("computer-busy-while-timing")
def test_a_slow_answer_among_quick_ones_is_no_latency() -> None:
    desk = Desk()
    desk.expects("", "OK IDLE WR 0")
    desk.expects_identification()
    for delay_s in (0.003, 0.003, 0.3, 0.003, 0.003, 0.003, 0.003, 0.003):
        desk.expects("get pos", (delay_s, "OK IDLE WR 0"))
    desk.stage.connect(desk.soon())
    desk.finish()
    assert max(desk.stage.answer_times.samples)[-1] == pytest.approx(0.3)
    assert desk.stage.description.latency_s == pytest.approx(0.013)


@pytest.mark.fault("claims-homed")
def test_a_device_that_says_it_is_homed_is_homed_again_all_the_same() -> None:
    desk = Desk()
    desk.expects_greeting(flag="--")
    desk.stage.connect(desk.soon())
    assert not desk.stage.is_homed
    with pytest.raises(StageError, match="not homed"):
        desk.stage.move_to(1.0, desk.soon())
    desk.finish()


def test_answers_without_checksums_are_asked_to_have_them() -> None:
    desk = Desk()
    desk.checksums = False
    desk.expects("", "OK IDLE WR 0")
    desk.expects("set comm.checksum 1", "OK IDLE WR 0", axis=0)
    desk.checksums = True
    desk.expects("", "OK IDLE WR 0")
    desk.expects("stop", "OK IDLE WR 0")
    desk.expects("get pos", b"@01 1 04 OK IDLE -- 77", "OK IDLE WR 0")  # the first has none
    desk.expects_identity()
    desk.expects_timing()
    desk.stage.connect(desk.soon())
    desk.finish()


@pytest.mark.fault("checksums-unknown")
@pytest.mark.parametrize("lost", ["wish", "answer", "both"])
def test_whether_there_are_checksums_is_asked_again_if_the_answer_is_lost(lost: str) -> None:
    desk = Desk()
    desk.checksums = False
    desk.expects("", "OK IDLE WR 0")
    if lost == "wish":  # it was not heard, so that the next answer has none
        desk.expects("set comm.checksum 1", axis=0)
        desk.expects("", "OK IDLE WR 0")
        desk.expects("set comm.checksum 1", "OK IDLE WR 0", axis=0)
    else:
        desk.expects("set comm.checksum 1", *([] if lost == "both" else ["OK IDLE WR 0"]), axis=0)
        desk.expects("")
    desk.checksums = True
    desk.expects("", "OK IDLE WR 0")
    desk.expects("stop", "OK IDLE WR 0")
    unsummed = b"@01 1 %02d OK IDLE -- 77" % (7 if lost == "wish" else 6)
    desk.expects("get pos", unsummed, "OK IDLE WR 0")
    desk.expects_identity()
    desk.expects_timing()
    desk.stage.connect(desk.soon())
    desk.finish()


@pytest.mark.fault("checksums-unknown")
def test_a_device_of_which_it_is_not_known_whether_it_sends_checksums_is_refused() -> None:
    desk = Desk()
    desk.checksums = False
    desk.expects("", "OK IDLE WR 0")
    for _ in range(4):
        desk.expects("set comm.checksum 1", "OK IDLE WR 0", axis=0)
        desk.expects("", "OK IDLE WR 0")
    with pytest.raises(StageError, match="neither sends checksums nor says that it cannot"):
        desk.stage.connect(desk.soon())
    desk.finish()


def test_a_device_that_knows_no_checksums_goes_without() -> None:
    desk = Desk()
    desk.checksums = False
    desk.expects("", "OK IDLE WR 0")
    desk.expects("set comm.checksum 1", "RJ IDLE WR BADCOMMAND", axis=0)
    desk.expects("", "OK IDLE WR 0")
    desk.expects_identification()
    desk.expects_timing()
    desk.stage.connect(desk.soon())
    desk.finish()


@pytest.mark.fault("found-in-motion")
def test_a_device_found_in_motion_is_stopped() -> None:
    desk = Desk()
    desk.expects("", "OK BUSY -- 0")
    desk.expects("stop", "OK BUSY -- 0")
    desk.expects("get pos", "OK BUSY NI 5000")
    desk.expects("get pos", "OK IDLE NI 5100")
    desk.expects_identity(flag="NI")
    desk.expects_timing("OK IDLE NI 5100")
    desk.stage.connect(desk.soon())
    desk.finish()
    assert not desk.stage.is_homed


def test_junk_other_devices_and_other_numbers_are_passed_over() -> None:
    desk = Desk()
    desk.expects(
        "",
        b"\xff\x00garbage",
        summed("@02 1 01 OK IDLE -- 0"),  # another device
        summed("@01 2 01 OK IDLE -- 0"),  # another axis
        summed("@01 1 99 OK IDLE -- 0"),  # another question
        summed("#01 0 hello"),
        b"@01 1 01 OK IDLE -- 0:00",  # spoilt
        "OK IDLE WR 0",
    )
    desk.expects_identification()
    desk.expects_timing()
    desk.stage.connect(desk.soon())
    desk.finish()


def test_a_port_where_nobody_answers_is_told_with_what_to_look_at() -> None:
    desk = Desk()
    for _ in range(4):
        desk.expects("")
    with pytest.raises(StageError, match=r"/dev/ttyTEST: no Zaber device answers as device 1"):
        desk.stage.connect(desk.soon())
    desk.finish()
    assert not desk.line.is_open


def test_connecting_never_takes_longer_than_its_deadline() -> None:
    desk = Desk()
    for _ in range(4):
        desk.expects("")
    deadline = desk.soon(0.7)
    with pytest.raises(StageError, match="no Zaber device answers"):
        desk.stage.connect(deadline)
    assert desk.clock.now() <= deadline


def test_an_axis_the_device_does_not_have_is_refused() -> None:
    desk = Desk(axis="Y")
    desk.expects("", "RJ IDLE -- BADAXIS", axis=2)
    with pytest.raises(ConfigError, match=r"stage\.axis = 'Y'.*no such axis"):
        desk.stage.connect(desk.soon())
    desk.finish()
    assert not desk.line.is_open


def test_without_the_size_of_a_microstep_the_port_is_not_even_opened() -> None:
    desk = Desk(opens=0, microstep_mm="unknown")
    with pytest.raises(ConfigError, match="does not know how long its microsteps are"):
        desk.stage.connect(desk.soon())


def test_nothing_is_known_of_a_stage_that_is_not_connected() -> None:
    desk = Desk()
    with pytest.raises(StageError, match="connect first"):
        _ = desk.stage.description
    with pytest.raises(StageLostError, match="not connected"):
        desk.stage.move_to(1.0, desk.soon())
    desk.stage.stop()  # there is nobody to be told


@pytest.mark.fault("board-settings-contradict", "homing-too-slow")
@pytest.mark.parametrize(
    ("device", "changes", "complaint"),
    [
        ({}, {"travel_mm": 100.5}, r"stage\.travel_mm = 100\.5 .* at most 100"),
        ({}, {"offset_mm": 100.0}, r"stage\.offset_mm = 100: nothing is left"),
        ({}, {"speed_mm_per_s": 94.0}, r"stage\.speed_mm_per_s = 94 .* at most 93\.75"),
        ({"version": "6.28"}, {"speed_mm_per_s": 9.0}, r"firmware 6\.28 .* set maxspeed"),
        ({"limit_max": "0"}, {}, "no travel"),
        ({"maxspeed": "0"}, {}, "no speed"),
        ({"maxspeed": "100"}, {}, r"82 minutes: .*homing_time_s"),
    ],
)
def test_a_config_that_contradicts_the_device_is_refused(
    device: dict[str, str], changes: dict[str, Any], complaint: str
) -> None:
    desk = Desk(**changes)
    desk.expects("", "OK IDLE WR 0")
    desk.expects_identification(**device)
    with pytest.raises(ConfigError, match=complaint):
        desk.stage.connect(desk.soon())
    desk.finish()
    assert not desk.line.is_open


# -- Homing -----------------------------------------------------------------------------------


def test_homing_makes_the_position_known() -> None:
    desk = homed_desk()
    assert desk.stage.is_homed
    desk.expects("get pos", "OK IDLE -- 0")
    arrival = desk.stage.where(desk.soon())
    assert (arrival.position_mm, arrival.arrived) == (0.0, True)
    desk.finish()


def test_nothing_is_homed_without_leave() -> None:
    desk = Desk(homing="ask")
    desk.confirmed = False
    desk.expects_greeting()
    desk.stage.connect(desk.soon())
    with pytest.raises(StageError, match="nobody has agreed"):
        desk.stage.home(desk.soon())
    desk.finish()


@pytest.mark.parametrize(
    ("answers", "complaint"),
    [
        (["OK BUSY WR 0", "OK IDLE FS 900"], "homing failed: FS, the motor stalled"),
        (["OK BUSY WR 0", "OK BUSY FE 900"], "homing failed: FE"),
    ],
)
def test_homing_that_fails_is_stopped_and_leaves_the_stage_lost(
    answers: list[str], complaint: str
) -> None:
    desk = Desk()
    desk.expects_greeting()
    desk.expects_homing_begun()
    desk.expects_positions(*answers)
    desk.expects("stop")
    desk.stage.connect(desk.soon())
    with pytest.raises(StageError, match=complaint):
        desk.stage.home(desk.soon())
    with pytest.raises(StageLostError):
        desk.stage.move_to(1.0, desk.soon())
    desk.finish()


@pytest.mark.parametrize("flags", ["01 WH", "01 WR", "02 WT WR", "01 NI"])
def test_homing_counts_only_if_the_device_says_so(flags: str) -> None:
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
def test_homing_that_is_refused_says_why() -> None:
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
    begun = desk.clock.now()
    with pytest.raises(StageError, match="did not end in time"):
        desk.stage.home(desk.soon())
    assert desk.clock.now() - begun <= 0.2 + 1e-9
    desk.finish()


@pytest.mark.fault("home-moved")
def test_a_home_that_is_elsewhere_than_before_is_refused() -> None:
    desk = homed_desk(travel_mm=60.0, homing_direction="negative")
    desk.expects_homing(position=5000)
    desk.expects("stop")
    with pytest.raises(StageError, match=r"stands at 5000 microsteps, and the time before.* 0;"):
        desk.stage.home(desk.soon())
    assert not desk.stage.is_homed
    desk.finish()


@pytest.mark.fault("zaber-home-not-zero")
@pytest.mark.parametrize(("direction", "is_refused"), [("auto", True), ("negative", False)])
def test_a_home_elsewhere_than_at_zero_is_taken_only_if_the_config_says_at_which_end(
    direction: str, is_refused: bool
) -> None:
    desk = Desk(travel_mm=60.0, homing_direction=direction)
    desk.expects_greeting()
    desk.expects_homing(position=5000)
    desk.stage.connect(desk.soon())
    if is_refused:
        desk.expects("stop")
        with pytest.raises(StageError, match=r"stands at 5000 microsteps, and not at 0; look"):
            desk.stage.home(desk.soon())
    else:
        desk.stage.home(desk.soon())
    assert desk.stage.is_homed is not is_refused
    desk.finish()


@pytest.mark.fault("homing-wrong-end")
def test_a_home_from_where_the_rail_would_leave_the_limits_is_refused() -> None:
    desk = Desk()
    desk.expects_greeting()
    desk.expects_homing(position=1)
    desk.expects("stop")
    desk.stage.connect(desk.soon())
    with pytest.raises(StageError, match=r"stands at 1 microsteps.*homing_direction"):
        desk.stage.home(desk.soon())
    assert not desk.stage.is_homed
    desk.finish()


# -- Moving -----------------------------------------------------------------------------------


def test_a_move_is_over_when_the_device_is_idle() -> None:
    desk = homed_desk()
    desk.expects("get pos", "OK IDLE -- 0")
    desk.expects("move abs 12500", "OK BUSY -- 0")
    desk.expects_positions("OK BUSY -- 3000", "OK BUSY -- 9000", "OK BUSY -- 12400")
    desk.expects("get pos", "OK BUSY -- 12499")
    desk.expects("get pos", "OK IDLE -- 12500")
    begun = desk.clock.now()
    arrival = desk.stage.move_to(12.5, desk.soon())
    desk.finish()
    assert arrival.arrived
    assert arrival.position_mm == pytest.approx(12.5)
    # 0.2 s of motion, looked at seldom at first and closely at its end.
    assert 0.2 < arrival.time_s - begun < 0.225


def test_an_alert_is_taken_for_a_hint_that_the_motion_is_over() -> None:
    desk = homed_desk()
    desk.expects("get pos", "OK IDLE -- 0")
    desk.expects("move abs 12500", "OK BUSY -- 0", (0.01, summed("!01 1 IDLE --")))
    desk.expects("get pos", "OK IDLE -- 12500")
    begun = desk.clock.now()
    assert desk.stage.move_to(12.5, desk.soon()).arrived
    assert desk.clock.now() - begun < 0.02
    desk.finish()


def test_an_alert_of_another_device_or_a_spoilt_one_is_none() -> None:
    desk = homed_desk()
    desk.expects("get pos", "OK IDLE -- 0")
    desk.expects(
        "move abs 1000",
        "OK BUSY -- 0",
        summed("!02 1 IDLE FS"),
        b"!01 1 IDLE FS:00",
        b"!01 1 IDLE FS",  # this device's have checksums
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


def test_a_slower_speed_goes_with_every_move() -> None:
    desk = homed_desk(speed_mm_per_s=50.0)
    assert desk.stage.description.speed_mm_per_s == 50.0
    desk.expects("get pos", "OK IDLE -- 0")
    desk.expects("move abs 1000 81920", "OK BUSY -- 0")
    desk.expects_positions("OK BUSY -- 900", "OK IDLE -- 1000")
    assert desk.stage.move_to(1.0, desk.soon()).arrived
    desk.finish()


@pytest.mark.parametrize("where", [-0.001, 100.001, nan, inf, -inf, 1e300])
def test_nothing_off_the_rail_is_ever_sent(where: float) -> None:
    desk = homed_desk()
    with pytest.raises(StageError, match="off the rail"):
        desk.stage.move_to(where, desk.soon())
    desk.finish()


def test_an_inverted_rail_with_an_offset_lies_within_the_limits() -> None:
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


@pytest.mark.fault("offset-move-never-ends")
def test_a_way_to_the_usable_rail_that_does_not_end_is_given_up_soon() -> None:
    desk = Desk(offset_mm=10.0)
    desk.expects_greeting()
    desk.expects_homing()
    desk.expects("get pos", "OK IDLE -- 0")
    desk.expects("move abs 10000", "OK BUSY -- 0")
    for _ in range(60):
        desk.expects("get pos", (0.05, "OK BUSY -- 5000"))
    desk.stage.connect(desk.soon())
    begun = desk.clock.now()
    with pytest.raises(StageLostError, match="from its switch to the usable rail"):
        desk.stage.home(desk.soon(3600.0))
    assert desk.clock.now() - begun < 5.0


def test_a_rail_counted_down_from_its_positive_end() -> None:
    desk = homed_desk(homing_direction="positive", position=100_000)
    desk.expects("get pos", "OK IDLE -- 100000")
    desk.expects("move abs 99000", "OK BUSY -- 0")
    desk.expects_positions("OK IDLE -- 99000")
    assert desk.stage.move_to(1.0, desk.soon()).position_mm == pytest.approx(1.0)
    desk.finish()


def test_settling_is_waited_for() -> None:
    desk = homed_desk(settling_s=0.5)
    desk.expects("get pos", "OK IDLE -- 0")
    desk.expects("move abs 1", "OK BUSY -- 0")
    desk.expects("get pos", "OK IDLE -- 1")
    begun = desk.clock.now()
    assert desk.stage.move_to(0.001, desk.soon()).time_s - begun > 0.5
    desk.finish()


def test_a_move_that_is_late_goes_on_and_another_is_refused_meanwhile() -> None:
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
    with pytest.raises(StageError, match="still busy"):
        desk.stage.move_to(0.0, desk.soon())
    assert not desk.stage.where(desk.soon()).arrived
    assert desk.stage.where(desk.soon()).arrived
    desk.finish()


def test_a_move_whose_answer_is_spoilt_is_followed_all_the_same() -> None:
    desk = homed_desk()
    desk.expects("get pos", "OK IDLE -- 0")
    desk.expects("move abs 100", b"@01 1 ?")
    desk.expects("get pos", "OK IDLE -- 100")
    assert desk.stage.move_to(0.1, desk.soon()).arrived
    desk.finish()


def test_a_motion_broken_off_by_another_is_told() -> None:
    desk = homed_desk()
    desk.expects("get pos", "OK IDLE -- 0")
    desk.expects("move abs 10000", "OK BUSY -- 0")
    desk.expects("get pos", "OK IDLE NI 4000")
    with pytest.raises(StageError, match=r"sent to 10\.0000 mm and stands at 4\.0000 mm: NI"):
        desk.stage.move_to(10.0, desk.soon())
    assert desk.stage.is_homed
    desk.finish()


@pytest.mark.fault("approach-beside-target")
@pytest.mark.parametrize("microstep_mm", [0.0001, 0.001, 0.01])
def test_the_driver_and_the_guard_agree_on_what_an_arrival_is(microstep_mm: float) -> None:
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
    with pytest.raises(StageError, match="it stands elsewhere"):
        guard.move(1.0, desk.soon())
    desk.finish()


@pytest.mark.fault("moved-by-hand")
def test_a_stage_that_stands_elsewhere_than_it_was_left_is_not_sent_anywhere() -> None:
    desk = homed_desk()
    guard = Guard(desk.stage, region_mm=60.0, stroke_mm=0.5)
    desk.expects("get pos", "OK IDLE -- 0")
    guard.locate(desk.soon())
    desk.expects("get pos", "OK IDLE -- 40000")  # and no move
    with pytest.raises(StageError, match=r"is at 40\.0000 mm, and was last said to be at 0\.0000"):
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


def test_a_stage_moved_by_its_knob_is_told() -> None:
    desk = homed_desk()
    desk.expects("get pos", "OK BUSY NC 4000")
    with pytest.raises(StageError, match="knob"):
        desk.stage.move_to(10.0, desk.soon())
    desk.finish()


# -- Losing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["WR", "WH", "FS", "FD", "WL", "WM"])
def test_a_flag_that_voids_the_position_is_seen_before_anything_moves(flag: str) -> None:
    desk = homed_desk()
    desk.expects("get pos", f"OK IDLE {flag} 0")
    with pytest.raises(StageLostError, match=flag):
        desk.stage.move_to(10.0, desk.soon())
    assert not desk.stage.is_homed
    for _ in range(2):
        with pytest.raises(StageLostError, match="must be recovered"):
            desk.stage.move_to(10.0, desk.soon())
    desk.finish()


@pytest.mark.fault("zaber-device-flag")
def test_a_fault_of_the_device_as_a_whole_loses_the_stage() -> None:
    desk = homed_desk()
    desk.expects("get pos", summed("!01 0 IDLE WR"), "OK IDLE -- 0")  # it may be another axis'
    assert desk.stage.where(desk.soon()).arrived
    desk.expects("get pos", summed("!01 0 IDLE FF"), "OK IDLE -- 0")
    with pytest.raises(StageLostError, match="critical error"):
        desk.stage.move_to(10.0, desk.soon())
    assert not desk.stage.is_homed


def test_a_flag_that_hides_others_makes_the_driver_ask_for_all() -> None:
    desk = homed_desk()
    desk.expects("get pos", "OK IDLE WT 0")
    desk.expects("warnings", "OK IDLE WT 01 WT")
    desk.expects("get pos", "OK IDLE WT 0")
    desk.expects("warnings", "OK IDLE WT 02 WT WR")
    assert desk.stage.where(desk.soon()).arrived
    with pytest.raises(StageLostError, match="WR"):
        desk.stage.where(desk.soon())
    desk.finish()


def test_a_stall_in_motion_loses_the_stage() -> None:
    desk = homed_desk()
    desk.expects("get pos", "OK IDLE -- 0")
    desk.expects("move abs 10000", "OK BUSY -- 0", summed("!01 1 IDLE FS"))
    with pytest.raises(StageLostError, match="stalled"):
        desk.stage.move_to(10.0, desk.soon())
    desk.finish()


def test_an_unplugged_device_is_lost_and_the_port_is_let_go() -> None:
    desk = homed_desk()
    desk.expects("get pos", "OK IDLE -- 0")
    desk.expects("move abs 10000", "OK BUSY -- 0", UNPLUGGED)
    with pytest.raises(StageLostError, match="gone"):
        desk.stage.move_to(10.0, desk.soon())
    assert not desk.line.is_open
    with pytest.raises(StageLostError):
        desk.stage.where(desk.soon())
    desk.stage.stop()
    desk.finish()


def test_a_silent_device_is_asked_again_and_lost_after_a_second() -> None:
    desk = homed_desk()
    desk.expects("get pos")
    with pytest.raises(StageError, match="does not answer") as trouble:
        desk.stage.where(desk.soon(0.1))
    assert not isinstance(trouble.value, StageLostError)
    assert desk.stage.is_homed
    desk.expects("get pos")
    desk.expects("get pos")
    with pytest.raises(StageLostError, match="has not answered for"):
        desk.stage.where(desk.soon())
    desk.finish()


def test_a_device_that_falls_silent_in_motion_is_lost() -> None:
    desk = homed_desk()
    desk.expects("get pos", "OK IDLE -- 0")
    desk.expects("move abs 10000", "OK BUSY -- 0")
    desk.expects("get pos")
    desk.expects("get pos")
    with pytest.raises(StageLostError, match="has not answered for"):
        desk.stage.move_to(10.0, desk.soon())
    desk.finish()


# -- Stopping ---------------------------------------------------------------------------------


def test_a_stop_keeps_the_position() -> None:
    desk = homed_desk()
    desk.expects("stop", "OK BUSY -- 0")
    desk.expects("get pos", "OK BUSY NI 4000")
    desk.expects("get pos", "OK IDLE NI 4100")
    desk.expects("get pos", "OK IDLE NI 4100")
    desk.stage.stop()
    assert desk.stage.is_homed
    assert desk.stage.where(desk.soon()).position_mm == pytest.approx(4.1)
    desk.finish()


def test_a_stop_that_is_not_answered_is_sent_again() -> None:
    desk = homed_desk()
    desk.expects("stop")
    desk.expects("stop", "OK BUSY -- 0")
    desk.expects("get pos")
    desk.expects("get pos", "OK BUSY NI 4000")
    desk.expects("get pos", "OK IDLE NI 4000")
    desk.stage.stop()
    assert desk.stage.is_homed
    desk.finish()


@pytest.mark.fault("stop-while-silent")
def test_a_device_that_does_not_answer_is_not_stopped_for_long() -> None:
    desk = homed_desk()
    for _ in range(6):
        desk.expects("stop")
    begun = desk.clock.now()
    with pytest.raises(StageLostError, match="could not be stopped"):
        desk.stage.stop()
    desk.stage.close()
    assert desk.clock.now() - begun < 3.5
    desk.finish()


def test_a_device_that_falls_silent_while_it_is_stopped_is_lost() -> None:
    desk = homed_desk()
    desk.expects("stop", "OK BUSY -- 0")
    for _ in range(4):
        desk.expects("get pos")
    with pytest.raises(StageLostError, match="could not be stopped"):
        desk.stage.stop()
    desk.finish()


def test_a_lost_stage_is_stopped_all_the_same() -> None:
    desk = stalled_desk()
    desk.expects("stop")
    desk.expects("stop", "OK IDLE FS 0")
    desk.expects("stop", "OK IDLE FS 0")
    desk.stage.stop()
    desk.stage.close()
    assert not desk.line.is_open
    desk.finish()


def test_closing_stops_the_motion_and_lets_go_of_the_port() -> None:
    desk = homed_desk()
    desk.expects("stop", "OK BUSY -- 0")
    desk.expects("get pos", "OK IDLE NI 4100")
    desk.stage.close()
    assert not desk.line.is_open
    assert not desk.stage.is_homed
    desk.stage.close()
    desk.finish()


# -- Recovering -------------------------------------------------------------------------------


def test_a_sound_stage_is_left_as_it_is() -> None:
    desk = homed_desk()
    desk.expects("get pos", "OK IDLE -- 500")
    desk.stage.recover(desk.soon())
    assert desk.stage.is_homed
    desk.finish()


def test_a_stall_is_forgiven_once_and_told_the_second_time() -> None:
    desk = stalled_desk()
    desk.expects("", "OK IDLE FS 0")
    desk.expects_identification(flag="FS", position="500")
    desk.expects_homing()
    desk.expects("get pos", "OK IDLE FS 500")
    desk.stage.recover(desk.soon())
    assert desk.stage.is_homed
    with pytest.raises(StageLostError):
        desk.stage.where(desk.soon())
    for _ in range(2):
        with pytest.raises(StageError, match="second time: look at the rail"):
            desk.stage.recover(desk.soon())
    desk.finish()


def test_a_device_that_comes_back_as_another_is_not_touched() -> None:
    desk = stalled_desk()
    desk.expects("", "OK IDLE FS 0")
    desk.expects_identification(flag="FS", position="500", system_serial="777")
    with pytest.raises(StageError, match="is it another one"):
        desk.stage.recover(desk.soon())
    desk.finish()


def test_homing_falls_due_and_a_recovery_does_it() -> None:
    desk = homed_desk(rehome_every_s=60.0)
    assert not desk.stage.homing_is_due
    desk.clock.sleep_until(desk.clock.now() + 60.0)
    assert desk.stage.homing_is_due
    desk.expects("get pos", "OK IDLE -- 500")
    desk.expects_homing()
    desk.stage.recover(desk.soon())
    assert not desk.stage.homing_is_due
    desk.finish()
