"""Faults that only a Zaber stage can have, over the wire: recover, or report the reason."""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from macontrol.config.model.errors import (
    LineLostError,
    MacontrolError,
    NoAnswerError,
    StageError,
    StageLostError,
)
from macontrol.hal.stages.zaber.driver import ZaberStage
from macontrol.sim.bench.boards.zaber import VirtualZaber
from support.emulated_stages import CLOCK, ZaberRig, rest_mm, soon, zaber_rig
from support.scripted_zaber import zaber_settings

pytestmark = pytest.mark.any_user


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[ZaberRig]:
    with zaber_rig(tmp_path / "tty") as rig:
        yield rig


@pytest.mark.fault("zaber-moves-unplugged")
def test_a_device_unplugged_in_motion_is_stopped_after_it_returns(rig: ZaberRig) -> None:
    rig.during_next_motion(rig.board.unplug)
    with pytest.raises(LineLostError):
        rig.stage.move_to(50.0, soon())
    rig.after(0.1, rig.board.plug_in)
    rig.stage.recover(soon())
    assert "stop" in rig.board.lines  # its motor continued meanwhile


@pytest.mark.fault("limit-alarm-or-stall")
def test_a_stall_is_tolerated_once(rig: ZaberRig) -> None:
    rig.during_next_motion(rig.board.stall)
    with pytest.raises(StageLostError, match="stalled"):
        rig.stage.move_to(50.0, soon())
    rig.assert_refuses_to_move()
    rig.board.release()
    rig.stage.recover(soon())
    rig.assert_works()
    rig.board.stall()
    with pytest.raises(StageLostError, match="stalled"):
        rig.stage.move_to(50.0, soon())
    with pytest.raises(StageError, match=r"second time.*check the rail"):
        rig.stage.recover(soon())


@pytest.mark.fault("homing-fails")
def test_homing_with_a_blocked_carriage_fails(rig: ZaberRig) -> None:
    rig.stage.move_to(5.0, soon())
    rig.board.stall()
    with pytest.raises(StageError, match="homing failed: FS"):
        rig.stage.home(soon())
    rig.assert_refuses_to_move()


@pytest.mark.fault("board-hangs")
def test_a_silent_device_is_lost_in_seconds_and_returns_with_its_supply(
    rig: ZaberRig,
) -> None:
    rig.during_next_motion(rig.board.hang)
    with pytest.raises(StageLostError, match="has not answered"):
        rig.stage.move_to(50.0, soon(5.0))
    rig.assert_refuses_to_move()
    rig.board.reset()
    rig.stage.recover(soon())
    rig.assert_works()


@pytest.mark.fault("slow-answers")
def test_slow_answers_are_accepted_within_the_deadline(rig: ZaberRig) -> None:
    rig.board.slow_down(0.1)
    assert rig.stage.move_to(2.0, soon()).arrived
    deadline = soon(0.05)
    with pytest.raises(NoAnswerError):
        rig.stage.where(deadline)
    assert CLOCK.now() - deadline < 0.4  # less than one answer may take
    rig.board.slow_down(0.0)
    assert rig.follow().position_mm == pytest.approx(2.0)


@pytest.mark.fault("zaber-interrupted")
def test_a_motion_interrupted_by_another_program_is_an_error(rig: ZaberRig) -> None:
    rig.during_next_motion(lambda: rig.board.interrupt(1000))
    with pytest.raises(StageError, match="interrupted by another command"):
        rig.stage.move_to(50.0, soon())
    rig.assert_works()


@pytest.mark.fault("command-rejected")
def test_a_rejected_move_names_the_reason(rig: ZaberRig) -> None:
    rig.board.settings["limit.max"] = 20_000.0  # changed by another program
    with pytest.raises(StageError, match="BADDATA, a number is out of its range"):
        rig.stage.move_to(50.0, soon())
    assert rig.true_mm() == 0.0
    rig.assert_works()


