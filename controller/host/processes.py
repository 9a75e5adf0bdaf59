"""Which processes use a device or a TCP port, and whether this user may use a device.

Everything is read from `/proc` and from file permissions. Processes of other users may be
invisible.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_COMMAND_LENGTH = 60
_LISTENING, _ESTABLISHED = "0A", "01"
_ANY_OR_LOOPBACK = ("00000000", "0" * 32, "0" * 24 + "01000000")

# Ports of the board, as on a PC and on a Raspberry Pi.
_BUILT_IN = re.compile(r"/dev/tty(S|AMA|THS|mxc|O|PS)\d+$")


@dataclass(frozen=True, slots=True)
class Process:
    """A process with its command line, for messages."""

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
    built_in: str = ""
    """The device, if it is a serial port that is not on the USB."""

    @property
    def fix(self) -> str:
        """How this user gets access."""
        if self.group == "root" and self.built_in:
            return (
                f"sudo chgrp dialout {self.built_in} && sudo chmod g+rw {self.built_in}, until the "
                f"next start of the machine; and sudo usermod -aG dialout {_user_name(os.getuid())}"
            )
        if self.group == "root":
            return "install macontrol's udev rules (systemd/70-macontrol.rules), and plug in again"
        user = _user_name(os.getuid())
        return f"sudo usermod -aG {self.group} {user}, then log out and in again"


@dataclass(frozen=True, slots=True)
class TcpSocket:
    """A row in the kernel's table of TCP sockets. Addresses are hexadecimal words."""

    local: str
    local_port: int
    remote_port: int
    state: str
    inode: str

    @property
    def is_established(self) -> bool:
        return self.state == _ESTABLISHED

    @property
    def listens_on_loopback(self) -> bool:
        is_ipv4_loopback = len(self.local) == 8 and self.local.endswith("7F")
        return self.state == _LISTENING and (is_ipv4_loopback or self.local in _ANY_OR_LOOPBACK)


class OpenFiles:
    """A snapshot of the files that processes have open, as far as this user may see them."""

    def __init__(self, proc: Path = PROC) -> None:
        self._processes: dict[str, tuple[Process, ...]] = {}
        for folder in proc.glob("[0-9]*"):
            try:
                links = {os.readlink(entry) for entry in (folder / "fd").iterdir()}
            except OSError:  # the process has ended, or belongs to another user
                continue
            if links:
                process = Process(int(folder.name), _command_of(folder))
                for link in links:
                    self._processes[link] = (*self._processes.get(link, ()), process)

    def users_of(self, device: str | Path) -> tuple[Process, ...]:
        """Return the processes that have a device open, without this one."""
        return _without_this(self._processes.get(os.path.realpath(device), ()))

    def owners_of(self, socket: TcpSocket) -> tuple[Process, ...]:
        return self._processes.get(f"socket:[{socket.inode}]", ())

    def clients_of(self, port: int, sockets: Iterable[TcpSocket]) -> tuple[Process, ...]:
        """Return the processes that are connected to a port of any host, without this one."""
        found: dict[Process, None] = {}
        for socket in sockets:
            if socket.is_established and socket.remote_port == port:
                found |= dict.fromkeys(_without_this(self.owners_of(socket)))
        return tuple(found)


def clients_of(port: int, proc: Path = PROC) -> tuple[Process, ...]:
    """Return the processes of this machine that are connected to a port of any host."""
    return OpenFiles(proc).clients_of(port, tcp_sockets(proc))


def holders_of(device: str, proc: Path = PROC) -> tuple[Process, ...]:
    """Return the other processes that have a device open, as far as this user may see them."""
    return OpenFiles(proc).users_of(device)


def access_to(device: str) -> Access:
    """Return whether this user may open a device; raise OSError if the file does not exist."""
    status = os.stat(device)
    try:
        group = grp.getgrgid(status.st_gid).gr_name
    except KeyError:
        group = str(status.st_gid)
    return Access(
        allowed=os.access(device, os.R_OK | os.W_OK),
        owner=_user_name(status.st_uid),
        group=group,
        mode=stat.filemode(status.st_mode),
        built_in=device if _BUILT_IN.match(os.path.realpath(device)) else "",
    )


def tcp_sockets(proc: Path = PROC) -> Iterator[TcpSocket]:
    """Yield the TCP sockets of this machine, from the kernel's table."""
    for table in ("tcp", "tcp6"):
        for line in read_text(proc / "net" / table).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9:
                local, _, local_port = fields[1].partition(":")
                remote_port = fields[2].rpartition(":")[2]
                yield TcpSocket(
                    local, int(local_port, 16), int(remote_port, 16), fields[3], fields[9]
                )


def read_text(path: Path) -> str:
    """Return the text of a file of the kernel; empty if it cannot be read."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def by_usb_id(table: Mapping[str, str], usb_id: str) -> str:
    """Look up a vendor:product, or its vendor alone; empty if both are unknown."""
    return table.get(usb_id) or table.get(usb_id.partition(":")[0]) or ""


def _command_of(folder: Path) -> str:
    try:
        words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        words = []
    words = [word for word in words if word]
    if not words:
        return read_text(folder / "comm") or "a process"
    command = " ".join([Path(words[0]).name, *words[1:]])
    return command if len(command) <= _COMMAND_LENGTH else command[: _COMMAND_LENGTH - 1] + "…"


def _without_this(processes: Iterable[Process]) -> tuple[Process, ...]:
    return tuple(process for process in processes if process.pid != os.getpid())


def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
