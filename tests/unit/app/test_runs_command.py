"""`macontrol runs --schema` describes the columns, events and reasons of a run file."""

from __future__ import annotations

import pytest

from macontrol.cli import main
from macontrol.controller.recording.events import REASONS, EventKind
from macontrol.controller.recording.runfile.schema import EVENT_COLUMNS, SLOT_COLUMNS


def test_every_column_event_and_reason_is_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["runs", "--schema"]) == 0
    rows = [
        tuple(cell.strip() for cell in line.strip("│").split("│"))
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("│")
    ]
    slots = [("slots", column.name, column.unit, column.meaning) for column in SLOT_COLUMNS]
    events = [("events", column.name, column.unit, column.meaning) for column in EVENT_COLUMNS]
    kinds = [(str(kind), kind.meaning, kind.number) for kind in EventKind]
    assert rows == [*slots, *events, *kinds, *REASONS.items()]


def test_without_the_option_it_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs"]) == 64
    assert "--schema" in capsys.readouterr().err
