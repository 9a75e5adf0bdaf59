"""Inputs are regular files of a plausible size, and archives that unpack to one."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from macontrol.config.files import input_file
from macontrol.config.files.atomic_file import kind_name
from macontrol.config.files.input_file import check_archive, check_input, read_input
from macontrol.config.model.errors import DataError, NoInputError


def test_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("a")
    assert check_input(tmp_path / "link", 5) == 5
    assert read_input(tmp_path / "link", 5) == b"12345"
    with pytest.raises(DataError):
        read_input(tmp_path / "a", 4)


@pytest.mark.parametrize("name", ["nothing", "file/nothing", "x" * 300, "a\0b"])
def test_a_missing_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NoInputError):
        check_input(tmp_path / name, 5)


@pytest.mark.fault("input-not-a-file")
def test_what_is_not_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(DataError) as refusal:
            check_input(path, 5)
        assert refusal.value.detail == f"{path}: is {kind_name(path.stat().st_mode)}"


def test_a_kernel_file_of_size_0_with_content(tmp_path: Path) -> None:
    """Such as /proc/kmsg, which never ends; every user may read /proc/version."""
    with pytest.raises(DataError):
        check_input(Path("/proc/version"))
    (tmp_path / "empty").touch()
    assert check_input(tmp_path / "empty", 5) == 0


def test_a_file_without_permission(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    (tmp_path / "a").touch(mode=0o200)
    with pytest.raises(NoInputError):
        check_input(tmp_path / "a", 5)


@pytest.mark.fault("archive-bomb")
def test_an_archive_that_unpacks_to_many_times_its_size(tmp_path: Path) -> None:
    """Its directory shows it: nothing is unpacked."""
    path = tmp_path / "map.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("reward.npy", bytes(100_000))
    data = path.read_bytes()
    size = (100_000).to_bytes(4, "little")
    assert data.count(size) == 2
    path.write_bytes(data.replace(size, (3 << 30).to_bytes(4, "little")))
    with pytest.raises(DataError) as refusal:
        check_archive(path)
    assert str(3 << 30) in refusal.value.detail


def test_a_compressed_map_of_noise_is_accepted(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "map.npz", reward=np.random.default_rng(1).random((10, 601)))
    check_archive(tmp_path / "map.npz")


def test_a_large_file_that_is_not_an_archive(tmp_path: Path) -> None:
    with (tmp_path / "map.npz").open("wb") as sparse:
        sparse.truncate(1 << 30)
    with pytest.raises(DataError):
        check_archive(tmp_path / "map.npz")


def test_a_file_that_grows_while_it_is_checked_is_no_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing = tmp_path / "log"
    growing.touch()

    def read_one_byte(path: Path) -> bool:
        path.write_bytes(b"new")
        return True

    monkeypatch.setattr(input_file, "_is_stream", read_one_byte)
    assert check_input(growing) == 3
