"""The daemons of this machine: found by their sockets, each read through one connection.

All pages share that connection, so the number of pages does not matter to a daemon.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from macontrol.config.model.errors import MacontrolError, RequestError
from macontrol.control.messages import NO_ANSWER
from macontrol.control.places import sockets
from macontrol.controller.host.instance import service_of
from macontrol.dashboard.connection import Connection
from macontrol.dashboard.live_oracle import LiveOracle
from macontrol.dashboard.run_tail import RunTail

FAST_HZ, IDLE_HZ = 10, 1
POSTERIOR_INTERVAL_S = 0.2
SILENT_S = 0.8
"""A watched daemon that sends no snapshot for longer counts as not answering."""
_IDLE_SILENT_S = 2.5 / IDLE_HZ
_POINTS = 160
_EVENTS = 200
_SCAN_S = 0.5
_FORGET_S = 3600.0
_MOST = 32
_SERVICES = Path("/run/macontrol")

Json = dict[str, Any]


class Daemon:
    """One daemon as the pages see it; it stays after its end, with its last state."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = unquote(path.stem)
        self.snapshot: Json | None = None
        self.posterior: Json | None = None
        self.events: deque[Json] = deque(maxlen=_EVENTS)
        self.event_number = 0
        """How many events arrived; the newest has this number."""
        self.is_connected = False
        self.tail = RunTail()
        self.oracle = LiveOracle()
        self.watchers = 0
        self.command: str | None = None
        """What starts it again."""
        self.version = 0
        """Grows with every change that a page shows."""
        self.answered_at = 0.0
        self._connection: Connection | None = None
        self._rate = 0
        self._posterior_at = 0.0
        self._is_busy = False
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def is_answering(self) -> bool:
        limit_s = SILENT_S if self._rate == FAST_HZ else _IDLE_SILENT_S
        return self.is_connected and time.monotonic() - self.answered_at < limit_s

    @property
    def state(self) -> str:
        """The state for a person: that of the daemon, or why there is none."""
        if not self.is_connected:
            return "ended"
        if not self.is_answering:
            return "not answering"
        return str((self.snapshot or {}).get("state", "starting"))

    def summary(self) -> Json:
        """What the list of daemons shows."""
        snapshot = self.snapshot or {}
        reward = snapshot.get("reward") or {}
        return {
            "name": self.name,
            "state": self.state,
            "is_connected": self.is_connected,
            "policy": snapshot.get("policy"),
            "backend": snapshot.get("backend"),
            "reward": reward.get("recent"),
        }

    def frame(self) -> Json:
        """Everything that a page draws of the present."""
        return {
            "type": "frame",
            "daemon": self.name,
            "state": self.state,
            "snapshot": self.snapshot,
            "posterior": self.posterior,
            "samples": list(self.tail.samples),
        }

    def events_since(self, number: int) -> list[Json]:
        """The events after that number, as far as they are kept."""
        new = min(self.event_number - number, len(self.events))
        return list(self.events)[len(self.events) - new :] if new > 0 else []

    async def follow(self) -> None:
        """Read the daemon until its end."""
        connection = Connection(self._notified)
        try:
            reader = await connection.open(self.path)
            self._connection, self._rate = connection, 0
            self.answered_at = time.monotonic()
            self._start(self._subscribe(connection))
            while line := await reader.readline():
                connection.take(line)
        except (OSError, ValueError, TypeError, KeyError, TimeoutError):
            pass  # it has ended, or speaks something else: the next attempt follows
        finally:
            connection.close()
            self._connection = None
            if self.is_connected:
                self.version += 1
            self.is_connected = False

    async def act(self, method: str, params: Mapping[str, object], origin: str) -> Any:
        """Perform an action, on a connection of its own that names its origin."""
        connection = Connection()
        try:
            reader = await connection.open(self.path)
        except (OSError, TimeoutError) as error:
            raise RequestError(
                NO_ANSWER, f"the daemon {self.name} has ended", "start it again"
            ) from error

        async def read() -> None:
            with suppress(OSError, ValueError, TypeError, KeyError):
                while line := await reader.readline():
                    connection.take(line)

        reading = asyncio.ensure_future(read())
        try:
            await connection.request("hello", {"client": f"dashboard {origin}"[:60], "api": 1})
            return await connection.request(method, params)
        finally:
            reading.cancel()
            connection.close()

    def refresh(self) -> None:
        """Adapt the rate to the number of watchers, and ask for a new posterior; often."""
        connection = self._connection
        if connection is None or not self.is_connected:
            return
        wanted = FAST_HZ if self.watchers else IDLE_HZ
        if wanted != self._rate:
            self._rate = wanted
            self.answered_at = time.monotonic()  # the next snapshot may take as long as before
            self._start(self._ask(connection, "subscribe", {"rate": wanted, "events": True}))
        now = time.monotonic()
        if self.watchers and now - self._posterior_at >= POSTERIOR_INTERVAL_S:
            self._posterior_at = now
            self._start(self._ask_posterior(connection))

    def refresh_oracle(self) -> None:
        """Have the oracle of a simulated run computed while a page watches; often."""
        snapshot = self.snapshot or {}
        slot, is_simulated = snapshot.get("slot"), snapshot.get("backend") == "sim"
        is_simulated &= snapshot.get("trial") is None  # its slots begin again with each block
        self.oracle.refresh(
            self.tail.path if is_simulated else None,
            slot if isinstance(slot, int) else 0,
            is_watched=self.is_connected and self.watchers > 0,
        )

    async def read_tail(self, executor: Any) -> None:
        """Read what is new in the run file, beside the event loop."""
        recording = (self.snapshot or {}).get("recording") or {}
        file = recording.get("run_file")
        self.tail.follow(Path(file) if isinstance(file, str) else None)
        if self.is_connected and not self._is_busy:
            self._is_busy = True
            try:
                with suppress(MacontrolError, OSError):
                    await asyncio.get_running_loop().run_in_executor(executor, self.tail.read)
            finally:
                self._is_busy = False

    async def _subscribe(self, connection: Connection) -> None:
        with suppress(RequestError):
            await connection.request("hello", {"client": "dashboard", "api": 1})
            self._notified("snapshot", await connection.request("status"))
            self.is_connected = True
            self.command = command_of((self.snapshot or {}).get("pid"))
            self.refresh()

    async def _ask(self, connection: Connection, method: str, params: Json) -> None:
        with suppress(RequestError):
            await connection.request(method, params)

    async def _ask_posterior(self, connection: Connection) -> None:
        with suppress(RequestError):
            self.posterior = thinned(await connection.request("posterior"))

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _notified(self, method: str, params: Json) -> None:
        if method == "snapshot":
            # Its server also answers while the daemon itself is stalled; only this proves it alive.
            self.answered_at = time.monotonic()
            self.snapshot = params
        elif method == "event":
            self.events.append(params)
            self.event_number += 1
        self.version += 1


