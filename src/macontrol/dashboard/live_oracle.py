"""The oracle of a simulated run while it runs: a helper process computes it, as long as a page
watches."""

from __future__ import annotations

import asyncio
import json
import os
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import Any

from macontrol.helper_process import python_module

INTERVAL_S = 2.0
"""How often it is computed."""
_KEPT_S = 60.0
"""A helper without a page waits this long: a page that is loaded again finds it."""
_ANSWER_S = 30.0
_LONGEST_LINE = 1 << 20
_MOST_HELPERS = 2
_NICENESS = 15
"""A helper runs below everything else of this machine."""


class LiveOracle:
    """The oracle of one daemon's run."""

    helpers = 0
    """How many helper processes run, for all daemons."""

    def __init__(self) -> None:
        self.found: dict[str, Any] | None = None
        self.number = 0
        """Grows with every new one."""
        self._path: Path | None = None
        self._slot = 0
        self._watched_at = 0.0
        self._is_refused = False
        self._task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        """Also those that end."""

    def refresh(self, path: Path | None, slot: int, *, is_watched: bool) -> None:
        """Follow the run in this file, now at `slot`; often. No path: no simulated run."""
        if path != self._path:
            self._end()
            self._path, self.found, self._is_refused = path, None, False
        self._slot = slot
        now = time.monotonic()
        if is_watched:
            self._watched_at = now
        if self._task is not None:
            if now - self._watched_at > _KEPT_S:
                self._end()
            elif self._task.done():
                self._task = None
            return
        is_wanted = is_watched and slot > 0 and not self._is_refused
        if path is not None and is_wanted and LiveOracle.helpers < _MOST_HELPERS:
            self._task = asyncio.ensure_future(self._run(path))
            self._tasks.add(self._task)
            self._task.add_done_callback(self._tasks.discard)

    @property
    def _is_watched(self) -> bool:
        return time.monotonic() - self._watched_at < INTERVAL_S

    async def close(self) -> None:
        """End the helper process, and wait for its end."""
        self._end()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self, path: Path) -> None:
        LiveOracle.helpers += 1
        process: Process | None = None
        try:
            process = await asyncio.create_subprocess_exec(
                *python_module("macontrol.dashboard.oracle_helper"),
                str(path),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                limit=_LONGEST_LINE,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            )
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, process.pid, _NICENESS)
            await self._ask(process)
        except (OSError, ValueError, TimeoutError):
            pass
        finally:
            LiveOracle.helpers -= 1
            if process is not None and process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

    async def _ask(self, process: Process) -> None:
        """Ask for the oracle at the present slot, again and again."""
        assert process.stdin is not None and process.stdout is not None
        self._is_refused = True  # until it answers: what fails is not tried again
        while True:
            asked = self._slot
            process.stdin.write(f"{asked}\n".encode())
            await process.stdin.drain()
            line = await asyncio.wait_for(process.stdout.readline(), _ANSWER_S)
            found = json.loads(line)
            if "problem" in found:
                return
            self._is_refused = False
            self.found = {**found, "interval_s": INTERVAL_S}
            self.number += 1
            await asyncio.sleep(INTERVAL_S)
            while found["slot"] == self._slot or not self._is_watched:
                await asyncio.sleep(INTERVAL_S)
