"""Daemons in processes of their own, operated through their control sockets."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pytest

from macontrol.config.model.errors import NoDaemonError
from macontrol.control.client import Client
from macontrol.control.states import State
from macontrol.controller.recording.runfile import Run, read_run
from support.waiting import wait_until

MACONTROL = [sys.executable, "-m", "macontrol"]
# Long slots: a busy test machine must not miss them.
SIM = ("--set=physical.slot_duration_s=0.02", "--set=physical.actuation_time_s=0.004")


class Operated:
    """A running daemon with a client."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        """Everything is written into `folder`."""
        folder.mkdir(exist_ok=True)
        self.locks = folder / "locks"
        self.locks.mkdir(mode=0o700, exist_ok=True)
        self.environment = {
            **os.environ,
            "XDG_STATE_HOME": str(folder / "state"),
            "RUNTIME_DIRECTORY": str(self.locks),
        }
        self.run_file = folder / "run.sqlite"
        self._log = (folder / "log").open("w")
        self.process = subprocess.Popen(
            [*MACONTROL, *arguments, "--log", "json", "--run", str(self.run_file)],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=self.environment,
        )
        found: list[Client] = []
        try:
            wait_until(lambda: self._try_to_connect(found))
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise
        (self.client,) = found

    def _try_to_connect(self, found: list[Client]) -> bool:
        assert self.process.poll() is None, self.log
        for path in self.locks.glob("*.sock"):  # it may be that of a dead daemon
            with suppress(OSError):
                self.path = path
                found.append(self.connect())
        return bool(found)

    @property
    def log(self) -> str:
        self._log.flush()
        return Path(self._log.name).read_text()

    @property
    def server_pid(self) -> int:
        """The process that serves the socket."""
        children = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        (pid,) = {int(pid) for file in children for pid in file.read_text().split()}
        return pid

    def connect(self, name: str = "test") -> Client:
        return Client(self.path, name)

    def status(self) -> dict[str, Any]:
        try:
            return self.client.call("status")
        except NoDaemonError:
            code = self.process.wait(60)
            pytest.fail(f"the daemon has ended with {code}: {self.log}")

    def await_status(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first status for which the condition is true."""
        found: list[dict[str, Any]] = []

        def holds() -> bool:
            assert self.process.poll() is None, self.log
            found.append(self.status())
            return condition(found[-1])

        wait_until(holds, every_s=0.02)
        return found[-1]

    def await_state(self, *states: State) -> dict[str, Any]:
        return self.await_status(lambda status: status["state"] in states)

    def end(self) -> Run | None:
        """Stop the run if it has not ended, and read what it recorded; None without a slot."""
        if self.process.poll() is None:
            self.process.terminate()
        assert self.process.wait(60) == 0, self.log
        return read_run(self.run_file) if self.run_file.exists() else None

    def close(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()
        self._log.close()


@contextmanager
def operated(folder: Path, *arguments: str) -> Iterator[Operated]:
    daemon = Operated(folder, *arguments)
    try:
        yield daemon
    finally:
        daemon.close()


@contextmanager
def simulated(folder: Path, *arguments: str) -> Iterator[Operated]:
    """A daemon on the simulated bench, in its slots."""
    with operated(folder, "--backend", "sim", *SIM, *arguments) as daemon:
        daemon.await_status(lambda status: status["slot"] > 0)
        yield daemon


class VirtualBench:
    """A `macontrol virtual-bench` process that takes commands."""

    def __init__(self, folder: Path) -> None:
        self._port = folder / "stage"
        command = [*MACONTROL, "virtual-bench", "--link", str(self._port), "--still", "5"]
        self._process = subprocess.Popen(
            [*command, "--rtl-tcp", "127.0.0.1:0", "--seed", "3"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        first = pipe_of(self._process.stdout).readline()
        self._radio = first.split("radio on ")[1].split(";")[0]

    @property
    def arguments(self) -> list[str]:
        """The arguments of a controller that homes this bench and surveys it."""
        return [*self.place, "--cold", "--yes"]

    @property
    def place(self) -> list[str]:
        """Which bench, and its slots."""
        return [
            *("--backend", "serial", "--preset", "lab-2g4-grbl"),
            *("--port", str(self._port), "--probe", f"rtl_tcp://{self._radio}"),
            # More time to move than the preset has, because a busy machine answers late.
            *("--set", "physical.actuation_time_s=0.16", "--set", "physical.slot_duration_s=0.3"),
        ]

    def do(self, command: str) -> None:
        pipe = pipe_of(self._process.stdin)
        pipe.write(command + "\n")
        pipe.flush()

    def close(self) -> None:
        self._process.communicate("quit\n", timeout=20)


@contextmanager
def virtual_bench(folder: Path) -> Iterator[VirtualBench]:
    bench = VirtualBench(folder)
    try:
        yield bench
    finally:
        bench.close()


def pipe_of(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe
