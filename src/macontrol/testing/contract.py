"""What all contract suites have in common: a limit of time for each rule.

A driver that never returns must not stop the tests of its author.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import NoReturn

import pytest

from macontrol.controller.runtime.clock import WallClock
from macontrol.hal import Clock


class Contract:
    """The attributes can be changed in a subclass."""

    clock: Clock = WallClock()
    """The clock of the driver."""
    limit_s: float = 300.0
    """How long the test of one rule takes at most, on the clock of the computer."""

    @pytest.fixture(autouse=True)
    def _limit(self) -> Iterator[None]:
        """End a rule whose driver does not return: in the main thread, where signals arrive."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def end(*_: object) -> NoReturn:
            pytest.fail(f"no wait is endless: the rule is not over after {self.limit_s:g} s")

        handler = signal.signal(signal.SIGALRM, end)
        # Another time limit, such as that of pytest-timeout, continues afterwards.
        remaining_s, _ = signal.setitimer(signal.ITIMER_REAL, self.limit_s)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler)
            signal.setitimer(signal.ITIMER_REAL, remaining_s)
