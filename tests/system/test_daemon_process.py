"""`macontrol` as a process: signals, kill -9 and restart, two at once, bad outputs, full disks.

Times are asserted with much room: what is tested is that things end, not how fast the machine is.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from macontrol.config.model.errors import DataError
from macontrol.controller.recording.records import EventKind
from macontrol.controller.recording.runfile import Run, read_run

# Long slots and a long memory: a busy test machine starts a process in seconds.
SLOT_S = 0.02
MACONTROL = [sys.executable, "-m", "macontrol", "--backend", "sim"]
RELAXED = [
    f"--set=physical.slot_duration_s={SLOT_S}",
    "--set=algorithm.window=3000",
]
PATIENCE_S = 60.0
pytestmark = pytest.mark.timeout(300)

Line = dict[str, Any]


class Macontrol:
    """A run in a process of its own; its log is read continuously."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        stdout: int | None = None,
        set_up: Callable[[], None] | None = None,
    ) -> None:
        self.lines: list[Line] = []
        self.raw: list[str] = []
        self.process = subprocess.Popen(
            [*MACONTROL, "--log", "json", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if stdout is None else stdout,
            stderr=subprocess.PIPE,
            env=surroundings(folder) | dict(environment or {}),
            preexec_fn=set_up,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        if stdout is None:
            self._reader.start()

    def __enter__(self) -> Macontrol:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self._reader.is_alive():
            self._reader.join(PATIENCE_S)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.raw.append(line.decode())
            self.lines.append(json.loads(line, parse_constant=refuse))

    def reported(self, event: str) -> list[Line]:
        return [line for line in self.lines if line["event"] == event]

    def until(self, event: str) -> Line:
        """Wait for a line of the log."""
        wait_for(lambda: bool(self.reported(event)) or self.process.poll() is not None, event)
        assert self.reported(event), self.error()
        return self.reported(event)[0]

    def ends(self) -> int:
        """Wait for the end, and get the exit code."""
        code = self.process.wait(PATIENCE_S)
        if self._reader.is_alive():
            self._reader.join(PATIENCE_S)
        return code

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.ends()

    def error(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    @property
    def summary(self) -> Line:
        assert self.lines, self.error()
        assert self.lines[-1]["event"] == "summary"
        return self.lines[-1]


def refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def surroundings(folder: Path) -> dict[str, str]:
    """An environment in which everything is written into one folder."""
    for name in ("state", "locks"):
        (folder / name).mkdir(exist_ok=True)
    dropped = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "STATE_DIRECTORY")
    kept = {key: value for key, value in os.environ.items() if key not in dropped}
    return kept | {
        "XDG_STATE_HOME": str(folder / "state"),
        "RUNTIME_DIRECTORY": str(folder / "locks"),
        "HOME": str(folder),
        "TERM": "xterm",
    }


def wait_for(condition: Callable[[], bool], what: str) -> None:
    ends = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < ends, f"timeout: waited for {what}"
        time.sleep(0.02)


def run_files(folder: Path) -> list[Path]:
    return sorted((folder / "state").rglob("*.sqlite"))


def kinds(run: Run) -> list[EventKind]:
    return [event.kind for event in run.events]


def resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found
    return int(found[1]) / 1024


def recorded(path: Path) -> int:
    """How many slots are in a file that may be about to be made."""
    try:
        return len(read_run(path).slots["slot"])
    except DataError:
        return 0


def await_slots(path: Path) -> None:
    wait_for(lambda: recorded(path) > 10, "slots in the file")


def most_missed(path: Path) -> int:
    """The largest distance between two slots of a run, in slots."""
    return int(np.diff(read_run(path).slots["slot"]).max(initial=0))


def check_raster(run: Run) -> None:
    """Slots begin at boundaries and are numbered by time, each once."""
    slots, starts = run.slots["slot"], run.slots["start_s"]
    assert (np.diff(slots) >= 1).all()
    np.testing.assert_allclose(np.diff(starts), np.diff(slots) * SLOT_S, atol=1e-6)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_run_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with Macontrol(tmp_path, *RELAXED) as daemon:
        daemon.until("start")
        time.sleep(Random(number).uniform(0.1, 0.8))
        memory = resident_mb(daemon.process.pid)
        begin = time.monotonic()
        assert daemon.stop(number) == 0, daemon.error()
        print(f"{number.name}: ended in {time.monotonic() - begin:.2f} s; {memory:.0f} MB resident")
        assert memory < 120
        assert time.monotonic() - begin < 20
        summary = daemon.summary
        assert daemon.error() == ""
    (path,) = run_files(tmp_path)
    assert summary["run_file"] == str(path)
    assert summary["records_lost"] == 0
    assert not path.with_name(path.name + "-wal").exists()
    run = read_run(path)
    assert len(run.slots["slot"]) == summary["slots"] > 0
    assert kinds(run)[-1] == EventKind.STOP
    assert daemon.reported("stop")[0]["detail"] == f"ended by {number.name}"
    assert [line["event"] for line in daemon.lines if line["level"] == "error"] == []
    check_raster(run)
    missed = sum(event.value or 0 for event in run.events if event.kind == EventKind.MISSED)
    assert missed == summary["missed_slots"]


@pytest.mark.parametrize("delay_s", [0.0, 0.3])
def test_a_signal_during_the_start_ends_it(tmp_path: Path, delay_s: float) -> None:
    with Macontrol(tmp_path, *RELAXED) as daemon:
        time.sleep(delay_s)
        # Before it listens, the kernel ends it; nothing has been touched by then.
        assert daemon.stop() in (0, -signal.SIGTERM)


def test_a_signal_ends_a_long_slot_early(tmp_path: Path) -> None:
    with Macontrol(tmp_path, "--set=physical.slot_duration_s=600") as daemon:
        daemon.until("start")
        assert daemon.stop() == 0
        assert daemon.reported("stop")[0]["detail"] == "ended by SIGTERM"


def test_a_second_signal_forces_the_end(tmp_path: Path) -> None:
    for attempt in range(10):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        with Macontrol(folder, "--set=physical.slot_duration_s=1") as daemon:
            daemon.until("start")
            daemon.process.send_signal(signal.SIGTERM)
            time.sleep(0.1)
            is_first_enough = daemon.process.poll() is not None
            code = daemon.stop()
            if is_first_enough or code == 0:  # on a busy machine the slot may be over by then
                assert code == 0
                continue
            assert code == 128 + signal.SIGTERM
            assert daemon.reported("stop")[0]["detail"] == "forced"
            assert "Traceback" not in daemon.error()
        (path,) = run_files(folder)
        assert kinds(read_run(path))[-1] == EventKind.STOP
        return
    raise AssertionError("no second signal came before the slot was over")


def test_a_suspended_process_resynchronises_without_a_burst(tmp_path: Path) -> None:
    with Macontrol(tmp_path, *RELAXED) as daemon:
        daemon.until("start")
        time.sleep(0.3)
        daemon.process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        daemon.process.send_signal(signal.SIGCONT)
        (path,) = run_files(tmp_path)
        wait_for(lambda: most_missed(path) >= 20, "a slot after those that were missed")
        assert daemon.stop() == 0
        assert daemon.reported("missed-slots")
        assert daemon.summary["missed_slots"] >= 20
    run = read_run(path)
    check_raster(run)
    assert most_missed(path) >= 20
    assert run.slots["slot"][-1] <= daemon.summary["slots"] + daemon.summary["missed_slots"]


def killed_run(folder: Path) -> tuple[Path, float]:
    """Kill a run; the file that it leaves, and how long (s) before the end its last slot began."""
    before = set(run_files(folder))
    with Macontrol(folder, *RELAXED) as daemon:
        daemon.until("start")
        time.sleep(1.5)
        (path,) = set(run_files(folder)) - before
        await_slots(path)
        daemon.process.kill()
        killed = time.monotonic()
        daemon.ends()
    return path, killed - float(read_run(path).slots["start_s"][-1])


def test_a_killed_run_is_kept_and_resumed(tmp_path: Path) -> None:
    # A machine that was too busy to run the writer for a second is asked once more.
    tried = [killed_run(tmp_path)]
    while tried[-1][1] >= 1.0 + 2 * SLOT_S and len(tried) < 3:
        tried.append(killed_run(tmp_path))
    first, behind_s = tried[-1]
    assert behind_s < 1.0 + 2 * SLOT_S, tried
    left = read_run(first)
    assert EventKind.STOP not in kinds(left)

    with Macontrol(tmp_path, *RELAXED, "--slots", "20", "--resume") as daemon:
        assert daemon.ends() == 0
        assert daemon.reported("resume")
        assert not daemon.reported("survey")
    (second,) = set(run_files(tmp_path)) - {path for path, _ in tried}
    run = read_run(second)
    assert run.header.resumed_from == str(first)
    # Slots are numbered on, by the time that has passed.
    passed = (run.slots["start_s"][0] - left.slots["start_s"][-1]) / SLOT_S
    assert run.slots["slot"][0] - left.slots["slot"][-1] == pytest.approx(passed, abs=5)
    # The window, the survey and the antenna are where they were.
    has_reward = ~np.isnan(left.slots["reward"])
    assert [sample.slot for sample in run.header.window] == list(left.slots["slot"][has_reward])
    assert left.header.survey is not None
    assert run.header.survey is not None
    assert (run.header.survey.reward == left.header.survey.reward).all()
    assert run.slots["position"][0] == pytest.approx(left.slots["next_position"][-1])

    for arguments in ([], ["--resume", "--set=algorithm.beta=2.0"], ["--resume", "--name=other"]):
        with Macontrol(tmp_path, *RELAXED, "--slots", "3", *arguments) as daemon:
            assert daemon.ends() == 0
            assert daemon.reported("survey"), arguments
            assert not daemon.reported("resume")
            assert daemon.reported("start")[0]["detail"].startswith("slot 1,")


def test_a_run_file_of_a_given_name_is_set_aside_and_resumed_from(tmp_path: Path) -> None:
    path = tmp_path / "mine.sqlite"
    words = ["--slots", "20", "--run", str(path), "--resume"]
    for _ in range(2):
        with Macontrol(tmp_path, *RELAXED, *words) as daemon:
            assert daemon.ends() == 0, daemon.error()
    (aside,) = set(tmp_path.glob("mine-*.sqlite"))
    assert read_run(path).header.resumed_from == str(aside)
    assert read_run(path).slots["slot"][0] > read_run(aside).slots["slot"][-1]
    assert not run_files(tmp_path)


def test_one_controller_per_stage(tmp_path: Path) -> None:
    with Macontrol(tmp_path, *RELAXED) as first:
        first.until("start")
        with Macontrol(tmp_path, *RELAXED) as second:
            assert second.ends() == 69
            assert f"pid {first.process.pid}" in second.error()
        with Macontrol(tmp_path, *RELAXED, "--name", "other", "--slots", "3") as third:
            assert third.ends() == 0
        assert first.process.poll() is None
        assert first.stop() == 0


def test_a_reader_that_closes_the_output_does_not_disturb_the_run(tmp_path: Path) -> None:
    with Macontrol(tmp_path, *RELAXED, "--faults", "1:0.2", stdout=subprocess.PIPE) as daemon:
        assert daemon.process.stdout is not None
        assert b'"event"' in daemon.process.stdout.readline()
        daemon.process.stdout.close()
        daemon.process.stdout = None
        wait_for(lambda: bool(run_files(tmp_path)), "the run file")
        (path,) = run_files(tmp_path)
        await_slots(path)
        assert daemon.stop() == 0
        assert daemon.error() == ""
    run = read_run(path)
    assert len(run.slots["slot"]) > 10
    assert kinds(run)[-1] == EventKind.STOP


def test_a_reader_that_does_not_read_does_not_disturb_the_run(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"x" * 4096)  # the pipe is full before the run begins
    except BlockingIOError:
        os.set_blocking(writing, True)
    try:
        with Macontrol(tmp_path, *RELAXED, "--faults", "1:0.2", stdout=writing) as daemon:
            wait_for(lambda: bool(run_files(tmp_path)), "the run file")
            time.sleep(1.0)
            assert daemon.stop() == 0
    finally:
        os.close(reading)
        os.close(writing)
    (path,) = run_files(tmp_path)
    assert kinds(read_run(path))[-1] == EventKind.STOP


def test_without_standard_output_the_run_continues(tmp_path: Path) -> None:
    with Macontrol(
        tmp_path, *RELAXED, "--slots", "20", stdout=subprocess.DEVNULL, set_up=lambda: os.close(1)
    ) as daemon:
        assert daemon.ends() == 0, daemon.error()
    (path,) = run_files(tmp_path)
    assert len(read_run(path).slots["slot"]) == 20


def test_a_run_that_cannot_be_recorded_has_a_warning(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    environment = {"XDG_STATE_HOME": str(blocked)}
    with Macontrol(tmp_path, *RELAXED, "--slots", "5", environment=environment) as daemon:
        assert daemon.ends() == 0, daemon.error()
        assert "nothing is recorded" in daemon.reported("warning")[0]["detail"]
        assert daemon.summary["slots"] == 5


def test_a_run_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "run.sqlite"
    with Macontrol(tmp_path, *RELAXED, "--run", str(path)) as daemon:
        assert daemon.ends() == 74
        assert str(path) in daemon.error()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", str(disk)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command here")
    if done.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.fault("disk-full")
def test_a_full_disk_stops_the_recording_but_not_the_run(tmp_path: Path, small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(60 * 1024))
    path = small_disk / "run.sqlite"
    words = ["--run", str(path), "--set=run.free_space_floor_mb=0"]
    with Macontrol(tmp_path, *RELAXED, *words) as daemon:
        daemon.until("recording")
        assert "recording has stopped" in daemon.reported("recording")[0]["detail"]
        assert daemon.process.poll() is None
        before = len(daemon.reported("recording"))
        ballast.unlink()
        wait_for(lambda: len(daemon.reported("recording")) > before, "the recording to continue")
        assert daemon.stop() == 0
        assert daemon.summary["records_lost"] == 0
    run = read_run(path)
    assert len(run.slots["slot"]) == daemon.summary["slots"]
    check_raster(run)


class Terminal:
    """A run started by a shell on a pseudo-terminal, and what it draws there."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        environment = surroundings(folder)
        self._shell, self._terminal = pty.fork()
        if self._shell == 0:
            words = [*MACONTROL, *arguments]
            script = 'trap : INT; "$@"; code=$?; read line; exit $code'
            try:
                os.execve("/bin/sh", ["sh", "-c", script, "sh", *words], environment)
            finally:
                os._exit(127)
        self.text = ""
        self.code: int | None = None

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.code is None:
            os.kill(self._shell, signal.SIGKILL)
            os.waitpid(self._shell, 0)
        os.close(self._terminal)

    def read(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            ready, _, _ = select.select([self._terminal], [], [], 0.05)
            if ready:
                try:
                    self.text += os.read(self._terminal, 65536).decode("utf-8", "replace")
                except OSError:  # the other end is closed
                    return

    def until(self, text: str) -> None:
        ends = time.monotonic() + PATIENCE_S
        while text not in self.text:
            assert time.monotonic() < ends, f"timeout: waited for {text!r} in {self.text!r}"
            self.read(0.1)

    def type(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def ends(self) -> int:
        """Wait for the end, close the shell, and get the exit code."""
        self.type(b"\n")
        ends = time.monotonic() + PATIENCE_S
        while self.code is None:
            assert time.monotonic() < ends, "it does not end"
            self.read(0.1)
            pid, status = os.waitpid(self._shell, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        self.read(0.2)
        return self.code

    @property
    def pid(self) -> int:
        """The run's process."""
        (pid,) = children(self._shell)
        return pid


def children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in listed.read_text().split()]


HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_live_view_draws_and_control_c_ends_view_and_run(tmp_path: Path) -> None:
    with Terminal(tmp_path, *RELAXED) as terminal:
        terminal.until("planned")
        for shown in ("macontrol · moveucb on sim", "slot", "position", "target", "reward"):
            terminal.until(shown)
        for shown in ("averaged", "switches", "travel", "late", "wake-up", "decide"):
            terminal.until(shown)
        view = children(terminal.pid)
        assert view
        terminal.type(b"\x03")
        assert terminal.ends() == 0
        assert "Traceback" not in terminal.text
        assert "reward per slot" in terminal.text
        assert "Lemma 1" in terminal.text
        assert terminal.text.rfind(SHOW_CURSOR) > terminal.text.rfind(HIDE_CURSOR)
        wait_for(lambda: not any(is_running(pid) for pid in view), "the view's end")
    (path,) = run_files(tmp_path)
    assert kinds(read_run(path))[-1] == EventKind.STOP


def test_the_live_view_ends_with_a_killed_run(tmp_path: Path) -> None:
    with Terminal(tmp_path, *RELAXED) as terminal:
        terminal.until("planned")
        view = children(terminal.pid)
        assert view
        os.kill(terminal.pid, signal.SIGKILL)
        terminal.until(SHOW_CURSOR)
        wait_for(lambda: not any(is_running(pid) for pid in view), "the view's end")
        assert terminal.ends() == 128 + signal.SIGKILL
        assert terminal.text.rfind(SHOW_CURSOR) > terminal.text.rfind(HIDE_CURSOR)


def test_a_killed_view_does_not_disturb_the_run(tmp_path: Path) -> None:
    with Terminal(tmp_path, *RELAXED) as terminal:
        terminal.until("planned")
        for pid in children(terminal.pid):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.6)
        assert is_running(terminal.pid)
        os.kill(terminal.pid, signal.SIGTERM)
        assert terminal.ends() == 0
        assert "reward per slot" in terminal.text
        assert "Traceback" not in terminal.text


def waiting(manager: socket.socket) -> list[str]:
    """The messages that have arrived."""
    found = []
    while select.select([manager], [], [], 0)[0]:
        found.append(manager.recv(4096).decode())
    return found


def test_the_service_manager_gets_its_messages(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "800000"}
        messages: list[str] = []
        with Macontrol(tmp_path, *RELAXED, environment=environment) as daemon:
            while sum("WATCHDOG=1" in message for message in messages) < 3:
                messages.append(manager.recv(4096).decode())
            assert messages[0].startswith("READY=1")
            # A loop that stands still is not vouched for by anyone.
            daemon.process.send_signal(signal.SIGSTOP)
            time.sleep(0.1)
            messages += waiting(manager)
            time.sleep(1.0)
            assert waiting(manager) == []
            daemon.process.send_signal(signal.SIGCONT)
            assert daemon.stop() == 0
        messages += waiting(manager)
    assert any("STATUS=slot " in message for message in messages)
    assert "STOPPING=1" in messages[-1]
