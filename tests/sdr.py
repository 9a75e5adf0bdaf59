"""What tests of the probes share: the preset's settings, and a wait with an end."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from macontrol.config import load_config
from macontrol.config.probe_settings import ProbeSettings


@functools.cache
def _preset() -> dict[str, Any]:
    return load_config().probe.model_dump()


def probe_settings(**changes: Any) -> ProbeSettings:
    """The settings of the paper's preset with some values changed."""
    return ProbeSettings.model_validate(_preset() | changes)


def wait_until(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    """Wait for something to come true; fail if it does not in time."""
    until = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.005)
