"""The run file's format: its tables, its columns, its version.

A run file is an SQLite database. `application_id` marks it as ours, `user_version` is the format.
It has three tables: `header` (key and JSON value), `slots` (one row per slot) and `events`. The
shape of the header, the two numbers and the key `version` never change, so that every version can
report which version wrote a file. A new column gets a higher FORMAT, which it names (`since`), and
a default: rows of older files are read with the default, null if it has none.

Since format 5, a value that is the usual one takes no space. The column `target` is computed from
`stored_target`, which is null where the target is the position. In other columns null stands for
the value of the first slot, which is part of the table's declaration. There '' stands for null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from macontrol.controller.recording.records import (
    Event,
    LateReward,
    ReferenceReading,
    SlotRecord,
)
from macontrol.hal.probe import Signal

FORMAT = 5
APPLICATION_ID = 0x4D41434F  # "MACO"

Kind: TypeAlias = Literal["count", "number", "truth", "word"]
_SQL_TYPE: dict[Kind, str] = {
    "count": "INTEGER",
    "number": "REAL",
    "truth": "INTEGER",
    "word": "TEXT",
}
_STORED_PREFIX = "stored_"
WAVELENGTHS = "wavelengths"


class Column(NamedTuple):
    """A column of a table, with its unit and meaning for documentation."""

    name: str
    kind: Kind
    unit: str
    meaning: str
    default: float | str | None = None
    """The value of a slot for which none is given; null if this is None."""
    is_key: bool = False
    since: int = 1
    """The first format that has the column."""
    is_later: bool = False
    """Whether another thread gives the value when the slot is over."""
    usual: Literal["position", "first"] | None = None
    """Which value takes no space: the slot's position, or the value of the first slot."""

    @property
    def stored_name(self) -> str:
        """The column that has the values; `name` is computed from it if there is a usual value."""
        return self.name if self.usual is None else _STORED_PREFIX + self.name

    def usual_value(self, first: Mapping[str, object], position: str = "position") -> str:
        """The SQL expression of the usual value, given the values of the first slot."""
        return position if self.usual == "position" else _literal(first.get(self.name))

    def declaration(self, first: Mapping[str, object] = MappingProxyType({})) -> str:
        """The column in the declaration of its table."""
        if self.usual is not None:
            value = f"nullif(ifnull({self.stored_name}, {self.usual_value(first)}), '')"
            return f"{self.name} {_SQL_TYPE[self.kind]} AS ({value}) VIRTUAL"
        # Only the slot is required: an incomplete record is better than none.
        default = "" if self.default is None else f" NOT NULL DEFAULT {self.default!r}"
        key = " PRIMARY KEY" if self.is_key else ""
        return f"{self.name} {_SQL_TYPE[self.kind]}{key}{default}"


def _literal(value: object) -> str:
    """The SQL expression of a value, null without one.

    Versions of SQLite differ in the last bit of a decimal number. They agree on a quotient.
    """
    if isinstance(value, str) and value.isalnum() and value.isascii():
        return f"'{value}'"
    if isinstance(value, float) and isfinite(value):
        numerator, denominator = value.as_integer_ratio()
        if abs(numerator) < 1 << 53 and denominator < 1 << 62:
            return f"CAST({numerator} AS REAL) / {denominator}"
    return "NULL"


