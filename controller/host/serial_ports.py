"""The serial ports of this machine, and who uses them.

No port is opened: opening a port resets many controller boards.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from serial.tools import list_ports

from macontrol.controller.host.processes import (
    PROC,
    Access,
    OpenFiles,
    Process,
    access_to,
    by_usb_id,
)

DEV = Path("/dev")

# By vendor, or by vendor and product, in hexadecimal as lsusb shows them.
_ADAPTERS = {
    "2341": "Arduino",
    "2a03": "Arduino",
    "1a86": "CH340 adapter, as on many controller boards",
    "0403": "FTDI adapter",
    "10c4:ea60": "CP210x adapter",
    "067b:2303": "PL2303 adapter",
    "0483:5740": "STM32 board",
    "16c0:0483": "Teensy",
    "2e8a": "RP2040 board",
    "303a": "ESP32 board",
}


@dataclass(frozen=True, slots=True)
class SerialPort:
    """A serial port, as the kernel shows it."""

    device: str
    names: tuple[str, ...]
    """Its names in /dev/serial/by-id, which are the same after every boot."""
    what: str
    usb_id: str
    access: Access
    holders: tuple[Process, ...]


def find_serial_ports(
    dev: Path = DEV, proc: Path = PROC, *, stages: Mapping[str, str] | None = None
) -> list[SerialPort]:
    """Return the serial ports of this machine, USB ports first.

    `stages` maps USB ids of stages to what they are.
    """
    files = OpenFiles(proc)
    found = []
    for port in list_ports.comports():
        if not os.path.exists(port.device):  # just unplugged
            continue
        usb_id = "" if port.vid is None else f"{port.vid:04x}:{port.pid:04x}"
        label = " ".join(str(part) for part in (port.manufacturer, port.product) if part)
        what = known_adapter(usb_id, stages) or ("USB serial port" if usb_id else "built-in port")
        found.append(
            SerialPort(
                device=port.device,
                names=stable_names(port.device, dev),
                what=f"{what} ({label})" if label else what,
                usb_id=usb_id,
                access=access_to(port.device),
                holders=files.users_of(port.device),
            )
        )
    return sorted(found, key=lambda port: (not port.usb_id, port.device))


def port_identity(device: str) -> str:
    """Identify the adapter of a port by its serial number, or by its socket if it has none."""
    real = os.path.realpath(device)
    for port in list_ports.comports():
        if os.path.realpath(port.device) == real and port.vid is not None:
            where = f"serial {port.serial_number}" if port.serial_number else port.location
            return f"USB {port.vid:04x}:{port.pid:04x} {where or ''}".strip()
    return "not on the USB"


def known_adapter(usb_id: str, stages: Mapping[str, str] | None = None) -> str:
    """Describe the serial port with this vendor:product; empty if it is unknown."""
    return by_usb_id({**_ADAPTERS, **(stages or {})}, usb_id)


def stable_names(device: str, dev: Path = DEV) -> tuple[str, ...]:
    """Return the names of a device that do not depend on the order of plugging in."""
    real = os.path.realpath(device)
    links = sorted((dev / "serial" / "by-id").glob("*"))
    return tuple(str(link) for link in links if os.path.realpath(link) == real)
