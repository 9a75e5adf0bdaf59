"""Usual values take no space in a run file, and are read as recorded."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from macontrol.controller.recording.records import LateReward, SlotRecord
from macontrol.controller.recording.runfile import read_run
from macontrol.controller.recording.runfile.reader import OpenRun
from macontrol.hal.probe import Signal
from support.sample_run import slot_record, start_run

USUAL = ("uncertainty", "level_unit", "noise_floor_db", "transmission_share")
NUMBERS = (
    0.1 + 0.2,
    1 / 3,
    5e-324,
    1e300,
    -81.7,
    0.8,
    1.0,
    2**-1074 * 3,
    0.19816785241547502,
    None,
)
UNITS = ("dBFS", "dBm", "dB", "it's", "dB'--", "NULL", "μ", None)


def drawn(rng: random.Random, slot: int, share_of_usual: float = 0.7) -> SlotRecord:
    """A record whose values are often equal: to each other, or to those of the other slots."""
    position = rng.choice((3.0, 0.07 * slot))
    usual = rng.random() < share_of_usual
    number = NUMBERS[0] if usual else rng.choice(NUMBERS)
    return slot_record(
        slot,
        position=position,
        target=position if usual else rng.choice((position, 4.2, np.nextafter(position, 9.0))),
        next_position=position if usual else rng.random(),
        reward=1.5,
        uncertainty=number,
        level_db=-30.0,
        level_unit="dBFS" if usual else rng.choice(UNITS),
        noise_floor_db=None if number is None else number * 7,
        transmission_share=rng.choice((0.8, number)),
    )


def write(path: Path, items: Sequence[SlotRecord | LateReward]) -> None:
    file = start_run(path)
    for item in items:
        file.submit(item)
    file.close()
    assert file.lost == 0


def assert_stored(path: Path, records: Sequence[SlotRecord]) -> None:
    """By `OpenRun` and by SQL of anyone, each value is the one that was recorded."""
    names = ("slot", "position", "target", "next_position", *USUAL)
    wanted = [tuple(getattr(record, name) for name in names) for record in records]
    with OpenRun(path) as run:
        assert list(run.rows(names)) == wanted
    with closing(sqlite3.connect(path)) as connection:
        columns = ", ".join(names)
        assert connection.execute(f"SELECT {columns} FROM slots ORDER BY slot").fetchall() == wanted


@pytest.mark.parametrize("seed", range(12))
def test_all_values_are_read_as_recorded_whatever_the_first_slot_had(
    tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    records = [drawn(rng, slot, 0.0 if slot == 1 else 0.7) for slot in range(1, 200)]
    write(tmp_path / "run.sqlite", records)
    assert_stored(tmp_path / "run.sqlite", records)


def test_a_late_reward_has_its_own_uncertainty_or_none(tmp_path: Path) -> None:
    first = slot_record(1, reward=1.0, uncertainty=0.25, level_unit="dBm", noise_floor_db=-90.0)
    late = [first._replace(slot=slot, uncertainty=0.25) for slot in (2, 3, 4)]
    write(
        tmp_path / "run.sqlite",
        [
            first,
            *late,
            LateReward(2, 1.5, 0.25),
            LateReward(3, 1.5, None),
            LateReward(4, 1.5, 0.5, signal=Signal(level_unit="dB", noise_floor_db=-80.0)),
        ],
    )
    slots = read_run(tmp_path / "run.sqlite").slots
    np.testing.assert_array_equal(slots["uncertainty"], [0.25, 0.25, np.nan, 0.5])
    assert slots["level_unit"].tolist() == ["dBm", "dBm", "dBm", "dB"]
    assert slots["noise_floor_db"].tolist() == [-90.0, -90.0, -90.0, -80.0]


def test_a_file_in_place_of_a_deleted_one_has_its_own_usual_values(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "run.sqlite"
    path.parent.mkdir()
    file = start_run(path)
    file.submit(slot_record(1, uncertainty=0.25))
    while file.written < 1:
        pass
    shutil.rmtree(path.parent)
    records = [slot_record(2, uncertainty=0.5), slot_record(3, uncertainty=0.25)]
    for record in records:
        file.submit(record)
    file.close()
    assert_stored(path, records)


def test_a_slot_with_usual_values_takes_less_space(tmp_path: Path) -> None:
    def size(name: str, target: float, uncertainty: float) -> int:
        records = [slot_record(slot, target=target) for slot in range(1, 3001)]
        changed = [record._replace(uncertainty=uncertainty) for record in records[1:]]
        write(tmp_path / name, [records[0]._replace(uncertainty=0.3), *changed])
        return (tmp_path / name).stat().st_size

    assert size("other", 3.1, 0.31) - size("usual", 3.0, 0.3) >= 3000 * 15
