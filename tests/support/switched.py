"""A transmitter that a program switches, as `[tx]` names one: its state is a file."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from macontrol.sim.bench.emulated_probe import EmulatedProbe

SWITCH = """#!/bin/sh
cd "$(dirname "$0")" || exit 1
echo "$*" >> runs
if [ -s fail ]; then
    sed -i 1d fail
    echo the relay does not answer
    exit 3
fi
echo "$1" > new && mv new state
"""


class Switch:
    """The program, and the state of the transmitter. It is on at first."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self.program = folder / "switch"
        self.program.write_text(SWITCH)
        self.program.chmod(0o755)
        (folder / "state").write_text("on\n")

    def command(self, *words: str) -> str:
        """The command for `[tx]`."""
        return shlex.join([str(self.program), *words])

    @property
    def settings(self) -> dict[str, str]:
        return {"tx.on_command": self.command("on"), "tx.off_command": self.command("off")}

    @property
    def is_on(self) -> bool:
        return (self._folder / "state").read_text() == "on\n"

    @property
    def runs(self) -> list[str]:
        """The arguments of each run so far."""
        file = self._folder / "runs"
        return file.read_text().splitlines() if file.exists() else []

    def fail(self, times: int) -> None:
        """Let the next runs of the program fail."""
        (self._folder / "fail").write_text("x\n" * times)

    @contextmanager
    def switching(self, probe: EmulatedProbe) -> Iterator[None]:
        """Switch the transmitter of an emulated probe as the program says."""
        ended = threading.Event()

        def follow() -> None:
            while not ended.wait(0.005):
                probe.transmitting = self.is_on

        thread = threading.Thread(target=follow)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
