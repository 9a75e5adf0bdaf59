"""Starts the server, reports its address, and runs it until a signal."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

from macontrol.config.model.errors import InputOutputError, reason_of
from macontrol.dashboard.access import Access, is_loopback, read_token
from macontrol.dashboard.board import Board
from macontrol.dashboard.daemons import Daemons
from macontrol.dashboard.pages import make_application
from macontrol.dashboard.run_library import RunLibrary

_LARGEST = 16 << 10
LIMITS: dict[str, Any] = {
    "max_header_size": _LARGEST,
    "max_body_size": _LARGEST,
    "max_buffer_size": 2 * _LARGEST,
    "idle_connection_timeout": 60.0,
    "body_timeout": 5.0,
}


def serve(
    host: str,
    port: int,
    folder: Path,
    places: list[Path],
    report: Callable[[str, Path], None],
) -> None:
    """Serve until SIGINT or SIGTERM; `report` gets the page's address and the token's file."""
    logging.getLogger("tornado").setLevel(logging.ERROR)
    token, token_file = read_token(folder)
    access = Access(token, needs_token=not is_loopback(host))
    asyncio.run(_serve(host, port, access, token, token_file, [folder, *places], report))


async def _serve(
    host: str,
    port: int,
    access: Access,
    token: str,
    token_file: Path,
    places: list[Path],
    report: Callable[[str, Path], None],
) -> None:
    try:
        sockets = bind_sockets(port, host)
    except (OSError, UnicodeError) as error:
        raise InputOutputError(
            f"--listen {host}:{port}: {reason_of(error)}",
            "choose another port, or 0 for any free one",
        ) from error
    board = Board(access, token, token_file, RunLibrary(places), Daemons())
    board.port = sockets[0].getsockname()[1]
    server = HTTPServer(make_application(board), **LIMITS)
    server.add_sockets(sockets)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    working = asyncio.ensure_future(board.work())
    working.add_done_callback(lambda _: ended.set())
    shown = f"[{host}]" if ":" in host else host
    report(f"http://{shown}:{board.port}/?token={token}", token_file)
    await ended.wait()
    server.stop()
    is_broken = working.done()
    working.cancel()
    await board.close()
    await server.close_all_connections()
    if is_broken:
        working.result()
