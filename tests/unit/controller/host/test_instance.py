"""One controller a stage, across processes, crashes and mischief."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from macontrol.config.model.errors import HardwareError
from macontrol.controller.host.instance import InstanceLock, lock_directory
from macontrol.controller.recording.records import Event, EventKind
from macontrol.recorders import LockFollower

HOLD = """
import sys, time
from pathlib import Path
from macontrol.controller.host.instance import InstanceLock
sys.argv[0] = "/usr/bin/macontrol"
with InstanceLock(sys.argv[1], Path(sys.argv[2])):
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def another_process(stage: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the stage's lock."""
    command = [sys.executable, "-c", HOLD, stage, str(folder), "--backend", "a name"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_the_second_is_told_who_the_first_is_and_how_to_stop_it(tmp_path: Path) -> None:
    with another_process("sim", tmp_path) as holder:
        with pytest.raises(HardwareError) as refusal, InstanceLock("sim", tmp_path):
            pass
        told = str(refusal.value)
        assert told.startswith(f"stage sim is driven by pid {holder.pid} (macontrol sim ")
        assert "--backend 'a name', since 20" in told
        assert f"stop it first (kill {holder.pid})" in told
    assert HardwareError.exit_code == 69


def test_another_stage_is_free(tmp_path: Path) -> None:
    with another_process("left", tmp_path), InstanceLock("right", tmp_path):
        pass


def test_a_killed_holder_leaves_no_lock(tmp_path: Path) -> None:
    with another_process("sim", tmp_path) as holder:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with InstanceLock("sim", tmp_path) as lock:
            assert f'"pid": {os.getpid()}' in lock.path.read_text()


def test_the_lock_is_given_back_also_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), InstanceLock("sim", tmp_path):
        raise ZeroDivisionError
    with InstanceLock("sim", tmp_path) as lock:
        pass
    assert lock.path.read_text() == ""


def test_a_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    with InstanceLock("sim", tmp_path):
        child = subprocess.Popen(["sleep", "60"])
    try:
        with InstanceLock("sim", tmp_path):
            pass
    finally:
        child.kill()
        child.wait()


def test_all_names_of_a_device_lead_to_one_lock(tmp_path: Path) -> None:
    port = tmp_path / "ttyUSB0"
    port.touch()
    name = tmp_path / "macontrol-stage"
    name.symlink_to(port)
    with (
        InstanceLock(str(port), tmp_path),
        pytest.raises(HardwareError, match="macontrol-stage is driven by pid"),
        InstanceLock(str(name), tmp_path),
    ):
        pass


@pytest.mark.fault("stage-renamed-port")
def test_a_stage_that_comes_back_as_another_device_takes_its_lock_along(tmp_path: Path) -> None:
    """The device that it was is another stage's then, and whoever drives that one may start."""
    ports = [tmp_path / f"ttyUSB{number}" for number in range(3)]
    for port in ports:
        port.touch()
    name = tmp_path / "by-id"
    name.symlink_to(ports[0])
    folder = tmp_path / "locks"
    folder.mkdir()
    with InstanceLock(str(name), folder) as lock:
        recorder = LockFollower(lock.follow)
        name.unlink()
        recorder.submit(Event(1, 0.0, EventKind.RECOVERY, "the probe works again"))
        with pytest.raises(HardwareError), InstanceLock(str(ports[0]), folder):
            pass
        name.symlink_to(ports[1])
        recorder.submit(Event(1, 0.0, EventKind.STAGE_FAULT, "unplugged"))
        with pytest.raises(HardwareError), InstanceLock(str(ports[0]), folder):
            pass
        recorder.submit(Event(1, 0.0, EventKind.RECOVERY, "the stage works again"))
        with InstanceLock(str(ports[0]), folder):
            pass
        with pytest.raises(HardwareError, match="is driven by pid"):
            InstanceLock(str(ports[1]), folder).__enter__()
        name.unlink()
        name.symlink_to(ports[2])
        with InstanceLock(str(ports[2]), folder):
            lock.follow()
        with pytest.raises(HardwareError, match="is driven by pid"):
            InstanceLock(str(ports[1]), folder).__enter__()
    for port in ports:
        with InstanceLock(str(port), folder):
            pass


@pytest.mark.parametrize("text", ["", "gibberish", '{"pid": 1}', "[]", '{"pid": "x"}'])
def test_a_holder_without_words_is_still_a_holder(tmp_path: Path, text: str) -> None:
    with InstanceLock("sim", tmp_path) as lock:
        lock.path.write_text(text)
        with pytest.raises(HardwareError, match="driven by another process"):
            InstanceLock("sim", tmp_path).__enter__()


def test_the_words_of_an_earlier_holder_are_not_believed(tmp_path: Path) -> None:
    with another_process("sim", tmp_path) as earlier:
        words = InstanceLock("sim", tmp_path).path.read_text()
    assert str(earlier.pid) in words
    with InstanceLock("sim", tmp_path) as lock:
        lock.path.write_text(words)
        with pytest.raises(HardwareError, match="driven by another process"):
            InstanceLock("sim", tmp_path).__enter__()


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    InstanceLock("sim", tmp_path).path.symlink_to(victim)
    with pytest.raises(HardwareError, match=r"sim\.lock: the stage's lock cannot be used"):
        InstanceLock("sim", tmp_path).__enter__()
    assert victim.read_text() == "precious"


def test_a_planted_pipe_neither_blocks_nor_serves(tmp_path: Path) -> None:
    os.mkfifo(InstanceLock("sim", tmp_path).path)
    with pytest.raises(HardwareError, match="not a regular file"):
        InstanceLock("sim", tmp_path).__enter__()


def test_a_service_keeps_its_locks_where_the_manager_says(tmp_path: Path) -> None:
    variables = {"RUNTIME_DIRECTORY": f"{tmp_path}:/elsewhere", "XDG_RUNTIME_DIR": "/nowhere"}
    assert lock_directory(variables) == tmp_path


@pytest.mark.skipif(os.geteuid() == 0, reason="root shares the services' folder")
def test_a_user_keeps_them_in_the_session(tmp_path: Path) -> None:
    assert lock_directory({"XDG_RUNTIME_DIR": str(tmp_path)}) == tmp_path / "macontrol"


def test_a_folder_open_to_all_is_passed_over(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert lock_directory({"RUNTIME_DIRECTORY": str(tmp_path)}) != tmp_path


@pytest.mark.parametrize("program", ["/opt/bin/macontrol", "/src/macontrol/__main__.py"])
def test_the_holder_is_named_by_the_program_that_was_started(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [program, "--backend", "sim"])
    with InstanceLock("rail", tmp_path), pytest.raises(HardwareError) as refused:
        InstanceLock("rail", tmp_path).__enter__()
    assert "(macontrol --backend sim, since" in str(refused.value)
