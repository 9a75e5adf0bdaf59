"""Arbitrary bytes from the wire never crash the driver, never hang it, never move anything."""

from __future__ import annotations

import contextlib
from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st
from zaber_bench import SETTINGS, summed, zaber_settings

from macontrol.config.errors import MacontrolError
from macontrol.controller.clock import VirtualClock
from macontrol.hal.zaber import ZaberStage
from macontrol.hal.zaber_protocol import Reply, parse

REPLIES = [
    f"{verdict} {state} {flag} {data}"
    for verdict in ("OK", "RJ")
    for state in ("IDLE", "BUSY")
    for flag in ("--", "WR", "FS", "WT", "NI", "NC")
    for data in ("0", "10000", "-5", "999999999999", "BADDATA", "7.38", "02 WT WR", "")
]
answers = st.one_of(
    st.sampled_from(REPLIES),
    st.sampled_from([summed("!01 1 IDLE --"), summed("!01 1 IDLE FS"), b"@01 1 OK", b"", b"/"]),
    st.binary(max_size=40),
)


@given(st.binary(max_size=200))
def test_any_line_is_understood_as_something(line: bytes) -> None:
    parse(line)
    parse(b"@" + line)


@given(st.sampled_from(REPLIES), st.integers(0, 60), st.integers(1, 255))
def test_a_byte_spoilt_on_its_way_never_makes_another_checked_reply(
    text: str, place: int, change: int
) -> None:
    good = summed(f"@01 1 07 {text}")
    spoilt = bytearray(good)
    spoilt[place % len(good)] ^= change
    understood, meant = parse(bytes(spoilt)), parse(good)
    assert understood == meant or not isinstance(understood, Reply) or not understood.checked


class FuzzedLine:
    """A device that answers properly while it is polite, and anything at all afterwards."""

    def __init__(self, clock: VirtualClock, answers: list[str | bytes], *, polite: bool) -> None:
        self._clock = clock
        self._answers = deque(answers)
        self._polite = polite
        self._proper: deque[bytes] = deque()
        self._head = "@01 1 00"
        self.sent: list[str] = []

    def write(self, data: bytes) -> None:
        device, axis, number, *words = data.decode("ascii")[1:].partition(":")[0].split()
        text = " ".join(words)
        self.sent.append(text)
        self._head = f"@{int(device):02d} {axis} {number}"
        known = {**SETTINGS, "version": "7.38", "limit.approach.maxspeed": "76800"}
        told = known.get(text[4:], "0") if text.startswith("get ") else "0"
        told = "00" if text == "warnings" else told
        if self._polite:
            self._proper.append(summed(f"{self._head} OK IDLE -- {told}"))

    def turn_rude(self) -> None:
        self._polite = False
        self._proper.clear()
        self.sent.clear()

    def read_line(self, deadline_s: float) -> bytes | None:
        if self._polite:
            if self._proper:
                return self._proper.popleft()
        elif self._answers and self._clock.now() < deadline_s:
            self._clock.sleep_until(self._clock.now() + 0.001)
            answer = self._answers.popleft()
            return answer if isinstance(answer, bytes) else summed(f"{self._head} {answer}")
        self._clock.sleep_until(deadline_s)
        return None

    def close(self) -> None: ...


def is_motion(text: str) -> bool:
    return text.startswith(("move", "home"))


@settings(max_examples=150)
@given(st.lists(answers, max_size=60))
def test_a_stranger_on_the_port_never_gets_a_motion_out_of_connecting(
    said: list[str | bytes],
) -> None:
    clock = VirtualClock()
    line = FuzzedLine(clock, said, polite=False)
    stage = ZaberStage(zaber_settings(), clock, open_line=lambda: line)
    with contextlib.suppress(MacontrolError):
        stage.connect(20.0)
    assert clock.now() <= 20.0 + 0.1
    with contextlib.suppress(MacontrolError):
        stage.move_to(10.0, clock.now() + 1.0)
    assert not any(map(is_motion, line.sent))


@settings(max_examples=150)
@given(
    st.lists(answers, max_size=60), st.sampled_from(["move", "where", "stop", "home", "recover"])
)
def test_noise_in_a_run_moves_nothing_off_the_rail_and_holds_nobody_up(
    said: list[str | bytes], action: str
) -> None:
    clock = VirtualClock()
    line = FuzzedLine(clock, said, polite=True)
    stage = ZaberStage(zaber_settings(), clock, open_line=lambda: line)
    stage.connect(30.0)
    stage.home(60.0)
    line.turn_rude()
    begun, deadline = clock.now(), clock.now() + 20.0
    with contextlib.suppress(MacontrolError):
        if action == "move":
            stage.move_to(10.0, deadline)
        elif action == "where":
            stage.where(deadline)
        elif action == "home":
            stage.home(deadline)
        elif action == "recover":
            stage.recover(deadline)
        else:
            stage.stop()
    assert clock.now() <= begun + 20.0 + 0.1
    if action in ("where", "stop"):
        assert not any(map(is_motion, line.sent))
    assert [text for text in line.sent if "move" in text] in ([], ["move abs 10000"])
    if not stage.is_homed:
        line.sent.clear()
        with contextlib.suppress(MacontrolError):
            stage.move_to(10.0, clock.now() + 1.0)
        assert not any(map(is_motion, line.sent))


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
    line = FuzzedLine(clock, [], polite=True)
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