SLOT_COLUMNS = (
    Column("slot", "count", "", "t, the number of the slot; missed slots leave gaps", is_key=True),
    Column("start_s", "number", "s", "s_t, the slot's boundary on the monotonic clock"),
    Column("position", "number", WAVELENGTHS, "x_t, the antenna's position as the stage reported"),
    Column("commanded", "number", WAVELENGTHS, "where the stage was sent; null without a command"),
    Column("on_time", "truth", "", "whether the stage stood still by s_t + T_a"),
    Column("reward", "number", "bit/s/Hz", "r_t; null if there is none"),
    Column(
        "uncertainty",
        "number",
        "bit/s/Hz",
        "standard deviation of r_t; null if unknown",
        usual="first",
    ),
    Column("invalid", "word", "", "the reason why there is no reward; null if there is one"),
    Column("target", "number", WAVELENGTHS, "z_t, where the antenna is headed", usual="position"),
    Column("next_position", "number", WAVELENGTHS, "x_{t+1}, as decided", usual="position"),
    Column("switched", "truth", "", "whether the target changed in this slot"),
    Column("transit", "truth", "", "whether the target is beyond the next position"),
    Column("shortfall", "number", "bit/s/Hz", "max F_t − F_t(z_t); null without a surface"),
    Column("surface_movement", "number", "bit/s/Hz", "sup|F_t − F_{t−1}|; null without a surface"),
    Column("wake_s", "number", "s", "how late the loop woke up for the slot"),
    Column("actuate_s", "number", "s", "from the boundary until the arrival was known"),
    Column("measure_s", "number", "s", "from the measurement's start until its result or its end"),
    Column("decide_s", "number", "s", "the time to observe and to decide"),
    Column("late", "truth", "", "whether the reward arrived after the slot", default=0),
    Column("level_db", "number", "dB", "the received power, in level_unit", since=2),
    Column(
        "level_unit",
        "word",
        "",
        "the unit of level_db and noise_floor_db: dBFS (0 is the full scale of the radio), dBm "
        "(the probe is calibrated) or dB (it measures a ratio)",
        since=2,
        usual="first",
    ),
    Column(
        "noise_floor_db",
        "number",
        "dB",
        "the noise floor in use, in level_unit",
        since=2,
        usual="first",
    ),
    Column("snr_db", "number", "dB", "the SNR; null if the power is at the floor", since=2),
    Column(
        "clipped_share",
        "number",
        "",
        "the share of the samples that were at the limit of the receiver",
        since=2,
    ),
    Column("samples", "number", "", "how many samples or readings were used", since=2),
    Column(
        "transmission_share",
        "number",
        "",
        "1 − τ_t/T_s, the part of the slot that the antenna's move left to transmit: a factor of "
        "r_t; null in older files, whose slots all spend τ_t = T_a",
        since=3,
        usual="first",
    ),
    Column(
        "reference_db",
        "number",
        "dB",
        "the power at the reference receiver, in reference_unit; null without one",
        since=4,
        is_later=True,
    ),
    Column("reference_unit", "word", "", "as level_unit", since=4, is_later=True),
    Column(
        "reference_snr_db",
        "number",
        "dB",
        "the SNR of the reference receiver; snr_db less this is the gain over it",
        since=4,
        is_later=True,
    ),
)
EVENT_COLUMNS = (
    Column("number", "count", "", "the order of recording", is_key=True),
    Column("slot", "count", "", "the slot of the event; 0 before the first one"),
    Column("time_s", "number", "s", "when it happened, on the monotonic clock"),
    Column("kind", "word", "", "one of the event kinds"),
    Column("detail", "word", "", "what happened, for a person"),
    Column("value", "number", "", "a number that depends on the kind; null if there is none"),
)


def column_rows() -> list[tuple[str, str, str, str]]:
    """The columns for documentation: table, name, unit, meaning."""
    tables = (("slots", SLOT_COLUMNS), ("events", EVENT_COLUMNS))
    return [
        (table, column.name, column.unit, column.meaning)
        for table, columns in tables
        for column in columns
    ]


def create_slots(first: Mapping[str, object]) -> str:
    """The statement that creates the table of the slots, given the values of the first one."""
    stored = [
        f"{column.stored_name} {_SQL_TYPE[column.kind]}"
        for column in SLOT_COLUMNS
        if column.usual is not None
    ]
    return (
        f"CREATE TABLE slots ({', '.join([c.declaration(first) for c in SLOT_COLUMNS] + stored)})"
    )


CREATE = (
    "CREATE TABLE header (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    create_slots({}),
    f"CREATE TABLE events ({', '.join(column.declaration() for column in EVENT_COLUMNS)})",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT}",
)


