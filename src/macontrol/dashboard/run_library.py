"""The list of recorded runs, each with a few numbers and the points of a small picture."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from macontrol.config.model.errors import MacontrolError
from macontrol.controller.recording.runfile.schema import beside
from macontrol.dashboard.run_reader import RunReader, header_value, nested, numeric

LONGEST_LIST = 200
SUFFIX = ".sqlite"
_POINTS = 64
_ROWS_PER_POINT = 8
# Beyond this number of slots the mean reward is that of the picture's points.
_COUNTED_SLOTS = 200_000


@dataclass(frozen=True)
class State:
    """The state of a file: another one means other content."""

    modified_ns: int
    size: int
    log_modified_ns: int
    log_size: int

    @classmethod
    def of(cls, path: Path) -> State:
        found, log = path.stat(), None
        with suppress(OSError):
            log = beside(path, "-wal").stat()
        return cls(
            found.st_mtime_ns,
            found.st_size,
            log.st_mtime_ns if log else 0,
            log.st_size if log else 0,
        )

    @property
    def newest_ns(self) -> int:
        return max(self.modified_ns, self.log_modified_ns)


class RunLibrary:
    """The run files in some folders. A client names a run by an id, never by a path."""

    def __init__(self, places: Iterable[Path]) -> None:
        self._places = list(places)
        self._extra: deque[Path] = deque(maxlen=LONGEST_LIST)
        self._paths: dict[str, Path] = {}
        self._entries: dict[str, tuple[State, dict[str, Any]]] = {}

    def add_run(self, path: Path | None) -> None:
        """Also list the run file of a daemon, wherever it is; the newest of them only."""
        if path is None or path in self._extra or path.parent in self._places:
            return
        self._extra.append(path)

    def path_of(self, run: str) -> Path | None:
        """The file of an id."""
        return self._paths.get(run)

    def id_of(self, path: Path) -> str:
        """The id of a run file, which is then known."""
        path = path.resolve()
        run = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
        self._paths[run] = path
        return run

    def entries(self) -> list[dict[str, Any]]:
        """The newest runs, newest first. Blocks: call it beside the event loop."""
        found: dict[str, State] = {}
        for path in self._files():
            with suppress(OSError):
                found[self.id_of(path)] = State.of(path)
        newest = sorted(found, key=lambda run: found[run].newest_ns, reverse=True)[:LONGEST_LIST]
        self._paths = {run: path for run, path in self._paths.items() if path.exists()}
        self._entries = {run: self._entries[run] for run in newest if run in self._entries}
        for run in newest:
            known = self._entries.get(run)
            if known is None or known[0] != found[run]:
                self._entries[run] = (found[run], self._describe(run))
        return [self._entries[run][1] for run in newest]

    def _files(self) -> Iterable[Path]:
        for place in (*self._places, *self._extra):
            with suppress(OSError):
                if place.is_dir():
                    yield from (p for p in place.iterdir() if p.suffix == SUFFIX and p.is_file())
                elif place.is_file():
                    yield place

    def _describe(self, run: str) -> dict[str, Any]:
        path = self._paths[run]
        entry: dict[str, Any] = {"id": run, "name": path.stem}
        try:
            return entry | describe(RunReader(path))
        except (MacontrolError, OSError) as error:
            return entry | {"problem": str(error)}


def describe(reader: RunReader) -> dict[str, Any]:
    """A run in a few numbers, with the points of a small picture."""
    header = reader.header()
    config = header_value(header, "config")
    slot_s = numeric(nested(config, "physical", "slot_duration_s"), 0.005)
    entry: dict[str, Any] = {
        "policy": header_value(header, "policy"),
        "backend": header_value(header, "backend"),
        "stage": header_value(header, "stage"),
        "seed": header_value(header, "seed"),
        "started_s": header_value(header, "started_wall_s"),
        "length": numeric(nested(config, "physical", "region_length"), 1.0),
        "slot_s": slot_s,
        "is_open": reader.is_being_written,
        "slots": 0,
        "duration_s": 0.0,
        "reward": None,
        "is_exact": True,
        "picture": [],
    }
    bounds = reader.bounds()
    if bounds is None:
        return entry
    first, last = bounds
    entry["slots"] = last - first + 1
    entry["duration_s"] = (last - first + 1) * slot_s
    entry["picture"], entry["reward"] = _picture(reader, first, last)
    if reader.is_being_written or last - first >= _COUNTED_SLOTS:
        entry["is_exact"] = False
    else:
        ((entry["reward"],),) = reader.query("SELECT avg(reward) FROM slots")
    return entry


def _picture(
    reader: RunReader, first: int, last: int
) -> tuple[list[tuple[float, float | None]], float | None]:
    """The antenna's position and reward at some slots, and the mean of these rewards."""
    points: list[tuple[float, float | None]] = []
    all_rewards: list[float] = []
    step = max((last - first + 1) / _POINTS, 1.0)
    for number in range(min(_POINTS, last - first + 1)):
        begin = first + int(number * step)
        rows = reader.slots("slot, position, reward", begin, last, rows=_ROWS_PER_POINT)
        rewards = [row[2] for row in rows if isinstance(row[2], float)]
        position = next((row[1] for row in rows if isinstance(row[1], float)), None)
        if position is not None:
            mean = sum(rewards) / len(rewards) if rewards else None
            points.append((round(position, 3), None if mean is None else round(mean, 3)))
        all_rewards += rewards
    return points, sum(all_rewards) / len(all_rewards) if all_rewards else None
