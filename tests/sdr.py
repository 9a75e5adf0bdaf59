"""What tests of the probes share: settings as in the guide, and a wait with an end."""

from __future__ import annotations

import re
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from macontrol.config.probe_settings import ProbeSettings

GUIDE = Path(__file__).parents[1] / "docs" / "hardware-probes.md"


def probe_table() -> dict[str, Any]:
    """The `[probe]` table that the guide shows."""
    block = re.search(r"```toml\n(\[probe\]\n.*?)```", GUIDE.read_text("utf-8"), re.S)
    assert block is not None
    table: dict[str, Any] = tomllib.loads(block[1])["probe"]
    return table


def probe_settings(**changes: Any) -> ProbeSettings:
    """The guide's settings with some values changed."""
    return ProbeSettings.model_validate(probe_table() | changes)


def wait_until(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    """Wait for something to come true; fail if it does not in time."""
    until = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.005)
