"""The GRBL driver, by scripted dialogues that must be consumed whole."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan
from typing import Any

import pytest

from macontrol.config.model.errors import ConfigError, StageBrokenError, StageError, StageLostError
from support.scripted_grbl import (
    BANNER,
    BUILD,
    COMMENT,
    HOMING,
    LOCKED,
    MOVE,
    SETTINGS,
    Desk,
    greeting,
    homed_desk,
    status,
)
from support.scripted_stage import UNPLUGGED, Answer, Exchange

LATER = greeting()[1:]
"""What is said after a banner."""
LATER_ON = [*greeting()[:3], *greeting()[5:]]
"""All that is said to a board that is known already: it is asked for its settings but once."""


def with_setting(number: int, value: str) -> list[bytes]:
    old = b"$%d=" % number
    kept = [line for line in SETTINGS[:-1] if not line.startswith(old)]
    return [*kept, old + value.encode("ascii"), b"ok"]


# -- Connecting -------------------------------------------------------------------------------


@pytest.mark.fault("board-resets-on-open")
def test_connecting_to_a_board_that_resets_reads_what_it_is() -> None:
    desk = Desk(*greeting())
    desk.stage.connect(desk.soon())
    desk.line.assert_consumed()
    identity = desk.stage.identity
    assert (identity.dialect, identity.version) == ("Grbl", "1.1h.20190830")
    parts = desk.stage.identity_parts
    assert parts["firmware"].startswith("Grbl 1.1h.20190830")
    assert "$130=100" in parts["settings"]
    description = desk.stage.description
    assert description.travel_mm == pytest.approx(96.0)  # less a pull-off of 2 mm at both ends
    assert description.step_mm == pytest.approx(0.0125)
    assert description.speed_mm_per_s == pytest.approx(100.0)
    assert description.acceleration_mm_per_s2 == pytest.approx(500.0)
    assert [lines for _, lines in desk.stage.answer_times.samples] == pytest.approx([0.004] * 12)
    assert description.latency_s == pytest.approx(0.023)
    assert not desk.stage.is_homed


@pytest.mark.fault("computer-busy-while-timing")
def test_a_few_slow_answers_in_many_are_no_latency() -> None:
    script = greeting()
    script[-6:] = [
        (b"?", [(0.2, status("Alarm", 0.0))]),
        (COMMENT, [(0.3, b"ok"), b"ok"]),
    ] * 3
    desk = Desk(*script)
    desk.stage.connect(desk.soon())
    assert max(desk.stage.answer_times.samples)[-1] > 0.3
    assert desk.stage.description.latency_s == pytest.approx(0.023)
    desk.line.assert_consumed()


def test_boot_text_and_errors_before_the_banner_are_passed_over() -> None:
    junk: list[Answer] = [
        b"",
        b"\xff\x00\x80",
        b"ets Jul 29 2019",
        b"error:7",
        (0.4, BANNER),
        LOCKED,
    ]
    desk = Desk((b"", junk), *LATER)
    desk.stage.connect(desk.soon())
    desk.line.assert_consumed()


@pytest.mark.fault("no-banner")
def test_a_board_that_does_not_reset_when_opened_is_reset_once_it_answers() -> None:
    desk = Desk((b"?", [status("Idle", -30.0)]), (b"\x18", [BANNER, LOCKED]), *LATER)
    desk.stage.connect(desk.soon())
    desk.line.assert_consumed()


def test_a_board_locked_by_a_limit_answers_nothing_but_a_reset() -> None:
    desk = Desk((b"?", []), (b"\x18", [BANNER, LOCKED]), *LATER)
    desk.stage.connect(desk.soon())
    desk.line.assert_consumed()


@pytest.mark.fault("found-in-motion", "process-killed-in-motion")
def test_a_board_found_in_motion_is_stopped_before_it_is_reset() -> None:
    desk = Desk(
        (b"?", [status("Run", -30.0)]),
        (b"!", []),
        (b"?", [status("Hold:1", -31.0)]),
        (b"?", [status("Hold:0", -32.0)]),
        (b"\x18", [b"ok", BANNER]),
        *greeting(state="Idle")[1:],
    )
    desk.stage.connect(desk.soon())
    desk.line.assert_consumed()
    assert not desk.stage.is_homed


@pytest.mark.parametrize("state", ["Check", "Sleep", "Door:0", "Hold:0", "Home"])
def test_a_board_found_in_another_state_is_reset(state: str) -> None:
    desk = Desk((b"?", [status(state)]), (b"\x18", [BANNER]), *greeting(state="Idle")[1:])
    desk.stage.connect(desk.soon())
    desk.line.assert_consumed()


def test_a_port_where_nobody_answers_is_told_with_what_to_look_at() -> None:
    desk = Desk(*[(b"?", []), (b"\x18", [])] * 2)
    with pytest.raises(StageError, match=r"/dev/ttyTEST: no GRBL board answers at 115200 baud"):
        desk.stage.connect(desk.soon())
    desk.line.assert_consumed()
    assert not desk.line.is_open


def test_connecting_never_takes_longer_than_its_deadline() -> None:
    desk = Desk((b"?", []), (b"\x18", []))
    deadline = desk.soon(3.2)
    with pytest.raises(StageError, match="no GRBL board answers"):
        desk.stage.connect(deadline)
    assert desk.clock.now() <= deadline
    desk.line.assert_consumed()


def test_nothing_is_known_of_a_stage_that_is_not_connected() -> None:
    desk = Desk()
    with pytest.raises(StageError, match="connect first"):
        _ = desk.stage.description
    with pytest.raises(StageLostError, match="not connected"):
        desk.stage.move_to(1.0, desk.soon())


@pytest.mark.fault("board-settings-contradict", "homing-too-slow")
@pytest.mark.parametrize(
    ("settings", "changes", "complaint"),
    [
        (SETTINGS, {"travel_mm": 97.0}, r"stage\.travel_mm = 97 .* at most 96"),
        (SETTINGS, {"offset_mm": 96.0}, r"stage\.offset_mm = 96: nothing is left"),
        (SETTINGS, {"speed_mm_per_s": 101.0}, r"stage\.speed_mm_per_s = 101 .* at most 100"),
        (SETTINGS, {"axis": "Z"}, r"tells no \$102"),
        (with_setting(13, "1"), {}, r"set \$13=0"),
        (with_setting(22, "0"), {}, r"set \$22=1"),
        (with_setting(120, "0.000"), {}, r"tells no \$120"),
        (with_setting(25, "1.000"), {}, r"462 minutes: .* \$25 = 1 mm/min .*homing_time_s"),
    ],
)
def test_a_config_that_contradicts_the_board_is_refused(
    settings: list[bytes], changes: dict[str, Any], complaint: str
) -> None:
    desk = Desk(*greeting(settings=settings)[:6], **changes)
    with pytest.raises(ConfigError, match=complaint):
        desk.stage.connect(desk.soon())
    desk.line.assert_consumed()
    assert not desk.line.is_open


@pytest.mark.fault("homing-too-slow")
def test_a_homing_that_takes_very_long_can_be_asked_for() -> None:
    desk = Desk(*greeting(settings=with_setting(25, "1.000")), homing_time_s=3000.0)
    desk.stage.connect(desk.soon())
    assert desk.stage.axis.homing_time_s == 3000.0
    desk.line.assert_consumed()


# -- Homing -----------------------------------------------------------------------------------


def test_homing_makes_the_position_known() -> None:
    desk = homed_desk()
    assert desk.stage.is_homed
    desk.line.extend((b"?", [status("Idle", -2.0)]))
    arrival = desk.stage.where(desk.soon())
    assert (arrival.position_mm, arrival.arrived) == (0.0, True)
    desk.line.assert_consumed()


def test_a_build_that_can_homes_only_its_axis() -> None:
    script = greeting()
    script[2:4] = [(b"$I\n", [b"[VER:1.1h.20190830:]", b"[OPT:VH,15,128]", b"ok"])] * 2
    desk = Desk(*script, (b"$HX\n", [(2.0, b"ok")]), *HOMING[1:])
    desk.stage.connect(desk.soon())
    desk.stage.home(desk.soon())
    desk.line.assert_consumed()


def test_nothing_is_homed_without_leave() -> None:
    desk = Desk(*greeting(), homing="ask")
    desk.confirmed = False
    desk.stage.connect(desk.soon())
    with pytest.raises(StageError, match=r"nobody has agreed.*give --yes"):
        desk.stage.home(desk.soon())
    with pytest.raises(StageError, match="not homed"):
        desk.stage.move_to(1.0, desk.soon())
    desk.line.assert_consumed()


def test_homing_goes_on_when_somebody_agrees() -> None:
    desk = Desk(*greeting(), *HOMING, homing="ask")
    desk.stage.connect(desk.soon())
    desk.stage.home(desk.soon())
    desk.line.assert_consumed()


def test_homing_that_finds_no_switch_says_so_and_leaves_the_stage_lost() -> None:
    desk = Desk(*greeting(), (b"$H\n", [(4.0, b"ALARM:9")]), (b"\x18", []))
    desk.stage.connect(desk.soon())
    with pytest.raises(StageLostError, match="no limit switch was found"):
        desk.stage.home(desk.soon())
    with pytest.raises(StageLostError):
        desk.stage.move_to(1.0, desk.soon())
    desk.line.assert_consumed()


def test_homing_that_does_not_end_is_reset() -> None:
    desk = Desk(*greeting(), (b"$H\n", []), (b"\x18", []))
    desk.stage.connect(desk.soon())
    deadline = desk.soon(3.0)
    with pytest.raises(StageError, match="homing in time"):
        desk.stage.home(deadline)
    assert desk.clock.now() <= deadline
    desk.line.assert_consumed()


@pytest.mark.fault("homing-wrong-end")
def test_homing_to_the_other_end_than_told_is_refused() -> None:
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


def test_homing_is_broken_off_as_soon_as_nobody_waits_for_it() -> None:
    desk = Desk(*greeting(), (b"$H\n", [(20.0, b"ok")]), (b"\x18", []))
    desk.stage.connect(desk.soon())
    until = desk.soon(3.0)
    with pytest.raises(StageError, match="told to stop"):
        desk.stage.home(desk.soon(60.0), lambda: desk.clock.now() < until)
    assert desk.clock.now() <= until + 0.2
    with pytest.raises(StageLostError, match="homing failed"):
        desk.stage.move_to(1.0, desk.soon())


# -- Moving -----------------------------------------------------------------------------------


@pytest.mark.fault("one-motion-in-flight")
def test_a_move_is_over_when_its_dwell_is_answered() -> None:
    desk = homed_desk()
    answers = [(0.003, b"ok"), (0.28, b"ok")]
    desk.line.extend((MOVE % b"-12.0000", answers), (b"?", [status("Idle", -12.0)]))
    begun = desk.clock.now()
    arrival = desk.stage.move_to(10.0, desk.soon())
    assert arrival.arrived
    assert arrival.position_mm == pytest.approx(10.0)
    assert arrival.time_s - begun == pytest.approx(0.283)
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
def test_the_rail_lies_as_it_is_set(changes: dict[str, Any], position: float, sent: bytes) -> None:
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
    with pytest.raises(StageError, match="off the rail"):
        desk.stage.move_to(position, desk.soon())
    desk.line.assert_consumed()


def test_a_hair_of_rounding_beyond_the_rail_is_taken_back() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-98.0000", [b"ok", b"ok"]), (b"?", [status("Idle", -98.0)]))
    assert desk.stage.move_to(96.0000005, desk.soon()).position_mm == pytest.approx(96.0)
    desk.line.assert_consumed()


def test_a_refused_motion_is_an_error_and_nothing_is_owed_afterwards() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-12.0000", [b"error:20", b"ok"]), (b"\n", [b"ok"]))
    with pytest.raises(StageError, match="error:20"):
        desk.stage.move_to(10.0, desk.soon())
    desk.line.extend((b"?", [status("Idle", -2.0)]))
    assert desk.stage.where(desk.soon()).arrived  # it has not moved, and will not
    desk.line.extend((MOVE % b"-12.0000", [b"ok", b"ok"]), (b"?", [status("Idle", -12.0)]))
    assert desk.stage.move_to(10.0, desk.soon()).arrived
    desk.line.assert_consumed()


def test_a_move_that_is_late_goes_on_and_where_tells_how_it_went() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-52.0000", [b"ok"]))
    deadline = desk.soon(0.2)
    arrival = desk.stage.move_to(50.0, deadline)
    assert not arrival.arrived
    assert desk.clock.now() <= deadline
    with pytest.raises(StageError, match="still busy"):
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


@pytest.mark.fault("offset-move-never-ends")
def test_a_way_to_the_usable_rail_that_does_not_end_is_given_up_soon() -> None:
    desk = Desk(*greeting(), *HOMING, (MOVE % b"-7.0000", [b"ok"]), offset_mm=5.0)
    desk.stage.connect(desk.soon())
    begun = desk.clock.now()
    with pytest.raises(StageLostError, match="from its switch to the usable rail"):
        desk.stage.home(desk.soon(3600.0))
    assert desk.clock.now() - begun < 5.0
    desk.line.assert_consumed()


@pytest.mark.fault("stray-ok")
def test_an_ok_that_was_garbled_does_not_hold_the_stage_up() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-12.0000", [b"ok", b"o\xffk"]))
    assert not desk.stage.move_to(10.0, desk.soon(0.5)).arrived
    desk.line.extend((b"?", [status("Idle", -12.0)]))
    arrival = desk.stage.where(desk.soon(0.5))
    assert arrival.arrived
    assert arrival.position_mm == pytest.approx(10.0)
    desk.line.assert_consumed()


def test_an_idle_board_that_has_not_begun_to_move_is_not_taken_for_standing() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-52.0000", []))
    assert not desk.stage.move_to(50.0, desk.soon(0.01)).arrived
    desk.line.extend((b"?", [status("Idle", -2.0)]))
    assert not desk.stage.where(desk.soon(0.5)).arrived
    with pytest.raises(StageError, match="still busy"):
        desk.stage.move_to(1.0, desk.soon())
    desk.line.extend((b"?", [b"ok", status("Run", -2.5)]))
    assert not desk.stage.where(desk.soon(0.5)).arrived
    desk.line.extend((b"?", [b"ok", status("Idle", -52.0)]))
    assert desk.stage.where(desk.soon(0.5)).arrived
    desk.line.assert_consumed()


@pytest.mark.fault("move-not-started")
def test_a_move_that_is_neither_begun_nor_answered_loses_the_stage_as_it_may_still_come() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-52.0000", []))
    assert not desk.stage.move_to(50.0, desk.soon(0.01)).arrived
    for _ in range(2):
        desk.line.extend((b"?", [status("Idle", -2.0)]))
        assert not desk.stage.where(desk.soon(0.5)).arrived
        desk.clock.sleep_until(desk.soon(0.4))
    desk.line.extend((b"?", [status("Idle", -2.0)]))
    with pytest.raises(StageLostError, match="neither begun nor refused"):
        desk.stage.where(desk.soon(0.5))
    with pytest.raises(StageLostError):
        desk.stage.move_to(1.0, desk.soon())
    desk.line.assert_consumed()


@pytest.mark.fault("home-moved")
@pytest.mark.parametrize("home_mm", [1e11, -2e6])
def test_a_home_where_no_steps_can_be_counted_is_refused(home_mm: float) -> None:
    ending = (b"?", [status("Idle", home_mm)])
    desk = Desk(*greeting(), (b"$H\n", [b"ok"]), ending, ending, (b"\x18", []))
    desk.stage.connect(desk.soon())
    with pytest.raises(StageError, match="do not resolve a step"):
        desk.stage.home(desk.soon())
    assert not desk.stage.is_homed
    desk.line.assert_consumed()


@pytest.mark.fault("home-moved")
def test_a_home_that_is_elsewhere_than_before_is_refused() -> None:
    desk = homed_desk()
    ending = (b"?", [status("Idle", -40.0)])
    desk.line.extend((b"$H\n", [b"ok"]), ending, ending, (b"\x18", []))
    with pytest.raises(StageError, match=r"-40\.000 mm, and the time before it said -2\.000 mm"):
        desk.stage.home(desk.soon())
    assert not desk.stage.is_homed
    desk.line.assert_consumed()


@pytest.mark.fault("stop-while-silent")
def test_a_board_that_does_not_answer_is_not_stopped_for_long() -> None:
    desk = moving_desk()
    desk.line.extend((b"!", []), (b"?", []), (b"\x18", []), (b"!\x18", []))
    begun = desk.clock.now()
    with pytest.raises(StageLostError, match="could not be stopped"):
        desk.stage.stop()
    desk.stage.close()
    assert desk.clock.now() - begun < 1.5
    desk.line.assert_consumed()


@pytest.mark.fault("confirmed-without-position")
def test_a_confirmed_move_whose_place_is_not_told_is_no_arrival() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-12.0000", [b"ok", b"ok"]), (b"?", []))
    assert not desk.stage.move_to(10.0, desk.soon(0.1)).arrived
    desk.line.assert_consumed()


def test_an_ok_that_came_from_elsewhere_is_not_taken_for_an_arrival() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-12.0000", [b"ok", b"ok"]), (b"?", [status("Run", -5.0)]))
    arrival = desk.stage.move_to(10.0, desk.soon(0.5))
    assert not arrival.arrived
    assert arrival.position_mm == pytest.approx(3.0)
    with pytest.raises(StageError, match="still busy"):
        desk.stage.move_to(20.0, desk.soon(0.5))
    desk.line.assert_consumed()


def test_the_report_of_an_earlier_question_is_not_taken_for_todays() -> None:
    desk = moving_desk()
    desk.line.extend((b"?", [(0.5, status("Run", -20.0))]))
    with pytest.raises(StageError, match="does not answer"):
        desk.stage.where(desk.soon(0.1))
    desk.line.extend((b"", [(1.0, b"ok")]))
    desk.clock.sleep_until(desk.soon(2.0))
    desk.line.extend((b"?", [status("Idle", -92.0)]))
    assert desk.stage.where(desk.soon(1.0)).position_mm == pytest.approx(90.0)
    desk.line.assert_consumed()


def test_the_report_of_an_earlier_question_is_fetched_before_another_is_asked() -> None:
    desk = homed_desk()
    desk.line.extend((b"?", [(0.5, status("Run", -2.0))]))
    with pytest.raises(StageError, match="does not answer"):
        desk.stage.where(desk.soon(0.1))
    desk.line.extend((b"\n", [b"ok"]), (b"?", [status("Idle", -2.0)]))
    assert desk.stage.where(desk.soon(1.0)).arrived
    desk.line.assert_consumed()


def test_a_board_is_asked_where_it_stands_before_a_move_unless_it_has_just_said_so() -> None:
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
    ("report", "error", "told"),
    [
        (status("Idle", -52.0), StageLostError, "moved by somebody else"),
        (status("Idle", -4.0), StageLostError, "moved by somebody else"),
        (status("Jog", -52.0), StageLostError, "moved by somebody else"),
        (status("Run", -7.0), StageError, r"says Run at 5\.0000 mm.*: it moves"),
        (status("Hold:0", -7.0), StageError, "held up"),
        (status("Alarm", -7.0), StageLostError, "locked by an alarm"),
        (b"\xff", StageError, "does not answer"),
    ],
)
def test_a_board_that_does_not_stand_where_it_was_left_is_not_sent_anywhere(
    report: bytes, error: type[StageError], told: str
) -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-7.0000", [b"ok", b"ok"]), (b"?", [status("Idle", -7.0)]))
    assert desk.stage.move_to(5.0, desk.soon()).arrived
    desk.clock.sleep_until(desk.soon(0.1))
    desk.line.extend((b"?", [report]))  # and no move
    with pytest.raises(error, match=told):
        desk.stage.move_to(7.5, desk.soon(0.1))
    desk.line.assert_consumed()


def test_a_late_move_that_has_ended_meanwhile_is_looked_at_before_the_next() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-52.0000", [b"ok", (0.5, b"ok")]))
    assert not desk.stage.move_to(50.0, desk.soon(0.1)).arrived
    desk.clock.sleep_until(desk.soon(0.6))
    desk.line.extend((b"?", [status("Idle", -52.0)]))  # and no move: 0 mm was said last
    with pytest.raises(StageError, match=r"is at 50\.0000 mm, and was last said to be at 0\.0000"):
        desk.stage.move_to(2.0, desk.soon())
    desk.line.assert_consumed()


@pytest.mark.fault("confirmed-without-position")
def test_an_ok_alone_is_no_arrival_even_if_there_is_no_time_for_more() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-4.5000", [(0.098, b"ok"), (0.002, b"ok")]))
    arrival = desk.stage.move_to(2.5, desk.soon(0.1))
    assert (arrival.position_mm, arrival.arrived) == (0.0, False)
    desk.line.assert_consumed()
    # It may still be about to move: it is taken for standing neither now nor later.
    desk.line.extend((b"?", [status("Idle", -2.0)]))
    with pytest.raises(StageError, match=r"was to end at 2\.5000 mm.* about to"):
        desk.stage.move_to(1.0, desk.soon())
    for _ in range(2):
        desk.line.extend((b"?", [status("Idle", -2.0)]))
        assert not desk.stage.where(desk.soon(0.1)).arrived
        desk.clock.sleep_until(desk.soon(0.5))
    desk.line.extend((b"?", [status("Idle", -2.0)]))
    with pytest.raises(StageLostError, match="neither begun nor refused"):
        desk.stage.where(desk.soon(0.5))


@pytest.mark.fault("stray-ok")
def test_a_stand_elsewhere_than_at_the_target_is_no_arrival() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-12.0000", [b"ok", b"ok"]), (b"?", [status("Idle", -2.0)]))
    assert not desk.stage.move_to(10.0, desk.soon(0.5)).arrived
    desk.line.extend((b"?", [status("Idle", -12.0)]))
    assert desk.stage.where(desk.soon(0.5)).arrived  # only now was it there
    desk.line.assert_consumed()


def test_settling_is_part_of_a_move() -> None:
    desk = homed_desk(settling_s=0.05)
    desk.line.extend((MOVE % b"-12.0000", [b"ok", b"ok"]), (b"?", [status("Idle", -12.0)]))
    begun = desk.clock.now()
    arrival = desk.stage.move_to(10.0, desk.soon())
    assert arrival.time_s - begun == pytest.approx(0.052)
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


def test_a_board_that_reports_work_positions_is_understood_by_its_offset() -> None:
    desk = homed_desk()
    desk.line.extend((b"?", [work_status()]), (b"?", [work_status(-5.0)]))
    for _ in range(8):
        desk.line.append((b"?", [work_status()]))
    desk.line.append((b"?", [work_status(-5.0)]))  # what was told once may have been garbled
    assert desk.stage.where(desk.soon()).position_mm == pytest.approx(0.0)
    desk.line.extend((b"?", [work_status()]))
    assert desk.stage.where(desk.soon()).position_mm == pytest.approx(0.0)
    desk.line.assert_consumed()


def work_status(offset: float | None = None) -> bytes:
    """A report of 3 mm in the work coordinates, and where their zero is if it tells."""
    told = b"" if offset is None else b"|WCO:%.3f,0.000,0.000" % offset
    return b"<Idle|WPos:3.000,0.000,0.000|FS:0,0" + told + b">"


@pytest.mark.fault("report-digit-garbled")
def test_one_garbled_digit_of_an_offset_moves_no_origin() -> None:
    desk = Desk(*greeting(), (b"$H\n", [b"ok"]))
    for offset in (-5.0, None, -11.0, None, -5.0, None, -5.0, None):
        desk.line.append((b"?", [work_status(offset)]))
    desk.stage.connect(desk.soon())
    desk.stage.home(desk.soon())
    desk.line.extend((MOVE % b"-12.0000", [b"ok", b"ok"]), (b"?", [status("Idle", -12.0)]))
    assert desk.stage.move_to(10.0, desk.soon()).arrived
    desk.line.assert_consumed()


@pytest.mark.fault("report-digit-garbled")
def test_one_garbled_digit_after_homing_moves_no_origin() -> None:
    desk = Desk(*greeting(), (b"$H\n", [b"ok"]), offset_mm=5.0)
    for x in (-8.0, -2.0, -2.0):
        desk.line.append((b"?", [status("Idle", x)]))
    desk.line.append((MOVE % b"-7.0000", [b"ok", b"ok"]))
    desk.line.append((b"?", [status("Idle", -7.0)]))
    desk.stage.connect(desk.soon())
    desk.stage.home(desk.soon())
    assert desk.stage.is_homed
    desk.line.assert_consumed()
    # And so the next homing is held against where it really ended.
    desk.line.extend(*HOMING, (MOVE % b"-7.0000", [b"ok", b"ok"]), (b"?", [status("Idle", -7.0)]))
    desk.stage.home(desk.soon())
    desk.line.assert_consumed()


@pytest.mark.fault("report-digit-garbled")
def test_a_board_that_never_says_the_same_place_twice_after_homing_is_refused() -> None:
    desk = Desk(*greeting(), (b"$H\n", [b"ok"]))
    for x in (-2.0, -3.0, -2.0, -3.0, -2.0):
        desk.line.append((b"?", [status("Idle", x)]))
    desk.line.append((b"\x18", []))
    desk.stage.connect(desk.soon())
    with pytest.raises(StageError, match="twice in a row"):
        desk.stage.home(desk.soon())
    assert not desk.stage.is_homed
    desk.line.assert_consumed()


@pytest.mark.fault("report-without-axis")
@pytest.mark.parametrize("machine", [b"MPos:0.000|", b""])
def test_a_report_that_leaves_out_an_axis_is_understood_by_the_rest_of_it(machine: bytes) -> None:
    def told(state: bytes, rest: bytes) -> bytes:
        return b"<" + state + b"|" + rest + b">"

    full = b"MPos:0.000,-2.000,0.000|WCO:0.000,0.000,0.000"
    settings = [line.replace(b"0=", b"1=") if line[1:2] == b"1" else line for line in SETTINGS]
    script = greeting(settings=[*SETTINGS[:-1], *settings[-5:]])
    desk = Desk(
        *[(sent, [told(b"Alarm", full)] if sent == b"?" else said) for sent, said in script],
        (b"$H\n", [b"ok"]),
        *[(b"?", [told(b"Idle", full)])] * 2,
        axis="Y",
    )
    desk.stage.connect(desk.soon())
    desk.stage.home(desk.soon())
    desk.line.extend((b"?", [told(b"Idle", machine + b"WPos:0.000,-2.000,0.000")]))
    assert desk.stage.where(desk.soon()).position_mm == pytest.approx(0.0)
    desk.line.extend((b"?", [told(b"Idle", machine + b"WPos:0.000")]))
    with pytest.raises(StageError, match="does not answer"):
        desk.stage.where(desk.soon(0.1))


# -- Losing it --------------------------------------------------------------------------------


def test_a_banner_in_mid_run_loses_the_stage() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-12.0000", [b"ok", b"", BANNER, LOCKED]))
    with pytest.raises(StageLostError, match="reset in mid-run"):
        desk.stage.move_to(10.0, desk.soon())
    assert not desk.stage.is_homed
    with pytest.raises(StageLostError, match="recovered before it moves"):
        desk.stage.move_to(10.0, desk.soon())
    with pytest.raises(StageLostError):
        desk.stage.where(desk.soon())


def test_a_banner_between_two_moves_is_seen_before_the_next() -> None:
    desk = homed_desk()
    desk.line.extend((b"", [BANNER]))
    desk.clock.sleep_until(desk.soon(1.0))
    with pytest.raises(StageLostError, match="reset in mid-run"):
        desk.stage.move_to(10.0, desk.soon())
    desk.line.assert_consumed()


def test_a_report_of_alarm_loses_the_stage_even_if_its_line_was_missed() -> None:
    desk = homed_desk()
    desk.line.extend((b"?", [status("Alarm", -30.0)]))
    with pytest.raises(StageLostError, match="locked by an alarm"):
        desk.stage.where(desk.soon())
    desk.line.assert_consumed()


@pytest.mark.parametrize("x", [0.0, -22.1, 3.0])
def test_a_board_that_is_where_it_was_never_sent_is_lost(x: float) -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-22.0000", [b"ok", b"ok"]), (b"?", [status("Idle", -22.0)]))
    assert desk.stage.move_to(20.0, desk.soon()).arrived
    desk.line.extend((MOVE % b"-12.0000", [b"ok", b"ok"]), (b"?", [status("Idle", x)]))
    with pytest.raises(StageLostError, match="never sent"):
        desk.stage.move_to(10.0, desk.soon())
    assert not desk.stage.is_homed


@pytest.mark.fault("hold-by-hand")
@pytest.mark.parametrize("state", ["Hold:0", "Door:1", "Sleep"])
def test_a_board_that_is_held_up_by_hand_is_told_and_is_not_lost(state: str) -> None:
    desk = homed_desk()
    desk.line.extend((b"?", [status(state, -2.0)]))
    with pytest.raises(StageError, match=state[:4]):
        desk.stage.where(desk.soon())
    desk.line.extend((b"?", [status("Idle", -2.0)]))
    assert desk.stage.where(desk.soon()).arrived
    desk.line.assert_consumed()


@pytest.mark.fault("slow-answers")
def test_a_board_that_answers_late_again_and_again_is_not_silent() -> None:
    desk = homed_desk()
    for _ in range(5):
        desk.line.extend((b"?", [(0.5, status("Idle", -2.0))]))
        with pytest.raises(StageError, match="does not answer"):
            desk.stage.where(desk.soon(0.1))
        desk.clock.sleep_until(desk.soon(0.6))
    assert desk.stage.is_homed


def test_a_board_that_falls_silent_is_lost_after_a_second() -> None:
    desk = homed_desk()
    desk.line.extend((b"?", []))
    with pytest.raises(StageError, match="does not answer") as first:
        desk.stage.where(desk.soon(0.3))
    assert not isinstance(first.value, StageLostError)
    desk.line.extend((b"\n", []))
    with pytest.raises(StageLostError, match="has not answered for"):
        desk.stage.where(desk.soon(0.8))


def test_an_unplugged_board_is_closed_at_once() -> None:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-12.0000", [b"ok", UNPLUGGED]))
    with pytest.raises(StageLostError, match="gone"):
        desk.stage.move_to(10.0, desk.soon())
    assert not desk.line.is_open
    with pytest.raises(StageLostError, match=r"^/dev/ttyTEST: the port is gone; it must be"):
        desk.stage.move_to(10.0, desk.soon())


# -- Stopping ---------------------------------------------------------------------------------


def moving_desk() -> Desk:
    desk = homed_desk()
    desk.line.extend((MOVE % b"-92.0000", [b"ok"]))
    assert not desk.stage.move_to(90.0, desk.soon(0.1)).arrived
    return desk


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


def test_a_stop_with_an_open_door_waits_for_nothing() -> None:
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


def test_a_stop_at_a_stand_sends_nothing_but_a_question() -> None:
    desk = homed_desk()
    desk.line.extend((b"?", [status("Idle", -2.0)]))
    desk.stage.stop()
    desk.line.assert_consumed()


@pytest.mark.fault("confirmed-without-position")
def test_a_stop_drops_a_move_that_has_not_begun_though_it_was_confirmed() -> None:
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


def test_closing_stops_first_and_lets_go_of_the_port_in_any_case() -> None:
    desk = moving_desk()
    desk.line.extend((b"!", []), (b"?", [UNPLUGGED]))
    desk.stage.close()
    assert not desk.line.is_open
    with pytest.raises(StageLostError, match="closed"):
        desk.stage.move_to(1.0, desk.soon())
    desk.line.assert_consumed()


# -- Recovering -------------------------------------------------------------------------------

ALARM_1 = (0.01, b"ALARM:1")
CALL = (0.5, b"[MSG:Reset to continue]")


def trip(desk: Desk) -> None:
    desk.clock.sleep_until(desk.soon(0.1))
    desk.line.extend((b"?", [status("Idle", -2.0)]), (MOVE % b"-12.0000", [b"ok", ALARM_1]))
    with pytest.raises(StageLostError, match="limit switch"):
        desk.stage.move_to(10.0, desk.soon())


RECOVERY = [
    (b"\x18", [b"ok", b"", BANNER, LOCKED]),
    (b"?", [status("Alarm", -12.0)]),
    (b"$I\n", BUILD),
    (b"$$\n", SETTINGS),
    *HOMING,
]


def test_a_limit_alarm_is_cleared_by_a_reset_that_waits_to_be_called_for() -> None:
    desk = homed_desk()
    trip(desk)
    # The board would swallow a reset before its call: the script's clock tells that it waited.
    desk.line.extend((b"", [CALL]), *RECOVERY)
    called = desk.clock.now() + 0.5
    desk.stage.recover(desk.soon())
    assert desk.clock.now() > called
    assert desk.stage.is_homed
    desk.line.assert_consumed()


def test_a_second_limit_alarm_is_not_forgiven() -> None:
    desk = homed_desk()
    trip(desk)
    desk.line.extend((b"", [CALL]), *RECOVERY)
    desk.stage.recover(desk.soon())
    trip(desk)
    with pytest.raises(StageError, match="second time: check the switch"):
        desk.stage.recover(desk.soon())
    with pytest.raises(StageError, match="second time"):
        desk.stage.recover(desk.soon())


def test_two_limit_alarms_far_apart_are_both_forgiven() -> None:
    desk = homed_desk()
    for _ in range(2):
        trip(desk)
        desk.line.extend((b"", [CALL]), *RECOVERY)
        desk.stage.recover(desk.soon())
        desk.clock.sleep_until(desk.soon(601.0))
    desk.line.assert_consumed()


def test_after_a_board_reset_it_is_homed_again() -> None:
    desk = homed_desk()
    desk.line.extend((b"?", [BANNER, LOCKED]))
    with pytest.raises(StageLostError):
        desk.stage.where(desk.soon())
    desk.line.extend(
        (b"?", [status("Alarm", 0.0)]),
        (b"\x18", [BANNER, LOCKED]),
        (b"?", [status("Alarm", 0.0)]),
        *RECOVERY[2:],
    )
    desk.stage.recover(desk.soon())
    assert desk.stage.is_homed
    desk.line.assert_consumed()


def test_a_stage_that_is_fine_is_left_alone() -> None:
    desk = homed_desk()
    desk.line.extend((b"?", [status("Idle", -30.0)]))
    desk.stage.recover(desk.soon())
    assert desk.stage.is_homed
    desk.line.assert_consumed()


def test_who_has_agreed_to_homing_is_not_asked_again() -> None:
    desk = homed_desk(homing="ask")
    trip(desk)
    desk.confirmed = False
    desk.line.extend((b"", [CALL]), *RECOVERY)
    desk.stage.recover(desk.soon())
    assert desk.stage.is_homed
    desk.line.assert_consumed()


def test_a_recovery_ends_as_soon_as_nobody_waits_for_it() -> None:
    desk = homed_desk(opens=1)  # and never again
    desk.line.extend((b"?", [UNPLUGGED]))
    with pytest.raises(StageLostError):
        desk.stage.where(desk.soon())
    desk.refuses_to_open = True
    until = desk.soon(2.0)
    with pytest.raises(StageError, match="told to stop"):
        desk.stage.recover(desk.soon(60.0), lambda: desk.clock.now() < until)
    assert desk.clock.now() <= until + 0.2


def test_an_unplugged_board_is_opened_again_and_homed() -> None:
    desk = homed_desk(opens=2)
    desk.line.extend((b"?", [UNPLUGGED]))
    with pytest.raises(StageLostError):
        desk.stage.where(desk.soon())
    desk.line.extend(*LATER_ON, *HOMING)
    desk.stage.recover(desk.soon())
    assert desk.stage.is_homed
    desk.line.assert_consumed()


def unplugged_desk() -> Desk:
    """A desk whose stage was homed, and whose cable was pulled then."""
    desk = homed_desk(opens=2)
    desk.line.extend((b"?", [UNPLUGGED]))
    with pytest.raises(StageLostError):
        desk.stage.where(desk.soon())
    return desk


@pytest.mark.fault("answer-lost-connecting")
@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_few_answers_lost_while_it_is_met_again_hold_nobody_up(lost: int) -> None:
    desk = unplugged_desk()
    spoilt: list[Exchange] = [(b"?", [status("Alarm", 0.0)]), (COMMENT, [b"ok", b"o\xffk"])]
    desk.line.extend(*LATER_ON[:4], *spoilt * lost, *LATER_ON[4:], *HOMING)
    begun = desk.clock.now()
    desk.stage.recover(desk.soon(3600.0))
    assert desk.clock.now() - begun < 10.0
    assert desk.stage.is_homed
    desk.line.assert_consumed()


@pytest.mark.fault("answer-lost-connecting")
def test_a_board_that_leaves_questions_unanswered_is_told_soon() -> None:
    desk = unplugged_desk()
    spoilt: list[Exchange] = [(b"?", [status("Alarm", 0.0)]), (COMMENT, [b"ok"])]
    desk.line.extend(*LATER_ON[:4], *spoilt * 4)
    begun = desk.clock.now()
    with pytest.raises(StageError, match=r"has left 4 of 4 questions unanswered"):
        desk.stage.recover(desk.soon(3600.0))
    assert desk.clock.now() - begun < 10.0
    desk.line.assert_consumed()


def test_a_recovery_that_may_take_an_hour_leaves_half_a_minute_to_meet_the_board(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = unplugged_desk()
    left_s: list[float] = []

    def greet(deadline_s: float) -> None:
        left_s.append(deadline_s - desk.clock.now())
        raise StageBrokenError("seen enough")

    monkeypatch.setattr(desk.stage, "_greet", greet)
    with pytest.raises(StageBrokenError, match="seen enough"):
        desk.stage.recover(desk.soon(3600.0))
    assert left_s == pytest.approx([30.0])


@pytest.mark.fault("board-restarts-connecting")
@pytest.mark.parametrize("asked", [2, 4, 7], ids=["$I", "$$", "comment"])
def test_a_board_that_starts_anew_while_it_is_met_is_met_again(asked: int) -> None:
    script = greeting()
    begun: list[Exchange] = [*script[:asked], (script[asked][0], [b"", BANNER, LOCKED])]
    desk = Desk(*begun, *(script if asked <= 4 else LATER_ON)[1:])
    desk.stage.connect(desk.soon())
    desk.line.assert_consumed()


@pytest.mark.fault("board-restarts-connecting")
def test_a_board_that_starts_anew_again_and_again_is_told() -> None:
    script = greeting()
    restarting: list[Exchange] = [script[1], (b"$I\n", [BANNER])]
    desk = Desk(script[0], *restarting * 3)
    with pytest.raises(StageError, match="was reset while it was being asked"):
        desk.stage.connect(desk.soon())
    desk.line.assert_consumed()


GARBLED = [line.replace(b"$130=100", b"$130=900") for line in SETTINGS]
CUT_SHORT = [*SETTINGS[:4], b"ok"]


@pytest.mark.fault("settings-garbled")
@pytest.mark.parametrize("wrong", [GARBLED, CUT_SHORT, SETTINGS[:-1]])
def test_settings_that_were_garbled_once_are_read_again(wrong: Sequence[bytes]) -> None:
    script = greeting()
    desk = Desk(*script[:4], (b"$$\n", wrong), *script[4:])
    desk.stage.connect(desk.soon())
    assert desk.stage.description.travel_mm == pytest.approx(96.0)
    desk.line.assert_consumed()


@pytest.mark.fault("settings-garbled")
@pytest.mark.parametrize("wrong", [GARBLED, CUT_SHORT])
def test_settings_that_were_garbled_once_do_not_make_another_board(wrong: Sequence[bytes]) -> None:
    desk = unplugged_desk()
    desk.line.extend(*LATER_ON[:3], (b"$$\n", wrong), *greeting()[4:], *HOMING)
    desk.stage.recover(desk.soon())
    assert desk.stage.is_homed
    desk.line.assert_consumed()


@pytest.mark.fault("settings-garbled")
def test_a_board_that_never_tells_the_same_settings_twice_is_refused() -> None:
    script = greeting()
    other: Exchange = (b"$$\n", GARBLED)
    desk = Desk(*script[:5], *[other, script[4]] * 2)
    with pytest.raises(StageError, match="something else every time"):
        desk.stage.connect(desk.soon())
    desk.line.assert_consumed()


def test_a_board_that_does_not_tell_its_settings_is_told_so() -> None:
    script = greeting()
    desk = Desk(*script[:4], *[(b"$$\n", SETTINGS[:-1])] * 5)
    with pytest.raises(StageError, match="does not tell its settings in time"):
        desk.stage.connect(desk.soon())
    desk.line.assert_consumed()


def test_another_board_in_its_place_is_refused_for_good() -> None:
    desk = homed_desk(opens=2)
    desk.line.extend((b"?", [UNPLUGGED]))
    with pytest.raises(StageLostError):
        desk.stage.where(desk.soon())
    other = greeting(settings=with_setting(100, "160.000"))
    desk.line.extend(*other[:3], *other[4:6])
    with pytest.raises(StageError, match=r"other settings \(\$100\)"):
        desk.stage.recover(desk.soon())
    with pytest.raises(StageError, match="other settings"):
        desk.stage.recover(desk.soon())
    desk.line.assert_consumed()


def test_homing_falls_due_and_a_recovery_does_it() -> None:
    desk = homed_desk(rehome_every_s=60.0)
    assert not desk.stage.homing_is_due
    desk.clock.sleep_until(desk.soon(60.0))
    assert desk.stage.homing_is_due
    desk.line.extend((b"?", [status("Idle", -30.0)]), *HOMING)
    desk.stage.recover(desk.soon())
    assert desk.stage.is_homed
    assert not desk.stage.homing_is_due
    desk.line.assert_consumed()


def test_homing_never_falls_due_where_it_is_off() -> None:
    desk = homed_desk(rehome_every_s="off")
    desk.clock.sleep_until(desk.soon(1e9))
    assert not desk.stage.homing_is_due


def test_a_latency_sample_is_as_long_as_a_move() -> None:
    assert len(COMMENT) == len(MOVE % b"-100.0000")
