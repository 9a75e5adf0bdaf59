"""Command lines with hostile input, run in one child process: a process each would cost a second.

The parent calls `attack` with command lines; the child (this file as a program) runs them one
after another, each within a time limit, and reports how each ended and what it cost.
"""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LIMIT_S = 10
"""CPU time of a command line; wall time depends on the machine's load."""
PATIENCE_S = 60
"""Wall time after which a command line that hangs is ended."""
LIMIT_MB = 500
_ADDRESSES = 3 << 30  # a decompression bomb ends with a MemoryError


@dataclass(frozen=True)
class Outcome:
    """How one command line ended."""

    code: int
    out: str
    err: str
    cpu_s: float
    peak_mb: float


def attack(
    cases: Mapping[str, Sequence[str]],
    folder: Path,
    *,
    stdout: str | None = None,
    encoding: str = "utf-8",
) -> dict[str, Outcome]:
    """Run every command line; `stdout` names the standard output, a file by default."""
    request = json.dumps({"cases": cases, "stdout": stdout, "encoding": encoding})
    done = subprocess.run(
        [sys.executable, __file__],
        input=request,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        cwd=folder,
        timeout=PATIENCE_S * len(cases),
        check=False,
    )
    lines = done.stderr.splitlines()
    assert done.returncode == 0, lines[-20:]
    return {name: Outcome(**outcome) for name, outcome in json.loads(lines[-1]).items()}


def assert_refused(outcome: Outcome, codes: Sequence[int] = (64, 65, 66, 69, 74, 78)) -> None:
    """Assert an exit code and a message, soon, and without much memory."""
    assert outcome.code in codes, outcome
    assert "Traceback" not in outcome.err
    assert outcome.err.count("\n") <= 10, outcome.err
    assert len(outcome.err) < 5000
    assert outcome.cpu_s < LIMIT_S
    assert outcome.peak_mb < LIMIT_MB


class _TooLong(BaseException):
    """The time is up."""


def _end(_number: int, _frame: object) -> None:
    raise _TooLong


def _run(words: list[str], stdout: str | None, encoding: str) -> dict[str, object]:
    from macontrol.cli import main

    Path("/proc/self/clear_refs").write_text("5")  # the peak begins again
    signal.alarm(PATIENCE_S)
    start = time.process_time()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        target = out.fileno() if stdout is None else os.open(stdout, os.O_WRONLY)
        os.dup2(target, 1)
        os.dup2(err.fileno(), 2)
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), encoding)
        sys.stderr = io.TextIOWrapper(
            io.FileIO(2, "w", closefd=False), encoding, "backslashreplace", write_through=True
        )
        try:
            code = main(words)
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else -1
        except _TooLong:
            code = -2
        signal.alarm(0)
        if stdout is not None:
            os.close(target)
        for file in (out, err):
            file.seek(0)
        return {
            "code": code,
            "out": out.read(10_000).decode("utf-8", "replace"),
            "err": err.read(10_000).decode("utf-8", "replace"),
            "cpu_s": time.process_time() - start,
            "peak_mb": _peak_mb(),
        }


def _peak_mb() -> float:
    """The peak memory of this process. `ru_maxrss` would include its parent's."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _child() -> None:
    request = json.loads(sys.stdin.buffer.read().decode("utf-8", "surrogateescape"))
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
    signal.signal(signal.SIGALRM, _end)
    report = os.dup(2)
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    outcomes = {
        name: _run(words, request["stdout"], request["encoding"])
        for name, words in request["cases"].items()
    }
    os.write(report, ("\n" + json.dumps(outcomes)).encode())


if __name__ == "__main__":
    _child()
