"""The `[probe.rtl_tcp]` table, and `--probe rtl_tcp://HOST:PORT`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from macontrol.config.model.address import split_address, with_port
from macontrol.config.sections.sdr import SdrSettings
from macontrol.config.sections.section import Address

DEFAULT_PORT = 1234
"""Where rtl_tcp listens by default."""
_SCHEME = "rtl_tcp://"


class RtlTcpSettings(SdrSettings):
    """An RTL-SDR dongle behind an rtl_tcp server."""

    driver: Literal["rtl_tcp"] = "rtl_tcp"
    address: Address = f"127.0.0.1:{DEFAULT_PORT}"
    """HOST:PORT of the server"""

    # The tuner of nearly all RTL-SDRs (R820T).
    usual_range_hz: ClassVar[tuple[float, float]] = (24e6, 1766e6)


def server_port(settings: Any) -> int:
    """The TCP port of the server."""
    return split_address(settings.address)[1]


def parse_option(text: str) -> dict[str, str] | None:
    """The address in `rtl_tcp://HOST:PORT`; the port may be left out."""
    if not text.startswith(_SCHEME):
        return None
    return {"address": with_port(text.removeprefix(_SCHEME).rstrip("/"), DEFAULT_PORT)}
