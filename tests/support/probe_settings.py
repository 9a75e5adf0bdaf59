"""Probe settings for tests."""

from __future__ import annotations

from typing import Any

from macontrol.config.schema import driver_settings
from support.waiting import wait_until as wait_until


def probe_settings(**changes: Any) -> Any:
    """Return the default settings of a probe's driver with some values changed."""
    return driver_settings("probe", {"driver": "rtl_tcp", **changes})
