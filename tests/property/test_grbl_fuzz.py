"""Any line is parsed by the GRBL protocol, without an exception."""

from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from macontrol.hal.serial.framing import LONGEST_LINE, LineBuffer
from macontrol.hal.stages.grbl.protocol import Alarm, Banner, Noise, Report, parse


@given(st.binary(max_size=200))
def test_any_line_is_parsed(line: bytes) -> None:
    assert isinstance(parse(line), get_args(Report))


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_a_banner_is_recognised_within_other_text(before: bytes, after: bytes) -> None:
    line = before.replace(b"[", b"").replace(b"<", b"") + b"Grbl 1.1h ['$' for help]" + after
    report = parse(line)
    # An alarm at its end takes precedence, with the same effect: the position is lost.
    assert isinstance(report, Banner | Alarm) or before.strip().startswith(b"$")
    assert not isinstance(parse(before + b"\xff" + after), Banner) or b"rbl" in before + after


@given(st.lists(st.binary(max_size=3000), max_size=20))
def test_the_line_buffer_accepts_anything_and_stays_small(chunks: list[bytes]) -> None:
    buffer = LineBuffer()
    for chunk in chunks:
        buffer.feed(chunk)
        while (line := buffer.take()) is not None:
            assert b"\n" not in line
        assert len(buffer._partial) <= LONGEST_LINE


def test_noise_is_noise() -> None:
    assert parse(b"\x00") == Noise(b"\x00")
