"""What tests of the probes share: the preset's settings, and a wait with an end."""

from __future__ import annotations

from typing import Any

from macontrol.config.schema import driver_settings
from support.waiting import wait_until as wait_until


def probe_settings(**changes: Any) -> Any:
    """The default settings of a probe's driver with some values changed."""
    return driver_settings("probe", {"driver": "rtl_tcp", **changes})
