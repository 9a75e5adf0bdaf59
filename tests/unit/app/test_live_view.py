"""The live view draws the state of a run, and cannot disturb the run."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import deque
from math import inf, log2, nan
from typing import Any

import pytest
from rich.console import Console

from macontrol.controller.host.realtime import GRANT, RealtimeReport, Refusal
from macontrol.controller.recording.records import Event, EventKind
from macontrol.controller.recording.tally import Tally
from macontrol.display import live_view, picture
from macontrol.display.characters import ASCII, UNICODE, Glyphs
from macontrol.display.live_view import LiveView
from macontrol.display.picture import draw
from macontrol.display.run_state import snr_db
from support.display_run import a_run, played

WIDTHS = (60, 80, 120)


def lines(
    state: dict[str, Any], width: int = 96, glyphs: Glyphs = UNICODE, height: int = 24
) -> list[str]:
    console = Console(width=width, file=io.StringIO())
    with console.capture() as capture:
        console.print(draw(state, deque([1.0, 2.0, 99.0, -1.0]), width, height, glyphs))
    return capture.get().splitlines()


def drawn(state: dict[str, Any], width: int = 96, glyphs: Glyphs = UNICODE) -> str:
    return "\n".join(lines(state, width, glyphs))


def eventful(tally: Tally | None = None) -> LiveView:
    """A view with all its parts, and texts wider than any terminal."""
    view = LiveView(a_run(tally))
    view.notice = RealtimeReport(
        (
            Refusal("SCHED_FIFO", "no", "ask", by_limit=True),
            Refusal("locked memory", "no", "ask", by_limit=True),
        ),
        priority=0,
    ).notice
    for slot in range(10**6, 10**6 + 4):
        detail = f"does not answer {slot} " * 20
        view.submit(Event(slot, 0.0, EventKind.STAGE_FAULT, detail))
    return view


def test_a_picture_shows_the_state_of_the_run() -> None:
    tally = played()
    tally.late_arrivals, tally.missed, tally.refused = 2, 5, 1
    view = LiveView(a_run(tally))
    view.submit(Event(3, 0.0, EventKind.MISSED, "the process was stalled", 5.0))
    view.submit(Event(0, 0.0, EventKind.START, "slot 1"))
    view.submit(Event(2, 0.0, EventKind.LATE_REWARD, "the reward arrived late, in slots", 1.0))
    text = drawn(view.snapshot())
    for shown in (
        "macontrol · moveucb on sim",
        "slot 3, slots of 5 ms; bars show rewards to 4.0",
        "estimate ▁",
        "rail     ─",
        "reward   ▃▅█▁",
        "6 λ = 60 mm",
        "● antenna  ○ target",
        "position 3.060 λ 30.6 mm",
        "target   4.000 λ 40.0 mm",
        "reward   2.500",
        "averaged 2.500",
        "SNR      8.9 dB",
        "estimate 1.530 ± 0.200",
        "switches 1, in transit 100%",
        "travel   0.120 λ 1.2 mm",
        "7 (5 missed)",
        "faults   1",
        "planned",
        "wake-up",
        "actuate",
        "measure",
        "decide",
        "300 µs",
        "slot 3: missed-slots: the process was stalled, 5 slots",
    ):
        assert shown in text, f"{shown!r} is not in\n{text}"
    assert "slot 1" not in text
    assert "late-reward" not in text


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_no_line_wraps(width: int, glyphs: Glyphs) -> None:
    """A row of the picture is a row of the terminal, and the command to copy is complete."""
    tally = played()
    tally.slot = tally.slots = 10**8
    tally.travel, tally.missed, tally.position = 123456.789, 10**6, 5.999
    state = eventful(tally).snapshot()
    picture = lines(state, width, glyphs)
    assert {len(line) for line in picture} == {width}
    assert len(picture) == len(lines(state, 500, glyphs))
    assert sum(GRANT in line for line in picture) == 1


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_a_long_name_is_cut_at_its_start(glyphs: Glyphs) -> None:
    port = "/home/ada/" + "lab/" * 20 + "rail"
    state = {**LiveView(a_run()).snapshot(), "title": f"moveucb on {port}"}
    assert "/lab/rail " in lines(state, 60, glyphs)[0]
    assert "moveucb on " + glyphs.ellipsis in lines(state, 60, glyphs)[0]
    assert "moveucb on /home/ada/lab/" in lines(state, 200, glyphs)[0]


def test_a_repeated_event_takes_one_line_and_its_cause_stays_visible() -> None:
    view = LiveView(a_run())
    view.submit(Event(8, 0.0, EventKind.NO_SIGNAL, "is the transmitter on?"))
    for slot in range(8, 30):
        view.submit(Event(slot, 0.0, EventKind.INVALID, "no-signal"))
    cause, repeated = view.snapshot()["events"]
    assert cause.startswith("slot 8: no-signal")
    assert repeated.startswith("slot 29: invalid-measurement")


def test_faults_and_invalid_measurements_are_counted_separately() -> None:
    tally = played()
    tally.stage_faults, tally.probe_faults, tally.invalid = 2, 3, 114
    assert "faults   5, invalid 114 " in drawn(LiveView(a_run(tally)).snapshot())


@pytest.mark.fault("real-time-refused")
@pytest.mark.parametrize(("height", "events"), [(20, 0), (22, 2), (24, 4), (50, 4)])
def test_on_a_low_terminal_the_notice_replaces_old_events(height: int, events: int) -> None:
    picture = lines(eventful().snapshot(), 80, height=height)
    assert len(picture) <= height
    assert any(GRANT in line for line in picture)
    shown = [slot for slot in range(10**6, 10**6 + 4) if f"slot {slot}" in "\n".join(picture)]
    assert shown == list(range(10**6 + 4 - events, 10**6 + 4))


@pytest.mark.fault("live-view-ascii")
def test_on_an_ascii_terminal_all_characters_are_plain() -> None:
    picture = drawn(eventful().snapshot(), 60, ASCII)
    assert picture.isascii()
    assert "slot 1000003: stage-fault: does not answer" in picture
    assert "... |" in picture


@pytest.mark.parametrize("width", [20, 21, 30, 96])
@pytest.mark.parametrize("odd", [nan, inf, -inf, 1e300, -5.0])
def test_any_numbers_can_be_drawn_on_any_terminal(width: int, odd: float) -> None:
    tally = played()
    tally.target = tally.reward = tally.recent_reward = odd
    state = LiveView(a_run(tally)).snapshot()
    state["position"] = state["estimate_here"] = state["estimate"][3] = odd
    assert {len(line) for line in lines(state, width)} == {width}


def test_a_policy_without_an_estimate_is_drawn_without_one() -> None:
    state = LiveView(a_run(posterior=False)).snapshot()
    assert state["estimate"] == []
    assert "estimate –" in drawn(state)


def test_an_activity_between_slots_is_shown() -> None:
    tally = played()
    run = a_run(tally, activity="recovering the stage")
    assert "recovering the stage …" in drawn(LiveView(run).snapshot())


def test_before_the_first_slot_it_is_starting() -> None:
    assert "starting …" in drawn(LiveView(a_run(Tally(3.0))).snapshot())


def test_the_last_line_of_a_traceback_is_shown() -> None:
    view = LiveView(a_run())
    view.submit(Event(3, 0.0, EventKind.INTERNAL, "Traceback\n  somewhere\nKeyError: 'x'\n"))
    text = drawn(view.snapshot())
    assert "KeyError: 'x'" in text
    assert "somewhere" not in text


@pytest.mark.parametrize(
    ("reward", "decibels"), [(0.8, 0.0), (0.8 * log2(11), 10.0), (1e6, inf), (0.0, nan), (-1, nan)]
)
def test_the_snr_is_computed_from_the_reward(reward: float, decibels: float) -> None:
    tally = Tally(0.0)
    tally.recent_reward = reward
    assert snr_db(tally, 0.8) == pytest.approx(decibels, abs=1e-9, nan_ok=True)
    tally.recent_reward, tally.recent_share = reward / 2, 0.4  # the antenna moved in each slot
    assert snr_db(tally, 0.8) == pytest.approx(decibels, abs=1e-9, nan_ok=True)


@pytest.fixture
def _signals_kept() -> Any:
    before = [(number, signal.getsignal(number)) for number in picture.IGNORED_SIGNALS]
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
    lines = [json.dumps(LiveView(a_run(tally)).snapshot()) for tally in states]
    picture.main(io.StringIO("\n".join(lines) + "\n"))
    out = capsys.readouterr().out
    assert "averaged" in out
    # The cursor rests below the picture: a Ctrl-C that the terminal echoes displaces no line.
    assert set(re.findall("╯(?:\x1b\\[[0-9;]*m)*(.)", out, re.DOTALL)) == {"\n"}
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def replace_view(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run another program as the drawing process."""
    real = subprocess.Popen

    def popen(_command: list[str], **kind: Any) -> Any:
        return real([sys.executable, "-c", program], **kind)

    monkeypatch.setattr(subprocess, "Popen", popen)