def thinned(found: object) -> Json | None:
    """A posterior with at most `_POINTS` points and four decimals."""
    if not isinstance(found, dict) or not isinstance(found.get("position"), list):
        return None
    count = len(found["position"])
    shown = [round(i * (count - 1) / (_POINTS - 1)) for i in range(_POINTS)]
    if count <= _POINTS:
        shown = list(range(count))

    def short(values: object) -> list[float | None] | None:
        if not isinstance(values, list) or len(values) != count:
            return None
        return [None if values[i] is None else round(values[i], 4) for i in shown]

    return {
        "slot": found.get("slot"),
        "position": short(found["position"]),
        "mean": short(found.get("mean")),
        "deviation": short(found.get("deviation")),
        "acquisition": short(found.get("acquisition")),
        "position_now": found.get("position_now"),
        "target": found.get("target"),
    }


def command_of(pid: object) -> str | None:
    """The command that starts a running daemon again, its service if it has one."""
    if not isinstance(pid, int):
        return None
    if unit := service_of(pid):
        return f"sudo systemctl start {unit}"
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return None
    while words and (words[0].startswith("-") or "python" in os.path.basename(words[0])):
        words.pop(0)
    return shlex.join([os.path.basename(words[0]), *words[1:]]) if words else None


def own_sockets() -> list[Path]:
    """The sockets of daemons, without those in a folder of another user."""
    trusted = (0, os.geteuid())
    found = []
    for path in sockets()[0]:
        with suppress(OSError):
            if path.stat().st_uid in trusted or (os.geteuid() == 0 and path.parent == _SERVICES):
                found.append(path)
    return found


class Daemons:
    """All daemons that this process may connect to."""

    def __init__(self) -> None:
        self.by_name: dict[str, Daemon] = {}
        self._following: dict[str, asyncio.Task[None]] = {}

    def scan(self) -> None:
        """Find new sockets, and connect again to those whose daemon may be back."""
        for path in own_sockets():
            name = unquote(path.stem)
            known = self.by_name.get(name)
            if known is None:
                if len(self.by_name) >= _MOST:
                    continue
                known = self.by_name[name] = Daemon(path)
            known.path = path
            task = self._following.get(name)
            if task is None or task.done():
                self._following[name] = asyncio.ensure_future(known.follow())
        now = time.monotonic()
        for name, daemon in list(self.by_name.items()):
            is_old = now - daemon.answered_at > (_FORGET_S if daemon.answered_at else _SCAN_S)
            if not daemon.is_connected and not daemon.watchers and is_old:
                task = self._following.get(name)
                if task is None or task.done():
                    del self.by_name[name]

    def seen(self) -> list[Daemon]:
        """The daemons that have answered at least once, by name."""
        return [d for _, d in sorted(self.by_name.items()) if d.snapshot is not None]

    async def close(self) -> None:
        for daemon in self.by_name.values():
            await daemon.oracle.close()
        for task in self._following.values():
            task.cancel()
        await asyncio.gather(*self._following.values(), return_exceptions=True)
