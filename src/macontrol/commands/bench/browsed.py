"""The live page in a real browser: how soon it shows a plot, and how often it draws."""

from __future__ import annotations

import asyncio
import json
import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from macontrol.commands.bench.children import Children
from macontrol.config.model.errors import MacontrolError

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless",
    "--no-sandbox",  # refused to root and in containers; the page is our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-proxy-server",
    "--window-size=1280,900",
    "--remote-debugging-port=0",
)
_START_S = 30.0
_POLL_INTERVAL_S = 0.1
_WATCHED_S = 5.0
_FIRST_PLOT = "performance.getEntriesByName('first live plot')[0]?.startTime ?? null"
_DRAWN = "window.macontrol.board.plots[0].drawn"


@dataclass(frozen=True)
class Browsed:
    """What a browser measures on the live page of a daemon."""

    first_plot_s: float
    """From the start of the page's load until it has drawn the first live state."""
    frames_per_s: float
    """How often it draws the rail."""


def find_browser() -> str | None:
    """The program of a browser, if there is one."""
    return next(filter(None, map(shutil.which, _PROGRAMS)), None)


def browse(program: str, address: str, folder: Path) -> Browsed:
    """Open the page in a new browser without a window, and close it."""
    with _running(program, folder) as port:
        return asyncio.run(_measure(port, address))


@contextmanager
def _running(program: str, folder: Path) -> Iterator[int]:
    """A browser; the port of its debugger."""
    command = [program, *_FLAGS, f"--user-data-dir={folder}", "about:blank"]
    with Children().start(command):
        yield asyncio.run(_port_in(folder / "DevToolsActivePort"))


async def _port_in(file: Path) -> int:
    for _ in range(int(_START_S / _POLL_INTERVAL_S)):
        if file.exists() and (lines := file.read_text().splitlines()):
            return int(lines[0])
        await asyncio.sleep(_POLL_INTERVAL_S)
    raise MacontrolError("the browser does not start")


async def _measure(port: int, address: str) -> Browsed:
    from tornado.websocket import WebSocketClientConnection, websocket_connect

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=_START_S) as answer:
        pages = [one for one in json.load(answer) if one["type"] == "page"]
    line: WebSocketClientConnection = await websocket_connect(pages[0]["webSocketDebuggerUrl"])

    async def call(method: str, **params: Any) -> Any:
        await line.write_message(json.dumps({"id": 1, "method": method, "params": params}))
        while True:
            text = await line.read_message()
            if text is None:
                raise MacontrolError("the browser has ended")
            message = json.loads(text)
            if message.get("id") == 1:
                return message.get("result", {})

    async def value(expression: str) -> Any:
        found = await call("Runtime.evaluate", expression=expression, returnByValue=True)
        return found.get("result", {}).get("value")

    await call("Page.navigate", url=address)
    first_ms = None
    for _ in range(int(_START_S / _POLL_INTERVAL_S)):
        if (first_ms := await value(_FIRST_PLOT)) is not None:
            break
        await asyncio.sleep(_POLL_INTERVAL_S)
    if first_ms is None:
        raise MacontrolError("the page shows no live plot in the browser")
    loop = asyncio.get_running_loop()
    begin, drawn = loop.time(), await value(_DRAWN)
    await asyncio.sleep(_WATCHED_S)
    drawn, lasted = await value(_DRAWN) - drawn, loop.time() - begin
    line.close()
    return Browsed(first_ms / 1e3, drawn / lasted)
