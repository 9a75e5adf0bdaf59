"""Where the sockets of daemons are, and which daemons there are.

They are beside the locks of the stages. The folder's path may be longer than the address of a
socket; it is then reached through a descriptor of the folder.
"""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from macontrol.controller.host.instance import lock_directory

SUFFIX = ".sock"
_LONGEST_STEM = 60
_LONGEST_ADDRESS = 100
_BACKLOG = 64
_FULL_S = 0.02


def stem_of(name: str) -> str:
    """The name of a bench as that of a file, without its suffix."""
    stem = quote(name.strip("/"), safe="")
    if len(stem) <= _LONGEST_STEM:
        return stem
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{stem[: _LONGEST_STEM - 9]}~{digest}"


def listen(name: str) -> tuple[socket.socket, Path]:
    """Listen for the daemon of this name; OSError or HardwareError if that is not possible.

    The socket of a dead daemon is replaced. If a daemon of this name is running, as two serial
    benches with one `--name`, the number of the process is added.
    """
    folder = lock_directory()
    path = folder / f"{stem_of(name)}{SUFFIX}"
    if _is_alive(path):
        path = folder / f"{stem_of(name)}~{os.getpid()}{SUFFIX}"
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with _address(path) as address:
            listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    return listener, path


def connect(path: Path, timeout_s: float) -> socket.socket:
    """Connect to a daemon's socket; OSError if it is dead or not permitted."""
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(timeout_s)
    try:
        with _address(path) as address:
            _await_place(client, address, timeout_s)
    except OSError:
        client.close()
        raise
    return client


def _await_place(client: socket.socket, address: str, timeout_s: float) -> None:
    """Connect; with a timeout, Linux does not wait for a place in the queue of the server."""
    until = time.monotonic() + timeout_s
    while True:
        try:
            client.connect(address)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise
            time.sleep(_FULL_S)


def sockets(environment: Mapping[str, str] | None = None) -> tuple[list[Path], list[Path]]:
    """The sockets of this user's daemons and of services; the folders that cannot be read."""
    found: dict[Path, None] = {}
    closed = []
    for folder in _folders(os.environ if environment is None else environment):
        try:
            for path in sorted(folder.iterdir()):
                if path.suffix == SUFFIX and path.is_socket():
                    found[path.resolve()] = None
        except PermissionError:
            closed.append(folder)
        except OSError:  # there is no such folder
            continue
    return list(found), closed


def _folders(variables: Mapping[str, str]) -> Iterator[Path]:
    given = variables.get("RUNTIME_DIRECTORY", "")
    if given:  # a service, or a test
        yield from (Path(folder) for folder in given.split(":") if folder)
        return
    yield Path("/run/macontrol")
    if session := variables.get("XDG_RUNTIME_DIR", ""):
        yield Path(session, "macontrol")
    for base in ("/run/lock", tempfile.gettempdir()):
        yield Path(base, f"macontrol-{os.geteuid()}")


def _is_alive(path: Path) -> bool:
    try:
        connect(path, 1.0).close()
    except (FileNotFoundError, ConnectionRefusedError):
        return False
    except OSError:  # busy, or not permitted
        return True
    return True


@contextmanager
def _address(path: Path) -> Iterator[str]:
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
