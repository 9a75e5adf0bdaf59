"""Reading run files: finished ones, running ones, those a killed process left, older formats.

Nothing is ever written to a run file by reading it, and nothing left beside it that was not there.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from macontrol import __version__
from macontrol.config.errors import DataError, InputOutputError
from macontrol.controller.record import Event, EventKind
from macontrol.controller.runfile.header import RunHeader, Sample
from macontrol.controller.runfile.schema import APPLICATION_ID, FORMAT, SLOT_COLUMNS, Column

Columns: TypeAlias = dict[str, NDArray[Any]]

# What reading a damaged file may raise. SQLite puts pieces of it into its messages, which need not
# be text, and believes it when it says how long a value is.
_DAMAGE = (sqlite3.Error, UnicodeDecodeError, MemoryError)

_ROWS_AT_ONCE = 50_000
_DTYPE = {"count": np.int64, "number": np.float64, "truth": np.bool_}


@dataclass(frozen=True, eq=False)
class Run:
    """A whole run in memory."""

    header: RunHeader
    format: int
    slots: Columns
    """One array a column, in the order of slots. NaN stands for no number, "" for no word."""
    events: Sequence[Event]


def read_run(path: Path | str) -> Run:
    """Read a run file whole; a DataError if it is not one that this version can read."""
    with OpenRun(path) as run:
        return Run(run.header, run.format, run.columns(), run.events())


class OpenRun:
    """A run file open for reading, as it was at the moment of opening; use it in a `with`."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        with ExitStack() as stack:
            self._connection = _connect(self.path, stack)
            try:
                self.format = _check_format(self._connection, self.path)
                self.header = _read_header(self._connection, self.path)
                stored = {
                    name for _, name, *_ in self._connection.execute("PRAGMA table_info(slots)")
                }
                self._select = {c.name: _expression(c, stored, self.path) for c in SLOT_COLUMNS}
                self.count, self.first_slot, self.last_slot = self._row(
                    "SELECT count(*), ifnull(min(slot), 0), ifnull(max(slot), 0) FROM slots"
                )
            except _DAMAGE as error:
                raise _damaged(self.path, error) from error
            self._stack = stack.pop_all()

    def __enter__(self) -> OpenRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stack.close()

    def rows(self, names: Sequence[str] | None = None) -> Iterator[tuple[Any, ...]]:
        """The slots one by one, as they are stored: None for no value, 0 and 1 for truths."""
        return self._all(f"SELECT {self._expressions(names)} FROM slots ORDER BY slot")

    def columns(self, names: Sequence[str] | None = None) -> Columns:
        """The slots as one array a column; the fewer columns, the less memory it takes."""
        chosen = [c for c in SLOT_COLUMNS if names is None or c.name in names]
        numeric = [c for c in chosen if c.kind != "word"]
        found: Columns = {c.name: np.empty(self.count, _DTYPE[c.kind]) for c in numeric}
        rows = self.rows([c.name for c in numeric]) if numeric else iter(())
        begin = 0
        while taken := list(islice(rows, _ROWS_AT_ONCE)):
            try:
                block = np.array(taken, float)  # None becomes NaN
            except ValueError as error:
                raise _damaged(self.path, error) from error
            for number, column in enumerate(numeric):
                found[column.name][begin : begin + len(block)] = block[:, number]
            begin += len(block)
        for column in chosen:
            if column.kind == "word":
                found[column.name] = self._words(column.name)
        return {c.name: found[c.name] for c in chosen}

    def events(self) -> list[Event]:
        """What happened, in the order it was handed over."""
        rows = self._all("SELECT slot, time_s, kind, detail, value FROM events ORDER BY number")
        return [_event(*row) for row in rows]

    def last_samples(self, count: int) -> list[Sample]:
        """The last slots that have a reward, oldest first; with those taken over from before."""
        found = self._all(
            "SELECT slot, position, reward FROM slots WHERE reward IS NOT NULL "
            "AND position IS NOT NULL ORDER BY slot DESC LIMIT ?",
            (count,),
        )
        own = [Sample(*row) for row in found][::-1]
        return [*self.header.window, *own][-count:]

    def last_row(self) -> Mapping[str, Any] | None:
        """The last slot's row by column name, if there is one."""
        names = list(self._select)
        query = f"SELECT {self._expressions(names)} FROM slots ORDER BY slot DESC LIMIT 1"
        row = next(self._all(query), None)
        return None if row is None else dict(zip(names, row, strict=True))

    def _words(self, name: str) -> NDArray[Any]:
        expression = self._select[name]
        (longest,) = self._row(f"SELECT ifnull(max(length({expression})), 0) FROM slots")
        words = self._all(f"SELECT ifnull({expression}, '') FROM slots ORDER BY slot")
        return np.fromiter((w for (w,) in words), np.dtype(f"U{max(longest, 1)}"), self.count)

    def _expressions(self, names: Sequence[str] | None) -> str:
        return ", ".join(self._select[name] for name in names or self._select)

    def _row(self, query: str) -> tuple[Any, ...]:
        return next(self._all(query))

    def _all(self, query: str, values: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._connection.execute(query, values)
        except _DAMAGE as error:
            raise _damaged(self.path, error) from error


def _event(slot: int, time_s: float, kind: str, detail: str, value: float | None) -> Event:
    try:
        return Event(slot, time_s, EventKind(kind), detail, value)
    except ValueError:  # a kind that only another version knows
        return Event(slot, time_s, EventKind.WARNING, f"{kind}: {detail}", value)


def _connect(path: Path, stack: ExitStack) -> sqlite3.Connection:
    """Open a run file without changing it, wherever it lies; `stack` closes it.

    Without a log beside it a run is over, and is read as it lies there, on whatever medium. A log
    needs shared memory beside it; where that cannot be made, a copy of both is read instead.
    """
    # Asked of the file system, not by opening: see `lock` on what closing a descriptor costs.
    if not path.exists():
        raise DataError(f"{path}: there is no such file")
    if not path.is_file():
        raise _foreign(path)
    log = _beside(path, "-wal")
    if not all(os.access(file, os.R_OK) for file in (path, log) if file.exists()):
        raise InputOutputError(f"{path}: may not be read; ask its owner for permission to")
    try:
        if not log.exists():
            return _snapshot(path, "immutable=1", stack)
        try:
            return _snapshot(path, "mode=ro", stack)
        except sqlite3.OperationalError:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="macontrol-")))
            for file in (path, log):
                shutil.copyfile(file, folder / file.name)
            return _snapshot(folder / path.name, "mode=ro", stack)
    except OSError as error:
        raise InputOutputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except _DAMAGE as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
            raise _foreign(path) from error
        raise _damaged(path, error) from error


