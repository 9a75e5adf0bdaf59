"""Measure the dashboard beside a daemon: what its pages and a flood of requests cost the loop.

A daemon on the simulated bench and a dashboard run for the whole time. First, pages watch the
daemon at ten updates per second in every second block; the latencies with pages are compared with
those without. Then a browser opens the page, if there is Chromium. Then two processes send requests
as no page sends them; as many busy loops take their place for the same time, and then nothing. Run
it as root, or with a real-time priority limit (ulimit -r).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from macontrol.commands.bench.bars import (
    Bar,
    add_output_arguments,
    finish,
    show_bars,
)
from macontrol.commands.bench.browsed import Browsed, browse, find_browser
from macontrol.commands.bench.children import Children, failed, pipe
from macontrol.commands.bench.clients import (
    BLOCK_S,
    Block,
    Effect,
    Results,
    add_effect_arguments,
    effect_of,
    show_effect,
)
from macontrol.commands.bench.clients import (
    bars_of as bars_of_effect,
)
from macontrol.commands.bench.jitter import running_daemon
from macontrol.commands.bench.page_flood import NO_ANSWER, flood
from macontrol.commands.shared_arguments import positive_int
from macontrol.config.model.errors import MacontrolError
from macontrol.config.model.suggestion import pip_install
from macontrol.controller.recording.records import EventKind
from macontrol.controller.recording.runfile import Run, read_run
from macontrol.helper_process import python_module

SUMMARY = "what the dashboard costs the loop, its memory and speed, and a flood of requests"

RESIDENT_MB = 80.0
FIRST_PLOT_S = 1.5
FRAMES_PER_S = 5.0
_FLOODS = 2
_REQUESTS = 20_000
_LONGEST_S = 3600.0
_START_S = 30.0
_POLL_INTERVAL_S = 0.1
_END_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Share:
    """Slots of a time in which something else ran."""

    seconds: float
    missed: int
    slots: int


@dataclass(frozen=True)
class Flood:
    """The loop during a flood of the page, during as many busy loops, and during neither."""

    requests: int
    answered: int
    actions: int
    """Actions of operators that the daemon recorded: none of them had permission."""
    errors: int
    """Answers with the status 500."""
    flooded: Share
    busy: Share
    neither: Share


@dataclass(frozen=True)
class Measured:
    """All results."""

    effect: Effect
    resident_mb: float
    """The largest resident set of the dashboard's process."""
    browsed: Browsed | None
    """None without a browser."""
    flood: Flood


@dataclass(frozen=True)
class _Page:
    """A running dashboard."""

    process: subprocess.Popen[str]
    address: str
    port: int


def measure(seconds: float, slot_s: float, pages: int, requests: int) -> Measured:
    """Run a daemon and a dashboard, and measure one after the other."""
    name = f"jitter-{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="macontrol-dashboard-") as temporary:
        folder = Path(temporary)
        with running_daemon(folder, _LONGEST_S, slot_s) as daemon:
            with _dashboard(folder, name) as page:
                blocks, frames = _in_a_process(_alternate, page.port, name, pages, seconds)
                program = find_browser()
                browsed = None
                if program is not None:
                    browsed = browse(program, f"{page.address}#/live/{name}", folder / "browser")
                times, codes = _flood_and_rest(page.port, requests, name)
                resident_mb = _largest_resident_mb(page.process.pid)
            daemon.send_signal(signal.SIGTERM)
            output, _ = daemon.communicate(timeout=_END_TIMEOUT_S)
        if daemon.returncode != 0:
            raise failed(f"the daemon (exit code {daemon.returncode})", output)
        run = read_run(folder / "run")
    flooded, busy, neither = (_share(run, begin, end) for begin, end in times)
    return Measured(
        effect=effect_of(run, blocks, pages, frames),
        resident_mb=resident_mb,
        browsed=browsed,
        flood=Flood(
            requests=sum(codes.values()),
            answered=sum(codes.values()) - codes.get(NO_ANSWER, 0),
            actions=sum(event.kind is EventKind.ACTION for event in run.events),
            errors=codes.get(500, 0),
            flooded=flooded,
            busy=busy,
            neither=neither,
        ),
    )


@contextmanager
def _dashboard(folder: Path, daemon: str) -> Iterator[_Page]:
    """A dashboard that is connected to the daemon."""
    command = [*python_module("macontrol"), "dashboard", "--listen", "127.0.0.1:0"]
    with Children().start(command, XDG_STATE_HOME=str(folder / "state")) as process:
        line = pipe(process).readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/\S*", line)
        if found is None:
            raise failed("the dashboard", line + pipe(process).read())
        page = _Page(process, found[0], int(found[1]))
        deadline = time.monotonic() + _START_S
        while not any(one["name"] == daemon and one["is_connected"] for one in _daemons(page)):
            if time.monotonic() > deadline:
                raise MacontrolError("the dashboard does not find the daemon")
            time.sleep(_POLL_INTERVAL_S)
        yield page


def _daemons(page: _Page) -> list[dict[str, Any]]:
    address = f"http://127.0.0.1:{page.port}/api/daemons"
    with urllib.request.urlopen(address, timeout=_START_S) as answer:
        found: list[dict[str, Any]] = json.load(answer)["daemons"]
    return found


def _in_a_process(target: Callable[..., None], *arguments: object) -> Any:
    """The result of a function in a process of its own, with the same clock."""
    context = get_context("spawn")
    results = context.SimpleQueue()
    process = context.Process(target=target, args=(*arguments, results))
    process.start()
    process.join()
    if process.exitcode != 0:
        raise MacontrolError("the pages failed")
    return results.get()


