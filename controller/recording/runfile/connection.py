"""Open run files for reading, without changing them; for programs that need no NumPy too."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from contextlib import ExitStack
from pathlib import Path

from macontrol import __version__
from macontrol.config.files.input_file import check_input
from macontrol.config.model.errors import DamagedFileError, DataError, InputOutputError, reason_of
from macontrol.controller.recording.runfile.schema import APPLICATION_ID, FORMAT, beside

# What reading a damaged file may raise. SQLite puts parts of the file into its messages, which need
# not be text, and trusts the lengths in the file.
DAMAGE = (sqlite3.Error, UnicodeDecodeError, MemoryError)
# A run writes no longer value: the longest is a survey of 100 000 samples, 4 MB.
_LONGEST_VALUE_BYTES = 16 << 20
_TABLES = ("header", "slots", "events")


def connect(path: Path, stack: ExitStack) -> sqlite3.Connection:
    """Open a run file without changing it, on any medium; `stack` closes it.

    A run without a log beside it is over. A log needs a shared-memory file beside it; where SQLite
    cannot create that, a copy of both files is read.
    """
    # This opens nothing: see `lock` for what closing a descriptor does.
    check_input(path)
    log = beside(path, "-wal")
    try:
        if not log.exists():
            return _snapshot(path, "immutable=1", stack)
        check_input(log)
        try:
            return _snapshot(path, "mode=ro", stack)
        except sqlite3.OperationalError:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="macontrol-")))
            for file in (path, log):
                shutil.copyfile(file, folder / file.name)
            return _snapshot(folder / path.name, "mode=ro", stack)
    except OSError as error:
        raise InputOutputError(f"{path}: cannot be read: {reason_of(error)}") from error
    except DAMAGE as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
            raise _foreign(path) from error
        raise damaged(path, error) from error


def _snapshot(path: Path, how: str, stack: ExitStack) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?{how}", uri=True, isolation_level=None)
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE_BYTES)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("BEGIN")  # everything is read as of one moment, …
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # … now
    except BaseException:
        connection.close()
        raise
    stack.callback(connection.close)
    return connection


def check_format(connection: sqlite3.Connection, path: Path) -> int:
    """The file's format; DataError if it is not a run file, or in a newer format."""
    (mark,) = connection.execute("PRAGMA application_id").fetchone()
    if mark != APPLICATION_ID:
        raise _foreign(path)
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found > FORMAT:
        writer = _writer(connection)
        raise DataError(
            f"{path}: was written by macontrol {writer} in run-file format {found}; this is "
            f"macontrol {__version__}, which reads up to format {FORMAT}",
            f"use macontrol {writer} or newer",
        )
    return int(found)


def _writer(connection: sqlite3.Connection) -> str:
    """The version that wrote a file in a newer format."""
    row = connection.execute("SELECT value FROM header WHERE key = 'version'").fetchone()
    try:
        return str(json.loads(row[0]))[:100] if row else "unknown"
    except (ValueError, TypeError, RecursionError):
        return "unknown"


def check_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse tables that compute their content, such as views: reading one may never end."""
    found = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
    for name in _TABLES:
        if not str(found.get(name, "")).upper().startswith("CREATE TABLE"):
            raise damaged(path, f"it has no table {name}")


def _foreign(path: Path) -> DataError:
    return DataError(
        f"{path}: is not a run file of macontrol", "`macontrol runs` lists the recorded runs"
    )


def damaged(path: Path, reason: object) -> DamagedFileError:
    return DamagedFileError(f"{path}: the run file is damaged: {reason}")