def _snapshot(path: Path, how: str, stack: ExitStack) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?{how}", uri=True, isolation_level=None)
    try:
        connection.execute("BEGIN")  # all that is read comes from one moment, …
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # … this one
    except BaseException:
        connection.close()
        raise
    stack.callback(connection.close)
    return connection


def _check_format(connection: sqlite3.Connection, path: Path) -> int:
    """The file's format; a DataError if it is not a run file, or of a format still to come."""
    (mark,) = connection.execute("PRAGMA application_id").fetchone()
    if mark != APPLICATION_ID:
        raise _foreign(path)
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found > FORMAT:
        row = connection.execute("SELECT value FROM header WHERE key = 'version'").fetchone()
        writer = json.loads(row[0]) if row else "unknown"
        raise DataError(
            f"{path}: was written by macontrol {writer} in run-file format {found}; this is "
            f"macontrol {__version__}, which reads up to format {FORMAT}: use {writer} or newer"
        )
    return int(found)


def _read_header(connection: sqlite3.Connection, path: Path) -> RunHeader:
    rows = dict(connection.execute("SELECT key, value FROM header"))
    try:
        return RunHeader.from_rows(rows)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise _damaged(path, f"its header cannot be understood ({error!r})") from error


def _expression(column: Column, stored: set[str], path: Path) -> str:
    """What to select for a column: the column, or its default where the file's format lacks it."""
    if column.name in stored:
        return column.name
    if column.default is None:
        raise _damaged(path, f"its slots have no column {column.name}")
    return f"{column.default!r} AS {column.name}"


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def _foreign(path: Path) -> DataError:
    return DataError(f"{path}: is not a run file of macontrol")


def _damaged(path: Path, reason: object) -> DataError:
    return DataError(f"{path}: the run file is damaged: {reason}")
