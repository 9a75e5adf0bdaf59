"""The format of a run's output depends on where it goes, or on an option."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from macontrol.controller.host.realtime import GRANT, RealtimeReport, Refusal
from macontrol.controller.recording.tally import Tally
from macontrol.display.event_log import JsonLines, PlainLines
from macontrol.display.run_display import RunDisplay
from macontrol.display.summary import summarise
from macontrol.run_options import LogFormat


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch, term: str | None = "xterm") -> Iterator[None]:
    """Standard output is a terminal of this type."""
    master, slave = os.openpty()
    with os.fdopen(slave, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.delenv("TERM", raising=False)
        if term is not None:
            monkeypatch.setenv("TERM", term)
        yield
    os.close(master)


def test_a_terminal_gets_a_live_view(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch):
        assert RunDisplay("auto").is_view


@pytest.mark.parametrize("term", ["dumb", None])
def test_a_dumb_terminal_gets_lines(term: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch, term):
        display = RunDisplay("auto")
    assert not display.is_view
    assert isinstance(display._lines, PlainLines)


@pytest.mark.parametrize(("asked", "kind"), [("text", PlainLines), ("json", JsonLines)])
def test_an_option_chooses_the_format_on_a_terminal_too(
    asked: LogFormat, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    with terminal(monkeypatch):
        display = RunDisplay(asked)
    assert not display.is_view
    assert isinstance(display._lines, kind)


def test_a_pipe_gets_text_and_the_journal_json(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.delenv("JOURNAL_STREAM", raising=False)
        assert isinstance(RunDisplay("auto")._lines, PlainLines)
        status = os.fstat(writing)
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
        assert isinstance(RunDisplay("auto")._lines, JsonLines)
    os.close(reading)


@pytest.mark.fault("real-time-refused")
def test_refused_real_time_and_its_command_are_in_the_summary_of_missed_slots(
    capfd: pytest.CaptureFixture[str],
) -> None:
    display = RunDisplay("text")
    refusal = Refusal("SCHED_FIFO", "the limit is 0", "ask", by_limit=True)
    display.show_realtime(RealtimeReport((refusal,), 0))
    tally = Tally(3.0)
    tally.missed = 1
    display.show(summarise(tally, {}), 10.0)
    out = capfd.readouterr().out
    assert "refused: SCHED_FIFO" in out
    assert f"  {GRANT}\n" in out


def test_a_note_replaces_the_line_of_the_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = os.openpty()
    with os.fdopen(slave, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setenv("TERM", "xterm")
        RunDisplay("auto").note("the stage does not answer")
        shown = os.read(master, 1000)
    os.close(master)
    assert shown == b"\r\x1b[2Kthe stage does not answer\r\n"
