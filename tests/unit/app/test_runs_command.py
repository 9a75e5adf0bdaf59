"""`macontrol runs --schema` describes the columns and events of a run file."""

from __future__ import annotations

import pytest

from macontrol.cli import main
from macontrol.controller.recording.records import EventKind
from macontrol.controller.recording.runfile.schema import SLOT_COLUMNS


def first_words(text: str) -> set[str]:
    """The first cell of each row of the tables."""
    return {line.split()[1] for line in text.splitlines() if line.startswith("│")}


def test_every_column_and_every_event_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "--schema"]) == 0
    names = {column.name for column in SLOT_COLUMNS} | {str(kind) for kind in EventKind}
    assert names <= first_words(capsys.readouterr().out)


def test_without_the_option_it_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs"]) == 64
    assert "--schema" in capsys.readouterr().err
