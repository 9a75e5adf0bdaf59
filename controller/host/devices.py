"""What is plugged into this machine: serial ports, radios and radio servers, and who holds them.

Everything is read from what the kernel shows (`/dev`, `/sys`, `/proc`). Nothing is opened, so
that looking disturbs nobody: opening a port resets many boards, and connecting to a radio's server
may take it from its user. Processes of other users may not be visible.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from serial.tools import list_ports

DEV, PROC, USB = Path("/dev"), Path("/proc"), Path("/sys/bus/usb/devices")

# By vendor, or by vendor and product, in hexadecimal as lsusb shows them.
_SERIAL_ADAPTERS = {
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
_SHOWN_COMMAND = 60
_LISTENING, _ESTABLISHED = "0A", "01"
_ANY_OR_LOOPBACK = ("00000000", "0" * 32, "0" * 24 + "01000000")


@dataclass(frozen=True, slots=True)
class Process:
    """A process as it is named to a person."""

    pid: int
    command: str

    def __str__(self) -> str:
        return f"{self.command} (process {self.pid})"


@dataclass(frozen=True, slots=True)
class Access:
    """Whether this user may read and write a device file, and which group may."""

    allowed: bool
    owner: str
    group: str
    mode: str

    @property
    def fix(self) -> str:
        """What gives this user access."""
        if self.group == "root":
            return "install macontrol's udev rules (systemd/70-macontrol.rules), and plug in again"
        user = _name_of_user(os.getuid())
        return f"sudo usermod -aG {self.group} {user}, then log out and in again"


@dataclass(frozen=True, slots=True)
class SerialPort:
    """A serial port, as the kernel shows it."""

    device: str
    names: tuple[str, ...]
    """Its names in /dev/serial/by-id, which stay the same from boot to boot."""
    what: str
    usb_id: str
    access: Access
    holders: tuple[Process, ...]


@dataclass(frozen=True, slots=True)
class UsbRadio:
    """A radio on the USB, as the kernel shows it."""

    what: str
    usb_id: str
    serial: str
    device: str
    access: Access | None
    kernel_driver: str
    """The kernel module that has taken it, such as the television driver; empty if none has."""
    holders: tuple[Process, ...]


@dataclass(frozen=True, slots=True)
class RadioServer:
    """Somebody listens where, or as, a radio's server does."""

    address: str
    servers: tuple[Process, ...]
    clients: tuple[Process, ...]
    is_busy: bool
    """Whether a client is connected, be it visible or not."""


@dataclass(frozen=True, slots=True)
class _Socket:
    local: str
    local_port: int
    remote_port: int
    state: str
    inode: str


def find_serial_ports(
    dev: Path = DEV, proc: Path = PROC, *, stages: Mapping[str, str] | None = None
) -> list[SerialPort]:
    """The serial ports of this machine, those on the USB first.

    `stages` are USB ids of stages, and what they are.
    """
    files = _open_files(proc)
    found = []
    for port in list_ports.comports():
        if not os.path.exists(port.device):  # just unplugged
            continue
        usb_id = "" if port.vid is None else f"{port.vid:04x}:{port.pid:04x}"
        told = " ".join(str(part) for part in (port.manufacturer, port.product) if part)
        what = known_adapter(usb_id, stages) or ("USB serial port" if usb_id else "built-in port")
        found.append(
            SerialPort(
                device=port.device,
                names=stable_names(port.device, dev),
                what=f"{what} ({told})" if told else what,
                usb_id=usb_id,
                access=access_to(port.device),
                holders=_others(files.get(os.path.realpath(port.device), ())),
            )
        )
    return sorted(found, key=lambda port: (not port.usb_id, port.device))


def port_identity(device: str) -> str:
    """Which adapter is behind a port: by its serial number, or by its socket if it has none."""
    real = os.path.realpath(device)
    for port in list_ports.comports():
        if os.path.realpath(port.device) == real and port.vid is not None:
            where = f"serial {port.serial_number}" if port.serial_number else port.location
            return f"USB {port.vid:04x}:{port.pid:04x} {where or ''}".strip()
    return "not on the USB"


def known_adapter(usb_id: str, stages: Mapping[str, str] | None = None) -> str:
    """What a serial port with this vendor:product is; empty if that is not known."""
    return _by_usb_id({**_SERIAL_ADAPTERS, **(stages or {})}, usb_id)


def stable_names(device: str, dev: Path = DEV) -> tuple[str, ...]:
    """The names of a device that do not depend on the order of plugging in."""
    real = os.path.realpath(device)
    links = sorted((dev / "serial" / "by-id").glob("*"))
    return tuple(str(link) for link in links if os.path.realpath(link) == real)