def _alternate(port: int, name: str, pages: int, seconds: float, results: Results) -> None:
    """Alternate blocks without and with pages that watch; pass on the blocks and the frames."""
    results.put(asyncio.run(_watch(port, name, pages, seconds)))


async def _watch(port: int, name: str, pages: int, seconds: float) -> tuple[list[Block], int]:
    from tornado.websocket import WebSocketClientConnection, websocket_connect

    frames = 0

    async def read(page: WebSocketClientConnection) -> None:
        nonlocal frames
        while (text := await page.read_message()) is not None:
            frames += '"type":"frame"' in str(text[:40])

    lines = [await websocket_connect(f"ws://127.0.0.1:{port}/api/stream") for _ in range(pages)]
    readers = [asyncio.ensure_future(read(line)) for line in lines]
    blocks: list[Block] = []
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        for is_watched in (False, True):
            begin = time.monotonic()
            for line in lines:
                await line.write_message(json.dumps({"watch": name if is_watched else None}))
            await asyncio.sleep(BLOCK_S)
            blocks.append((begin, time.monotonic(), is_watched))
    for line in lines:
        line.close()
    await asyncio.gather(*readers)
    return blocks, frames


def _flood_and_rest(
    port: int, requests: int, daemon: str
) -> tuple[list[tuple[float, float]], dict[int, int]]:
    """Flood the page, then run busy loops for as long, then nothing; return when, and statuses."""
    context = get_context("spawn")
    results = context.SimpleQueue()
    begin = time.monotonic()
    floods = [
        context.Process(target=_send_all, args=(port, requests // _FLOODS, seed, daemon, results))
        for seed in range(_FLOODS)
    ]
    for process in floods:
        process.start()
    codes: dict[int, int] = {}
    for process in floods:
        process.join()
        if process.exitcode != 0:
            raise MacontrolError("the flood of the page failed")
        for code, count in results.get().items():
            codes[code] = codes.get(code, 0) + count
    times = [(begin, time.monotonic())]
    lasted = times[0][1] - begin
    for loops in (_FLOODS, 0):
        begin = time.monotonic()
        busy = [context.Process(target=_spin, args=(lasted,)) for _ in range(loops)]
        for process in busy:
            process.start()
        time.sleep(max(0.0, begin + lasted - time.monotonic()))
        times.append((begin, time.monotonic()))
        for process in busy:
            process.join()
    return times, codes


def _send_all(port: int, requests: int, seed: int, daemon: str, results: Any) -> None:
    results.put(dict(flood(port, requests, seed=seed, daemon=daemon)))


def _spin(seconds: float) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        pass


def _share(run: Run, begin_s: float, end_s: float) -> Share:
    start_s = run.slots["start_s"]
    numbers = run.slots["slot"][(start_s >= begin_s) & (start_s < end_s)]
    slots = int(numbers[-1] - numbers[0]) + 1 if len(numbers) else 0
    return Share(end_s - begin_s, slots - len(numbers), slots)


def _largest_resident_mb(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text("ascii")
    found = re.search(r"VmHWM:\s+(\d+) kB", text)
    return int(found[1]) / 1e3 if found else float("nan")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_effect_arguments(parser, seconds=30.0, what="pages")
    parser.add_argument(
        "--requests",
        type=positive_int,
        default=_REQUESTS,
        metavar="N",
        help=f"requests of the flood (default: {_REQUESTS})",
    )
    add_output_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    try:
        import tornado  # noqa: F401
    except ImportError as error:
        raise MacontrolError("the dashboard needs tornado", pip_install("tornado")) from error
    slot_s = arguments.slot_ms * 1e-3
    found = measure(arguments.seconds, slot_s, arguments.pages, arguments.requests)
    bars = bars_of(found)
    data = {"unit": "microseconds", **asdict(found), "bars": [asdict(bar) for bar in bars]}
    return finish(arguments, data, bars, lambda console: _show(console, found, bars))


def bars_of(found: Measured) -> list[Bar]:
    """The bars, and whether they hold."""
    browsed, flood = found.browsed, found.flood
    bars = bars_of_effect(found.effect, "pages")
    memory = f"dashboard process at most {RESIDENT_MB:g} MB"
    bars.append(Bar(memory, f"{found.resident_mb:.0f} MB", found.resident_mb <= RESIDENT_MB))
    skipped = "skipped: no Chromium"
    bars.append(
        Bar(
            f"first live plot within {FIRST_PLOT_S:g} s of the page's load",
            f"{browsed.first_plot_s:.2f} s" if browsed else skipped,
            browsed.first_plot_s <= FIRST_PLOT_S if browsed else None,
        )
    )
    bars.append(
        Bar(
            f"at least {FRAMES_PER_S:g} frames per second",
            f"{browsed.frames_per_s:.1f}" if browsed else skipped,
            browsed.frames_per_s >= FRAMES_PER_S if browsed else None,
        )
    )
    bars.append(
        Bar(
            f"no action and no internal error from {flood.requests} requests of the flood",
            f"{flood.actions} and {flood.errors}",
            flood.actions == flood.errors == 0,
        )
    )
    return bars


def _show(console: Console, found: Measured, bars: Sequence[Bar]) -> None:
    flood = found.flood
    show_effect(console, found.effect, "pages", "frames")
    table = Table(title=f"Flood: {flood.answered} answers", title_justify="left")
    table.add_column("")
    for title in ("seconds", "missed", "slots"):
        table.add_column(title, justify="right")
    for label, share in (
        (f"flood by {_FLOODS} processes", flood.flooded),
        (f"{_FLOODS} busy loops instead", flood.busy),
        ("neither", flood.neither),
    ):
        table.add_row(label, f"{share.seconds:.1f}", str(share.missed), str(share.slots))
    console.print(table)
    show_bars(console, list(bars))
