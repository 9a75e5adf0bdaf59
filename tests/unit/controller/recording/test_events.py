"""The table of events and reasons is complete."""

from __future__ import annotations

import re

import pytest

from macontrol.controller.recording.events import (
    REASONS,
    EventKind,
    InvalidReason,
    event_rows,
    reason_rows,
)


def test_every_kind_of_event_has_a_meaning() -> None:
    assert [name for name, *_ in event_rows()] == [str(kind) for kind in EventKind]
    assert all(meaning for _, meaning, _ in event_rows())


def test_every_reason_has_a_meaning() -> None:
    assert set(InvalidReason) <= set(REASONS)
    assert all(meaning for _, meaning in reason_rows())


@pytest.mark.parametrize("name", [*EventKind, *REASONS])
def test_names_are_short_words_with_dashes(name: str) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+){0,2}", name)
