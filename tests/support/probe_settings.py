"""Probe settings for tests, from a preset."""

from __future__ import annotations

import functools
from typing import Any

from macontrol.config import load_config
from macontrol.config.probe_settings import ProbeSettings
from support.waiting import wait_until as wait_until


@functools.cache
def _preset() -> dict[str, Any]:
    return load_config().probe.model_dump()


def probe_settings(**changes: Any) -> ProbeSettings:
    """Return the settings of the paper's preset with some values changed."""
    return ProbeSettings.model_validate(_preset() | changes)
