"""The stream of one page: a WebSocket that carries the newest state, and skips what is old.

A page that reads slowly gets fewer frames. At most one message per page is under way, and what
waits is bounded: the newest frame, list of daemons and oracle, and the last events.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from macontrol import __version__
from macontrol.dashboard.requests import Guarded

if TYPE_CHECKING:
    from macontrol.dashboard.daemons import Daemon

MOST_STREAMS = 32
TICK_S = 0.25
_UNREAD_S = 20.0
_FRAME_S = 0.095


class PageStream(Guarded, WebSocketHandler):
    """One page. Frames go out as fast as the daemon reports and the page reads."""

    _is_open = False
    _daemon: Daemon | None = None
    _daemons_sent: str = ""
    _shown: tuple[int, str] | None = None
    """Version and state of the frame that was sent last."""
    _event_number = 0
    _oracle_number = 0
    _sent_at = 0.0
    _sender: asyncio.Task[None] | None = None

    def check_origin(self, origin: str) -> bool:
        """`Guarded` has checked it."""
        return True

    async def open(self, *_: str, **__: str) -> None:
        if len(self.board.streams) >= MOST_STREAMS:
            self.close(1013, "too many pages are open")
            return
        self.board.streams.add(self)
        self._is_open = True
        self.set_nodelay(True)
        self._sender = asyncio.ensure_future(self._send_all())

    async def on_message(self, message: str | bytes) -> None:
        """A page says which daemon it shows: {"watch": NAME or null}."""
        if not self.board.stream_limit.permits(self.client):
            self.close(1008, "too many messages")
            return
        try:
            wanted = json.loads(message)["watch"]
        except (ValueError, KeyError, TypeError, RecursionError):
            self.close(1008, "not a message of this page")
            return
        self._watch(wanted if isinstance(wanted, str) else None)

    def on_close(self) -> None:
        self.board.streams.discard(self)
        self._watch(None)
        self._is_open = False
        if self._sender is not None:
            self._sender.cancel()

    def _watch(self, name: str | None) -> None:
        if self._daemon is not None:
            self._daemon.watchers -= 1
        self._daemon = None if name is None else self.board.daemons.by_name.get(name)
        if self._daemon is not None:
            self._daemon.watchers += 1
            self._daemon.refresh()
        self._shown = None
        self._event_number = 0
        self._oracle_number = 0

    async def _send_all(self) -> None:
        """Send what is new, as long as the page reads."""
        with suppress(WebSocketClosedError, StreamClosedError, TimeoutError):
            await self._send({"type": "hello", "version": __version__, "may_act": self.has_token})
            while self._is_open:
                begun = time.monotonic()
                for message in self._news():
                    await asyncio.wait_for(self._send(message), _UNREAD_S)
                if time.monotonic() - self._sent_at > TICK_S:
                    await asyncio.wait_for(self._send({"type": "tick"}), _UNREAD_S)
                await asyncio.sleep(max(_FRAME_S - (time.monotonic() - begun), 0.02))
            return
        self.close()

    def _news(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        daemons = [daemon.summary() for daemon in self.board.daemons.seen()]
        text = json.dumps([(d["name"], d["state"], d["policy"]) for d in daemons])
        if text != self._daemons_sent:
            self._daemons_sent = text
            found.append({"type": "daemons", "daemons": daemons})
        daemon = self._daemon
        if daemon is None:
            return found
        if events := daemon.events_since(self._event_number):
            self._event_number = daemon.event_number
            found.append({"type": "events", "daemon": daemon.name, "events": events})
        if self._oracle_number != daemon.oracle.number and daemon.oracle.found is not None:
            self._oracle_number = daemon.oracle.number
            found.append({"type": "oracle", "daemon": daemon.name, "oracle": daemon.oracle.found})
        # A daemon that no longer answers changes its state without a new version.
        newest = daemon.version, daemon.state
        if self._shown != newest and daemon.snapshot is not None:
            self._shown = newest
            found.append(daemon.frame())
        return found

    async def _send(self, message: dict[str, Any]) -> None:
        self._sent_at = time.monotonic()
        await self.write_message(json.dumps(message, separators=(",", ":")))
