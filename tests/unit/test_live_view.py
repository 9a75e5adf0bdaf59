"""The live view: what it draws, and that neither it nor its terminal can hurt a run."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from math import inf, nan
from typing import Any

import pytest
from rich.console import Console

from macontrol.controller.record import Event, EventKind
from macontrol.controller.tally import Tally
from macontrol.display import live_view
from macontrol.display.live_view import LiveView, draw

FACTS = {"title": "moveucb on sim", "length": 6.0, "slot_s": 0.005, "g_max": 4.0}


def played(slots: int = 3) -> Tally:
    tally = Tally(3.0)
    for slot in range(1, slots + 1):
        tally.slot, tally.slots = slot, tally.slots + 1
        tally.stand_at(3.0 + 0.06 * (slot % 2), 6.0, tally.position)
        tally.see(2.5)
        tally.aim(4.0, 3.06, 0.0)
        for phase in (tally.wake, tally.actuate, tally.measure, tally.decide):
            phase.add(1e-4 * slot)
    return tally


def drawn(state: dict[str, Any], width: int = 96) -> str:
    console = Console(width=width, file=io.StringIO())
    with console.capture() as capture:
        console.print(draw(state, deque([1.0, 2.0, 99.0, -1.0]), width))
    return capture.get()


def test_a_picture_shows_what_the_run_is_about() -> None:
    tally = played()
    tally.late_arrivals, tally.missed, tally.refused = 2, 5, 1
    view = LiveView(tally, FACTS)
    view.hand_over(Event(3, 0.0, EventKind.MISSED, "the process was stalled", 5.0))
    view.hand_over(Event(0, 0.0, EventKind.START, "slot 1"))
    view.hand_over(Event(2, 0.0, EventKind.LATE_REWARD, "came slots later", 1.0))
    text = drawn(view._snapshot())
    for shown in (
        "macontrol · moveucb on sim",
        "position  3.060 λ",
        "target    4.000 λ",
        "reward    2.500",
        "averaged  2.500",
        "switches    1",
        "travel",
        "7 (5 slots missed)",
        "faults      1",
        "wake-up",
        "actuate",
        "measure",
        "decide",
        "300 µs",
        "slot 3: missed-slots: the process was stalled, 5 slots",
        "●",
        "○",
        "█",
    ):
        assert shown in text, f"{shown!r} is not in\n{text}"
    assert "slot 1" not in text
    assert "late-reward" not in text


@pytest.mark.parametrize("width", [20, 21, 30, 96])
@pytest.mark.parametrize("odd", [nan, inf, -inf, 1e300, -5.0])
def test_any_numbers_can_be_drawn_on_any_terminal(width: int, odd: float) -> None:
    tally = played()
    tally.target = tally.reward = tally.recent_reward = odd
    tally.position = 3.0 if odd != odd else odd
    drawn(LiveView(tally, FACTS)._snapshot(), width)


def test_of_a_traceback_the_last_line_is_shown() -> None:
    view = LiveView(played(), FACTS)
    view.hand_over(Event(3, 0.0, EventKind.INTERNAL, "Traceback\n  somewhere\nKeyError: 'x'\n"))
    text = drawn(view._snapshot())
    assert "KeyError: 'x'" in text
    assert "somewhere" not in text


@pytest.fixture
def _signals_kept() -> Any:
    before = [(number, signal.getsignal(number)) for number in live_view._NOT_FOR_THE_VIEW]
    yield
    for number, handler in before:
        signal.signal(number, handler)


@pytest.mark.usefixtures("_signals_kept")
def test_the_drawing_process_draws_until_its_input_ends(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    unseen = Tally(3.0)
    unseen.slots = 1  # a slot has passed, and no reward has come
    states = [Tally(3.0), unseen, played()]
    lines = [json.dumps(LiveView(tally, FACTS)._snapshot()) for tally in states]
    live_view.main(io.StringIO("\n".join(lines) + "\n"))
    assert "averaged" in capsys.readouterr().out
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def stand_in(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another program take the place of the drawing process."""
    real = subprocess.Popen

    def popen(_command: list[str], **kind: Any) -> Any:
        return real([sys.executable, "-c", program], **kind)

    monkeypatch.setattr(subprocess, "Popen", popen)


def test_states_are_sent_and_the_last_one_on_closing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    stand_in("import sys; print(sys.stdin.readlines()[-1])", monkeypatch)
    monkeypatch.setattr(live_view, "_CLOSE_WITHIN_S", 20.0)
    tally = played()
    view = LiveView(tally, FACTS)
    view.start()
    tally.slot = 4711
    view.close()
    assert json.loads(capfd.readouterr().out)["slot"] == 4711


def test_a_view_that_dies_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in("raise SystemExit(3)", monkeypatch)
    monkeypatch.setattr(live_view, "_INTERVAL_S", 0.01)
    view = LiveView(played(), FACTS)
    view.start()
    assert view._process is not None
    view._process.wait(20)
    time.sleep(0.1)
    view.close()
    assert not view._thread.is_alive()


def test_a_view_that_hangs_is_killed_and_the_cursor_shown(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    stand_in("import time; time.sleep(60)", monkeypatch)
    monkeypatch.setattr(live_view, "_CLOSE_WITHIN_S", 0.1)
    view = LiveView(played(), FACTS)
    view.start()
    begin = time.monotonic()
    view.close()
    assert time.monotonic() - begin < 20
    assert view._process is not None
    assert view._process.returncode == -signal.SIGKILL
    assert "\x1b[?25h" in capfd.readouterr().out


def test_the_view_does_not_hear_the_runs_signals(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Not even while it starts: a Ctrl-C is meant for the run."""
    stand_in("import sys; sys.stdin.read(); print('drawn')", monkeypatch)
    monkeypatch.setattr(live_view, "_CLOSE_WITHIN_S", 20.0)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    view = LiveView(played(), FACTS)
    view.start()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == mask
    assert view._process is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(view._process.pid, number)
    view.close()
    assert view._process.returncode == 0
    assert "drawn" in capfd.readouterr().out


def test_a_view_never_started_can_be_closed() -> None:
    LiveView(played(), FACTS).close()


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (Event(5, 0.0, EventKind.RECOVERY, "the stage works again", 9.214), "again after 9.21 s"),
        (Event(5, 0.0, EventKind.HOMING, "homed again", 3.43), "homed again, in 3.43 s"),
        (Event(5, 0.0, EventKind.LATE_ARRIVAL, "not there", 0.0463), "there, 0.0463 s late"),
        (Event(5, 0.0, EventKind.SURVEY, "61 samples, sigma_f", 0.52), "sigma_f 0.52"),
        (Event(5, 0.0, EventKind.STAGE_FAULT, "silent"), "slot 5: stage-fault: silent"),
    ],
)
def test_an_events_number_is_told_with_its_unit(event: Event, told: str) -> None:
    view = LiveView(Tally(3.0), FACTS)
    view.hand_over(event)
    assert view._events[0].endswith(told)