def test_states_are_sent_and_the_last_one_on_closing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    replace_view("import sys; print(sys.stdin.readlines()[-1])", monkeypatch)
    monkeypatch.setattr(live_view, "_CLOSE_WITHIN_S", 20.0)
    tally = played()
    view = LiveView(a_run(tally))
    view.start()
    tally.slot = 4711
    view.close()
    assert json.loads(capfd.readouterr().out)["slot"] == 4711


def test_a_run_continues_when_its_view_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_view("raise SystemExit(3)", monkeypatch)
    monkeypatch.setattr(live_view, "_INTERVAL_S", 0.01)
    view = LiveView(a_run())
    view.start()
    assert view._process is not None
    view._process.wait(20)
    time.sleep(0.1)
    view.close()
    assert not view._thread.is_alive()


def test_a_view_that_hangs_is_killed_and_the_cursor_shown(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    replace_view("import time; time.sleep(60)", monkeypatch)
    monkeypatch.setattr(live_view, "_CLOSE_WITHIN_S", 0.1)
    view = LiveView(a_run())
    view.start()
    begin = time.monotonic()
    view.close()
    assert time.monotonic() - begin < 20
    assert view._process is not None
    assert view._process.returncode == -signal.SIGKILL
    assert "\x1b[?25h" in capfd.readouterr().out


def test_the_view_ignores_the_runs_signals(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Even while it starts: Ctrl-C is for the run."""
    replace_view("import sys; sys.stdin.read(); print('drawn')", monkeypatch)
    monkeypatch.setattr(live_view, "_CLOSE_WITHIN_S", 20.0)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    view = LiveView(a_run())
    view.start()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == mask
    assert view._process is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(view._process.pid, number)
    view.close()
    assert view._process.returncode == 0
    assert "drawn" in capfd.readouterr().out


def test_a_view_that_was_not_started_can_be_closed() -> None:
    LiveView(a_run()).close()


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (Event(5, 0.0, EventKind.RECOVERY, "the stage works again", 9.214), "again after 9.21 s"),
        (Event(5, 0.0, EventKind.HOMING, "homed again", 3.43), "homed again, in 3.43 s"),
        (Event(5, 0.0, EventKind.LATE_ARRIVAL, "not there", 0.0463), "there, 46.30 ms late"),
        (Event(5, 0.0, EventKind.LATE_DECISION, "decided", 2.0), "decided, 2 s late"),
        (Event(5, 0.0, EventKind.SURVEY, "61 samples, sigma_f", 0.52), "sigma_f 0.52"),
        (Event(5, 0.0, EventKind.STAGE_FAULT, "silent"), "slot 5: stage-fault: silent"),
        (Event(5, 0.0, EventKind.MISSED, "stalled", 1.0), "stalled, 1 slot"),
    ],
)
def test_the_value_of_an_event_has_its_unit(event: Event, expected: str) -> None:
    view = LiveView(a_run())
    view.submit(event)
    assert view.snapshot()["events"][0].endswith(expected)
