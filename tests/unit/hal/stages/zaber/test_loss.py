"""What loses the position of a scripted Zaber device."""

from __future__ import annotations

import pytest

from macontrol.config.model.errors import LineLostError, NoAnswerError, StageLostError
from macontrol.testing import UNPLUGGED
from support.scripted_zaber import homed_desk, summed


@pytest.mark.parametrize("flag", ["WR", "WH", "FS", "FD", "WL", "WM"])
def test_a_flag_that_voids_the_position_is_noticed_before_a_move(flag: str) -> None:
    desk = homed_desk()
    desk.expects("get pos", f"OK IDLE {flag} 0")
    with pytest.raises(StageLostError, match=flag):
        desk.stage.move_to(10.0, desk.soon())
    assert not desk.stage.is_homed
    for _ in range(2):
        with pytest.raises(StageLostError):
            desk.stage.move_to(10.0, desk.soon())
    desk.finish()


@pytest.mark.fault("zaber-device-flag")
def test_a_fault_of_the_device_as_a_whole_loses_the_stage() -> None:
    desk = homed_desk()
    desk.expects("get pos", summed("!01 0 IDLE WR"), "OK IDLE -- 0")  # may belong to another axis
    assert desk.stage.where(desk.soon()).arrived
    desk.expects("get pos", summed("!01 0 IDLE FF"), "OK IDLE -- 0")
    with pytest.raises(StageLostError, match="critical error"):
        desk.stage.move_to(10.0, desk.soon())
    assert not desk.stage.is_homed


def test_a_flag_that_hides_others_leads_to_a_request_for_all() -> None:
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


def test_an_unplugged_device_is_lost_and_its_port_closed() -> None:
    desk = homed_desk()
    desk.expects("get pos", "OK IDLE -- 0")
    desk.expects("move abs 10000", "OK BUSY -- 0", UNPLUGGED)
    with pytest.raises(LineLostError):
        desk.stage.move_to(10.0, desk.soon())
    assert not desk.line.is_open
    with pytest.raises(StageLostError):
        desk.stage.where(desk.soon())
    desk.stage.stop()
    desk.finish()


def test_a_silent_device_is_asked_again_and_lost_after_a_second() -> None:
    desk = homed_desk()
    desk.expects("get pos")
    with pytest.raises(NoAnswerError) as error:
        desk.stage.where(desk.soon(0.1))
    assert not isinstance(error.value, StageLostError)
    assert desk.stage.is_homed
    desk.expects("get pos")
    desk.expects("get pos")
    with pytest.raises(StageLostError, match="has not answered for"):
        desk.stage.where(desk.soon())
    desk.finish()


def test_a_device_that_becomes_silent_in_motion_is_lost() -> None:
    desk = homed_desk()
    desk.expects("get pos", "OK IDLE -- 0")
    desk.expects("move abs 10000", "OK BUSY -- 0")
    desk.expects("get pos")
    desk.expects("get pos")
    with pytest.raises(StageLostError, match="has not answered for"):
        desk.stage.move_to(10.0, desk.soon())
    desk.finish()
