"""Who may see and who may act: the token, and the checks of Host and Origin.

Without a token a page may be read on the loopback interface only. With DNS rebinding, a page of
another site reaches this server under a name of that site, so a name is accepted only if it is one
of this machine. An address is always accepted: no other site can use it as its name.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import socket
import stat
from ipaddress import ip_address
from pathlib import Path

from macontrol.config.model.errors import InputOutputError, UsageError, reason_of

TOKEN_FILE = "dashboard-token"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{32,128}")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::\d{1,5})?")


def parse_listen(text: str) -> tuple[str, int]:
    """The host and the port of --listen, as in 127.0.0.1:8765 or [::1]:8765."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise UsageError(
            f"--listen {text!r}: not an address and a port", "as in --listen 127.0.0.1:8765"
        )
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address, or all addresses of a name."""
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):
        return False
    return bool(found) and all(ip_address(str(a).partition("%")[0]).is_loopback for a in found)


def read_token(folder: Path) -> tuple[str, Path]:
    """The token, kept in a file that only its user may read; created the first time."""
    path = folder / TOKEN_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return _new_token(path), path
        try:
            _check_mode(path, os.fstat(file))
            text = os.read(file, 200).decode("ascii", "replace").strip()
        finally:
            os.close(file)
    except OSError as error:
        raise InputOutputError(f"{path}: the token: {reason_of(error)}") from error
    if not _TOKEN.fullmatch(text):
        raise InputOutputError(f"{path}: holds no token", "remove the file: a new one is made")
    return text, path


def _new_token(path: Path) -> str:
    token = secrets.token_urlsafe(32)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, f"{token}\n".encode())
    finally:
        os.close(file)
    return token


def _check_mode(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise InputOutputError(f"{path}: is not a regular file", "remove it")
    if found.st_mode & 0o077 or found.st_uid not in (os.geteuid(), 0):
        raise InputOutputError(
            f"{path}: others may have read the token", "remove the file: a new one is made"
        )


class Access:
    """The decisions about one server. `needs_token`: also reading needs the token."""

    def __init__(self, token: str, *, needs_token: bool) -> None:
        self._token = token.encode()
        self.needs_token = needs_token
        name = socket.gethostname().lower()
        self._names = {"localhost", name, f"{name}.local", socket.getfqdn().lower()}

    def is_token(self, offered: str | None) -> bool:
        """Whether this is the token; takes the same time for any wrong one."""
        return offered is not None and hmac.compare_digest(offered.encode(), self._token)

    def is_own_host(self, host: str) -> bool:
        """Whether a Host header names this machine: by an address, or by one of its names."""
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = found[1].strip("[]").lower().removesuffix(".")
        return name in self._names or _is_address(name)

    def is_own_origin(self, origin: str | None, host: str) -> bool:
        """Whether a request comes from this server's own page, or from no page at all."""
        return origin is None or origin.lower() in (f"http://{host}", f"https://{host}")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
