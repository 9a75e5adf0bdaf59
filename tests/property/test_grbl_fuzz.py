"""Arbitrary bytes from the wire never crash the driver, never hang it, never move anything."""

from __future__ import annotations

import contextlib
from collections import deque

from grbl_bench import BANNER, BUILD, HOMING, LOCKED, SETTINGS, stage_settings, status
from hypothesis import given, settings
from hypothesis import strategies as st

from macontrol.config.errors import MacontrolError
from macontrol.controller.clock import VirtualClock
from macontrol.hal.grbl import GrblStage
from macontrol.hal.grbl_protocol import Banner, Noise, parse
from macontrol.hal.serial_line import LONGEST_LINE, LineBuffer

WORDS = [
    *(b"ok", b"error:9", b"error:20", b"ALARM:1", b"ALARM:2", b"ALARM:3", BANNER, LOCKED),
    *(b"[MSG:Reset to continue]", b"$100=80.000", b"$100=-1", b"$130=0.000", *BUILD),
    *(status(state, x) for state in ("Idle", "Run", "Hold:0", "Alarm") for x in (-2.0, -50.0)),
    *(b"<Idle|MPos:1e9,0,0>", b"<Idle|MPos:99999999.0,0.0,0.0>", b"<Idle|WPos:1.0>", b""),
]
lines = st.one_of(st.sampled_from(WORDS), st.binary(max_size=40))


@given(st.binary(max_size=200))
def test_any_line_is_understood_as_something(line: bytes) -> None:
    parse(line)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_a_banner_is_seen_whatever_stands_around_it(before: bytes, after: bytes) -> None:
    line = before.replace(b"[", b"").replace(b"<", b"") + b"Grbl 1.1h ['$' for help]"
    report = parse(line)
    assert isinstance(report, Banner) or before.strip().startswith(b"$")
    assert not isinstance(parse(before + b"\xff" + after), Banner) or b"rbl" in before + after


@given(st.lists(st.binary(max_size=3000), max_size=20))
def test_the_line_buffer_takes_anything_and_stays_small(chunks: list[bytes]) -> None:
    buffer = LineBuffer()
    for chunk in chunks:
        buffer.feed(chunk)
        while (line := buffer.take()) is not None:
            assert b"\n" not in line
        assert len(buffer._partial) <= LONGEST_LINE


class FuzzedLine:
    """A board that answers with whatever is in the list, after its greeting if it is polite."""

    def __init__(self, clock: VirtualClock, answers: list[bytes], *, polite: bool) -> None:
        self._clock = clock
        self._answers = deque(answers)
        self._polite = polite
        self._greetings: deque[bytes] = deque([BANNER] if polite else [])
        self.sent: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.sent.append(data)
        if self._polite:
            known = {
                b"?": [status("Idle", -2.0)],
                b"$I\n": BUILD,
                b"$$\n": SETTINGS,
                b"$H\n": [HOMING[0][1][0][1]],
            }
            self._greetings.extend(known.get(data, [b"ok", b"ok"]))  # type: ignore[arg-type]

    def turn_rude(self) -> None:
        self._polite = False
        self.sent.clear()

    def read_line(self, deadline_s: float) -> bytes | None:
        if self._polite:
            if self._greetings:
                return self._greetings.popleft()
        elif self._answers and self._clock.now() < deadline_s:
            self._clock.sleep_until(self._clock.now() + 0.001)
            return self._answers.popleft()
        self._clock.sleep_until(deadline_s)
        return None

    def close(self) -> None: ...


def is_motion(data: bytes) -> bool:
    return b"G1" in data or b"G0" in data or b"$H" in data or b"$J" in data


@settings(max_examples=150)
@given(st.lists(lines, max_size=60))
def test_a_stranger_on_the_port_never_gets_a_motion_out_of_connecting(answers: list[bytes]) -> None:
    clock = VirtualClock()
    line = FuzzedLine(clock, answers, polite=False)
    stage = GrblStage(stage_settings(), clock, open_line=lambda: line)
    with contextlib.suppress(MacontrolError):
        stage.connect(20.0)
    assert clock.now() <= 20.0 + 0.1
    with contextlib.suppress(MacontrolError):
        stage.move_to(10.0, clock.now() + 1.0)
    assert not any(map(is_motion, line.sent))


@settings(max_examples=150)
@given(st.lists(lines, max_size=60), st.sampled_from(["move", "where", "stop", "home", "recover"]))
def test_noise_in_a_run_moves_nothing_off_the_rail_and_holds_nobody_up(
    answers: list[bytes], action: str
) -> None:
    clock = VirtualClock()
    line = FuzzedLine(clock, answers, polite=True)
    stage = GrblStage(stage_settings(), clock, open_line=lambda: line)
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
    motions = [data for data in line.sent if b"G1X" in data]
    assert motions in ([], [b"G21G90G94G53G1X-12.0000F6000.0\nG4P0\n"])
    if not stage.is_homed:
        line.sent.clear()
        with contextlib.suppress(MacontrolError):
            stage.move_to(10.0, clock.now() + 1.0)
        assert not any(map(is_motion, line.sent))


def test_noise_is_told_apart() -> None:
    assert parse(b"\x00") == Noise(b"\x00")
