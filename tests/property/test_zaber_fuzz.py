"""Any line is parsed by the Zaber protocol; no move exceeds the limits."""

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
def test_any_line_is_parsed(line: bytes) -> None:
    assert isinstance(parse(line), get_args(Message))
    assert isinstance(parse(b"@" + line), get_args(Message))


@pytest.mark.fault("checksum-wrong")
@given(st.sampled_from(ZABER_REPLIES), st.integers(0, 60), st.integers(1, 255))
def test_a_garbled_byte_never_makes_another_checked_reply(
    text: str, place: int, change: int
) -> None:
    good = summed(f"@01 1 07 {text}")
    garbled = bytearray(good)
    garbled[place % len(good)] ^= change
    parsed, sent = parse(bytes(garbled)), parse(good)
    assert parsed == sent or not isinstance(parsed, Reply) or not parsed.checked


@given(
    microstep_mm=st.floats(1e-5, 0.5),
    offset=st.floats(0.0, 0.9),
    share=st.floats(0.0, 1.0),
    inverted=st.booleans(),
    where=st.floats(0.0, 1.0),
)
def test_moves_stay_within_the_limits_and_coordinates_are_inverse(
    microstep_mm: float, offset: float, share: float, inverted: bool, where: float
) -> None:
    length = 100_000 * microstep_mm
    travel = share * (1 - offset) * length
    clock = VirtualClock()
    line = FuzzedZaber(clock, [], correct=True)
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
        stage.home(60.0)  # the move to the rail does not arrive: this device stays at 0
    target = where * stage.description.travel_mm
    with contextlib.suppress(MacontrolError):
        stage.move_to(target, clock.now() + 5.0)
    sent = stage._position.coordinates.to_board(target)
    assert abs(stage._position.coordinates.to_rail(sent) - target) <= 0.5001 * microstep_mm
    targets = [int(text.split()[2]) for text in line.sent if text.startswith("move abs")]
    assert targets[-1] == sent
    assert all(0 <= target <= 100_000 for target in targets)
