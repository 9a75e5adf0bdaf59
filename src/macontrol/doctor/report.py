"""The doctor's report: one finding per thing that a run needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from macontrol.config.model.errors import MacontrolError

Verdict: TypeAlias = Literal["pass", "note", "FAIL", "skip"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. A note is not a failure, but something that could be better."""

    subject: str
    verdict: Verdict
    detail: str
    fix: str = ""


class Report:
    """Passes findings on as they are made, and counts the failures."""

    def __init__(self, show: Callable[[Finding], None]) -> None:
        self._show = show
        self.failures = 0

    def passed(self, subject: str, detail: str) -> None:
        self._show(Finding(subject, "pass", detail))

    def note(self, subject: str, detail: str, fix: str) -> None:
        self._show(Finding(subject, "note", detail, fix))

    def failed(self, subject: str, detail: str, fix: str) -> None:
        self.failures += 1
        self._show(Finding(subject, "FAIL", detail, fix))

    def error(self, subject: str, error: MacontrolError, default_fix: str) -> None:
        """A failure that an error describes."""
        self.failed(subject, error.detail, error.fix or default_fix)

    def skipped(self, reason: str, *subjects: str) -> None:
        for subject in subjects:
            self._show(Finding(subject, "skip", f"not examined: {reason}"))
