"""Shared by the tests of all serial stages: settings, and a port that accepts no more bytes."""

from __future__ import annotations

import os
import time
from typing import Any

from macontrol.config.schema import driver_settings


def stage_settings(port: str = "/dev/ttyTEST", **changes: Any) -> Any:
    """Settings of a GRBL stage with everything on "auto" and homing allowed."""
    values = {"driver": "grbl", "port": port, "homing": "allow", "homing_time_s": "auto"}
    return driver_settings("stage", {**values, **changes})


def fill(port: int) -> None:
    """Write to an open port until it accepts no more bytes, because nothing reads its other end."""
    full_since = time.monotonic()
    while time.monotonic() < full_since + 0.3:  # the kernel makes room once more after a moment
        try:
            os.write(port, b"x")
            full_since = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)
