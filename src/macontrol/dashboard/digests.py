"""Computes digests of run files in helper processes, one at a time, and keeps the latest."""

from __future__ import annotations

import asyncio
import gzip
import os
from collections import OrderedDict
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path

from macontrol.dashboard.run_library import State
from macontrol.helper_process import python_module

_KEPT = 8
_WAITING = 6
_LONGEST_S = 60.0
_LARGEST_BYTES = 8 << 20
_UNREADABLE = b'{"problem": "the run could not be read", "fix": "try `macontrol export`"}'


class Digests:
    """Compressed JSON texts. A digest of a file that has changed since is computed again."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._kept: OrderedDict[tuple[Path, float | None], tuple[State, bytes]] = OrderedDict()
        self._turn = asyncio.Semaphore(1)
        self._waiting = 0

    async def get(self, path: Path, last_s: float | None) -> bytes | None:
        """The digest of a run, or of its last seconds; None if too many are being computed."""
        if self._waiting >= _WAITING:
            return None
        self._waiting += 1
        try:
            async with self._turn:
                state, key = State.of(path), (path, last_s)
                if key in self._kept and self._kept[key][0] == state:
                    self._kept.move_to_end(key)
                    return self._kept[key][1]
                packed = await self._compute(path, last_s)
                if last_s is None:
                    self._kept[key] = (state, packed)
                    if len(self._kept) > _KEPT:
                        self._kept.popitem(last=False)
                return packed
        finally:
            self._waiting -= 1

    async def _compute(self, path: Path, last_s: float | None) -> bytes:
        words = [*python_module("macontrol.dashboard.digest"), str(path)]
        process = await asyncio.create_subprocess_exec(
            *words,
            *([] if last_s is None else [f"{last_s:g}"]),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        try:
            text, _ = await asyncio.wait_for(process.communicate(), _LONGEST_S)
        except TimeoutError:
            text = b""
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode != 0 or len(text) > _LARGEST_BYTES:
            text = _UNREADABLE
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, gzip.compress, text, 5)
