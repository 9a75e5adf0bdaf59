"""`macontrol export --format netcdf`: every value, opened by other readers of netCDF."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import netcdf_file

import macontrol
from macontrol.cli import main
from macontrol.config import load_config
from macontrol.controller.recording.runfile import reader
from macontrol.controller.recording.runfile.schema import EVENT_COLUMNS, SLOT_COLUMNS
from support.sample_run import write_run

BEFORE = Path(__file__).parents[2] / "fixtures" / "before-packages"
CONFIG = load_config().replace(algorithm__grid_spacing=0.06, survey__samples=20)
KINDS = {column.name: column.kind for column in SLOT_COLUMNS}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with every kind of missing value, and text that is not ASCII."""
    path = tmp_path / "run.sqlite"
    macontrol.run_simulated("moveucb", CONFIG, slots=30, seed=9, run_file=path)
    with closing(sqlite3.connect(path)) as connection:
        for statement in (
            "UPDATE slots SET reward = NULL, invalid = 'clipping' WHERE slot = 4",
            "UPDATE slots SET reward = 0.0 WHERE slot = 5",
            "UPDATE slots SET on_time = NULL, switched = NULL WHERE slot = 6",
            "UPDATE slots SET on_time = 0 WHERE slot = 7",
            "UPDATE slots SET commanded = NULL WHERE slot = 8",
            "DELETE FROM slots WHERE slot IN (11, 12)",
            "INSERT INTO events VALUES (90, 4, 1.5, 'warning', 'größer als λ: 5 µs', NULL)",
            "INSERT INTO events VALUES (91, 11, 2.5, 'missed-slots', 'stalled', 2.0)",
        ):
            connection.execute(statement)
        connection.commit()
    return path


@pytest.fixture(params=[7, 50_000], autouse=True)
def _blocks_of_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is read and written in blocks."""
    monkeypatch.setattr(reader, "_ROWS_AT_ONCE", request.param)


def export(path: Path) -> Path:
    out = path.with_suffix(".nc")
    assert main(["export", str(path), "--format", "netcdf", "--out", str(out)]) == 0
    return out


def test_xarray_reads_every_value(run: Path) -> None:
    xarray = pytest.importorskip("xarray", reason="the extra `notebook` is not installed")
    with closing(sqlite3.connect(run)) as connection, xarray.open_dataset(export(run)) as found:
        for name, kind in KINDS.items():
            rows = connection.execute(f"SELECT {name} FROM slots ORDER BY slot")
            stored = [value for (value,) in rows]
            values = found[name].values.tolist()
            if kind == "word":
                assert values == [value or "" for value in stored]
                continue
            expected = [np.nan if value is None else value for value in stored]
            np.testing.assert_array_equal(values, expected, err_msg=name)
        for column in EVENT_COLUMNS[1:]:
            query = f"SELECT {column.name} FROM events ORDER BY number"
            stored = [value for (value,) in connection.execute(query)]
            values = found[f"event_{column.name}"].values.tolist()
            expected = [np.nan if value is None else value for value in stored]
            np.testing.assert_array_equal(values, expected, err_msg=column.name)
        rewards = connection.execute("SELECT reward IS NOT NULL FROM slots ORDER BY slot")
        assert found["reward_available"].values.tolist() == [value for (value,) in rewards]
        config = connection.execute("SELECT value FROM header WHERE key = 'config'").fetchone()[0]
        assert json.loads(found.attrs["config"]) == json.loads(config)
    read = macontrol.open_run(run)
    np.testing.assert_array_equal(found["slot"].values, read["slot"])
    late_ns = np.abs((found["time"].values - read.time) / np.timedelta64(1, "ns"))
    assert late_ns.max() < 1000  # a double of seconds since 1970
    assert (found.attrs["policy"], found.attrs["seed"]) == ("moveucb", 9)


def test_every_variable_has_its_unit_and_meaning(run: Path) -> None:
    xarray = pytest.importorskip("xarray", reason="the extra `notebook` is not installed")
    with xarray.open_dataset(export(run), decode_times=False) as found:
        for column in SLOT_COLUMNS:
            about = found[column.name].attrs
            assert about["long_name"] == column.meaning
            assert about.get("units", "") == column.unit
        for column in EVENT_COLUMNS[1:]:
            assert found[f"event_{column.name}"].attrs["long_name"] == column.meaning
        assert found["survey_reward"].attrs["units"] == "bit/s/Hz"
        assert found["time"].attrs["units"].startswith("seconds since 1970-01-01")
        assert all("long_name" in found[name].attrs for name in found.variables)


def test_scipy_reads_the_plain_types_and_no_missing_reward_is_zero(run: Path) -> None:
    found: Any
    with netcdf_file(export(run), mmap=False) as found:
        assert found.version_byte == 2  # 64-bit offsets
        rewards, available = found.variables["reward"][:], found.variables["reward_available"][:]
        slots = found.variables["slot"][:].tolist()
        assert np.isnan(rewards[slots.index(4)])
        assert rewards[slots.index(5)] == 0.0
        assert available.tolist() == [int(slot != 4) for slot in slots]
        on_time = found.variables["on_time"]
        assert on_time[slots.index(6)] == on_time._FillValue == -1
        assert on_time[slots.index(7)] == 0
        assert np.isnan(found.variables["reward"]._FillValue)
        assert found.sigma_f2 == pytest.approx(json.loads(_header(run, "sigma_f2")), rel=1e-15)


def _header(path: Path, key: str) -> str:
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT value FROM header WHERE key = ?"
        return str(connection.execute(query, (key,)).fetchone()[0])


@pytest.mark.parametrize("name", ["run", "lab-run"])
def test_a_run_of_an_earlier_version_is_exported(name: str, tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    path.write_bytes((BEFORE / f"{name}.sqlite").read_bytes())
    expected = macontrol.open_run(path)
    with netcdf_file(export(path), mmap=False) as found:
        np.testing.assert_array_equal(found.variables["reward"][:], expected["reward"])
        assert found.variables["late"][:].tolist() == [0] * len(expected)


def test_slots_beyond_32_bits_stay_exact(run: Path) -> None:
    with closing(sqlite3.connect(run)) as connection:
        connection.execute("UPDATE slots SET slot = 5000000001 WHERE slot = 30")
        connection.commit()
    with netcdf_file(export(run), mmap=False) as found:
        assert found.variables["slot"][-1] == 5000000001.0


def test_an_empty_run_is_refused_and_one_without_events_is_not(tmp_path: Path) -> None:
    empty, out = write_run(tmp_path / "empty.sqlite", range(0)), tmp_path / "out.nc"
    words = ["export", str(empty), "--format", "netcdf"]
    assert main([*words, "--out", str(out)]) == 65
    assert main(words) == 64
    assert not out.exists()
    silent = write_run(tmp_path / "silent.sqlite", range(1, 4))
    with closing(sqlite3.connect(silent)) as connection:
        connection.execute("DELETE FROM events")
        connection.commit()
    with netcdf_file(export(silent), mmap=False) as found:
        assert found.variables["slot"][:].tolist() == [1, 2, 3]
        assert "event" not in found.dimensions
