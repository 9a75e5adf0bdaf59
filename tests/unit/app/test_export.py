"""Exports of a run: tables and arrays of its slots, maps of its world."""

import csv
import io
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from macontrol.cli import main
from macontrol.config import load_config
from macontrol.controller.recording.records import Event, EventKind, SlotRecord
from macontrol.controller.recording.runfile import RunFileRecorder, RunHeader, read_run
from macontrol.controller.recording.runfile.schema import SLOT_COLUMNS
from macontrol.controller.survey.samples import Survey
from macontrol.sim.research import site
from macontrol.sim.world.rewardmap import (
    load_map,
    map_config,
    map_origin,
    map_seed,
    simulate_map,
)

CONFIG = load_config().replace(algorithm__grid_spacing=0.06, survey__samples=10, run__seed=7)
SLOTS = 20


def write(
    path: Path,
    *,
    backend: str = "sim",
    first: int = 1,
    slots: int = SLOTS,
    off: float = 0.0,
    resumed_from: str | None = None,
) -> Path:
    """A run in the simulated world, at the middle of the rail, that missed slot 5.

    `off` is how far its rewards are from that world's.
    """
    world = simulate_map(CONFIG, 7, SLOTS)
    header = RunHeader.of(
        CONFIG,
        backend=backend,
        stage=backend,
        survey=Survey(world.survey_position, world.survey_reward),
        sigma_f2=0.5,
        started_wall_s=1_700_000_000.0,
        started_clock_s=0.0,
        resumed_from=resumed_from,
    )
    file = RunFileRecorder(path, header)
    file.start()
    for slot in range(first, first + slots):
        if slot == 5:
            file.submit(Event(5, 0.0125, EventKind.MISSED, 'stalled, "long"', 1.0))
            continue
        known = slot != 3 and slot <= SLOTS
        seen = world.reward[slot - 1, 50] + world.noise[slot - 1] + off if known else None
        file.submit(
            SlotRecord(
                slot=slot,
                start_s=slot * 0.005,
                position=3.0,
                commanded=None,
                on_time=True,
                reward=seen,
                uncertainty=None,
                invalid="clipping" if slot == 3 else None,
                target=3.0,
                next_position=3.0,
                switched=False,
                transit=False,
                shortfall=0.0,
                surface_movement=0.1,
                wake_s=1e-5,
                actuate_s=0.0,
                measure_s=0.003,
                decide_s=2e-4,
            )
        )
    file.close()
    return path


def test_csv_has_one_row_per_slot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "run.sqlite")
    assert main(["export", str(path), "--format", "csv"]) == 0
    printed = capsys.readouterr().out
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert len(rows) == SLOTS - 1
    assert list(rows[0]) == ["unix_s", *(column.name for column in SLOT_COLUMNS)]
    assert (rows[0]["unix_s"], rows[0]["slot"], rows[0]["on_time"]) == ("1700000000.005", "1", "1")
    assert (rows[2]["reward"], rows[2]["invalid"], rows[2]["commanded"]) == ("", "clipping", "")
    assert float(rows[-1]["reward"]) == read_run(path).slots["reward"][-1]
    out = tmp_path / "out.csv"
    assert main(["export", str(path), "--format", "csv", "--out", str(out)]) == 0
    assert out.read_text() == printed


