"""The size of a run file: a day of slots must not fill a disk by surprise."""

from __future__ import annotations

from pathlib import Path

from macontrol.cli import main
from macontrol.controller.recording.runfile.reader import read_run

BYTES_PER_SLOT = 100
"""17.3 million slots, a day at 5 ms, are 1.7 GB with this."""


def size_of_run(file: Path, slots: int) -> int:
    run = ["--backend", "sim", "--fast", "--slots", str(slots), "--run", str(file)]
    assert main([*run, "--log", "json"]) == 0
    assert len(read_run(file).slots["slot"]) == slots
    assert list(file.parent.iterdir()) == [file], "the write-ahead log is part of the file"
    return file.stat().st_size


def test_a_simulated_slot_is_one_row_of_bounded_size(tmp_path: Path) -> None:
    folders = tmp_path / "short", tmp_path / "long"
    for folder in folders:
        folder.mkdir()
    short, long = (
        size_of_run(folder / "run.sqlite", slots)
        for folder, slots in zip(folders, (500, 3500), strict=True)
    )
    assert (long - short) / 3000 <= BYTES_PER_SLOT