@pytest.mark.fault("zaber-position-flag")
@pytest.mark.parametrize("flag", ["WH", "WR", "FE", "WS", "WX"])
def test_a_flag_that_voids_the_position_is_noticed_before_the_next_move(
    rig: ZaberRig, flag: str
) -> None:
    rig.stage.move_to(5.0, soon())
    rig.board.raise_flag(flag)
    with pytest.raises(StageLostError, match=flag):
        rig.stage.move_to(20.0, soon())
    rig.assert_refuses_to_move()


@pytest.mark.fault("checksum-wrong")
def test_replies_with_a_wrong_checksum_are_ignored(
    rig: ZaberRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    transmit, answers = rig.board._transmit, itertools.count()

    def garble(data: bytes, delay_s: float = 0.0) -> None:
        if next(answers) % 3 == 1:  # another position, and the old checksum
            data = re.sub(rb"\d(?=:..\r\n)", lambda digit: b"%d" % (9 - int(digit[0])), data)
        transmit(data, delay_s)

    monkeypatch.setattr(rig.board, "_transmit", garble)
    for target in (2.0, 1.0):
        arrival = rig.stage.move_to(target, soon(10.0))
        assert arrival.arrived
        assert arrival.position_mm == pytest.approx(target)
        assert rig.true_mm() == pytest.approx(target, abs=0.002)


@pytest.mark.fault("other-board-returns")
def test_another_device_in_its_place_is_refused(rig: ZaberRig) -> None:
    rig.board.unplug()
    with pytest.raises(StageLostError):
        rig.stage.where(soon())
    rig.board.settings["system.serial"] = 54321.0
    rig.board.plug_in()
    with pytest.raises(StageError, match="another serial number"):
        rig.stage.recover(soon())
    with pytest.raises(StageLostError):
        rig.stage.move_to(1.0, soon())


@pytest.mark.fault("no-board-on-port", "axis-missing")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"device_address": 2}, "no Zaber device answers as device 2"),
        ({"axis": "Y"}, "refuses commands for axis 2: BADAXIS, it has no such axis"),
        ({"travel_mm": 61.0}, "more than the device has"),
    ],
)
def test_a_config_that_does_not_fit_the_device_is_refused(
    rig: ZaberRig, changes: dict[str, Any], reason: str
) -> None:
    rig.stage.close()
    other = ZaberStage(zaber_settings(rig.board.port, **changes), CLOCK)
    with pytest.raises(MacontrolError, match=reason):
        other.connect(soon())
    other.close()
    assert rig.true_mm() == 0.0


@pytest.mark.fault("homing-never-ends")
def test_a_homing_that_never_ends_is_stopped_in_time(tmp_path: Path) -> None:
    link = tmp_path / "tty"
    slow = {"limit.approach.maxspeed": 1000.0}
    with VirtualZaber(CLOCK, settings=slow, microstep_mm=0.001, link=link) as device:
        stage = ZaberStage(zaber_settings(str(link), homing_time_s=0.5), CLOCK)
        try:
            stage.connect(soon())
            start = CLOCK.now()
            with pytest.raises(StageError, match="homing did not end in time"):
                stage.home(soon())
            assert CLOCK.now() - start < 3.0
            assert rest_mm(device) > 30.0
        finally:
            stage.close()


@pytest.mark.fault("zaber-hot-or-supply")
def test_a_hot_device_continues(rig: ZaberRig) -> None:
    rig.board.raise_flag("WT")
    rig.assert_works()


@pytest.mark.fault("checksum-wrong")
def test_a_garbled_command_has_no_effect(tmp_path: Path) -> None:
    with VirtualZaber(CLOCK, link=tmp_path / "tty") as device:
        port = os.open(device.port, os.O_RDWR | os.O_NOCTTY)
        try:
            os.write(port, b"/1 1 01 get pos:00\n/2 1 02 get pos\n/1 1 03 get limit.max\n")
            received = b""
            while not received.endswith(b"\n"):
                received += os.read(port, 100)
                time.sleep(0.001)
        finally:
            os.close(port)
    assert received == b"@01 1 03 OK IDLE WR 305381\r\n"
