"""Connecting to a scripted GRBL board."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from macontrol.config.model.errors import (
    BoardRestartedError,
    ConfigError,
    NoAnswerError,
    StageError,
    StageLostError,
)
from macontrol.testing import Answer, Exchange
from support.scripted_grbl import (
    AFTER_BANNER,
    BANNER,
    COMMENT,
    GARBLED_SETTINGS,
    LOCKED,
    MOVE,
    REOPENED,
    SETTINGS,
    SHORTENED_SETTINGS,
    Desk,
    greeting,
    status,
    with_setting,
)


@pytest.mark.fault("board-resets-on-open")
def test_connecting_reads_identity_and_settings() -> None:
    desk = Desk(*greeting())
    desk.stage.connect(desk.soon())
    desk.line.assert_consumed()
    identity = desk.stage.handshake.identity
    assert (identity.dialect, identity.version) == ("Grbl", "1.1h.20190830")
    parts = desk.stage.identity_parts
    assert parts["firmware"].startswith("Grbl 1.1h.20190830")
    assert "$130=100" in parts["settings"]
    description = desk.stage.description
    assert description.travel_mm == pytest.approx(96.0)  # minus a pull-off of 2 mm at both ends
    assert description.step_mm == pytest.approx(0.0125)
    assert description.speed_mm_per_s == pytest.approx(100.0)
    assert description.acceleration_mm_per_s2 == pytest.approx(500.0)
    assert [lines for _, lines in desk.stage.answer_times.samples] == pytest.approx([0.004] * 12)
    assert description.latency_s == pytest.approx(0.023)
    assert not desk.stage.is_homed


@pytest.mark.fault("computer-busy-while-timing")
def test_a_few_slow_answers_do_not_change_the_latency() -> None:
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


def test_boot_text_and_errors_before_the_banner_are_ignored() -> None:
    noise: list[Answer] = [
        b"",
        b"\xff\x00\x80",
        b"ets Jul 29 2019",
        b"error:7",
        (0.4, BANNER),
        LOCKED,
    ]
    desk = Desk((b"", noise), *AFTER_BANNER)
    desk.stage.connect(desk.soon())
    desk.line.assert_consumed()


@pytest.mark.fault("no-banner")
def test_a_board_that_does_not_restart_when_opened_is_reset() -> None:
    desk = Desk((b"?", [status("Idle", -30.0)]), (b"\x18", [BANNER, LOCKED]), *AFTER_BANNER)
    desk.stage.connect(desk.soon())
    desk.line.assert_consumed()


def test_a_board_locked_by_a_limit_is_reset() -> None:
    desk = Desk((b"?", []), (b"\x18", [BANNER, LOCKED]), *AFTER_BANNER)
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


def test_without_an_answer_connecting_fails_with_a_fix() -> None:
    desk = Desk(*[(b"?", []), (b"\x18", [])] * 2)
    with pytest.raises(NoAnswerError):
        desk.stage.connect(desk.soon())
    desk.line.assert_consumed()
    assert not desk.line.is_open


def test_connecting_ends_by_its_deadline() -> None:
    desk = Desk((b"?", []), (b"\x18", []))
    deadline = desk.soon(3.2)
    with pytest.raises(NoAnswerError):
        desk.stage.connect(deadline)
    assert desk.clock.now() <= deadline
    desk.line.assert_consumed()


def test_a_stage_that_is_not_connected_has_no_description_and_does_not_move() -> None:
    desk = Desk()
    with pytest.raises(StageError, match="connect first"):
        _ = desk.stage.description
    with pytest.raises(StageLostError):
        desk.stage.move_to(1.0, desk.soon())


@pytest.mark.fault("board-settings-contradict", "homing-too-slow")
@pytest.mark.parametrize(
    ("settings", "changes", "reason"),
    [
        (SETTINGS, {"travel_mm": 97.0}, r"stage\.travel_mm = 97 .* at most 96"),
        (SETTINGS, {"offset_mm": 96.0}, r"stage\.offset_mm = 96 leaves nothing"),
        (SETTINGS, {"speed_mm_per_s": 101.0}, r"stage\.speed_mm_per_s = 101 .* at most 100"),
        (SETTINGS, {"axis": "Z"}, r"has no \$102"),
        (with_setting(13, "1"), {}, r"set \$13=0"),
        (with_setting(22, "0"), {}, r"set \$22=1"),
        (with_setting(120, "0.000"), {}, r"has no \$120"),
        (with_setting(25, "1.000"), {}, r"462 minutes: .* \$25 = 1 mm/min .*homing_time_s"),
    ],
)
def test_a_config_that_contradicts_the_board_is_refused(
    settings: list[bytes], changes: dict[str, Any], reason: str
) -> None:
    desk = Desk(*greeting(settings=settings)[:6], **changes)
    with pytest.raises(ConfigError, match=reason):
        desk.stage.connect(desk.soon())
    desk.line.assert_consumed()
    assert not desk.line.is_open


@pytest.mark.fault("homing-too-slow")
def test_a_long_homing_is_accepted_if_it_is_configured() -> None:
    desk = Desk(*greeting(settings=with_setting(25, "1.000")), homing_time_s=3000.0)
    desk.stage.connect(desk.soon())
    assert desk.stage.handshake.axis.homing_time_s == 3000.0
    desk.line.assert_consumed()


@pytest.mark.fault("board-restarts-connecting")
@pytest.mark.parametrize("step", [2, 4, 7], ids=["$I", "$$", "comment"])
def test_a_restart_during_the_handshake_starts_it_over(step: int) -> None:
    script = greeting()
    start: list[Exchange] = [*script[:step], (script[step][0], [b"", BANNER, LOCKED])]
    desk = Desk(*start, *(script if step <= 4 else REOPENED)[1:])
    desk.stage.connect(desk.soon())
    desk.line.assert_consumed()


@pytest.mark.fault("board-restarts-connecting")
def test_a_board_that_keeps_restarting_is_refused() -> None:
    script = greeting()
    restarting: list[Exchange] = [script[1], (b"$I\n", [BANNER])]
    desk = Desk(script[0], *restarting * 3)
    with pytest.raises(BoardRestartedError):
        desk.stage.connect(desk.soon())
    desk.line.assert_consumed()


@pytest.mark.fault("settings-garbled")
@pytest.mark.parametrize("wrong", [GARBLED_SETTINGS, SHORTENED_SETTINGS, SETTINGS[:-1]])
def test_settings_garbled_once_are_read_again(wrong: Sequence[bytes]) -> None:
    script = greeting()
    desk = Desk(*script[:4], (b"$$\n", wrong), *script[4:])
    desk.stage.connect(desk.soon())
    assert desk.stage.description.travel_mm == pytest.approx(96.0)
    desk.line.assert_consumed()


@pytest.mark.fault("settings-garbled")
def test_settings_that_differ_in_every_reading_are_refused() -> None:
    script = greeting()
    other: Exchange = (b"$$\n", GARBLED_SETTINGS)
    desk = Desk(*script[:5], *[other, script[4]] * 2)
    with pytest.raises(StageError, match="other settings in every reading"):
        desk.stage.connect(desk.soon())
    desk.line.assert_consumed()


def test_settings_that_never_end_are_refused() -> None:
    script = greeting()
    desk = Desk(*script[:4], *[(b"$$\n", SETTINGS[:-1])] * 5)
    with pytest.raises(StageError, match="does not send its settings in time"):
        desk.stage.connect(desk.soon())
    desk.line.assert_consumed()


def test_a_latency_sample_is_as_long_as_a_move() -> None:
    assert len(COMMENT) == len(MOVE % b"-100.0000")
