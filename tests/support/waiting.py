"""A wait with an end, for whatever a test waits for."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(
    condition: Callable[[], bool], timeout_s: float = 60.0, *, every_s: float = 0.005
) -> None:
    """Wait for something to come true, and look that often; fail if it does not in time."""
    until = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(every_s)
