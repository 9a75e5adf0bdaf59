"""`macontrol simulate-map`: a world in a file, the same for the same seed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import macontrol
from macontrol.cli import main
from macontrol.config import load_config
from macontrol.sim.world.rewardmap import load_map, map_config, map_origin, simulate_map

ARRAYS = ("reward", "noise", "survey_position", "survey_reward")


def simulate(path: Path, *words: str) -> dict[str, NDArray[np.generic]]:
    assert main(["simulate-map", "--out", str(path), *words]) == 0
    with np.load(path, allow_pickle=False) as archive:
        return dict(archive)


def test_the_same_seed_gives_the_same_file(tmp_path: Path) -> None:
    first = simulate(tmp_path / "1.npz", "--seed", "7", "--slots", "40")
    again = simulate(tmp_path / "2.npz", "--seed", "7", "--slots", "40")
    other = simulate(tmp_path / "3.npz", "--seed", "8", "--slots", "40")
    for name in ARRAYS:
        assert first[name].tobytes() == again[name].tobytes()
    for name in ("reward", "noise", "survey_reward"):
        assert first[name].tobytes() != other[name].tobytes()


def test_the_map_is_the_simulation_of_the_config(tmp_path: Path) -> None:
    path = tmp_path / "map.npz"
    simulate(path, "--seed", "7", "--slots", "40")
    config = load_config()
    expected, loaded = simulate_map(config, 7, 40), load_map(path, config)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(loaded, name), getattr(expected, name))


def test_the_map_has_the_requested_slots(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = simulate(tmp_path / "map.npz", "--seed", "1", "--slots", "25")
    assert world["reward"].shape == (25, 601)
    assert world["noise"].shape == (25,)
    assert world["survey_position"].shape == world["survey_reward"].shape == (100,)
    assert world["seed"] == 1
    output = capsys.readouterr().out
    assert "25 slots × 601 positions, blocked, continuous drift" in output


def test_the_map_contains_its_config(tmp_path: Path) -> None:
    words = ["--seed", "5", "--slots", "9", "--set", "reward.snr_db=3"]
    kept = json.loads(str(simulate(tmp_path / "map.npz", *words)["config"]))
    assert kept["reward"]["snr_db"] == 3.0
    assert (kept["run"]["horizon"], kept["run"]["seed"]) == (9, 5)


@pytest.mark.parametrize(
    ("words", "setting"),
    [
        (["--scenario", "dense"], {"channel__scenario": "dense"}),
        (["--drift", "piecewise"], {"drift__model": "piecewise"}),
        (["--set", "channel.blockage_db=3"], {"channel__blockage_db": 3.0}),
    ],
)
def test_an_option_sets_the_setting_of_its_name(
    tmp_path: Path, words: list[str], setting: dict[str, object]
) -> None:
    plain = simulate(tmp_path / "plain.npz", "--seed", "2", "--slots", "60")
    chosen = simulate(tmp_path / "chosen.npz", "--seed", "2", "--slots", "60", *words)
    config = load_config().replace(run__horizon=60, **setting)
    np.testing.assert_array_equal(chosen["reward"], simulate_map(config, 2, 60).reward)
    assert (chosen["reward"] != plain["reward"]).any()


def test_options_override_settings(tmp_path: Path) -> None:
    words = ["--seed", "2", "--slots", "5", "--set", "run.horizon=9", "--set", "run.seed=3"]
    world = simulate(tmp_path / "map.npz", *words)
    assert len(world["noise"]) == 5
    assert world["seed"] == 2


def test_a_map_that_cannot_be_written_leaves_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for bad in (tmp_path / "none" / "map.npz", tmp_path):
        assert main(["simulate-map", "--seed", "1", "--slots", "5", "--out", str(bad)]) == 74
        assert f"{bad}: the reward map was not written" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_more_change_points_than_slots_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--drift", "piecewise", "--slots", "5", "--set", "drift.change_points=5"]
    assert main(["simulate-map", "--seed", "1", "--out", str(tmp_path / "m.npz"), *words]) == 78
    assert "5 change points do not fit into 5 slots" in capsys.readouterr().err


def test_options_of_the_site_set_its_settings(tmp_path: Path) -> None:
    words = ["--seed", "5", "--slots", "9", "--snr", "-3", "--rail", "3", "--phases", "random"]
    world = simulate(tmp_path / "map.npz", *words)
    kept = json.loads(str(world["config"]))
    assert kept["reward"]["snr_db"] == -3.0
    assert kept["physical"]["region_length"] == 3.0
    assert kept["channel"]["sub_ray_phases"] == "random"
    assert world["reward"].shape == (9, 301)


def test_the_map_says_what_made_it(tmp_path: Path) -> None:
    path = tmp_path / "map.npz"
    words = ["--seed", "5", "--slots", "9", "--speed", "2"]
    world = simulate(path, *words)
    origin = map_origin(path)
    assert origin == json.loads(str(world["origin"]))
    assert origin is not None
    assert (origin["world"], origin["speed"], origin["seed"]) == ("paper", 2.0, 5)
    config = map_config(path)
    assert config is not None
    assert config.drift.gain_correlation == pytest.approx(0.9997**2)
    np.testing.assert_array_equal(world["reward"], simulate_map(config, 5, 9).reward)


def test_a_world_of_another_model_is_replayed_like_any_map(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("quadriga_lib", reason="quadriga-lib is not installed")
    path, outcome = tmp_path / "map.npz", tmp_path / "outcome.json"
    words = ["--world", "ieee-b", "--seed", "5", "--slots", "30", "--speed", "0.003"]
    world = simulate(path, *words)
    again = simulate(tmp_path / "again.npz", *words)
    np.testing.assert_array_equal(world["reward"], again["reward"])
    assert "30 slots × 601 positions, ieee-b, speed 0.003" in capsys.readouterr().out
    assert main(["replay", str(path), "--json", str(outcome)]) == 0
    assert json.loads(outcome.read_text())["slots"] == 30
    loaded = macontrol.load_map(path)
    made = macontrol.simulate_map(loaded.config, world="ieee-b", speed=0.003)
    np.testing.assert_array_equal(made.reward, loaded.reward)
    assert made.origin == loaded.origin


@pytest.mark.parametrize(
    "words", [["--scenario", "dense"], ["--drift", "piecewise"], ["--phases", "random"]]
)
def test_options_of_the_paper_s_world_are_refused_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    out = tmp_path / "m.npz"
    assert (
        main(["simulate-map", "--world", "ieee-b", "--seed", "1", "--out", str(out), *words]) == 64
    )
    assert f"{words[0]} is an option of --world paper" in capsys.readouterr().err
    assert not out.exists()