def learned_reward(actuation: object) -> str:
    """The SQL expression of what a policy learned from a slot: the reward of a holding antenna.

    `actuation` is `physical.actuation` of the run. As needed, a holding antenna transmits in the
    whole slot. If it is fixed, every slot has the same share, which older files do not have.
    """
    is_as_needed = actuation == "as-needed"
    return "reward / nullif(transmission_share, 0)" if is_as_needed else "reward"


def _insert(table: str, fields: tuple[str, ...]) -> str:
    return f"INSERT INTO {table} ({', '.join(fields)}) VALUES ({', '.join('?' * len(fields))})"


INSERT_HEADER = _insert("header", ("key", "value"))
REPLACE_HEADER = INSERT_HEADER.replace("INSERT", "REPLACE", 1)
# A record is stored in its own order, without its last fields, which the file does not have.
_STORED = tuple(column for column in SLOT_COLUMNS if column.default is None and not column.is_later)
_STORED_FIELDS = tuple(column.name for column in _STORED)
assert SlotRecord._fields[: len(_STORED)] == _STORED_FIELDS
assert Event._fields == tuple(column.name for column in EVENT_COLUMNS[1:])
INSERT_EVENT = _insert("events", Event._fields)


def insert_slot(first: Mapping[str, object]) -> str:
    """The statement that stores a slot in the table of `create_slots`."""
    position = f"?{_STORED_FIELDS.index('position') + 1}"
    values = []
    for n, column in enumerate(_STORED, 1):
        usual = "NULL" if column.usual is None else column.usual_value(first, position)
        values.append(f"?{n}" if usual == "NULL" else f"nullif(ifnull(?{n}, ''), {usual})")
    names = ", ".join(column.stored_name for column in _STORED)
    return f"INSERT INTO slots ({names}) VALUES ({', '.join(values)})"


def first_values(record: SlotRecord) -> dict[str, object]:
    """The values of a first slot, of which later ones are stored only if they differ."""
    return {name: getattr(record, name) for name in _FIRST}


_FIRST = tuple(column.name for column in SLOT_COLUMNS if column.usual == "first")
_NAMES = {column.name: column.stored_name for column in SLOT_COLUMNS}
COMPLETE_SLOT = (
    "UPDATE slots SET reward = ?2, stored_uncertainty = ifnull(?3, ''), invalid = ?4, "
    "late = ?2 IS NOT NULL, "
    + ", ".join(
        f"{_NAMES[name]} = ifnull(?{n}, {_NAMES[name]})" for n, name in enumerate(Signal._fields, 5)
    )
    + " WHERE slot = ?1"
)

COMPLETE_REFERENCE = (
    "UPDATE slots SET "
    + ", ".join(f"{name} = ?{n}" for n, name in enumerate(ReferenceReading._fields[1:], 2))
    + " WHERE slot = ?1"
)


slot_row: Callable[[SlotRecord], tuple[object, ...]] = itemgetter(slice(len(_STORED)))
"""The values of `insert_slot`."""


def completion_of(item: LateReward | ReferenceReading) -> tuple[str, tuple[object, ...]]:
    """The statement that completes the record of a slot, and its values."""
    if isinstance(item, ReferenceReading):
        return COMPLETE_REFERENCE, tuple(item)
    return COMPLETE_SLOT, (*item[:4], *item.signal)


def beside(path: Path, end: str) -> Path:
    """A file that SQLite keeps beside a database: "-wal", "-shm" or "-journal"."""
    return path.with_name(path.name + end)


SAMPLES = (".sigmf-data", ".sigmf-meta")
"""What IQ samples beside a run file have instead of its suffix."""


def files_of(path: Path) -> list[Path]:
    """The names of all files that belong to a run, the run file last; not all of them exist."""
    samples = (path.with_suffix(end) for end in SAMPLES)
    return [*(beside(path, end) for end in ("-wal", "-shm", "-journal")), *samples, path]


def is_run_start(start: bytes) -> bool:
    """Whether a file that begins with these 100 bytes is a run file."""
    return start[:16] == b"SQLite format 3\0" and start[68:72] == APPLICATION_ID.to_bytes(4, "big")
