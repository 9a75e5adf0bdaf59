"""Every error macontrol raises on purpose, each with the exit code it leads to.

The codes follow sysexits.h, so that a service manager can distinguish a wrong configuration (do not
restart) from missing hardware (restart). An error has two fields for a person: `detail` says what
is wrong and where, `fix` says what to do. Nothing parses a message.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from os.path import basename
from types import TracebackType


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


class DamagedFileError(DataError):
    """A run file has parts that cannot be read."""


class HardwareError(MacontrolError):
    """A stage or a probe is unavailable, or does not do what was commanded."""

    exit_code = 69


class StageError(HardwareError):
    """The stage did not answer, refused a command, or lost its position."""


class StageLostError(StageError):
    """The connection or the position is lost: the stage must be recovered before it moves."""


class StageBrokenError(StageError):
    """Only a person can help: another attempt cannot succeed."""


class NoAnswerError(StageError):
    """The board does not answer."""


class NotHomedError(StageError):
    """A stage that is not homed has no position."""


class OffRailError(StageError):
    """A position beyond the usable rail, or not a number."""


class StageBusyError(StageError):
    """The stage is still busy with an earlier move."""


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


class StageInUseError(HardwareError):
    """Another process has the stage."""


class ProbeError(HardwareError):
    """The probe did not answer, or its samples cannot be used."""


class LateAnswerError(ProbeError):
    """The answer of an instrument has not arrived in time; it may still arrive."""


class TransmitterError(ProbeError):
    """A command of `[tx]` did not switch the transmitter."""


class PolicyError(MacontrolError):
    """The policy raised an exception, or decided what is not possible, or too late."""


class CommandRefusedError(MacontrolError):
    """The guard refused a command: beyond the stroke or the region, or not a number."""


class NoDaemonError(HardwareError):
    """No daemon is running, or none of this name, or it has ended."""


class ActionRefusedError(MacontrolError):
    """A running daemon refuses what an operator requests; it may accept it in another state."""

    exit_code = 75


class RequestError(MacontrolError):
    """A request on the control socket that is answered with an error."""

    def __init__(self, code: int, detail: str, fix: str = "", **data: str) -> None:
        super().__init__(detail, fix)
        self.code = code
        self.data = data
        self.request: object = None
        """The id of the request, if it is known."""


class InputOutputError(MacontrolError):
    """Reading or writing a file failed."""

    exit_code = 74


class ConfigError(MacontrolError):
    """A configuration holds an unknown key, a value out of range, or a contradiction."""

    exit_code = 78


class SlotTooShortError(ConfigError):
    """The stage cannot cover the stroke within T_a."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A key of a config with a problem. If its fix is a number, that number is accepted."""

    key: str
    detail: str
    fix: str

    def error(self) -> ConfigError:
        return ConfigError(f"{self.key}: {self.detail}", self.fix)


class ContradictionError(ValueError):
    """Values of different sections contradict each other; a ValueError, as Pydantic needs it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem.error()) for problem in problems))
        self.problems = problems


class SlotGivenUpError(Exception):
    """The run was stopped in the middle of a long slot, which is dropped."""


def reason_of(error: Exception) -> str:
    """What an error says, without the number and the file name of an OSError."""
    return str((error.strerror if isinstance(error, OSError) else None) or error)


def described(error: BaseException) -> str:
    """An exception of any code in one line: its type, its text, and where that code raised it."""
    try:
        text = " ".join(str(error).split())[:300]
    except KeyboardInterrupt:
        raise
    except BaseException:  # the code of others may fail here too, or exit
        text = ""
    place = place_of(error)
    return f"{type(error).__name__}{': ' if text else ''}{text}{f' ({place})' if place else ''}"


def place_of(error: BaseException) -> str:
    """Where an exception was raised, as "policy.py, line 7"; empty if no code has that line.

    Python's own import code is left out: of a missing module, the import statement is of use.
    """
    trace, file, line = error.__traceback__, "", 0
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith("<frozen importlib"):
            file, line = name, trace.tb_lineno
        trace = trace.tb_next
    return f"{basename(file)}, line {line}" if file not in ("", importlib.__file__) else ""


class RaisedAs:
    """In a `with`: whatever the code of a plug-in raises is raised as an error of its kind.

    Errors of this kind and of the configuration pass unchanged, and so does an interrupt.
    """

    def __init__(self, kind: type[MacontrolError], what: str, fix: str) -> None:
        self._kind, self._what, self._fix = kind, what, fix

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: TracebackType | None) -> None:
        if error is None or isinstance(error, (self._kind, ConfigError, KeyboardInterrupt)):
            return
        raise self._kind(f"{self._what} raised {described(error)}", self._fix) from error


AUTHOR = "report it to the author of the driver"
STAGE_CODE = RaisedAs(StageError, "the stage's driver", AUTHOR)
PROBE_CODE = RaisedAs(ProbeError, "the probe's driver", AUTHOR)
POLICY_CODE = RaisedAs(PolicyError, "the policy", "correct the policy")
