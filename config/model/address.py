"""The address of a server."""

from __future__ import annotations

import re

from macontrol.config.model.suggestion import shortened


def split_address(address: str) -> tuple[str, int]:
    """The host and port of `HOST:PORT` or `[IPv6]:PORT`."""
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not (colon and host and re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) < 65536):
        raise ValueError(f"{shortened(address)} is not HOST:PORT, as in 127.0.0.1:1234")
    return host, int(port)


def with_port(address: str, port: int) -> str:
    """An address whose port may be left out, with it; ValueError if it is not one."""
    if address and ":" not in address.rpartition("]")[2]:
        address += f":{port}"
    split_address(address)
    return address
