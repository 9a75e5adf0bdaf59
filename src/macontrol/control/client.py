"""A client of the control socket, for the commands and the Python interface."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from macontrol.config.model.errors import (
    ActionRefusedError,
    HardwareError,
    MacontrolError,
    NoDaemonError,
    UsageError,
    reason_of,
)
from macontrol.control.messages import API, NO_ANSWER, WRONG_PARAMETERS
from macontrol.control.places import connect, sockets, stem_of

_ANSWER_S = 10.0
_START = "start one: macontrol --backend sim"


class Client:
    """A connection to a daemon; `call` its methods."""

    def __init__(self, path: Path, name: str) -> None:
        """Connect as the program `name`; OSError if that is not possible."""
        self._socket = connect(path, _ANSWER_S)
        self._file = self._socket.makefile("rb")
        self._number = 0
        self._notifications: list[dict[str, Any]] = []
        self.about: dict[str, Any] = self.call("hello", client=name, api=API)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a method; an error with the daemon's words if it is refused."""
        self._number += 1
        request = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": parameters}
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
        except BrokenPipeError:
            pass  # it has closed the connection; what it sent before says why
        except OSError as error:
            raise _lost(error) from error
        while True:
            message = self._read()
            if "method" in message:
                self._notifications.append(message)
            elif message.get("id") == self._number or message.get("id") is None:
                break
        if "error" in message:
            raise _as_error(message["error"])
        result: dict[str, Any] = message["result"]
        return result

    def received(self) -> list[tuple[str, dict[str, Any]]]:
        """The notifications that arrived before the latest answer, each once."""
        taken, self._notifications = self._notifications, []
        return [(message["method"], message["params"]) for message in taken]

    def notifications(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """What the daemon sends after `subscribe`, until it ends: method and parameters."""
        self._socket.settimeout(None)
        while True:
            if self._notifications:
                message = self._notifications.pop(0)
            else:
                try:
                    message = self._read()
                except HardwareError:
                    return
            if "method" in message:
                yield message["method"], message["params"]

    def _read(self) -> dict[str, Any]:
        try:
            line = self._file.readline()
        except OSError as error:
            raise _lost(error) from error
        if not line.endswith(b"\n"):
            raise NoDaemonError("the daemon has ended", _START)
        message: dict[str, Any] = json.loads(line)
        return message


def open_client(name: str | None, program: str) -> Client:
    """Connect to the daemon of this name, or to the only one; NoDaemonError, UsageError."""
    clients, refused, problems = _find(program)
    try:
        chosen = [client for client in clients if name is None or _is_called(client, name)]
        if len(chosen) == 1:
            clients.remove(chosen[0])
            return chosen[0]
        names = ", ".join(str(client.about["name"]) for client in clients)
        if len(chosen) > 1:
            raise UsageError(f"several daemons are running: {names}", "name one of them")
        what = "no daemon is running" if name is None else f"no daemon {name} is running"
        if problems:
            what, fix = "a daemon does not answer", "; ".join(problems)
        elif refused:
            fix = f"try again with sudo: no permission for {', '.join(map(str, refused))}"
        else:
            fix = f"running: {names}" if names else _START
        raise NoDaemonError(what, fix)
    finally:
        for client in clients:
            client.close()


def daemons(program: str) -> list[Client]:
    """Connections to all daemons that this user may use."""
    return _find(program)[0]


def _find(program: str) -> tuple[list[Client], list[Path], list[str]]:
    """Connections to all daemons.

    Then the sockets and folders that this user may not use, and why other daemons do not answer.
    """
    clients: list[Client] = []
    problems: list[str] = []
    found, refused = sockets()
    for path in found:
        try:
            clients.append(Client(path, program))
        except PermissionError:
            refused.append(path)
        except (NoDaemonError, FileNotFoundError, ConnectionError):  # dead, or it ends just now
            continue
        except (OSError, MacontrolError) as error:
            reason = reason_of(error) if isinstance(error, OSError) else str(error)
            problems.append(f"{path}: {reason}")
    return clients, refused, problems


def _is_called(client: Client, name: str) -> bool:
    own = str(client.about["name"])
    if name in (own, stem_of(own), str(client.about["pid"])):
        return True
    return own.startswith("/") and os.path.realpath(own) == os.path.realpath(name)


def _lost(error: OSError) -> HardwareError:
    if isinstance(error, TimeoutError):
        return HardwareError(f"the daemon did not answer within {_ANSWER_S:g} s", "see its log")
    return NoDaemonError(f"the daemon has ended: {reason_of(error)}", _START)


def _as_error(error: dict[str, Any]) -> MacontrolError:
    kinds = {WRONG_PARAMETERS: UsageError, NO_ANSWER: HardwareError}
    kind = kinds.get(error["code"], ActionRefusedError)
    return kind(str(error["message"]), str(error.get("data", {}).get("fix", "")))
