"""Stopping a scripted Zaber device."""

from __future__ import annotations

import pytest

from macontrol.config.model.errors import (
    StageLostError,
)
from support.scripted_zaber import homed_desk, stalled_desk


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


def test_a_stop_without_a_reply_is_sent_again() -> None:
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
def test_stopping_a_silent_device_ends_soon() -> None:
    desk = homed_desk()
    for _ in range(6):
        desk.expects("stop")
    start = desk.clock.now()
    with pytest.raises(StageLostError):
        desk.stage.stop()
    desk.stage.close()
    assert desk.clock.now() - start < 3.5
    desk.finish()


def test_a_device_that_becomes_silent_during_a_stop_is_lost() -> None:
    desk = homed_desk()
    desk.expects("stop", "OK BUSY -- 0")
    for _ in range(4):
        desk.expects("get pos")
    with pytest.raises(StageLostError):
        desk.stage.stop()
    desk.finish()


def test_a_lost_stage_can_be_stopped() -> None:
    desk = stalled_desk()
    desk.expects("stop")
    desk.expects("stop", "OK IDLE FS 0")
    desk.expects("stop", "OK IDLE FS 0")
    desk.stage.stop()
    desk.stage.close()
    assert not desk.line.is_open
    desk.finish()


def test_closing_stops_the_motion_and_closes_the_port() -> None:
    desk = homed_desk()
    desk.expects("stop", "OK BUSY -- 0")
    desk.expects("get pos", "OK IDLE NI 4100")
    desk.stage.close()
    assert not desk.line.is_open
    assert not desk.stage.is_homed
    desk.stage.close()
    desk.finish()
