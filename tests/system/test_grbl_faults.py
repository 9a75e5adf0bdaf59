"""Faults that only a GRBL stage can have, over the wire: recover, or report the reason."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from macontrol.config.model.errors import StageError, StageLostError
from macontrol.hal.stages.grbl.driver import GrblStage
from macontrol.sim.bench.boards.grbl.board import VirtualGrbl
from support.emulated_stages import CLOCK, GrblRig, grbl_rig, rest_mm, soon
from support.scripted_stage import stage_settings
from support.waiting import wait_until

pytestmark = pytest.mark.any_user


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[GrblRig]:
    with grbl_rig(tmp_path / "tty") as rig:
        yield rig


@pytest.fixture
def wire(rig: GrblRig, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """All traffic on the wire, in both directions and in order."""
    seen: list[bytes] = []
    receive, transmit = rig.board._receive, rig.board._transmit

    def take(data: bytes) -> None:
        seen.extend(bytes([byte]) for byte in data if byte < 0x20 or byte == ord("?"))
        receive(data)

    def send(data: bytes, delay_s: float = 0.0) -> None:
        seen.append(data.strip())
        transmit(data, delay_s)

    monkeypatch.setattr(rig.board, "_receive", take)
    monkeypatch.setattr(rig.board, "_transmit", send)
    return seen


@pytest.mark.fault("text-before-banner")
def test_boot_text_noise_and_errors_before_the_banner_are_ignored(rig: GrblRig) -> None:
    rig.stage.close()
    rig.board.boot_text = b"\xff\x00\x80rst:0x1 (POWERON)\r\n\r\nerror:7\r\nok\r\n<Idle|MPo"
    rig.stage.connect(soon())
    rig.stage.home(soon())
    rig.assert_works()


@pytest.mark.fault("limit-alarm-or-stall")
def test_a_limit_alarm_is_tolerated_once(rig: GrblRig) -> None:
    rig.during_next_motion(rig.board.trip_limit)
    with pytest.raises(StageLostError, match="ALARM:1"):
        rig.stage.move_to(50.0, soon())
    rig.assert_refuses_to_move()
    rig.stage.recover(soon())
    rig.assert_works()
    rig.during_next_motion(rig.board.trip_limit)
    with pytest.raises(StageLostError, match="ALARM:1"):
        rig.stage.move_to(50.0, soon())
    with pytest.raises(StageError, match="check the limit switch and its wiring"):
        rig.stage.recover(soon())


@pytest.mark.fault("reset-swallowed")
def test_a_reset_is_not_sent_before_its_request(rig: GrblRig, wire: list[bytes]) -> None:
    rig.board.trip_limit()
    with pytest.raises(StageLostError, match="ALARM:1"):
        rig.stage.move_to(20.0, soon())
    start = CLOCK.now()
    rig.stage.recover(soon())
    assert wire.index(b"\x18") > wire.index(b"[MSG:Reset to continue]")
    assert CLOCK.now() - start < 2.5
    rig.assert_works()


@pytest.mark.fault("silent-while-homing")
def test_nothing_is_sent_during_homing(rig: GrblRig, wire: list[bytes]) -> None:
    rig.stage.move_to(20.0, soon())
    del wire[:]
    rig.stage.home(soon())
    assert wire.index(b"ok") < wire.index(b"?")


@pytest.mark.fault("homing-fails")
def test_a_failed_homing_names_the_reason_and_a_recovery_repeats_it(rig: GrblRig) -> None:
    rig.stage.move_to(30.0, soon())
    rig.during_next_homing(lambda: rig.board.raise_alarm(8))
    with pytest.raises(StageLostError, match=r"ALARM:8, homing failed: .* still closed"):
        rig.stage.home(soon())
    rig.assert_refuses_to_move()
    rig.stage.recover(soon())
    rig.assert_works()


@pytest.mark.fault("homing-never-ends")
def test_a_homing_that_never_ends_is_aborted_in_time(tmp_path: Path) -> None:
    link = tmp_path / "tty"
    # A slow carriage: it would need two minutes to its switch.
    with VirtualGrbl(CLOCK, settings={25: 20.0}, link=link) as board:
        stage = GrblStage(stage_settings(str(link), homing_time_s=0.5), CLOCK)
        try:
            stage.connect(soon())
            start = CLOCK.now()
            with pytest.raises(StageError, match="does not end homing in time"):
                stage.home(soon())
            assert CLOCK.now() - start < 2.0
            wait_until(lambda: board.state == "Alarm")
            assert rest_mm(board) > 30.0
        finally:
            stage.close()


@pytest.mark.fault("alarm-unheard")
def test_a_locked_board_without_its_alarm_line_is_lost_and_homed(
    rig: GrblRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.stage.move_to(5.0, soon())
    monkeypatch.setattr(rig.board, "_state", "Alarm")
    CLOCK.sleep_until(CLOCK.now() + 0.1)
    with pytest.raises(StageLostError, match="locked by an alarm"):
        rig.stage.move_to(20.0, soon())
    rig.assert_refuses_to_move()
    rig.stage.recover(soon())
    rig.assert_works()


@pytest.mark.fault("board-reset-unheard")
def test_a_reset_without_its_banner_is_noticed_by_the_reported_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "tty"
    # grblHAL is not locked after a reset: nothing else shows it.
    with VirtualGrbl(CLOCK, dialect="grblhal", link=link, distance_mm=3.0) as board:
        stage = GrblStage(stage_settings(str(link)), CLOCK)
        try:
            stage.connect(soon())
            stage.home(soon())
            stage.move_to(20.0, soon())
            send = board._send_line
            monkeypatch.setattr(
                board, "_send_line", lambda line: send(line.replace("Grbl", "%&/("))
            )
            board.reset()
            CLOCK.sleep_until(CLOCK.now() + 0.1)
            with pytest.raises(StageLostError, match="never sent"):
                stage.where(soon())
        finally:
            stage.close()


@pytest.mark.fault("command-garbled")
def test_a_garbled_target_is_noticed_by_the_reported_position(
    rig: GrblRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive = rig.board._receive
    monkeypatch.setattr(
        rig.board, "_receive", lambda data: receive(data.replace(b"X-11.", b"X-41."))
    )
    with pytest.raises(StageLostError, match="never sent"):
        rig.stage.move_to(10.0, soon())
    assert rig.true_mm() == pytest.approx(40.0, abs=0.03)
    monkeypatch.undo()
    rig.assert_refuses_to_move()
    rig.stage.recover(soon())
    rig.assert_works()


@pytest.mark.fault("stray-ok")
def test_a_stray_ok_is_no_arrival(rig: GrblRig) -> None:
    rig.during_next_motion(lambda: rig.board.send(b"ok\r\n"))
    arrival = rig.stage.move_to(40.0, soon())
    assert rig.true_mm() == pytest.approx(40.0, abs=0.03)
    assert arrival.arrived
    assert arrival.position_mm == pytest.approx(40.0)


@pytest.mark.fault("no-banner")
def test_the_next_program_clears_a_limit_alarm_in_which_the_last_one_died(rig: GrblRig) -> None:
    rig.board.trip_limit()
    rig.stage.close()
    rig.board.reset_on_open = False  # such boards keep their state
    CLOCK.sleep_until(CLOCK.now() + 0.7)
    rig.stage.connect(soon())
    rig.stage.home(soon())
    rig.assert_works()


@pytest.mark.fault("board-hangs")
def test_a_board_that_hangs_is_lost_in_seconds_and_restarted_by_opening(rig: GrblRig) -> None:
    rig.during_next_motion(rig.board.hang)
    assert not rig.stage.move_to(50.0, soon(1.0)).arrived
    with pytest.raises(StageLostError, match="has not answered"):
        rig.stage.where(soon(1.5))
    rig.assert_refuses_to_move()
    rig.stage.recover(soon(60.0))
    rig.assert_works()


@pytest.mark.fault("slow-answers")
def test_late_answers_are_never_assigned_to_other_questions(rig: GrblRig) -> None:
    rig.board.slow_down(0.4)
    arrivals = 0
    for target in (5.0, 10.0, 3.0):
        assert not rig.stage.move_to(target, soon(0.3)).arrived
        for _ in range(20):
            with contextlib.suppress(StageError):
                arrival = rig.stage.where(soon(0.6))
                if arrival.arrived:
                    assert arrival.position_mm == pytest.approx(rig.true_mm(), abs=0.03)
                    arrivals += 1
                    break
    assert arrivals > 0
    rig.board.slow_down(0.0)
    CLOCK.sleep_until(CLOCK.now() + 0.5)
    rig.stage.recover(soon())
    rig.assert_works()


@pytest.mark.fault("homing-fails")
def test_homing_notices_a_stuck_carriage(rig: GrblRig) -> None:
    rig.stage.move_to(5.0, soon())
    rig.board.stick()
    assert rig.stage.move_to(10.0, soon()).arrived  # as the board reports
    with pytest.raises(StageLostError, match="ALARM:9"):
        rig.stage.home(soon())
    rig.assert_refuses_to_move()
    rig.board.release()
    rig.stage.recover(soon())
    rig.assert_works()


@pytest.mark.fault("steps-lost-to-switch")
def test_lost_steps_towards_the_switch_end_in_a_limit_alarm_not_in_a_crash(rig: GrblRig) -> None:
    rig.stage.move_to(10.0, soon())
    rig.board.lose_steps(-3.0)
    with pytest.raises(StageLostError, match="ALARM:1"):
        rig.stage.move_to(0.0, soon())
    assert rig.true_mm() > -2.0
    rig.stage.recover(soon())
    rig.assert_works()


def test_a_board_held_by_hand_is_reported_and_recovered(rig: GrblRig) -> None:
    rig.during_next_motion(rig.board.press_hold)
    assert not rig.stage.move_to(50.0, soon(1.5)).arrived
    with pytest.raises(StageError, match="Hold"):
        rig.stage.where(soon())
    rig.stage.recover(soon())
    rig.assert_works()


@pytest.mark.fault("hold-by-hand")
def test_a_hold_ended_by_hand_continues_without_homing(rig: GrblRig, wire: list[bytes]) -> None:
    rig.during_next_motion(rig.board.press_hold)
    assert not rig.stage.move_to(40.0, soon(1.0)).arrived
    with pytest.raises(StageError, match="Hold"):
        rig.stage.where(soon())
    rig.board.press_start()
    CLOCK.sleep_until(CLOCK.now() + 0.1)
    assert rig.follow().position_mm == pytest.approx(40.0)
    assert rig.true_mm() == pytest.approx(40.0, abs=0.03)
    assert b"\x18" not in wire


@pytest.mark.fault("other-board-returns")
def test_another_board_in_its_place_is_refused(rig: GrblRig) -> None:
    rig.board.unplug()
    with pytest.raises(StageLostError):
        rig.stage.where(soon())
    rig.board.settings[100] = 160.0
    rig.board.plug_in()
    with pytest.raises(StageError, match="other settings"):
        rig.stage.recover(soon())
    with pytest.raises(StageLostError):
        rig.stage.move_to(1.0, soon())
