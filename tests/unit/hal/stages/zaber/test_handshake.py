"""Connecting to a scripted Zaber device."""

from __future__ import annotations

from typing import Any

import pytest

from macontrol.config.model.errors import (
    ConfigError,
    NoAnswerError,
    NotHomedError,
    StageError,
    StageLostError,
)
from support.scripted_zaber import Desk, summed


def test_connecting_reads_identity_and_settings() -> None:
    desk = Desk()
    desk.expects_greeting()
    desk.stage.connect(desk.soon())
    desk.finish()
    identity, description = desk.stage.handshake.identity, desk.stage.description
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
def test_one_slow_answer_does_not_change_the_latency() -> None:
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
def test_a_device_that_reports_homed_is_not_trusted() -> None:
    desk = Desk()
    desk.expects_greeting(flag="--")
    desk.stage.connect(desk.soon())
    assert not desk.stage.is_homed
    with pytest.raises(NotHomedError):
        desk.stage.move_to(1.0, desk.soon())
    desk.finish()


def test_checksums_are_requested() -> None:
    desk = Desk()
    desk.checksums = False
    desk.expects("", "OK IDLE WR 0")
    desk.expects("set comm.checksum 1", "OK IDLE WR 0", axis=0)
    desk.checksums = True
    desk.expects("", "OK IDLE WR 0")
    desk.expects("stop", "OK IDLE WR 0")
    desk.expects("get pos", b"@01 1 04 OK IDLE -- 77", "OK IDLE WR 0")  # the first has no checksum
    desk.expects_identity()
    desk.expects_timing()
    desk.stage.connect(desk.soon())
    desk.finish()


@pytest.mark.fault("checksums-unknown")
@pytest.mark.parametrize("lost", ["request", "answer", "both"])
def test_checksums_are_requested_again_if_an_answer_is_lost(lost: str) -> None:
    desk = Desk()
    desk.checksums = False
    desk.expects("", "OK IDLE WR 0")
    if lost == "request":  # it did not arrive, so the next reply has no checksum
        desk.expects("set comm.checksum 1", axis=0)
        desk.expects("", "OK IDLE WR 0")
        desk.expects("set comm.checksum 1", "OK IDLE WR 0", axis=0)
    else:
        desk.expects("set comm.checksum 1", *([] if lost == "both" else ["OK IDLE WR 0"]), axis=0)
        desk.expects("")
    desk.checksums = True
    desk.expects("", "OK IDLE WR 0")
    desk.expects("stop", "OK IDLE WR 0")
    unsummed = b"@01 1 %02d OK IDLE -- 77" % (7 if lost == "request" else 6)
    desk.expects("get pos", unsummed, "OK IDLE WR 0")
    desk.expects_identity()
    desk.expects_timing()
    desk.stage.connect(desk.soon())
    desk.finish()


@pytest.mark.fault("checksums-unknown")
def test_a_device_that_neither_sends_nor_refuses_checksums_is_refused() -> None:
    desk = Desk()
    desk.checksums = False
    desk.expects("", "OK IDLE WR 0")
    for _ in range(4):
        desk.expects("set comm.checksum 1", "OK IDLE WR 0", axis=0)
        desk.expects("", "OK IDLE WR 0")
    with pytest.raises(StageError, match="neither sends checksums nor reports"):
        desk.stage.connect(desk.soon())
    desk.finish()


def test_a_device_without_checksums_is_accepted() -> None:
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


def test_noise_other_devices_and_other_numbers_are_ignored() -> None:
    desk = Desk()
    desk.expects(
        "",
        b"\xff\x00garbage",
        summed("@02 1 01 OK IDLE -- 0"),  # another device
        summed("@01 2 01 OK IDLE -- 0"),  # another axis
        summed("@01 1 99 OK IDLE -- 0"),  # another question
        summed("#01 0 hello"),
        b"@01 1 01 OK IDLE -- 0:00",  # garbled
        "OK IDLE WR 0",
    )
    desk.expects_identification()
    desk.expects_timing()
    desk.stage.connect(desk.soon())
    desk.finish()


def test_without_an_answer_connecting_fails_with_a_fix() -> None:
    desk = Desk()
    for _ in range(4):
        desk.expects("")
    with pytest.raises(NoAnswerError):
        desk.stage.connect(desk.soon())
    desk.finish()
    assert not desk.line.is_open


def test_connecting_ends_by_its_deadline() -> None:
    desk = Desk()
    for _ in range(4):
        desk.expects("")
    deadline = desk.soon(0.7)
    with pytest.raises(NoAnswerError):
        desk.stage.connect(deadline)
    assert desk.clock.now() <= deadline


def test_a_missing_axis_is_refused() -> None:
    desk = Desk(axis="Y")
    desk.expects("", "RJ IDLE -- BADAXIS", axis=2)
    with pytest.raises(ConfigError, match=r"stage\.zaber\.axis = 'Y'.*no such axis"):
        desk.stage.connect(desk.soon())
    desk.finish()
    assert not desk.line.is_open


def test_without_a_microstep_size_the_port_is_not_opened() -> None:
    desk = Desk(opens=0, microstep_mm="unknown")
    with pytest.raises(ConfigError, match=r"stage\.zaber\.microstep_mm is unknown"):
        desk.stage.connect(desk.soon())


def test_a_stage_that_is_not_connected_has_no_description_and_does_not_move() -> None:
    desk = Desk()
    with pytest.raises(StageError, match="connect first"):
        _ = desk.stage.description
    with pytest.raises(StageLostError):
        desk.stage.move_to(1.0, desk.soon())
    desk.stage.stop()  # nothing to stop


@pytest.mark.fault("board-settings-contradict", "homing-too-slow")
@pytest.mark.parametrize(
    ("device", "changes", "reason"),
    [
        ({}, {"travel_mm": 100.5}, r"stage\.travel_mm = 100\.5 .* at most 100"),
        ({}, {"offset_mm": 100.0}, r"stage\.offset_mm = 100 leaves nothing"),
        ({}, {"speed_mm_per_s": 94.0}, r"stage\.speed_mm_per_s = 94 .* at most 93\.75"),
        ({"version": "6.28"}, {"speed_mm_per_s": 9.0}, r"firmware 6\.28 .* set maxspeed"),
        ({"limit_max": "0"}, {}, "no travel"),
        ({"maxspeed": "0"}, {}, "no speed"),
        ({"maxspeed": "100"}, {}, r"82 minutes: .*homing_time_s"),
    ],
)
def test_a_config_that_contradicts_the_device_is_refused(
    device: dict[str, str], changes: dict[str, Any], reason: str
) -> None:
    desk = Desk(**changes)
    desk.expects("", "OK IDLE WR 0")
    desk.expects_identification(**device)
    with pytest.raises(ConfigError, match=reason):
        desk.stage.connect(desk.soon())
    desk.finish()
    assert not desk.line.is_open
