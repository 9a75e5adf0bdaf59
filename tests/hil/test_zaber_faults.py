"""Faults that only a Zaber stage can have, through the wire: recover, or say what is wrong."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from stage_rigs import CLOCK, ZaberRig, soon, zaber_rig

from macontrol.hal import StageError, StageLostError
from macontrol.sim.boards.zaber import VirtualZaber


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[ZaberRig]:
    with zaber_rig(tmp_path / "tty") as rig:
        yield rig


def test_unplugged_in_motion_it_goes_on_and_is_stopped_once_it_is_back(rig: ZaberRig) -> None:
    rig.after(0.1, rig.board.unplug)
    with pytest.raises(StageLostError, match="gone"):
        rig.stage.move_to(50.0, soon())
    rig.after(0.1, rig.board.plug_in)
    rig.stage.recover(soon())
    assert "stop" in rig.board.lines  # its motor has gone on meanwhile


def test_a_stall_is_forgiven_once_and_told_the_second_time(rig: ZaberRig) -> None:
    rig.after(0.1, rig.board.stall)
    with pytest.raises(StageLostError, match="stalled"):
        rig.stage.move_to(50.0, soon())
    rig.refuse_to_move()
    rig.board.release()
    rig.stage.recover(soon())
    rig.assert_works()
    rig.board.stall()
    with pytest.raises(StageLostError, match="stalled"):
        rig.stage.move_to(50.0, soon())
    with pytest.raises(StageError, match="second time: look at the rail"):
        rig.stage.recover(soon())


def test_a_blocked_carriage_makes_homing_fail_loudly(rig: ZaberRig) -> None:
    rig.stage.move_to(5.0, soon())
    rig.board.stall()
    with pytest.raises(StageError, match="homing failed: FS"):
        rig.stage.home(soon())
    rig.refuse_to_move()


def test_a_silent_device_is_lost_within_seconds_and_comes_back_with_its_supply(
    rig: ZaberRig,
) -> None:
    rig.after(0.1, rig.board.hang)
    with pytest.raises(StageLostError, match="has not answered"):
        rig.stage.move_to(50.0, soon(5.0))
    rig.refuse_to_move()
    rig.board.reset()
    rig.stage.recover(soon())
    rig.assert_works()


def test_slow_answers_are_waited_for_and_deadlines_are_kept(rig: ZaberRig) -> None:
    rig.board.slow_down(0.1)
    assert rig.stage.move_to(2.0, soon()).arrived
    deadline = soon(0.05)
    with pytest.raises(StageError, match="does not answer"):
        rig.stage.where(deadline)
    assert CLOCK.now() - deadline < 0.2
    rig.board.slow_down(0.0)
    assert rig.follow().position_mm == pytest.approx(2.0)


def test_a_motion_broken_off_by_another_program_is_told(rig: ZaberRig) -> None:
    rig.after(0.1, lambda: rig.board.interrupt(1000))
    with pytest.raises(StageError, match="interrupted by another command"):
        rig.stage.move_to(50.0, soon())
    rig.assert_works()


def test_a_hot_device_goes_on(rig: ZaberRig) -> None:
    rig.board.raise_flag("WT")
    rig.assert_works()


def test_a_command_spoilt_on_its_way_is_as_if_never_sent(tmp_path: Path) -> None:
    with VirtualZaber(CLOCK, link=tmp_path / "tty") as device:
        port = os.open(device.port, os.O_RDWR | os.O_NOCTTY)
        try:
            os.write(port, b"/1 1 01 get pos:00\n/2 1 02 get pos\n/1 1 03 get limit.max\n")
            heard = b""
            while not heard.endswith(b"\n"):
                heard += os.read(port, 100)
                time.sleep(0.001)
        finally:
            os.close(port)
    assert heard == b"@01 1 03 OK IDLE WR 305381\r\n"
