"""Recording stops before a disk is full."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from macontrol.config.files.free_space import FreeSpace, free_mb


class Disk:
    def __init__(self) -> None:
        self.free_mb = 300.0
        self.now_s = 0.0
        self.asked = 0

    def measure(self, path: Path) -> float:
        self.asked += 1
        if self.free_mb < 0:
            raise OSError("no such device")
        return self.free_mb

    def space(self, floor_mb: float) -> FreeSpace:
        return FreeSpace(Path("run"), floor_mb, measure=self.measure, now=lambda: self.now_s)

    def after_a_second(self, space: FreeSpace, free_mb: float) -> str | None:
        self.now_s += 1.0
        self.free_mb = free_mb
        return space.shortage()


def test_a_shortage_lasts_until_there_is_more_than_the_floor() -> None:
    disk = Disk()
    space = disk.space(200.0)
    assert space.shortage() is None
    assert disk.after_a_second(space, 200.0) is None
    shortage = disk.after_a_second(space, 199.0)
    assert shortage is not None
    assert "199 MB" in shortage
    assert "run.free_space_floor_mb = 200" in shortage
    assert disk.after_a_second(space, 205.0) is not None
    assert disk.after_a_second(space, 211.0) is None
    assert disk.after_a_second(space, 205.0) is None


def test_the_disk_is_measured_once_per_second_at_most() -> None:
    disk = Disk()
    space = disk.space(200.0)
    for _ in range(100):
        space.shortage()
        disk.now_s += 0.05
    assert disk.asked == 5


def test_a_floor_of_0_and_a_missing_disk_are_no_shortage() -> None:
    disk = Disk()
    disk.free_mb = -1.0
    assert disk.space(0.0).shortage() is None
    assert disk.asked == 0
    assert disk.space(200.0).shortage() is None
    assert disk.asked == 1


def test_the_free_space_is_that_of_the_files_disk(tmp_path: Path) -> None:
    status = os.statvfs(tmp_path)
    expected = status.f_bavail * status.f_frsize / 1e6
    assert free_mb(tmp_path / "not" / "yet" / "there") == pytest.approx(expected, rel=0.2)


def test_a_stream_always_has_space() -> None:
    """The file system of a pipe has no blocks, so none is free."""
    reader, writer = os.pipe()
    try:
        room = FreeSpace(Path(f"/dev/fd/{writer}"), 1.0)
        assert room.shortage() is None
    finally:
        os.close(reader)
        os.close(writer)
