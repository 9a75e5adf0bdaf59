"""One controller per stage: across processes, after crashes, with manipulated files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from macontrol.config.model.errors import HardwareError, StageInUseError
from macontrol.controller.host.instance import InstanceLock, lock_directory
from macontrol.controller.recording.records import Event, EventKind
from macontrol.recorders import LockFollower
from support.waiting import wait_until

HOLDER = """
import sys, time
from pathlib import Path
from macontrol.controller.host.instance import InstanceLock
sys.argv[0] = "/usr/bin/macontrol"
with InstanceLock(sys.argv[1], Path(sys.argv[2])):
    print("locked", flush=True)
    time.sleep(60)
"""


@contextmanager
def process_with_lock(stage: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a process that holds the lock of a stage."""
    command = [sys.executable, "-c", HOLDER, stage, str(folder), "--backend", "a name"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_second_process_gets_the_holder_and_how_to_stop_it(tmp_path: Path) -> None:
    with process_with_lock("sim", tmp_path) as holder:
        with pytest.raises(HardwareError) as refused, InstanceLock("sim", tmp_path):
            pass
        detail = refused.value.detail
        assert detail.startswith(f"stage sim is driven by pid {holder.pid} (macontrol sim ")
        assert "--backend 'a name', since 20" in detail
        assert f"(kill {holder.pid})" in refused.value.fix
    assert HardwareError.exit_code == 69


def test_another_stage_is_not_locked(tmp_path: Path) -> None:
    with process_with_lock("left", tmp_path), InstanceLock("right", tmp_path):
        pass


def test_a_killed_holder_leaves_no_lock(tmp_path: Path) -> None:
    with process_with_lock("sim", tmp_path) as holder:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with InstanceLock("sim", tmp_path) as lock:
            assert f'"pid": {os.getpid()}' in lock.path.read_text()


def test_the_lock_is_released_after_an_error(tmp_path: Path) -> None:
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


def test_all_names_of_a_device_have_one_lock(tmp_path: Path) -> None:
    port = tmp_path / "ttyUSB0"
    port.touch()
    name = tmp_path / "macontrol-stage"
    name.symlink_to(port)
    with (
        InstanceLock(str(port), tmp_path),
        pytest.raises(StageInUseError),
        InstanceLock(str(name), tmp_path),
    ):
        pass


@pytest.mark.fault("stage-renamed-port")
def test_the_lock_follows_a_stage_that_becomes_another_device(tmp_path: Path) -> None:
    """The previous device can then belong to another stage, whose controller may start."""
    ports = [tmp_path / f"ttyUSB{number}" for number in range(3)]
    for port in ports:
        port.touch()
    name = tmp_path / "by-id"
    name.symlink_to(ports[0])
    folder = tmp_path / "locks"
    folder.mkdir()
    followed: list[None] = []

    def follow() -> None:
        lock.follow()
        followed.append(None)

    with InstanceLock(str(name), folder) as lock, LockFollower(follow) as recorder:
        name.unlink()
        recorder.submit(Event(1, 0.0, EventKind.RECOVERY, "the probe works again"))
        wait_until(lambda: len(followed) == 1)
        with pytest.raises(HardwareError), InstanceLock(str(ports[0]), folder):
            pass
        name.symlink_to(ports[1])
        recorder.submit(Event(1, 0.0, EventKind.STAGE_FAULT, "unplugged"))
        with pytest.raises(HardwareError), InstanceLock(str(ports[0]), folder):
            pass
        recorder.submit(Event(1, 0.0, EventKind.RECOVERY, "the stage works again"))
        wait_until(lambda: len(followed) == 2)
        with InstanceLock(str(ports[0]), folder):
            pass
        with pytest.raises(StageInUseError):
            InstanceLock(str(ports[1]), folder).__enter__()
        name.unlink()
        name.symlink_to(ports[2])
        with InstanceLock(str(ports[2]), folder):
            lock.follow()
        with pytest.raises(StageInUseError):
            InstanceLock(str(ports[1]), folder).__enter__()
    for port in ports:
        with InstanceLock(str(port), folder):
            pass


@pytest.mark.parametrize("text", ["", "gibberish", '{"pid": 1}', "[]", '{"pid": "x"}'])
def test_a_lock_without_valid_content_is_still_a_lock(tmp_path: Path, text: str) -> None:
    with InstanceLock("sim", tmp_path) as lock:
        lock.path.write_text(text)
        with pytest.raises(StageInUseError):
            InstanceLock("sim", tmp_path).__enter__()


def test_the_content_of_an_earlier_holder_is_not_trusted(tmp_path: Path) -> None:
    with process_with_lock("sim", tmp_path) as earlier:
        content = InstanceLock("sim", tmp_path).path.read_text()
    assert str(earlier.pid) in content
    with InstanceLock("sim", tmp_path) as lock:
        lock.path.write_text(content)
        with pytest.raises(StageInUseError):
            InstanceLock("sim", tmp_path).__enter__()


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    InstanceLock("sim", tmp_path).path.symlink_to(victim)
    with pytest.raises(HardwareError, match=r"sim\.lock: the lock of the stage cannot be used"):
        InstanceLock("sim", tmp_path).__enter__()
    assert victim.read_text() == "precious"


def test_a_named_pipe_is_refused_and_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(InstanceLock("sim", tmp_path).path)
    with pytest.raises(HardwareError, match="not a regular file"):
        InstanceLock("sim", tmp_path).__enter__()


def test_a_service_has_its_locks_in_its_runtime_directory(tmp_path: Path) -> None:
    variables = {"RUNTIME_DIRECTORY": f"{tmp_path}:/elsewhere", "XDG_RUNTIME_DIR": "/nowhere"}
    assert lock_directory(variables) == tmp_path


@pytest.mark.skipif(os.geteuid() == 0, reason="root shares the folder of the services")
def test_a_user_has_the_locks_in_the_session(tmp_path: Path) -> None:
    assert lock_directory({"XDG_RUNTIME_DIR": str(tmp_path)}) == tmp_path / "macontrol"


def test_a_folder_that_everyone_can_write_is_not_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert lock_directory({"RUNTIME_DIRECTORY": str(tmp_path)}) != tmp_path


@pytest.mark.parametrize("program", ["/opt/bin/macontrol", "/src/macontrol/__main__.py"])
def test_the_holder_is_shown_with_the_name_of_its_program(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [program, "--backend", "sim"])
    with InstanceLock("rail", tmp_path), pytest.raises(HardwareError) as refused:
        InstanceLock("rail", tmp_path).__enter__()
    assert "(macontrol --backend sim, since" in str(refused.value)
