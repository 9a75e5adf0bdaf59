"""A daemon for tests of the dashboard: a socket that answers as a test wants."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

SNAPSHOT: dict[str, Any] = {
    "name": "left",
    "state": "running",
    "policy": "moveucb",
    "backend": "serial",
    "pid": 1,
    "time_s": 1.0,
    "slot": 5,
    "reward": {"recent": 2.5, "fixed": None, "mean": 2.0, "latest": 2.6},
    "position": 1.25,
    "counts": {"slots": 5, "missed": 1, "travel": 0.5},
    "events": {"start": 1, "late-arrival": 3},
    "recording": {"run_file": None, "lost": 0},
    "system": {"disk_free_mb": 2.0},
}
Answer = Callable[[str, dict[str, Any]], Any]


def answer_all(method: str, _: dict[str, Any]) -> Any:
    """The answers of a daemon that does everything."""
    if method == "status":
        return SNAPSHOT
    if method == "posterior":
        return {"slot": 5, "position": [0.0, 1.0], "mean": [1.0, 2.0], "deviation": [0.1, 0.2]}
    return {"outcome": "accepted", "state": "holding"}


class ScriptedDaemon:
    """Listens on a socket; `calls` are the requests it got. An answer with a code is an error."""

    def __init__(self, path: Path, answer: Answer = answer_all) -> None:
        self.path = path
        self.answer = answer
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    async def stop(self) -> None:
        if self._server is None:
            return
        self._server.close()
        self._server = None
        for writer in self.writers:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        self.path.unlink(missing_ok=True)

    async def say(self, line: bytes) -> None:
        """Send a line to all connections."""
        for writer in self.writers:
            writer.write(line)
            await writer.drain()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        while line := await reader.readline():
            request = json.loads(line)
            self.calls.append((request["method"], request["params"]))
            found = self.answer(request["method"], request["params"])
            if found is None:  # no answer
                continue
            kind = "error" if isinstance(found, dict) and "code" in found else "result"
            message = {"jsonrpc": "2.0", "id": request["id"], kind: found}
            writer.write(json.dumps(message).encode() + b"\n")
        writer.close()
