"""Read run files: of finished, running and killed runs, and in older formats.

Reading never writes to a run file and leaves no other file beside it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from macontrol.config.model.errors import DataError
from macontrol.controller.recording.records import Event, EventKind
from macontrol.controller.recording.runfile.connection import (
    DAMAGE,
    check_format,
    check_tables,
    connect,
    damaged,
)
from macontrol.controller.recording.runfile.header import RunHeader, Sample
from macontrol.controller.recording.runfile.schema import SLOT_COLUMNS, Column, learned_reward

Columns: TypeAlias = dict[str, NDArray[Any]]

_LONGEST_WORD = 100

_ROWS_AT_ONCE = 50_000
_DTYPE = {"count": np.int64, "number": np.float64, "truth": np.bool_}
# The types that SQLite may have stored for a column: a table may contain anything.
_STORED: dict[str, Sequence[str]] = {
    "count": ("integer",),
    "number": ("real", "integer", "null"),
    "truth": ("integer", "null"),
    "word": ("text", "null"),
}
_EVENT_TYPES: dict[str, Sequence[str]] = {
    "slot": ("integer",),
    "time_s": ("real", "integer"),
    "kind": ("text",),
    "detail": ("text",),
    "value": ("real", "integer", "null"),
}


@dataclass(frozen=True, eq=False)
class Run:
    """A complete run in memory."""

    header: RunHeader
    format: int
    slots: Columns
    """One array per column, in the order of slots. NaN is for no number, "" for no word."""
    events: Sequence[Event]


def read_run(path: Path | str) -> Run:
    """Read a complete run file; DataError if this version cannot read it."""
    with OpenRun(path) as run:
        return Run(run.header, run.format, run.columns(), run.events())


class OpenRun:
    """A run file, as it was when it was opened; use it in a `with`."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        with ExitStack() as stack:
            self._connection = connect(self.path, stack)
            try:
                self.format = check_format(self._connection, self.path)
                check_tables(self._connection, self.path)
                self.header = _read_header(self._connection, self.path)
                stored = {
                    name for _, name, *_ in self._connection.execute("PRAGMA table_xinfo(slots)")
                }
                self._select = {
                    c.name: _expression(c, stored, self.format, self.path) for c in SLOT_COLUMNS
                }
                self.count, self.first_slot, self.last_slot = self._row(
                    "SELECT count(*), ifnull(min(slot), 0), ifnull(max(slot), 0) FROM slots"
                )
            except DAMAGE as error:
                raise damaged(self.path, error) from error
            if not isinstance(self.first_slot, int) or not isinstance(self.last_slot, int):
                raise damaged(self.path, "its slots have no numbers")
            self._stack = stack.pop_all()

    def __enter__(self) -> OpenRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stack.close()

    def rows(self, names: Sequence[str] | None = None) -> Iterator[tuple[Any, ...]]:
        """The slots one by one, as stored: None for no value, 0 and 1 for truths."""
        self._check_types("slots", self._types(names or self._select))
        return self._all(f"SELECT {self._expressions(names)} FROM slots ORDER BY slot")

    def blocks(self, names: Sequence[str]) -> Iterator[Columns]:
        """The slots as arrays of a limited length; truths are masked where there is no value."""
        chosen = [c for c in SLOT_COLUMNS if c.name in names]
        for column in chosen:
            if column.kind == "word":
                self._check_length(column)
        rows = self.rows([c.name for c in chosen])
        while taken := list(islice(rows, _ROWS_AT_ONCE)):
            yield {
                column.name: _array(column, values)
                for column, values in zip(chosen, zip(*taken, strict=True), strict=True)
            }

    def columns(self, names: Sequence[str] | None = None) -> Columns:
        """The slots as one array per column; fewer columns take less memory."""
        chosen = [c for c in SLOT_COLUMNS if names is None or c.name in names]
        found = {c.name: np.empty(self.count, self._dtype(c)) for c in chosen}
        begin = 0
        for block in self.blocks([c.name for c in chosen]) if chosen else ():
            end = begin + len(next(iter(block.values())))
            if end > self.count:
                raise damaged(self.path, "its slots cannot be counted")
            for name, values in block.items():
                found[name][begin:end] = np.ma.getdata(values)
            begin = end
        if chosen and begin != self.count:
            raise damaged(self.path, "its slots cannot be counted")
        return found

    def events(self) -> list[Event]:
        """The events, in the order of recording."""
        self._check_types("events", _EVENT_TYPES)
        rows = self._all("SELECT slot, time_s, kind, detail, value FROM events ORDER BY number")
        return [_event(*row) for row in rows]

    def last_value(self, kind: EventKind) -> object:
        """The value of the last event of a kind that has one; None without one."""
        query = "SELECT value FROM events WHERE kind = ? AND value IS NOT NULL ORDER BY number DESC"
        return next(self._all(query, (str(kind),)), (None,))[0]

    def last_samples(self, count: int) -> list[Sample]:
        """The last slots with a reward, oldest first; with those of the run it resumed.

        The reward is what the policy learned.
        """
        reward = learned_reward(self.header.config.physical.actuation)
        found = self._all(
            f"SELECT slot, position, {reward} FROM slots WHERE reward IS NOT NULL "
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

    def _dtype(self, column: Column) -> Any:
        if column.kind == "word":
            return np.dtype((np.str_, max(self._check_length(column), 1)))
        return _DTYPE[column.kind]

    def _check_length(self, column: Column) -> int:
        """The length of the longest word of a column; DataError if it is too long."""
        expression = self._select[column.name]
        self._check_types("slots", self._types([column.name]))
        (longest,) = self._row(f"SELECT ifnull(max(length({expression})), 0) FROM slots")
        if longest > _LONGEST_WORD:
            raise damaged(self.path, f"slots has a {column.name} of {longest} characters")
        return int(longest)

    def _types(self, names: Iterable[str]) -> dict[str, Sequence[str]]:
        """The allowed types of these columns of the slots; a default needs no check."""
        chosen = [c for c in SLOT_COLUMNS if c.name in names and self._select[c.name] == c.name]
        return {c.name: _STORED[c.kind] for c in chosen}

    def _check_types(self, table: str, types: Mapping[str, Sequence[str]]) -> None:
        """Raise DataError if a column has a value of a type that no run writes there."""
        if not types:
            return
        wrong = " OR ".join(
            f"typeof({name}) NOT IN ({', '.join(map(repr, allowed))})"
            for name, allowed in types.items()
        )
        found = ", ".join(f"typeof({name})" for name in types)
        for row in self._all(f"SELECT {found} FROM {table} WHERE {wrong} LIMIT 1"):
            name, kind = next(
                (name, kind)
                for (name, allowed), kind in zip(types.items(), row, strict=True)
                if kind not in allowed
            )
            raise damaged(self.path, f"{table} has a {kind} as its {name}")

    def _expressions(self, names: Sequence[str] | None) -> str:
        return ", ".join(self._select[name] for name in names or self._select)

    def _row(self, query: str) -> tuple[Any, ...]:
        return next(self._all(query))

    def _all(self, query: str, values: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._connection.execute(query, values)
        except DAMAGE as error:
            raise damaged(self.path, error) from error


def _array(column: Column, values: Sequence[Any]) -> NDArray[Any]:
    """The values of a column: NaN for no number, "" for no word, masked for no truth."""
    if column.kind == "word":
        return np.array([value or "" for value in values], np.str_)
    array: NDArray[Any] = np.array(values, _DTYPE[column.kind])
    if column.kind == "truth":
        return np.ma.MaskedArray(array, [value is None for value in values])
    return array


def _event(slot: int, time_s: float, kind: str, detail: str, value: float | None) -> Event:
    try:
        return Event(slot, time_s, EventKind(kind), detail, value)
    except ValueError:  # a kind of another version
        return Event(slot, time_s, EventKind.WARNING, f"{kind}: {detail}", value)


def _read_header(connection: sqlite3.Connection, path: Path) -> RunHeader:
    rows = dict(connection.execute("SELECT key, value FROM header"))
    if not all(isinstance(value, str) for value in rows.values()):
        raise damaged(path, "its header has a value that is not text")
    try:
        return RunHeader.from_rows(rows)
    except DataError as error:
        raise damaged(path, error) from error


def _expression(column: Column, stored: set[str], form: int, path: Path) -> str:
    """What to select for a column: the column, or its default if the file does not have it."""
    if column.name in stored:
        return column.name
    if column.default is not None:
        return repr(column.default)
    if column.since > form:
        return "NULL"
    raise damaged(path, f"its slots have no column {column.name}")
