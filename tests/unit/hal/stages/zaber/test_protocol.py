"""Encoding of commands, parsing of messages, and conversion of units."""

from __future__ import annotations

import pytest

from macontrol.config.model.errors import ConfigError
from macontrol.hal.stages.zaber.device import DeviceIdentity, read_axis
from macontrol.hal.stages.zaber.protocol import (
    Alert,
    Info,
    Noise,
    Reply,
    checksum,
    encode,
    explain,
    is_fault,
    is_number,
    parse,
    voids_position,
    whole_number,
)
from support.scripted_zaber import summed, zaber_settings

DEVICE = DeviceIdentity(
    firmware="7.38",
    device_id=50081,
    serial=1,
    resolution=64,
    low=0,
    high=100_000,
    maxspeed=16384,
    accel=16384,
    approach=16384,
)


def test_a_command_carries_address_number_and_checksum() -> None:
    assert encode(1, 1, 0, "move rel 1000") == b"/1 1 00 move rel 1000:E3\n"  # from the manual
    assert encode(12, 0, 7, "get version").startswith(b"/12 0 07 get version:")
    assert encode(1, 1, 5, "") == b"/1 1 05:" + checksum(b"1 1 05") + b"\n"


def test_a_checksum_brings_the_sum_to_zero() -> None:
    for body in (b"1 1 00 home", b"", b"\xff" * 3):
        assert (sum(body) + int(checksum(body), 16)) % 256 == 0


def test_a_reply_is_parsed() -> None:
    assert parse(b"@01 1 00 OK IDLE WR 0") == Reply(1, 1, 0, True, False, "WR", "0", False)
    assert parse(summed("@02 3 17 OK BUSY -- -1234")) == Reply(
        2, 3, 17, True, True, "--", "-1234", True
    )
    assert parse(b"@01 0 RJ IDLE -- BADDATA\r") == Reply(
        1, 0, None, False, False, "--", "BADDATA", False
    )


def test_a_refusal_has_a_meaning() -> None:
    reply = parse(b"@01 1 00 RJ IDLE -- PARKED")
    assert isinstance(reply, Reply)
    assert "unpark" in reply.refusal


def test_alerts_and_infos_differ_from_replies() -> None:
    assert parse(summed("!01 1 IDLE FS")) == Alert(1, 1, False, "FS", True)
    assert parse(b"#01 0 a note: for a person") == Info(1, 0, "a note: for a person", False)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"@",
        b"ok",
        b"@01 1 00 OK IDLE -- 0:00",
        b"@01 1 00 OK IDLE -- 1:0C",  # the checksum of another position
        b"@01 1 00 OK IDLE - 0",
        b"@1 1 00 OK IDLE -- 0",
        b"@01 1 00 OK SLEEPING -- 0",
        b"01 1 00 OK IDLE -- 0",
        b"\xff@01 1 00 OK IDLE -- 0",
        b"@01 1 00 OK IDLE -- \xb2",
        b"!01 1 IDLE",
    ],
)
def test_anything_else_is_noise(line: bytes) -> None:
    assert parse(line) == Noise(line)


def test_only_numbers_are_numbers() -> None:
    assert is_number("7.38")
    assert whole_number("-1234") == -1234
    for text in ("", "nan", "inf", "1e9", "0x10", "1 2", "--1", "9" * 30, "٣"):
        assert not is_number(text)
        assert whole_number(text) is None
    assert whole_number("7.38") is None


def test_some_flags_void_the_position() -> None:
    for flag in ("FS", "FD", "FX", "WR", "WH", "WL", "WX"):
        assert voids_position(flag)
    for flag in ("--", "WT", "WV", "NI", "NC", "NX"):
        assert not voids_position(flag)
    assert is_fault("FQ")
    assert not is_fault("WR")
    assert "in its way" in explain("FS")
    assert "FX" in explain("FX")


def test_speed_and_acceleration_are_converted() -> None:
    axis = read_axis(DEVICE, zaber_settings())
    assert axis.speed_mm_per_s == pytest.approx(10.0)  # 10000 microsteps of 1 µm
    assert axis.acceleration_mm_per_s2 == pytest.approx(100_000.0)
    assert axis.usable_mm == pytest.approx(100.0)
    assert axis.move_speed is None


def test_the_speed_of_a_move_is_rounded_down() -> None:
    axis = read_axis(DEVICE, zaber_settings(speed_mm_per_s=3.0))
    assert axis.move_speed == 4915  # 4915.2
    assert read_axis(DEVICE, zaber_settings(speed_mm_per_s=10.0)).move_speed == 16384


def test_the_microstep_size_must_be_set() -> None:
    with pytest.raises(ConfigError, match=r"stage\.zaber\.microstep_mm"):
        read_axis(DEVICE, zaber_settings(microstep_mm="unknown"))
