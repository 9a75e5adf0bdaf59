"""The transmitter, switched by the commands of `[tx]`.

A transmitter that macontrol has switched off must not stay off. So a small process of its own, the
keeper, waits while it is off. If this process ends in whatever way before it has switched the
transmitter on, the keeper runs the command instead.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from macontrol.config.model.errors import TransmitterError, reason_of
from macontrol.config.sections.tx import Tx
from macontrol.helper_process import python_program

_POLL_INTERVAL_S = 0.02
_ATTEMPTS = 3
_PAUSE_S = 1.0
_TAIL_BYTES = 4096
_LONGEST_LINE = 200
# Handlers, because ignored signals would also be ignored by the command.
_KEEPER = """
import signal, subprocess, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda *_: None)
print(flush=True)
if not sys.stdin.buffer.read():
    failed = "macontrol: the run has ended with the transmitter off, and tx.on_command failed: "
    try:
        ended = subprocess.run(sys.argv[2:], stdin=subprocess.DEVNULL, timeout=float(sys.argv[1]))
        if ended.returncode:
            print(f"{failed}exit code {ended.returncode}", file=sys.stderr)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"{failed}{error}", file=sys.stderr)
"""


class Transmitter:
    """Switches the transmitter; any thread but the slot thread may use it."""

    def __init__(self, settings: Tx) -> None:
        self._settings = settings
        self._lock = threading.RLock()
        self._keeper: subprocess.Popen[bytes] | None = None
        """Present from before the transmitter is switched off until it is switched on."""
        self._closed = threading.Event()

    @classmethod
    def of(cls, settings: Tx) -> Transmitter | None:
        """The transmitter, if commands can switch it."""
        return cls(settings) if settings.is_switchable else None

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Keep the transmitter off, and switch it on at the end, whatever happens."""
        try:
            self.off()
            yield
            if self._closed.is_set():  # which has switched it on
                raise TransmitterError("the transmitter was switched on meanwhile: the run ends")
        finally:
            self.on()

    def off(self) -> None:
        """Switch it off and wait until that is effective; TransmitterError if it fails."""
        with self._lock:
            if self._closed.is_set():
                raise TransmitterError("the transmitter is not switched off: the bench is closed")
            if self._keeper is None:
                self._keeper = self._start_keeper()
            self._execute("tx.off_command", self._settings.off_command)
        self._closed.wait(self._settings.settling_s)

    def on(self) -> None:
        """Switch it on and wait until that is effective; TransmitterError if it fails."""
        with self._lock:
            for left in reversed(range(_ATTEMPTS)):
                try:
                    self._execute("tx.on_command", self._settings.on_command)
                    break
                except TransmitterError:
                    if not left or self._closed.wait(_PAUSE_S):
                        raise
            if self._keeper is not None:
                self._keeper.communicate(b"switched on")
                self._keeper = None
        self._closed.wait(self._settings.settling_s)

    def close(self) -> None:
        """Switch it on if it is off, and do not switch it off any more."""
        self._closed.set()
        with self._lock:
            if self._keeper is None:
                return
            try:
                self.on()
            except TransmitterError:  # the keeper tries again, and reports
                with suppress(subprocess.TimeoutExpired):
                    self._keeper.communicate(timeout=self._settings.timeout_s + 1.0)

    def _start_keeper(self) -> subprocess.Popen[bytes]:
        """Start the keeper, and wait until it waits."""
        program = [*python_program(_KEEPER), str(self._settings.timeout_s)]
        keeper = subprocess.Popen(
            [*program, *shlex.split(self._settings.on_command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert keeper.stdout is not None
        if not keeper.stdout.read(1):
            raise TransmitterError("the process that would switch the transmitter on has ended")
        return keeper

    def _execute(self, key: str, command: str) -> None:
        """Run a command; TransmitterError with its exit code and its last line of output."""
        words, timeout_s = shlex.split(command), self._settings.timeout_s
        try:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise TransmitterError(
                f"{key}: {words[0]!r} cannot be run: {reason_of(error)}",
                f"correct {key}; a service may need more permissions, see systemd/README.md",
            ) from None
        until_s, tail = time.monotonic() + timeout_s, b""
        with process:
            assert process.stdout is not None
            os.set_blocking(process.stdout.fileno(), False)
            while (code := process.poll()) is None and time.monotonic() < until_s:
                tail = _read_on(process.stdout.fileno(), tail)
                time.sleep(_POLL_INTERVAL_S)
            tail = _read_on(process.stdout.fileno(), tail)
            if code is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        if code == 0:
            return
        ended = f"exit code {code}"
        if code is None:
            ended = f"no end within {timeout_s:g} s (tx.timeout_s)"
        elif code < 0:
            ended = f"ended by signal {-code}"
        line = _last_line(tail)
        raise TransmitterError(
            f"{key}: {command!r}: {ended}" + (f": {line}" if line else ", without output"),
            f"run it in a shell, and correct {key}",
        )


def _read_on(pipe: int, tail: bytes) -> bytes:
    """The end of what a command has printed so far."""
    with suppress(BlockingIOError):
        tail += os.read(pipe, 1 << 16)
    return tail[-_TAIL_BYTES:]


def _last_line(output: bytes) -> str:
    lines = [" ".join(line.split()) for line in output.decode(errors="replace").splitlines()]
    last = next((line for line in reversed(lines) if line), "")
    return "".join(char for char in last if char.isprintable())[:_LONGEST_LINE]
