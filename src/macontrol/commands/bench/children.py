"""Child processes of a benchmark: they always end, and their errors are reported."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO

from macontrol.config.model.errors import MacontrolError

_END_TIMEOUT_S = 10.0


class Children:
    """Child processes that are always ended; usable from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[str]] = []
        self._stopped = False

    @contextmanager
    def start(self, command: Sequence[str], **environment: str) -> Iterator[subprocess.Popen[str]]:
        """A process without input that ends with the `with`."""
        with self._lock:
            if self._stopped:
                raise MacontrolError("interrupted")
            process = subprocess.Popen(
                command,
                env={**_environment(), **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            self._processes.append(process)
        try:
            yield process
        finally:
            _end([process])
            pipe(process).close()
            with self._lock:
                self._processes.remove(process)

    def stop(self) -> None:
        """End all processes, and start no more."""
        with self._lock:
            self._stopped = True
            left = list(self._processes)
        _end(left[::-1])  # a daemon before its bench


def _end(processes: Sequence[subprocess.Popen[str]]) -> None:
    """Terminate processes, and kill those that do not end in time."""
    try:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        pass
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _environment() -> dict[str, str]:
    """Our environment without the variables of our service manager."""
    kept = dict(os.environ)
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
        kept.pop(name, None)
    return kept


def pipe(process: subprocess.Popen[str]) -> IO[str]:
    """The output of a child process."""
    assert process.stdout is not None
    return process.stdout


def failed(who: str, output: str) -> MacontrolError:
    """The error of a child process, with the end of its output."""
    tail = "\n".join(output.strip().splitlines()[-5:])
    return MacontrolError(f"{who} failed:\n{tail}")
