"""Recovery of a scripted GRBL board."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from macontrol.config.model.errors import (
    StageBrokenError,
    StageError,
    StageLostError,
    StopRequestedError,
)
from macontrol.testing import UNPLUGGED, Exchange
from support.scripted_grbl import (
    BANNER,
    BUILD,
    COMMENT,
    GARBLED_SETTINGS,
    HOMING,
    LOCKED,
    MOVE,
    REOPENED,
    SETTINGS,
    SHORTENED_SETTINGS,
    Desk,
    greeting,
    homed_desk,
    status,
    with_setting,
)

ALARM_1 = (0.01, b"ALARM:1")


REQUEST = (0.5, b"[MSG:Reset to continue]")


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


def test_a_limit_alarm_is_cleared_by_a_reset_after_its_request() -> None:
    desk = homed_desk()
    trip(desk)
    # The board would ignore a reset before its request: the clock of the script shows the wait.
    desk.line.extend((b"", [REQUEST]), *RECOVERY)
    requested = desk.clock.now() + 0.5
    desk.stage.recover(desk.soon())
    assert desk.clock.now() > requested
    assert desk.stage.is_homed
    desk.line.assert_consumed()


def test_a_second_limit_alarm_is_not_tolerated() -> None:
    desk = homed_desk()
    trip(desk)
    desk.line.extend((b"", [REQUEST]), *RECOVERY)
    desk.stage.recover(desk.soon())
    trip(desk)
    with pytest.raises(StageError, match="check the limit switch"):
        desk.stage.recover(desk.soon())
    with pytest.raises(StageError, match="second time"):
        desk.stage.recover(desk.soon())


def test_two_limit_alarms_far_apart_are_tolerated() -> None:
    desk = homed_desk()
    for _ in range(2):
        trip(desk)
        desk.line.extend((b"", [REQUEST]), *RECOVERY)
        desk.stage.recover(desk.soon())
        desk.clock.sleep_until(desk.soon(601.0))
    desk.line.assert_consumed()


def test_after_a_reset_of_the_board_it_is_homed_again() -> None:
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


def test_a_ready_stage_is_not_homed_by_a_recovery() -> None:
    desk = homed_desk()
    desk.line.extend((b"?", [status("Idle", -30.0)]))
    desk.stage.recover(desk.soon())
    assert desk.stage.is_homed
    desk.line.assert_consumed()


def test_permission_to_home_is_asked_once() -> None:
    desk = homed_desk(homing="ask")
    trip(desk)
    desk.confirmed = False
    desk.line.extend((b"", [REQUEST]), *RECOVERY)
    desk.stage.recover(desk.soon())
    assert desk.stage.is_homed
    desk.line.assert_consumed()


def test_a_recovery_ends_on_a_stop_request() -> None:
    desk = homed_desk(opens=1)  # and never again
    desk.line.extend((b"?", [UNPLUGGED]))
    with pytest.raises(StageLostError):
        desk.stage.where(desk.soon())
    desk.refuses_to_open = True
    until = desk.soon(2.0)
    with pytest.raises(StopRequestedError):
        desk.stage.recover(desk.soon(60.0), lambda: desk.clock.now() < until)
    assert desk.clock.now() <= until + 0.2


def test_an_unplugged_board_is_opened_again_and_homed() -> None:
    desk = homed_desk(opens=2)
    desk.line.extend((b"?", [UNPLUGGED]))
    with pytest.raises(StageLostError):
        desk.stage.where(desk.soon())
    desk.line.extend(*REOPENED, *HOMING)
    desk.stage.recover(desk.soon())
    assert desk.stage.is_homed
    desk.line.assert_consumed()


def unplugged_desk() -> Desk:
    """A desk whose stage was homed and then unplugged."""
    desk = homed_desk(opens=2)
    desk.line.extend((b"?", [UNPLUGGED]))
    with pytest.raises(StageLostError):
        desk.stage.where(desk.soon())
    return desk


@pytest.mark.fault("answer-lost-connecting")
@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_few_lost_answers_do_not_delay_a_recovery(lost: int) -> None:
    desk = unplugged_desk()
    garbled: list[Exchange] = [(b"?", [status("Alarm", 0.0)]), (COMMENT, [b"ok", b"o\xffk"])]
    desk.line.extend(*REOPENED[:4], *garbled * lost, *REOPENED[4:], *HOMING)
    start = desk.clock.now()
    desk.stage.recover(desk.soon(3600.0))
    assert desk.clock.now() - start < 10.0
    assert desk.stage.is_homed
    desk.line.assert_consumed()


@pytest.mark.fault("answer-lost-connecting")
def test_many_lost_answers_end_a_recovery_soon() -> None:
    desk = unplugged_desk()
    garbled: list[Exchange] = [(b"?", [status("Alarm", 0.0)]), (COMMENT, [b"ok"])]
    desk.line.extend(*REOPENED[:4], *garbled * 4)
    start = desk.clock.now()
    with pytest.raises(StageError, match="did not answer 4 of 4 questions"):
        desk.stage.recover(desk.soon(3600.0))
    assert desk.clock.now() - start < 10.0
    desk.line.assert_consumed()


def test_a_handshake_within_a_long_recovery_has_30_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = unplugged_desk()
    left_s: list[float] = []

    def await_start(deadline_s: float) -> None:
        left_s.append(deadline_s - desk.clock.now())
        raise StageBrokenError("seen")

    monkeypatch.setattr(desk.stage.handshake, "await_start", await_start)
    with pytest.raises(StageBrokenError, match="seen"):
        desk.stage.recover(desk.soon(3600.0))
    assert left_s == pytest.approx([30.0])


@pytest.mark.fault("settings-garbled")
@pytest.mark.parametrize("wrong", [GARBLED_SETTINGS, SHORTENED_SETTINGS])
def test_settings_garbled_once_are_not_another_board(wrong: Sequence[bytes]) -> None:
    desk = unplugged_desk()
    desk.line.extend(*REOPENED[:3], (b"$$\n", wrong), *greeting()[4:], *HOMING)
    desk.stage.recover(desk.soon())
    assert desk.stage.is_homed
    desk.line.assert_consumed()


def test_another_board_in_its_place_is_refused_in_every_recovery() -> None:
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


def test_a_recovery_homes_when_homing_is_due() -> None:
    desk = homed_desk(rehome_every_s=60.0)
    assert not desk.stage.homing_is_due
    desk.clock.sleep_until(desk.soon(60.0))
    assert desk.stage.homing_is_due
    desk.line.extend((b"?", [status("Idle", -30.0)]), *HOMING)
    desk.stage.recover(desk.soon())
    assert desk.stage.is_homed
    assert not desk.stage.homing_is_due
    desk.line.assert_consumed()


def test_homing_is_never_due_if_it_is_off() -> None:
    desk = homed_desk(rehome_every_s="off")
    desk.clock.sleep_until(desk.soon(1e9))
    assert not desk.stage.homing_is_due
