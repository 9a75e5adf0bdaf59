"""Recovery of a scripted Zaber device."""

from __future__ import annotations

import pytest

from macontrol.config.model.errors import (
    StageError,
    StageLostError,
)
from support.scripted_zaber import homed_desk, stalled_desk


def test_a_ready_stage_is_not_homed_by_a_recovery() -> None:
    desk = homed_desk()
    desk.expects("get pos", "OK IDLE -- 500")
    desk.stage.recover(desk.soon())
    assert desk.stage.is_homed
    desk.finish()


def test_a_stall_is_tolerated_once() -> None:
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
        with pytest.raises(StageError, match="check the rail"):
            desk.stage.recover(desk.soon())
    desk.finish()


def test_another_device_in_its_place_is_not_moved() -> None:
    desk = stalled_desk()
    desk.expects("", "OK IDLE FS 0")
    desk.expects_identification(flag="FS", position="500", system_serial="777")
    with pytest.raises(StageError, match="another serial number or other settings"):
        desk.stage.recover(desk.soon())
    desk.finish()


def test_a_recovery_homes_when_homing_is_due() -> None:
    desk = homed_desk(rehome_every_s=60.0)
    assert not desk.stage.homing_is_due
    desk.clock.sleep_until(desk.clock.now() + 60.0)
    assert desk.stage.homing_is_due
    desk.expects("get pos", "OK IDLE -- 500")
    desk.expects_homing()
    desk.stage.recover(desk.soon())
    assert not desk.stage.homing_is_due
    desk.finish()
