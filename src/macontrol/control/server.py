"""The server of the control socket: a process that talks to clients, so that the daemon need not.

It is started with two inherited sockets: the one that listens, and the link to the daemon. It ends
with the link. Everything it keeps is bounded: clients, lines, answers, rates. It imports neither
numpy nor the controller.
"""

from __future__ import annotations

import os
import pwd
import selectors
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from typing import Any

from macontrol.config.model.errors import RequestError
from macontrol.control.connection import Bucket, Connection
from macontrol.control.lines import Lines, unpack
from macontrol.control.machine import Machine
from macontrol.control.messages import (
    API,
    BUSY,
    LINE_LIMIT,
    METHODS,
    MOST_CLIENTS,
    NO_ANSWER,
    PARSE_ERROR,
    RATES,
    TOO_MANY_CLIENTS,
    WRONG_API,
    Parameters,
    answer,
    error_answer,
    notification,
    read_request,
)

ACTIONS_PER_S = 10
_MOST_CALLS = 16
"""Actions that the daemon has not answered."""
_ANSWER_WITHIN_S = 5.0
_TICK_S = 0.02
_IDLE_S = 1.0
_NICE = 5

Waiter = tuple[Connection, Any, float]
"""A client, the id of its request, and until when it waits."""


class Server:
    """Answers clients; what only the daemon knows is requested through the link."""

    def __init__(self, listener: socket.socket, link: socket.socket) -> None:
        self._listener = listener
        self._link = link
        self._lines = Lines(link)
        self._selector = selectors.DefaultSelector()
        self._clients: dict[socket.socket, Connection] = {}
        self._facts: dict[str, Any] = {}
        self._machine = Machine()
        self._snapshot: dict[str, Any] | None = None
        self._snapshot_s = 0.0
        self._is_requested = False
        """Whether a snapshot was requested that has not arrived."""
        self._status: list[Waiter] = []
        self._posterior: list[Waiter] = []
        self._calls: dict[int, list[Waiter]] = {}
        self._posterior_call = 0
        """The call that fetches the posterior; 0 if there is none."""
        self._next_call = 0
        self._actions = Bucket(ACTIONS_PER_S, ACTIONS_PER_S)
        self._wanted: tuple[float, bool] | None = None

    def run(self) -> None:
        """Serve until the daemon closes the link."""
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._link, selectors.EVENT_READ)
        while not self._lines.is_closed:
            for key, _ in self._selector.select(self._timeout_s()):
                if key.fileobj is self._listener:
                    self._accept_all()
                elif key.fileobj is self._link:
                    for message in self._lines.read():
                        self._handle(message)
            self._serve_clients()
            self._expire()
            self._request_what_is_wanted()
            self._lines.flush()

    def _timeout_s(self) -> float:
        is_waiting = bool(self._status or self._posterior or self._calls or self._lines.unsent)
        is_paused = any(client.is_busy for client in self._clients.values())
        return _TICK_S if is_waiting or is_paused else _IDLE_S

    # Clients.

    def _accept_all(self) -> None:
        for _ in range(MOST_CLIENTS):
            try:
                accepted, _ = self._listener.accept()
            except OSError:  # no client waits
                return
            self._accept(accepted)

    def _accept(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        if len(self._clients) >= MOST_CLIENTS:
            error = RequestError(TOO_MANY_CLIENTS, "too many clients", "close another one")
            with suppress(OSError):
                accepted.send(error_answer(None, error))
            accepted.close()
            return
        try:
            pid, uid, _ = struct.unpack(
                "3i", accepted.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            )
        except OSError:
            accepted.close()
            return
        client = Connection(accepted, _user_name(uid), pid)
        self._clients[accepted] = client
        self._selector.register(accepted, selectors.EVENT_READ)

    def _serve_clients(self) -> None:
        for client in list(self._clients.values()):
            try:
                client.receive()
                while (line := client.next_line()) is not None:
                    self._answer_line(client, line)
                client.flush()
            except Exception:  # a bug in one client's request must not end the others
                client.is_broken = True
            if client.is_over:
                self._drop(client)
            else:
                self._watch(client)

    def _watch(self, client: Connection) -> None:
        """Wake up for what the client can do; a paused client is looked at each tick."""
        events = client.interest
        key = self._selector.get_map().get(client.socket)
        if events and key is None:
            self._selector.register(client.socket, events)
        elif key is not None and not events:
            self._selector.unregister(client.socket)
        elif key is not None and key.events != events:
            self._selector.modify(client.socket, events)

    def _drop(self, client: Connection) -> None:
        del self._clients[client.socket]
        with suppress(KeyError, ValueError):
            self._selector.unregister(client.socket)
        client.socket.close()
        client.is_broken = True

    def _answer_line(self, client: Connection, line: bytes) -> None:
        if len(line) >= LINE_LIMIT:
            client.send(error_answer(None, RequestError(PARSE_ERROR, "the line is too long")))
            client.end()
            return
        try:
            request, method, parameters = read_request(line)
        except RequestError as error:
            client.send(error_answer(error.request, error))
            return
        try:
            self._answer(client, request, method, parameters)
        except RequestError as error:
            if request is not None:
                client.send(error_answer(request, error))

    def _answer(
        self, client: Connection, request: Any, method: str, parameters: Parameters
    ) -> None:
        if method == "hello":
            self._reply(client, request, self._hello(client, parameters))
        elif method == "status":
            self._await(self._status, client, request)
        elif method in ("subscribe", "unsubscribe"):
            client.subscribe(
                parameters.get("rate", 1.0) if method == "subscribe" else 0.0,
                events=method == "subscribe" and parameters.get("events", True),
            )
            self._reply(client, request, {"rate": client.rate, "events": client.wants_events})
        elif method == "posterior":
            self._await(self._posterior, client, request)
        else:
            self._act(client, request, method, parameters)

    def _hello(self, client: Connection, parameters: Parameters) -> dict[str, Any]:
        if (api := parameters.get("api", API)) != API:
            raise RequestError(
                WRONG_API, f"version {api:g} of the interface", f"this daemon has version {API}"
            )
        client.name = parameters.get("client", client.name)
        return {"api": API, **self._facts, "methods": list(METHODS)}

    def _act(self, client: Connection, request: Any, method: str, parameters: Parameters) -> None:
        if len(self._calls) >= _MOST_CALLS or not self._actions.take():
            raise RequestError(BUSY, "too many actions", "try again in a second")
        self._call(method, parameters, client.origin, [self._waiter(client, request)])

    def _call(self, method: str, parameters: Parameters, origin: str, waiters: list[Waiter]) -> int:
        self._next_call += 1
        self._calls[self._next_call] = waiters
        self._lines.send(
            {"call": self._next_call, "method": method, "params": parameters, "origin": origin}
        )
        return self._next_call

    def _waiter(self, client: Connection, request: Any) -> Waiter:
        client.pending += 1
        return client, request, time.monotonic() + _ANSWER_WITHIN_S

    def _await(self, waiters: list[Waiter], client: Connection, request: Any) -> None:
        waiters.append(self._waiter(client, request))

    def _reply(self, client: Connection, request: Any, result: Any) -> None:
        if request is not None:
            client.send(answer(request, result))

    def _reply_all(self, waiters: list[Waiter], result: Any, error: RequestError | None) -> None:
        for client, request, _ in waiters:
            client.pending -= 1
            if request is None or client.is_broken:
                continue
            client.send(answer(request, result) if error is None else error_answer(request, error))

    # The daemon.

    def _handle(self, message: dict[str, Any]) -> None:
        if "facts" in message:
            self._facts = message["facts"]
        elif "snapshot" in message:
            self._take_snapshot(message["snapshot"])
        elif "events" in message:
            for client in self._clients.values():
                client.offer_events(message["events"], message["dropped"])
        elif "reply" in message:
            self._snapshot_s = 0.0  # it may be out of date now
            waiters, error = self._calls.pop(message["reply"], []), message.get("error")
            result = message.get("result") or {}
            for name, text in result.pop("arrays", {}).items():
                result[name] = unpack(text)
            self._reply_all(waiters, result, None if error is None else RequestError(**error))

    def _take_snapshot(self, snapshot: dict[str, Any]) -> None:
        recording = snapshot["recording"]
        snapshot["system"] = self._machine.state(recording["run_file"])
        snapshot["clients"] = len(self._clients)
        self._snapshot, self._snapshot_s = snapshot, time.monotonic()
        self._is_requested = False
        line = notification("snapshot", snapshot)
        for client in self._clients.values():
            client.offer_snapshot(line)
        waiters, self._status = self._status, []
        self._reply_all(waiters, snapshot, None)

    def _request_what_is_wanted(self) -> None:
        """Send the daemon what clients want, if that has changed; request what they wait for."""
        clients = self._clients.values()
        rate = max((client.rate for client in clients), default=0.0)
        wanted = rate, any(client.wants_events for client in clients)
        if wanted != self._wanted:
            self._wanted = wanted
            self._lines.send({"rate": rate, "events": wanted[1]})
        if self._status and time.monotonic() - self._snapshot_s < 1 / RATES[1]:
            waiters, self._status = self._status, []
            self._reply_all(waiters, self._snapshot, None)
        elif self._status and not self._is_requested:
            self._is_requested = self._lines.send({"once": True})
        if self._posterior and self._posterior_call not in self._calls:
            waiters, self._posterior = self._posterior, []
            self._posterior_call = self._call("posterior", {}, "", waiters)

    def _expire(self) -> None:
        """Answer what the daemon has not answered in time."""
        now = time.monotonic()
        error = RequestError(NO_ANSWER, "the daemon does not answer", "see its log")
        if self._status and self._status[0][2] < now:
            waiters, self._status = self._status, []
            self._reply_all(waiters, None, error)
        for call, waiters in list(self._calls.items()):
            if waiters and waiters[0][2] < now:
                self._reply_all(waiters, None, error)
                del self._calls[call]


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def main() -> int:
    """Serve on the inherited sockets whose numbers are the arguments."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # the daemon measures the noise floor
    listener, link = (socket.socket(fileno=int(word)) for word in sys.argv[1:3])
    with suppress(OSError):
        os.nice(_NICE)
    Server(listener, link).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
