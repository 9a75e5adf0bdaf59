"""The radios and radio servers of this machine, and who uses them.

No radio is opened and no server is contacted, because that could take it from its user.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from macontrol.controller.host.processes import (
    PROC,
    Access,
    OpenFiles,
    Process,
    access_to,
    by_usb_id,
    read_text,
    tcp_sockets,
)

DEV, USB = Path("/dev"), Path("/sys/bus/usb/devices")

# By vendor, or by vendor and product, in hexadecimal as lsusb shows them.
_RADIOS = {
    "0bda:2832": "RTL2832U dongle",
    "0bda:2838": "RTL2832U dongle",
    "1d50:60a1": "Airspy",
    "03eb:800c": "Airspy HF+",
    "1d50:6089": "HackRF One",
    "1d50:604b": "HackRF Jawbreaker",
    "0456:b673": "ADALM-Pluto",
    "2500": "USRP B2xx",
    "3923:7813": "USRP B2xx",
    "3923:7814": "USRP B2xx",
    "1d50:6108": "LimeSDR",
    "2cf0:5246": "bladeRF",
    "2cf0:5250": "bladeRF",
    "1df7": "SDRplay",
}


@dataclass(frozen=True, slots=True)
class UsbRadio:
    """A radio on the USB, as the kernel shows it."""

    what: str
    usb_id: str
    serial: str
    device: str
    access: Access | None
    kernel_driver: str
    """The kernel module that uses it, such as the television driver; empty if there is none."""
    holders: tuple[Process, ...]


@dataclass(frozen=True, slots=True)
class RadioServer:
    """A server on the port of a driver's servers, or with such a name."""

    address: str
    servers: tuple[Process, ...]
    clients: tuple[Process, ...]
    is_busy: bool
    """Whether a client is connected, visible or not."""


def find_usb_radios(usb: Path = USB, dev: Path = DEV, proc: Path = PROC) -> list[UsbRadio]:
    """Return the radios on the USB of this machine."""
    files = OpenFiles(proc)
    found = []
    for folder in sorted(usb.glob("*")):
        usb_id = f"{read_text(folder / 'idVendor')}:{read_text(folder / 'idProduct')}"
        what = by_usb_id(_RADIOS, usb_id)
        if not what:
            continue
        numbers = (read_text(folder / "busnum"), read_text(folder / "devnum"))
        device = dev.joinpath("bus", "usb", *(number.zfill(3) for number in numbers))
        drivers = {link.resolve().name for link in folder.glob(f"{folder.name}:*/driver")}
        found.append(
            UsbRadio(
                what=what,
                usb_id=usb_id,
                serial=read_text(folder / "serial"),
                device=str(device),
                access=access_to(str(device)) if device.exists() else None,
                kernel_driver=", ".join(sorted(drivers - {"usbfs"})),
                holders=files.users_of(device),
            )
        )
    return found


def find_radio_servers(proc: Path = PROC, *, port: int, prefix: str) -> list[RadioServer]:
    """Return the servers of this machine that listen on a port, or whose names have a prefix."""
    files = OpenFiles(proc)
    sockets = list(tcp_sockets(proc))
    found: dict[int, RadioServer] = {}
    for socket in sockets:
        if not socket.listens_on_loopback:
            continue
        local, servers = socket.local_port, files.owners_of(socket)
        is_named = prefix and any(server.command.startswith(prefix) for server in servers)
        if local == port or is_named:
            found[local] = RadioServer(
                address=f"127.0.0.1:{local}",
                servers=servers,
                clients=files.clients_of(local, sockets),
                is_busy=any(each.is_established and each.local_port == local for each in sockets),
            )
    return [found[local] for local in sorted(found)]