def test_csv_of_the_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "run.sqlite")
    assert main(["export", str(path), "--format", "csv", "--events"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert row == {
        "unix_s": "1700000000.0125",
        "slot": "5",
        "time_s": "0.0125",
        "kind": "missed-slots",
        "detail": 'stalled, "long"',
        "value": "1.0",
    }


def test_npz_contains_every_column_the_events_and_the_header(tmp_path: Path) -> None:
    path, out = write(tmp_path / "run.sqlite"), tmp_path / "run.npz"
    assert main(["export", str(path), "--format", "npz", "--out", str(out)]) == 0
    run = read_run(path)
    with np.load(out) as arrays:
        for name, column in run.slots.items():
            np.testing.assert_array_equal(arrays[name], column)
            assert arrays[name].dtype == column.dtype
        assert arrays["invalid"][2] == "clipping"
        assert arrays["event_kind"].tolist() == ["missed-slots"]
        assert arrays["event_value"].tolist() == [1.0]
        header = json.loads(str(arrays["header"]))
    assert (header["seed"], header["stage"]) == (7, "sim")
    assert header["config"] == json.loads(CONFIG.model_dump_json())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.npz", "run.sqlite"]


def test_npz_of_a_run_without_slots(tmp_path: Path) -> None:
    path, out = write(tmp_path / "run.sqlite", slots=0), tmp_path / "run.npz"
    assert main(["export", str(path), "--format", "npz", "--out", str(out)]) == 0
    with np.load(out) as arrays:
        assert arrays["slot"].shape == arrays["event_detail"].shape == (0,)


def test_a_simulated_run_gives_the_map_of_its_world(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = write(tmp_path / "run.sqlite"), tmp_path / "map.npz"
    assert main(["export", str(path), "--format", "map", "--out", str(out)]) == 0
    assert capsys.readouterr().err == ""
    world, expected = load_map(out, CONFIG), simulate_map(CONFIG, 7, SLOTS)
    np.testing.assert_array_equal(world.reward, expected.reward)
    np.testing.assert_array_equal(world.noise, expected.noise)
    np.testing.assert_array_equal(world.survey_reward, expected.survey_reward)
    assert world.available is None
    assert world.unix_s is not None
    np.testing.assert_allclose(world.unix_s, 1_700_000_000 + 0.005 * np.arange(1, 21), atol=1e-6)
    assert main(["export", str(path), "--format", "map", "--slots", "4", "--out", str(out)]) == 0
    assert load_map(out, CONFIG).slots == 4


def test_a_run_that_missed_its_first_slots_gives_the_complete_map(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = write(tmp_path / "run.sqlite", first=7, slots=14), tmp_path / "map.npz"
    assert main(["export", str(path), "--format", "map", "--out", str(out)]) == 0
    assert capsys.readouterr().err == ""
    np.testing.assert_array_equal(
        load_map(out, CONFIG).reward, simulate_map(CONFIG, 7, SLOTS).reward
    )


def test_a_run_on_a_real_site_gives_a_map_that_is_known_where_the_antenna_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = write(tmp_path / "run.sqlite", backend="serial", first=4), tmp_path / "map.npz"
    assert main(["export", str(path), "--format", "map", "--out", str(out)]) == 0
    assert "the reward is measured in 0.79%, and known in 0.84%" in capsys.readouterr().out
    world, run = load_map(out, CONFIG), read_run(path)
    assert world.slots == SLOTS
    assert world.available is not None
    rows, columns = np.nonzero(world.available)
    rewarded = np.isfinite(run.slots["reward"])
    assert (rows + 4).tolist() == run.slots["slot"][rewarded].tolist()
    assert set(columns) == {50}
    np.testing.assert_array_equal(world.reward[rows, 50], run.slots["reward"][rewarded])
    assert world.unix_s is not None
    np.testing.assert_allclose(world.unix_s, 1_700_000_000 + 0.005 * np.arange(4, 24), atol=1e-6)
    assert map_config(out) == CONFIG
    assert map_seed(out) is None
    assert main(["export", str(path), "--format", "map", "--slots", "3", "--out", str(out)]) == 0
    assert load_map(out, CONFIG).slots == 3


def test_the_map_of_a_run_as_needed_has_the_rewards_of_a_holding_antenna(tmp_path: Path) -> None:
    path, out = write(tmp_path / "run.sqlite", backend="serial"), tmp_path / "map.npz"
    with closing(sqlite3.connect(path)) as connection:
        config = CONFIG.replace(physical__actuation="as-needed").model_dump_json()
        connection.execute("UPDATE header SET value = ? WHERE key = 'config'", (config,))
        connection.execute("UPDATE slots SET stored_transmission_share = 1.0")
        connection.execute("UPDATE slots SET stored_transmission_share = 0.8 WHERE slot = 2")
        connection.commit()
    assert main(["export", str(path), "--format", "map", "--out", str(out)]) == 0
    found = load_map(out, CONFIG.replace(physical__actuation="as-needed"))
    reward = read_run(path).slots["reward"]
    assert found.reward[0, 50] == reward[0]
    assert found.reward[1, 50] == pytest.approx(reward[1] / 0.8)


def test_a_serial_run_without_a_survey_or_a_reward_has_no_map(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "run.sqlite", backend="serial")
    words = ["export", str(path), "--format", "map", "--out", str(tmp_path / "map.npz")]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE slots SET reward = NULL")
        connection.commit()
        assert main(words) == 65
        assert "has no reward" in capsys.readouterr().err
        connection.execute("UPDATE header SET value = 'null' WHERE key = 'survey'")
        connection.commit()
    assert main(words) == 65
    assert "has no usable survey" in capsys.readouterr().err


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A survey of four walks."""
    path = tmp_path_factory.mktemp("site") / "site.npz"
    words = ["survey", "--backend", "sim", "--preset", "lab-2g4-grbl", "--repeat", "4"]
    assert main([*words, "--out", str(path)]) == 0
    return path


class TestSurvey:
    def test_a_repeated_survey_gives_a_map_that_is_known_everywhere_by_interpolation(
        self, walks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        out = tmp_path / "map.npz"
        assert main(["export", str(walks), "--format", "map", "--out", str(out)]) == 0
        printed = capsys.readouterr().out
        assert "and known everywhere" in printed
        assert "each walk differs from what those before and after it say by 0." in printed
        lab = load_config(preset="lab-2g4-grbl")
        assert map_config(out) == lab
        assert map_origin(out) is not None
        world = load_map(out, lab)
        assert world.span is not None
        assert (
            main(["export", str(walks), "--format", "map", "--slots", "9", "--out", str(out)]) == 0
        )
        assert load_map(out, lab).span == (world.span[0], world.span[0] + 9)

    @pytest.mark.parametrize("form", ["csv", "npz", "netcdf"])
    def test_a_survey_has_no_other_export(
        self, walks: Path, tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        words = ["export", str(walks), "--format", form, "--out", str(tmp_path / "out")]
        assert main(words) == 65
        assert "a survey has only --format map" in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


def test_a_map_of_slots_before_the_first_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "run.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE slots SET slot = -40 WHERE slot = 2")
        connection.commit()
    assert main(["export", str(path), "--format", "map", "--out", str(tmp_path / "map.npz")]) == 65
    assert "begins at slot -40" in capsys.readouterr().err


def test_a_map_that_differs_from_the_run_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "run.sqlite", off=0.01)
    assert main(["export", str(path), "--format", "map", "--out", str(tmp_path / "m")]) == 0
    assert "18 of 18 recorded rewards differ" in capsys.readouterr().err


def test_a_run_without_a_map_is_refused_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = str(tmp_path / "map.npz")

    def error(path: Path) -> str:
        assert main(["export", str(path), "--format", "map", "--out", out]) == 65
        return capsys.readouterr().err

    earlier = "earlier.sqlite"
    resumed = error(write(tmp_path / "b.sqlite", first=11, slots=5, resumed_from=earlier))
    assert "begins at slot 11" in resumed
    assert "earlier.sqlite" in resumed
    assert "contains no slot" in error(write(tmp_path / "c.sqlite", slots=0))
    monkeypatch.setattr(site, "MAP_LIMIT_BYTES", 8 * 101 * 12)
    path = write(tmp_path / "d.sqlite")
    assert "--slots 12 or fewer" in error(path)
    assert not Path(out).exists()
    assert main(["export", str(path), "--format", "map", "--slots", "12", "--out", out]) == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--format", "npz"], 64),
        (["--format", "map"], 64),
        (["--format", "npz", "--events", "--out", "x"], 64),
        (["--format", "csv", "--slots", "3"], 64),
        (["--format", "csv", "--out", "run.sqlite"], 64),
        (["--format", "csv", "--out", "missing/x"], 74),
        (["--format", "npz", "--out", "missing/x"], 74),
        (["--format", "map", "--out", "missing/x"], 74),
        (["--format", "csv", "--out", "."], 74),
    ],
)
def test_exit_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    before = write(tmp_path / "run.sqlite").read_bytes()
    assert main(["export", "run.sqlite", *arguments]) == code
    assert (tmp_path / "run.sqlite").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["run.sqlite"]


def test_an_input_that_is_not_a_run_file_is_a_data_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").write_text("x" * 5000)
    assert main(["export", str(tmp_path / "other"), "--format", "csv"]) == 65
    assert main(["export", str(tmp_path / "nothing"), "--format", "csv"]) == 66
    assert "no such file" in capsys.readouterr().err


def test_a_full_disk_leaves_no_partial_export(tmp_path: Path) -> None:
    path = write(tmp_path / "run.sqlite")
    command = [sys.executable, "-m", "macontrol", "export", str(path), "--format", "csv"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 74
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_of_the_daemon_is_replayed_from_its_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = ["--set", "algorithm.grid_spacing=0.06", "--set", "survey.samples=50"]
    run = [sys.executable, "-m", "macontrol", "--backend", "sim", "--fast", "--slots", "300"]
    subprocess.run([*run, "--run", "r.sqlite", *settings], check=True, capture_output=True)
    assert main(["export", "r.sqlite", "--format", "map", "--out", "m.npz"]) == 0
    assert main(["replay", "m.npz", "--csv", "replayed.csv", *settings]) == 0
    assert capsys.readouterr().err == ""
    with Path("replayed.csv").open() as file:
        replayed = [float(row["position"]) for row in csv.DictReader(file)]
    np.testing.assert_allclose(read_run("r.sqlite").slots["position"], replayed, atol=1e-9)


@pytest.mark.parametrize("seed", ["-1", "9" * 400])
def test_an_impossible_seed_is_damage(
    tmp_path: Path, seed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "run.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE header SET value = ? WHERE key = 'seed'", (seed,))
        connection.commit()
    assert main(["export", str(path), "--format", "map", "--out", str(tmp_path / "map.npz")]) == 65
    assert "is damaged: its header's seed" in capsys.readouterr().err


@pytest.mark.parametrize("position", ["1e308", "1e300", "-1e300", "9e999"])
def test_a_damaged_position_does_not_prevent_a_map(tmp_path: Path, position: str) -> None:
    path = write(tmp_path / "run.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"UPDATE slots SET position = {position} WHERE slot = 2")
        connection.commit()
    assert main(["export", str(path), "--format", "map", "--out", str(tmp_path / "map.npz")]) == 0
