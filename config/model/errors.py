"""Every error macontrol raises on purpose, each with the exit code it leads to.

The codes follow sysexits.h, so a service manager can tell a wrong configuration (do not restart)
from hardware that went away (do). The module stands in the lowest room so that all rooms can
raise from one list. A message says what is wrong, where, and what to do about it.
"""

from __future__ import annotations


class MacontrolError(Exception):
    """An error with a message meant for a person and an exit code meant for a program."""

    exit_code = 70
    """EX_SOFTWARE: something inside macontrol went wrong."""


class UsageError(MacontrolError):
    """The command line asks for something that does not exist or does not fit together."""

    exit_code = 64


class DataError(MacontrolError):
    """An input file (a reward map, a run file) is not what it should be."""

    exit_code = 65


class NoInputError(DataError):
    """An input file does not exist, or may not be read."""

    exit_code = 66


class HardwareError(MacontrolError):
    """A stage or a probe is unavailable, or does not do what was commanded."""

    exit_code = 69


class InputOutputError(MacontrolError):
    """Reading or writing a file failed."""

    exit_code = 74


class ConfigError(MacontrolError):
    """A configuration holds an unknown key, a value out of range, or a contradiction."""

    exit_code = 78


def reason_of(error: Exception) -> str:
    """What an error says, without the number and the file name of an OSError."""
    return str((error.strerror if isinstance(error, OSError) else None) or error)
