"""Output goes to regular files, atomically, and to streams; nothing else is changed."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from macontrol.config.files.atomic_file import (
    atomic_file,
    atomic_text,
    kind_name,
    open_stream,
    regular_target,
)
from macontrol.config.model.errors import InputOutputError


def write(path: Path, text: str = "new\n") -> None:
    with atomic_text(path) as file:
        file.write(text)


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def received(fifo: Path, write: Callable[[], None]) -> bytes:
    """What a reader of the pipe receives."""
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    keep_open = os.open(fifo, os.O_WRONLY)
    got: list[bytes] = []
    thread = threading.Thread(target=lambda: got.extend(iter(lambda: os.read(reader, 65536), b"")))
    thread.start()
    try:
        write()
    finally:
        os.close(keep_open)
        thread.join(10)
        os.close(reader)
    return b"".join(got)


class TestFiles:
    def test_a_new_name(self, tmp_path: Path) -> None:
        write(tmp_path / "a")
        assert (tmp_path / "a").read_text() == "new\n"
        assert os.listdir(tmp_path) == ["a"]

    def test_a_failure_keeps_the_previous_file(self, tmp_path: Path) -> None:
        path = tmp_path / "a"
        path.write_text("old")
        with pytest.raises(KeyError), atomic_text(path) as file:  # noqa: PT012
            file.write("half")
            raise KeyError
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["a"]

    @pytest.mark.fault("output-link")
    def test_a_link_to_a_file_stays_and_its_target_is_written(self, tmp_path: Path) -> None:
        target, link = tmp_path / "target", tmp_path / "link"
        target.write_text("old")
        link.symlink_to("target")
        write(link)
        assert os.readlink(link) == "target"
        assert target.read_text() == "new\n"
        assert not target.is_symlink()

    def test_a_dangling_link_creates_its_target(self, tmp_path: Path) -> None:
        link = tmp_path / "link"
        link.symlink_to("target")
        write(link)
        assert link.is_symlink()
        assert (tmp_path / "target").read_text() == "new\n"

    def test_a_link_in_the_place_of_the_part_is_not_followed(self, tmp_path: Path) -> None:
        victim = tmp_path / "victim"
        victim.write_text("old")
        (tmp_path / f".a.{os.getpid()}.part").symlink_to(victim)
        write(tmp_path / "a")
        assert victim.read_text() == "old"
        assert (tmp_path / "a").read_text() == "new\n"

    @pytest.mark.parametrize("name", ["nowhere/a", "x" * 300, "a\0b"])
    def test_an_impossible_name(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(InputOutputError):
            write(tmp_path / name)

    def test_links_in_a_circle(self, tmp_path: Path) -> None:
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        with pytest.raises(InputOutputError):
            write(tmp_path / "a")
        assert (tmp_path / "a").is_symlink()


class TestStreams:
    def test_a_pipe_gets_text(self, fifo: Path) -> None:
        assert received(fifo, lambda: write(fifo)) == b"new\n"
        assert stat.S_ISFIFO(fifo.stat().st_mode)

    def test_a_pipe_gets_an_archive(self, fifo: Path) -> None:
        def save() -> None:
            with atomic_file(fifo) as file:
                np.savez(file, a=np.arange(3))

        with np.load(BytesIO(received(fifo, save))) as archive:
            assert archive["a"].tolist() == [0, 1, 2]
        assert stat.S_ISFIFO(fifo.stat().st_mode)

    def test_a_pipe_without_a_reader_is_refused(self, fifo: Path) -> None:
        with pytest.raises(InputOutputError) as refusal:
            write(fifo)
        assert refusal.value.fix == "start its reader first"
        assert stat.S_ISFIFO(fifo.stat().st_mode)

    def test_a_link_to_the_null_device_stays(self, tmp_path: Path) -> None:
        """Through a link: if this failed as root, the machine would lose the device."""
        link = tmp_path / "null"
        link.symlink_to("/dev/null")
        write(link)
        assert os.readlink(link) == "/dev/null"
        assert stat.S_ISCHR(os.stat("/dev/null").st_mode)

    def test_a_device_without_room(self, tmp_path: Path) -> None:
        link = tmp_path / "full"
        link.symlink_to("/dev/full")
        with pytest.raises(InputOutputError) as refusal:
            write(link)
        assert os.strerror(errno.ENOSPC) in refusal.value.detail

    def test_an_open_descriptor_is_appended_to(self, tmp_path: Path) -> None:
        path = tmp_path / "log"
        with path.open("w") as file:
            file.write("before\n")
            file.flush()
            write(Path(f"/dev/fd/{file.fileno()}"))
            write(Path(f"/proc/self/fd/{file.fileno()}"))
        assert path.read_text() == "before\nnew\nnew\n"
        with path.open() as file, pytest.raises(InputOutputError):
            regular_target(Path(f"/dev/fd/{file.fileno()}"))

    def test_an_impossible_descriptor_is_refused(self) -> None:
        with pytest.raises(InputOutputError):
            write(Path("/dev/fd/99999999999999999999"))

    def test_a_reader_that_ends_raises_a_broken_pipe(self, fifo: Path) -> None:
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        with pytest.raises(BrokenPipeError), atomic_text(fifo) as file:  # noqa: PT012
            os.close(reader)
            file.write("x" * 100_000)


class TestRefused:
    def test_a_serial_port(self) -> None:
        board, port = os.openpty()
        os.set_blocking(board, False)
        try:
            with pytest.raises(InputOutputError) as refusal:
                write(Path(os.ttyname(port)))
            assert kind_name(stat.S_IFCHR) in refusal.value.detail
            with pytest.raises(BlockingIOError):
                os.read(board, 1)
        finally:
            os.close(board)
            os.close(port)

    @pytest.mark.parametrize("device", ["/dev/zero", "/dev/random", "/dev/tty", "/dev", "/proc"])
    def test_what_is_not_a_file(self, tmp_path: Path, device: str) -> None:
        link = tmp_path / "link"
        link.symlink_to(device)
        with pytest.raises(InputOutputError):
            write(link)
        with pytest.raises(InputOutputError):
            regular_target(link)
        assert os.readlink(link) == device

    def test_a_stream_where_a_file_is_needed(self, fifo: Path) -> None:
        with pytest.raises(InputOutputError) as refusal:
            regular_target(fifo)
        assert kind_name(stat.S_IFIFO) in refusal.value.detail
        assert stat.S_ISFIFO(fifo.stat().st_mode)

    def test_a_file_is_not_a_stream(self, tmp_path: Path) -> None:
        (tmp_path / "a").touch()
        assert open_stream(tmp_path / "a") is None
        assert open_stream(tmp_path / "new") is None
