"""The run file's format: its tables, its columns, its version.

A run file is an SQLite database that `application_id` marks as ours and whose `user_version` is
the format. Three tables: `header` (key and JSON value), `slots` (one row a slot) and `events`.
The header's shape, the two numbers and the key `version` never change, so that any version can
say of any file which version wrote it. A new column gets a default and a higher FORMAT: then
older files can be read on, their rows filled up with the default.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from macontrol.controller.recording.records import Event, LateReward, SlotRecord

FORMAT = 1
APPLICATION_ID = 0x4D41434F  # "MACO"

Kind: TypeAlias = Literal["count", "number", "truth", "word"]
_SQL_TYPE: dict[Kind, str] = {
    "count": "INTEGER",
    "number": "REAL",
    "truth": "INTEGER",
    "word": "TEXT",
}


class Column(NamedTuple):
    """A column of the slot table; `default` is what older files without it would hold."""

    name: str
    kind: Kind
    default: float | str | None = None
    """None: every format has it."""

    @property
    def declaration(self) -> str:
        # Nothing but the slot is required: a record with a hole is worth more than none.
        default = "" if self.default is None else f" NOT NULL DEFAULT {self.default!r}"
        key = " PRIMARY KEY" if self.name == "slot" else ""
        return f"{self.name} {_SQL_TYPE[self.kind]}{key}{default}"


SLOT_COLUMNS = (
    Column("slot", "count"),
    Column("start_s", "number"),
    Column("position", "number"),
    Column("commanded", "number"),
    Column("on_time", "truth"),
    Column("reward", "number"),
    Column("uncertainty", "number"),
    Column("invalid", "word"),
    Column("target", "number"),
    Column("next_position", "number"),
    Column("switched", "truth"),
    Column("transit", "truth"),
    Column("shortfall", "number"),
    Column("surface_movement", "number"),
    Column("wake_s", "number"),
    Column("actuate_s", "number"),
    Column("measure_s", "number"),
    Column("decide_s", "number"),
    # Whether the reward came after the slot's record was handed over.
    Column("late", "truth", default=0),
)

CREATE = (
    "CREATE TABLE header (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    f"CREATE TABLE slots ({', '.join(column.declaration for column in SLOT_COLUMNS)})",
    "CREATE TABLE events (number INTEGER PRIMARY KEY, slot INTEGER, time_s REAL, kind TEXT, "
    "detail TEXT, value REAL)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT}",
)


def _insert(table: str, fields: tuple[str, ...]) -> str:
    return f"INSERT INTO {table} ({', '.join(fields)}) VALUES ({', '.join('?' * len(fields))})"


INSERT_HEADER = _insert("header", ("key", "value"))
# The records' own order, so that they go into the statement as they are.
INSERT_SLOT = _insert("slots", SlotRecord._fields)
INSERT_EVENT = _insert("events", Event._fields)
assert LateReward._fields == ("slot", "reward", "uncertainty", "invalid")
COMPLETE_SLOT = (
    "UPDATE slots SET reward = ?2, uncertainty = ?3, invalid = ?4, late = ?2 IS NOT NULL "
    "WHERE slot = ?1"
)