def find_usb_radios(usb: Path = USB, dev: Path = DEV, proc: Path = PROC) -> list[UsbRadio]:
    """The radios on the USB of this machine."""
    files = _open_files(proc)
    found = []
    for folder in sorted(usb.glob("*")):
        usb_id = f"{_read(folder / 'idVendor')}:{_read(folder / 'idProduct')}"
        what = _by_usb_id(_RADIOS, usb_id)
        if not what:
            continue
        numbers = (_read(folder / "busnum"), _read(folder / "devnum"))
        device = dev.joinpath("bus", "usb", *(number.zfill(3) for number in numbers))
        drivers = {link.resolve().name for link in folder.glob(f"{folder.name}:*/driver")}
        found.append(
            UsbRadio(
                what=what,
                usb_id=usb_id,
                serial=_read(folder / "serial"),
                device=str(device),
                access=access_to(str(device)) if device.exists() else None,
                kernel_driver=", ".join(sorted(drivers - {"usbfs"})),
                holders=_others(files.get(os.path.realpath(device), ())),
            )
        )
    return found


def find_radio_servers(proc: Path = PROC, *, port: int, prefix: str) -> list[RadioServer]:
    """Servers on this machine that listen on a port, or whose names begin with a prefix."""
    files = _open_files(proc)
    sockets = list(_sockets(proc))
    found: dict[int, RadioServer] = {}
    for socket in sockets:
        if socket.state != _LISTENING or not _is_reached_by_loopback(socket.local):
            continue
        servers = files.get(f"socket:[{socket.inode}]", ())
        named = any(server.command.startswith(prefix) for server in servers)
        if socket.local_port == port or named:
            found[socket.local_port] = RadioServer(
                address=f"127.0.0.1:{socket.local_port}",
                servers=servers,
                clients=_clients(socket.local_port, sockets, files),
                is_busy=any(
                    other.state == _ESTABLISHED and other.local_port == socket.local_port
                    for other in sockets
                ),
            )
    return [found[port] for port in sorted(found)]


def clients_of(port: int, proc: Path = PROC) -> tuple[Process, ...]:
    """The processes of this machine that are connected to a port, on whatever host."""
    return _clients(port, list(_sockets(proc)), _open_files(proc))


def holders_of(device: str, proc: Path = PROC) -> tuple[Process, ...]:
    """The other processes that have a device open, as far as this user may see."""
    return _others(_open_files(proc).get(os.path.realpath(device), ()))


def access_to(device: str) -> Access:
    """Whether this user may open a device; OSError if there is no such file."""
    status = os.stat(device)
    try:
        group = grp.getgrgid(status.st_gid).gr_name
    except KeyError:
        group = str(status.st_gid)
    return Access(
        allowed=os.access(device, os.R_OK | os.W_OK),
        owner=_name_of_user(status.st_uid),
        group=group,
        mode=stat.filemode(status.st_mode),
    )


def _clients(
    port: int, sockets: Iterable[_Socket], files: Mapping[str, tuple[Process, ...]]
) -> tuple[Process, ...]:
    found: dict[Process, None] = {}
    for socket in sockets:
        if socket.state == _ESTABLISHED and socket.remote_port == port:
            found |= dict.fromkeys(_others(files.get(f"socket:[{socket.inode}]", ())))
    return tuple(found)


def _open_files(proc: Path) -> dict[str, tuple[Process, ...]]:
    """What processes have open, by name; of other users' processes only what may be seen."""
    found: dict[str, tuple[Process, ...]] = {}
    for folder in proc.glob("[0-9]*"):
        try:
            links = {os.readlink(entry) for entry in (folder / "fd").iterdir()}
        except OSError:  # it has gone, or is none of ours
            links = set()
        if links:
            process = Process(int(folder.name), _command_of(folder))
            for link in links:
                found[link] = (*found.get(link, ()), process)
    return found


def _command_of(folder: Path) -> str:
    try:
        words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        words = []
    words = [word for word in words if word]
    if not words:
        return _read(folder / "comm") or "a process"
    command = " ".join([Path(words[0]).name, *words[1:]])
    return command if len(command) <= _SHOWN_COMMAND else command[: _SHOWN_COMMAND - 1] + "…"


def _others(processes: Iterable[Process]) -> tuple[Process, ...]:
    return tuple(process for process in processes if process.pid != os.getpid())


def _sockets(proc: Path) -> Iterator[_Socket]:
    """The TCP sockets of this machine, from the kernel's table."""
    for table in ("tcp", "tcp6"):
        for line in _read(proc / "net" / table).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9:
                local, _, local_port = fields[1].partition(":")
                remote_port = fields[2].rpartition(":")[2]
                yield _Socket(
                    local, int(local_port, 16), int(remote_port, 16), fields[3], fields[9]
                )


def _is_reached_by_loopback(address: str) -> bool:
    """Of an address as the kernel shows it: hexadecimal words in the machine's byte order."""
    is_ipv4_loopback = len(address) == 8 and address.endswith("7F")
    return is_ipv4_loopback or address in _ANY_OR_LOOPBACK


def _by_usb_id(table: Mapping[str, str], usb_id: str) -> str:
    return table.get(usb_id) or table.get(usb_id.partition(":")[0]) or ""


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _name_of_user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
