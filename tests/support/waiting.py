"""Wait for a condition, with a timeout."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(
    condition: Callable[[], bool], timeout_s: float = 60.0, *, every_s: float = 0.005
) -> None:
    """Check the condition every `every_s` until it is true; fail after `timeout_s`."""
    until = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until, "timeout"
        time.sleep(every_s)
