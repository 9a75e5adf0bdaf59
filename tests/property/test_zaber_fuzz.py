"""Arbitrary lines are understood as something by the Zaber protocol; no move leaves the limits."""

from __future__ import annotations

import contextlib
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from macontrol.config.model.errors import MacontrolError
from macontrol.controller.runtime.clock import VirtualClock
from macontrol.hal.stages.zaber.driver import ZaberStage
from macontrol.hal.stages.zaber.protocol import Message, Reply, parse
from support.garbled_boards import ZABER_REPLIES, FuzzedZaber
from support.scripted_zaber import summed, zaber_settings


@given(st.binary(max_size=200))
def test_any_line_is_understood_as_something(line: bytes) -> None:
    assert isinstance(parse(line), get_args(Message))
    assert isinstance(parse(b"@" + line), get_args(Message))


@pytest.mark.fault("checksum-wrong")
@given(st.sampled_from(ZABER_REPLIES), st.integers(0, 60), st.integers(1, 255))
def test_a_byte_spoilt_on_its_way_never_makes_another_checked_reply(
    text: str, place: int, change: int
) -> None:
    good = summed(f"@01 1 07 {text}")
    spoilt = bytearray(good)
    spoilt[place % len(good)] ^= change
    understood, meant = parse(bytes(spoilt)), parse(good)
    assert understood == meant or not isinstance(understood, Reply) or not understood.checked


@given(
    microstep_mm=st.floats(1e-5, 0.5),
    offset=st.floats(0.0, 0.9),
    share=st.floats(0.0, 1.0),
    inverted=st.booleans(),
    where=st.floats(0.0, 1.0),
)
def test_no_move_leaves_the_limits_and_reports_come_back_as_they_were_sent(
    microstep_mm: float, offset: float, share: float, inverted: bool, where: float
) -> None:
    length = 100_000 * microstep_mm
    travel = share * (1 - offset) * length
    clock = VirtualClock()
    line = FuzzedZaber(clock, [], polite=True)
    stage = ZaberStage(
        zaber_settings(
            microstep_mm=microstep_mm,
            offset_mm=min(offset * length, 1e5),
            travel_mm=travel if 1e-3 * length < travel < 1e5 else "auto",
            inverted=inverted,
        ),
        clock,
        open_line=lambda: line,
    )
    stage.connect(30.0)
    with contextlib.suppress(MacontrolError):
        stage.home(60.0)  # the last way to the rail does not arrive: this device stays at 0
    target = where * stage.description.travel_mm
    with contextlib.suppress(MacontrolError):
        stage.move_to(target, clock.now() + 5.0)
    sent = stage._to_device(target)
    assert abs(stage._to_rail(sent) - target) <= 0.5001 * microstep_mm
    targets = [int(text.split()[2]) for text in line.sent if text.startswith("move abs")]
    assert targets[-1] == sent
    assert all(0 <= target <= 100_000 for target in targets)
