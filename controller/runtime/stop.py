"""The request to stop a run: one token that everything with a long wait looks at."""

from __future__ import annotations


class StopToken:
    """Requested once, by a signal handler or any thread, and never withdrawn."""

    def __init__(self) -> None:
        self.is_set = False
        self.by = ""
        """Who requested it first, where that is known."""

    def request(self, by: str = "") -> None:
        """Request the stop. Safe in a signal handler."""
        if not self.is_set:
            self.by = by
        self.is_set = True

    def keep_on(self) -> bool:
        """Whether to continue: a stage checks it in a long wait."""
        return not self.is_set
