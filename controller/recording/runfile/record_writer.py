"""Write records into the tables of a run file, one transaction at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from macontrol.controller.recording.records import Event, Item, LateReward, SlotRecord
from macontrol.controller.recording.runfile.schema import (
    COMPLETE_SLOT,
    INSERT_EVENT,
    INSERT_SLOT,
    completion_row,
    slot_row,
)

_RECORDS = (SlotRecord, Event, LateReward)
# What SQLite and its binding raise for a record that no file can store.
DEFECTS = (
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    sqlite3.DataError,
    sqlite3.NotSupportedError,
    OverflowError,
    TypeError,
    ValueError,
)


class Written(NamedTuple):
    """The result of a transaction."""

    stored: int
    """Records that are in the file now, including late rewards that waited for their slot."""
    lost: int
    defects: Sequence[str]
    """What is wrong with the records that no file can store."""


class RecordWriter:
    """Stores records, and holds late rewards back until the row of their slot is stored."""

    def __init__(self) -> None:
        self.early: list[LateReward] = []
        self._last_slot = 0

    def write(self, connection: sqlite3.Connection, chunk: Sequence[Item]) -> Written:
        """Store records in one transaction.

        An error that is raised here is due to the disk, not to the records: try again later.
        """
        slots = [item for item in chunk if type(item) is SlotRecord]
        events = [item for item in chunk if type(item) is Event]
        late = [item for item in chunk if type(item) is LateReward]
        defects = [f"{item!r} is not a record" for item in chunk if type(item) not in _RECORDS]
        early, lost = self.early, 0
        connection.execute("BEGIN IMMEDIATE")
        try:
            try:
                connection.executemany(INSERT_SLOT, map(slot_row, slots))
                connection.executemany(INSERT_EVENT, events)
            except DEFECTS:  # an impossible value or slot number: find it, store the others
                connection.execute("ROLLBACK")
                connection.execute("BEGIN IMMEDIATE")
                defects += _insert_singly(connection, slots, events)
            if slots:
                self._last_slot = slots[-1].slot
            if late or early:
                early, lost = self._complete(connection, [*early, *late])
            connection.execute("COMMIT")
        except Exception:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        newly_held = len(early) - len(self.early)
        self.early = early
        lost += len(defects)
        return Written(len(chunk) - lost - newly_held, lost, defects)

    def _complete(
        self, connection: sqlite3.Connection, late: Iterable[LateReward]
    ) -> tuple[list[LateReward], int]:
        """Complete the rows of late rewards; return those whose row is not stored yet.

        The second value counts those whose row was lost, or that no file can store.
        """
        early: list[LateReward] = []
        lost = 0
        for item in late:
            try:
                rows = connection.execute(COMPLETE_SLOT, completion_row(item)).rowcount
            except DEFECTS:
                rows, lost = 1, lost + 1
            if rows == 0 and item.slot > self._last_slot:
                early.append(item)
            elif rows == 0:
                lost += 1
        return early, lost


def _insert_singly(
    connection: sqlite3.Connection, slots: Iterable[SlotRecord], events: Iterable[Event]
) -> list[str]:
    """Insert record by record; return what is wrong with those that cannot be stored."""
    defects: list[str] = []
    rows: list[tuple[str, int, Sequence[object]]] = [
        *((INSERT_SLOT, record.slot, slot_row(record)) for record in slots),
        *((INSERT_EVENT, event.slot, event) for event in events),
    ]
    for statement, slot, row in rows:
        try:
            connection.execute(statement, tuple(row))
        except DEFECTS as error:
            defects.append(f"slot {slot}: {error}")
    return defects
