"""Read a run file beside its writer: short queries only, each with a connection of its own.

A reader holds up nothing of the writer but the restart of its log, and that only while it reads. So
a query on a file that is being written takes a limited number of rows, and ends before the next.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from macontrol.controller.recording.runfile.connection import (
    DAMAGE,
    check_format,
    check_tables,
    connect,
    damaged,
)
from macontrol.controller.recording.runfile.schema import beside

ROWS_AT_ONCE = 4000
_LONGEST_HEADER = 200


class RunReader:
    """A run file, read in short queries. Its numbers are as stored: a file may contain anything."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def is_being_written(self) -> bool:
        """Whether the file has a log, as during a run and after a killed one."""
        return beside(self.path, "-wal").exists()

    def query(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query, which must limit their number."""
        with ExitStack() as stack:
            connection = connect(self.path, stack)
            try:
                check_format(connection, self.path)
                check_tables(connection, self.path)
                return connection.execute(sql, values).fetchall()
            except DAMAGE as error:
                raise damaged(self.path, error) from error

    def header(self) -> dict[str, str]:
        """The header as stored: keys and JSON texts."""
        rows = self.query("SELECT key, value FROM header LIMIT ?", (_LONGEST_HEADER,))
        return {str(key): value for key, value in rows if isinstance(value, str)}

    def bounds(self) -> tuple[int, int] | None:
        """The first and the last slot; None without slots. Both are found without a scan."""
        ((first, last),) = self.query("SELECT min(slot), (SELECT max(slot) FROM slots) FROM slots")
        if first is None:
            return None
        if not isinstance(first, int) or not isinstance(last, int):
            raise damaged(self.path, "its slots have no numbers")
        return first, last

    def slots(
        self, columns: str, first: int, last: int, *, rows: int = ROWS_AT_ONCE
    ) -> list[tuple[Any, ...]]:
        """At most `rows` rows from slot `first` to slot `last`, in order."""
        sql = f"SELECT {columns} FROM slots WHERE slot BETWEEN ? AND ? ORDER BY slot LIMIT ?"
        return self.query(sql, (first, last, min(rows, ROWS_AT_ONCE)))

    def all_slots(self, columns: str, first: int, last: int) -> Iterator[tuple[Any, ...]]:
        """The rows from slot `first` to slot `last`, by queries of limited length.

        The first column must be the slot.
        """
        while rows := self.slots(columns, first, last):
            yield from rows
            first = rows[-1][0] + 1

    def events(self, count: int) -> list[tuple[Any, ...]]:
        """The last events, oldest first: number, slot, time_s, kind, detail, value."""
        return self.query(
            "SELECT number, slot, time_s, kind, substr(detail, 1, 500), value FROM events "
            "ORDER BY number DESC LIMIT ?",
            (count,),
        )[::-1]


def header_value(header: dict[str, str], key: str) -> Any:
    """A value of a header; None if it is missing or no JSON."""
    try:
        return json.loads(header[key])
    except (KeyError, ValueError, RecursionError):
        return None


def nested(config: object, *keys: str) -> Any:
    """A value of a nested JSON object; None if it is not there."""
    for key in keys:
        if not isinstance(config, dict):
            return None
        config = config.get(key)
    return config


def numeric(value: object, default: float) -> float:
    """A finite number, or the default."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15:
        return float(value)
    return default
