"""Arbitrary lines are understood as something by the GRBL protocol."""

from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from macontrol.hal.serial.line import LONGEST_LINE, LineBuffer
from macontrol.hal.stages.grbl.protocol import Alarm, Banner, Noise, Report, parse


@given(st.binary(max_size=200))
def test_any_line_is_understood_as_something(line: bytes) -> None:
    assert isinstance(parse(line), get_args(Report))


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_a_banner_is_seen_whatever_stands_around_it(before: bytes, after: bytes) -> None:
    line = before.replace(b"[", b"").replace(b"<", b"") + b"Grbl 1.1h ['$' for help]" + after
    report = parse(line)
    # An alarm at the end of it is heard instead, and means as much: the position is gone.
    assert isinstance(report, Banner | Alarm) or before.strip().startswith(b"$")
    assert not isinstance(parse(before + b"\xff" + after), Banner) or b"rbl" in before + after


@given(st.lists(st.binary(max_size=3000), max_size=20))
def test_the_line_buffer_takes_anything_and_stays_small(chunks: list[bytes]) -> None:
    buffer = LineBuffer()
    for chunk in chunks:
        buffer.feed(chunk)
        while (line := buffer.take()) is not None:
            assert b"\n" not in line
        assert len(buffer._partial) <= LONGEST_LINE


def test_noise_is_told_apart() -> None:
    assert parse(b"\x00") == Noise(b"\x00")
