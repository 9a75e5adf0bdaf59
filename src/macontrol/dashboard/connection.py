"""A connection to a daemon, for an event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from macontrol.config.model.errors import RequestError
from macontrol.control.messages import NO_ANSWER, WRONG_PARAMETERS, encode
from macontrol.control.places import connect

_LONGEST_LINE = 4 << 20
_ANSWER_S = 2.0

Json = dict[str, Any]


class Connection:
    """A connection to a daemon: requests with their answers, and notifications."""

    def __init__(self, on_notification: Callable[[str, Json], None] | None = None) -> None:
        self._on_notification = on_notification
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self._writer: asyncio.StreamWriter | None = None

    async def open(self, path: Path) -> asyncio.StreamReader:
        line = await asyncio.to_thread(connect, path, _ANSWER_S)
        line.setblocking(False)
        reader, self._writer = await asyncio.wait_for(
            asyncio.open_unix_connection(sock=line, limit=_LONGEST_LINE), _ANSWER_S
        )
        return reader

    async def request(self, method: str, params: Mapping[str, object] | None = None) -> Any:
        """The result of a request; RequestError if it is refused or not answered."""
        if self._writer is None:
            raise RequestError(NO_ANSWER, "the daemon has ended", "start it again")
        self._number += 1
        number = self._number
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": dict(params or {})}
        try:
            line = encode(message)
        except ValueError as error:
            raise RequestError(WRONG_PARAMETERS, "a parameter is not a finite number") from error
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            self._writer.write(line)
            return await asyncio.wait_for(answer, _ANSWER_S)
        except (TimeoutError, OSError) as error:
            raise RequestError(
                NO_ANSWER, "the daemon does not answer", "look at its log"
            ) from error
        finally:
            self._answers.pop(number, None)

    def take(self, line: bytes) -> None:
        """Process a line of the daemon; ValueError if it is not a message."""
        message = json.loads(line)
        if not isinstance(message, dict):
            raise ValueError("not an object")
        if "method" in message:
            if self._on_notification is not None:
                self._on_notification(str(message["method"]), message.get("params") or {})
            return
        answer = self._answers.get(message.get("id") or 0)
        if answer is None or answer.done():
            return
        if "error" in message:
            answer.set_exception(_as_error(message["error"]))
        else:
            answer.set_result(message.get("result"))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(
                    RequestError(NO_ANSWER, "the daemon has ended", "start it again")
                )


def _as_error(error: Json) -> RequestError:
    """The error of a daemon, with its words."""
    more = dict(error.get("data") or {})
    fix = str(more.pop("fix", ""))
    return RequestError(int(error["code"]), str(error["message"]), fix, **more)
