"""Every error macontrol raises on purpose, each with the exit code it leads to.

The codes follow sysexits.h, so that a service manager can distinguish a wrong configuration (do not
restart) from missing hardware (restart). An error has two fields for a person: `detail` says what
is wrong and where, `fix` says what to do. Nothing parses a message.
"""

from __future__ import annotations


class MacontrolError(Exception):
    """An error with a message for a person and an exit code for a program."""

    exit_code = 70
    """EX_SOFTWARE: something inside macontrol went wrong."""

    def __init__(self, detail: str, fix: str = "") -> None:
        super().__init__(detail, fix)
        self.detail = detail
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.detail}; {self.fix}" if self.fix else self.detail


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


class StageError(HardwareError):
    """The stage did not answer, refused a command, or lost its position."""


class StageLostError(StageError):
    """The connection or the position is lost: the stage must be recovered before it moves."""


class StageBrokenError(StageError):
    """Only a person can help: another attempt cannot succeed."""


class StillMovingError(StageError):
    """The stage moves when it should stand still."""


class StopRequestedError(StageError):
    """A stop was requested while the stage was connected, homed or recovered."""


class BoardRestartedError(StageError):
    """The board restarted during a handshake: what it sent before is void."""


class LineError(StageError):
    """A serial port cannot be opened."""


class LineBusyError(LineError):
    """Another program has the serial port."""


class LineLostError(StageLostError):
    """The serial connection is lost."""


class ProbeError(HardwareError):
    """The probe did not answer, or its samples cannot be used."""


class CommandRefusedError(MacontrolError):
    """The guard refused a command: beyond the stroke or the region, or not a number."""


class InputOutputError(MacontrolError):
    """Reading or writing a file failed."""

    exit_code = 74


class ConfigError(MacontrolError):
    """A configuration holds an unknown key, a value out of range, or a contradiction."""

    exit_code = 78


class SlotTooShortError(ConfigError):
    """The stage cannot cover the stroke within T_a."""


def reason_of(error: Exception) -> str:
    """What an error says, without the number and the file name of an OSError."""
    return str((error.strerror if isinstance(error, OSError) else None) or error)
