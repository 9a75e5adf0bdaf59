"""What all requests share: access, daemons, runs, limits; and the work that runs beside them."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from macontrol.dashboard.access import Access
from macontrol.dashboard.daemons import Daemons
from macontrol.dashboard.digests import Digests
from macontrol.dashboard.limits import RateLimit
from macontrol.dashboard.run_library import RunLibrary

if TYPE_CHECKING:
    from macontrol.dashboard.stream import PageStream

_STEP_S = 0.1
_SCAN_STEPS = 4
_TAIL_STEPS = 3
_IDLE_TAIL_STEPS = 20


class Board:
    """The state of the server."""

    def __init__(
        self,
        access: Access,
        token: str,
        token_file: Path,
        library: RunLibrary,
        daemons: Daemons,
    ) -> None:
        self.access = access
        self.token = token
        self.token_file = token_file
        self.library = library
        self.daemons = daemons
        self.port = 0
        self.streams: set[PageStream] = set()
        # One thread for everything that may block in a disk.
        self.executor = ThreadPoolExecutor(1, thread_name_prefix="disk")
        self.digests = Digests(self.executor)
        self.request_limit = RateLimit(50, 300)
        self.action_limit = RateLimit(2, 10)
        self.safety_limit = RateLimit(5, 20)
        """Of `hold` and `stop`, which a flood of other actions must not use up."""
        self.token_limit = RateLimit(0.2, 10)
        self.stream_limit = RateLimit(5, 50)

    async def work(self) -> None:
        """Find daemons, refresh what pages watch, and follow run files; until cancelled."""
        step = 0
        while True:
            if step % _SCAN_STEPS == 0:
                self.daemons.scan()
            for daemon in self.daemons.by_name.values():
                daemon.refresh()
                daemon.refresh_oracle()
                if step % (_TAIL_STEPS if daemon.watchers else _IDLE_TAIL_STEPS) == 0:
                    await daemon.read_tail(self.executor)
                    self.library.add_run(daemon.tail.path)
            step += 1
            await asyncio.sleep(_STEP_S)

    async def close(self) -> None:
        for stream in list(self.streams):
            stream.close(1001, "the dashboard ends")
        with suppress(Exception):
            await self.daemons.close()
        self.executor.shutdown(wait=False, cancel_futures=True)
