"""The log writes JSON or plain lines in its own thread, even if its reader blocks."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from macontrol.controller.recording.records import Event, EventKind, LateReward, SlotRecord
from macontrol.controller.recording.tally import Tally
from macontrol.display import event_log as event_log_module
from macontrol.display.event_log import EventLog, JsonLines, PlainLines, summary_text
from macontrol.display.event_text import event_text
from macontrol.display.output import Output
from macontrol.display.summary import summarise

PATIENCE_S = 20.0


class Collected:
    """An output that keeps what is written, and can be made to hang."""

    is_terminal = False
    is_unicode = True

    def __init__(self) -> None:
        self.text = ""
        self.open = threading.Event()
        self.open.set()

    def write(self, text: str) -> int:
        self.open.wait(10)
        self.text += text
        return len(text)

    def flush(self) -> None: ...

    @property
    def lines(self) -> list[dict[str, Any]]:
        def refuse(constant: str) -> None:
            raise ValueError(f"{constant} is not JSON")

        return [json.loads(line, parse_constant=refuse) for line in self.text.splitlines()]


@pytest.fixture
def output() -> Collected:
    return Collected()


@pytest.fixture
def log(output: Collected) -> EventLog:
    log = EventLog(Tally(3.0), JsonLines(output))  # type: ignore[arg-type]
    log.start()
    return log


def event(kind: EventKind, detail: str = "", value: float | None = None, slot: int = 7) -> Event:
    return Event(slot, 1.0, kind, detail, value)


def test_an_event_is_a_line_with_level_and_time(log: EventLog, output: Collected) -> None:
    log.submit(event(EventKind.LATE_ARRIVAL, "the stage was not there", 0.25))
    log.close(within_s=PATIENCE_S)
    (line,) = output.lines
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "late-arrival",
        "level": "warning",
        "slot": 7,
        "detail": "the stage was not there",
        "value": 0.25,
    }


@pytest.mark.parametrize(
    ("kind", "level"),
    [
        (EventKind.START, "info"),
        (EventKind.RECOVERY, "info"),
        (EventKind.MISSED, "warning"),
        (EventKind.WARNING, "warning"),
        (EventKind.REFUSED, "error"),
        (EventKind.STAGE_FAULT, "error"),
        (EventKind.RECORDING, "error"),
        (EventKind.INTERNAL, "error"),
    ],
)
def test_levels(log: EventLog, output: Collected, kind: EventKind, level: str) -> None:
    log.submit(event(kind))
    log.close(within_s=PATIENCE_S)
    assert output.lines[0]["level"] == level


def test_slots_and_late_rewards_are_not_lines(log: EventLog, output: Collected) -> None:
    log.submit(LateReward(1, 1.0, None))
    log.submit(SlotRecord(*[0] * len(SlotRecord._fields)))  # type: ignore[arg-type]
    log.close(within_s=PATIENCE_S)
    assert output.lines == []


def test_repeated_events_are_counted(log: EventLog, output: Collected) -> None:
    for slot in range(100):
        log.submit(event(EventKind.LATE_ARRIVAL, slot=slot))
    log.submit(event(EventKind.REFUSED))
    log.close(within_s=PATIENCE_S)
    written = [line["event"] for line in output.lines]
    assert written == ["late-arrival"] * 5 + ["refused-command", "more-of-the-same"]
    assert output.lines[-1]["late-arrival"] == 95


def test_every_noise_floor_is_written(output: Collected) -> None:
    log = EventLog(Tally(3.0), PlainLines(output))  # type: ignore[arg-type]
    log.start()
    log.submit(event(EventKind.NOISE_FLOOR, "in use", -40.0))
    log.submit(event(EventKind.NOISE_FLOOR, "not plausible; keeping the previous noise floor"))
    log.submit(event(EventKind.NOISE_FLOOR, "measured again", -40.1))
    log.close(within_s=PATIENCE_S)
    assert [text in output.text for text in ("in use", "not plausible", "-40.1 dBFS")] == [True] * 3
    assert "not shown" not in output.text


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_nan_and_infinity_are_null(log: EventLog, output: Collected, value: float) -> None:
    log.submit(event(EventKind.REFUSED, "not a number", value))
    log.close({"reward": value, "theory": {"reach": {"value": value}}, "slots": 3}, PATIENCE_S)
    refused, summary = output.lines
    assert refused["value"] is None
    assert summary["reward"] is None
    assert summary["theory"] == {"reach": {"value": None}}
    assert summary["slots"] == 3


def test_a_traceback_is_one_line(log: EventLog, output: Collected) -> None:
    log.submit(event(EventKind.INTERNAL, "Traceback\n  line\nλ"))
    log.close(within_s=PATIENCE_S)
    assert output.lines[0]["detail"] == "Traceback\n  line\nλ"
    assert "λ" in output.text


def test_the_summary_comes_last(log: EventLog, output: Collected) -> None:
    for _ in range(10):
        log.submit(event(EventKind.MISSED))
    log.submit(event(EventKind.STOP))
    log.close({"slots": 3}, PATIENCE_S)
    assert [line["event"] for line in output.lines[-3:]] == ["stop", "more-of-the-same", "summary"]
    log.close(within_s=PATIENCE_S)
    assert output.lines[-1]["event"] == "summary"


def test_the_status_is_written_every_period_even_before_the_first_reward(
    output: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JsonLines, "period_s", 0.05)
    log = EventLog(Tally(3.0), JsonLines(output))  # type: ignore[arg-type]
    log.start()
    ends = time.monotonic() + 20
    while not output.text and time.monotonic() < ends:
        time.sleep(0.01)
    log.close(within_s=PATIENCE_S)
    status = output.lines[0]
    assert status["event"] == "status"
    assert status["reward"] is None
    assert {"slot", "position", "target", "travel", "switches", "late"} <= set(status)


def test_the_start_position_has_its_unit(output: Collected) -> None:
    PlainLines(output).event(Event(0, 0.0, EventKind.APPROACH, "to the start position", 1.45))  # type: ignore[arg-type]
    assert output.text.rstrip().endswith("approach: to the start position, 1.450 λ")


def test_a_blocked_reader_blocks_nothing_else(
    log: EventLog, output: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log_module, "_MOST_WAITING", 100)
    output.open.clear()
    begin = time.monotonic()
    for slot in range(5000):
        log.submit(event(EventKind.MISSED, slot=slot))
    log.close({"slots": 1}, within_s=0.1)
    assert time.monotonic() - begin < 5
    assert log._queue.qsize() <= 102
    output.open.set()
    log._thread.join(10)
    (withheld,) = (line for line in output.lines if line["event"] == "more-of-the-same")
    written = sum(line["event"] == "missed-slots" for line in output.lines)
    assert written + withheld["missed-slots"] + withheld["dropped"] == 5000


class TestPlainLines:
    """The format for a person who reads a pipe or a file."""

    @pytest.fixture
    def log(self, output: Collected) -> EventLog:
        log = EventLog(Tally(3.0), PlainLines(output))  # type: ignore[arg-type]
        log.start()
        return log

    def test_an_event_is_a_line_with_its_level_and_its_value(
        self, log: EventLog, output: Collected
    ) -> None:
        log.submit(event(EventKind.STAGE_FAULT, "does not answer"))
        log.submit(event(EventKind.RECOVERY, "the stage works again", 9.2))
        log.close(within_s=PATIENCE_S)
        fault, recovery = output.text.splitlines()
        assert fault.endswith(" error: slot 7: stage-fault: does not answer")
        assert recovery.endswith(" slot 7: recovery: the stage works again after 9.2 s")

    def test_the_value_of_a_lost_signal_is_explained(
        self, log: EventLog, output: Collected
    ) -> None:
        log.submit(Event(9, 1.0, EventKind.NO_SIGNAL, "is the transmitter on?", 8.0))
        log.close()
        assert output.text.rstrip().endswith("is the transmitter on? (slots in a row: 8)")

    def test_a_repeated_kind_is_counted(self, log: EventLog, output: Collected) -> None:
        for slot in range(5000):
            log.submit(event(EventKind.MISSED, "stalled", 1.0, slot=slot))
            log.submit(event(EventKind.STAGE_FAULT, "no answer", slot=slot))
        log.close(within_s=PATIENCE_S)
        missed, fault, more = output.text.splitlines()
        assert "missed-slots" in missed
        assert "stage-fault" in fault
        assert more.endswith("not shown: 4999 missed-slots, 4999 stage-fault")

    @pytest.mark.parametrize("kind", [EventKind.STAGE_FAULT, EventKind.PROBE_FAULT])
    def test_a_fault_with_another_cause_is_written(
        self, log: EventLog, output: Collected, kind: EventKind
    ) -> None:
        for cause in ("no answer", "no answer", "not homed", "no answer"):
            log.submit(event(kind, cause))
        log.close(within_s=PATIENCE_S)
        *faults, more = output.text.splitlines()
        assert [line.rpartition(": ")[2] for line in faults] == ["no answer", "not homed"]
        assert more.endswith(f"2 {kind}")

    def test_every_action_of_an_operator_is_written(self, log: EventLog, output: Collected) -> None:
        for position in (2.0, 4.5, 2.5):
            log.submit(event(EventKind.ACTION, "goto by lab (pid 7)", position))
        log.submit(event(EventKind.ACTION, "resume by lab (pid 7)"))
        log.close(within_s=PATIENCE_S)
        assert len(output.text.splitlines()) == 4

    def test_causes_without_end_are_counted(self, log: EventLog, output: Collected) -> None:
        for number in range(5000):
            log.submit(event(EventKind.PROBE_FAULT, f"late by {number} ms"))
        log.submit(event(EventKind.STAGE_FAULT, "no answer"))
        log.close(within_s=PATIENCE_S)
        lines = output.text.splitlines()
        assert len(lines) == 20 + 1 + 1
        assert lines[-1].endswith("not shown: 4980 probe-fault")

    def test_every_warning_is_written(self, log: EventLog, output: Collected) -> None:
        for detail in ("nothing is recorded", "no full real time"):
            log.submit(event(EventKind.WARNING, detail))
        log.close(within_s=PATIENCE_S)
        assert [line.rpartition(": ")[2] for line in output.text.splitlines()] == [
            "nothing is recorded",
            "no full real time",
        ]

    def test_the_summary_is_a_table_with_the_counts(self, output: Collected) -> None:
        tally = Tally(3.0)
        summary = summarise(tally, {}) | {"events": {"missed-slots": 12, "stop": 1}}
        log = EventLog(tally, PlainLines(output))  # type: ignore[arg-type]
        log.start()
        log.close(summary, PATIENCE_S)
        assert "0 slots" in output.text
        assert "12 missed-slots, 1 stop" in output.text
        assert "{" not in output.text

    def test_an_ascii_output_gets_an_ascii_table(
        self, output: Collected, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Collected, "is_unicode", False)
        tally = Tally(3.0)
        theory = tally.theory(length=6.0, rho_max=0.06, margin=0.1)
        text = summary_text(summarise(tally, theory), output)  # type: ignore[arg-type]
        assert text.isascii()
        assert "rho_max" in text
        table = text.splitlines()[1:]
        assert len({len(line) for line in table}) == 1, text


class TestOutput:
    def test_text_is_written(self, capfd: pytest.CaptureFixture[str]) -> None:
        assert Output().write("λ\n") == 2
        assert capfd.readouterr().out == "λ\n"

    def test_a_stream_without_a_descriptor_works(self, capsys: pytest.CaptureFixture[str]) -> None:
        output = Output()
        assert not output.is_terminal
        output.write("hello\n")
        output.flush()
        assert capsys.readouterr().out == "hello\n"

    @pytest.mark.parametrize(
        ("encoding", "written"),
        [
            ("utf-8", "3 λ ≤ 4 µs … ☃".encode()),
            ("ascii", b"3 lambda <= 4 us ... ?"),
            ("latin-1", b"3 lambda <= 4 \xb5s ... ?"),
        ],
    )
    def test_characters_beyond_the_encoding_are_replaced(
        self, encoding: str, written: bytes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb") as reader:
            with os.fdopen(writing, "w", encoding=encoding) as stream:
                monkeypatch.setattr(sys, "stdout", stream)
                Output().write("3 λ ≤ 4 µs … ☃")
            assert reader.read() == written

    def test_the_journal_is_known_by_its_device_and_inode(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reading, writing = os.pipe()
        status = os.fstat(writing)
        with os.fdopen(writing, "w") as stream:
            monkeypatch.setattr(sys, "stdout", stream)
            monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
            assert Output().is_journal
            # Inherited, as by a terminal that a service of the desktop has started.
            monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino + 1}")
            assert not Output().is_journal
            monkeypatch.delenv("JOURNAL_STREAM")
            assert not Output().is_journal
        os.close(reading)

    def test_a_missing_standard_output(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdout", None)
        output = Output()
        assert not output.is_terminal
        output.write("nobody reads")

    def test_a_broken_pipe_is_ignored(self, monkeypatch: pytest.MonkeyPatch) -> None:
        reading, writing = os.pipe()
        with os.fdopen(writing, "w") as stream:
            monkeypatch.setattr(sys, "stdout", stream)
            output = Output()
            os.close(reading)
            output.write("nobody reads")

    def test_a_full_device_is_ignored(self, monkeypatch: pytest.MonkeyPatch) -> None:
        if not Path("/dev/full").exists():
            pytest.skip("there is no /dev/full here")
        with open("/dev/full", "w") as stream:
            monkeypatch.setattr(sys, "stdout", stream)
            Output().write("no room")

    def test_a_blocked_write_times_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        reading, writing = os.pipe()
        with os.fdopen(writing, "w") as stream:
            monkeypatch.setattr(sys, "stdout", stream)
            begin = time.monotonic()
            Output().write_within("x" * 1_000_000, 0.1)  # more than a pipe buffers
            assert time.monotonic() - begin < 5
            os.close(reading)

    def test_a_terminal_is_recognized(self, monkeypatch: pytest.MonkeyPatch) -> None:
        terminal, process = os.openpty()
        with os.fdopen(process, "w") as stream:
            monkeypatch.setattr(sys, "stdout", stream)
            assert Output().is_terminal
        os.close(terminal)


def test_a_noise_floor_of_the_reference_is_written_once() -> None:
    floor = Event(70, 1.0, EventKind.REFERENCE, "rtl_tcp: noise floor -40.0 dBFS", -40.0)
    assert event_text(floor).count("40") == 1
