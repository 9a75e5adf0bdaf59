"""`macontrol replay` writes what the policy did, the same in every run."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from macontrol.cli import main
from macontrol.commands.replay import NO_REGRET, WORLD_NOTICE
from macontrol.config import Config, load_config
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.survey.samples import Survey
from macontrol.sim.research.episode import play
from macontrol.sim.research.oracle import oracle_value
from macontrol.sim.world.partial import fill
from macontrol.sim.world.rewardmap import RewardMap, load_map, map_config, simulate_map
from support.figure_checks import assert_legends_cover_no_data
from support.paper_reference import grid_points, move_ucb

SETTINGS = ["algorithm.grid_spacing=0.03", "algorithm.window=60", "survey.samples=40"]
OPTIONS = [word for setting in SETTINGS for word in ("--set", setting)]
SLOTS = 250


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config(assignments=SETTINGS)


@pytest.fixture(scope="module")
def world(config: Config) -> RewardMap:
    return simulate_map(config, 7, SLOTS)


@pytest.fixture(scope="module")
def path(config: Config, world: RewardMap, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("maps") / "map.npz"
    world.save(path, seed=7, config=config)
    return path


def replay(path: Path, folder: Path, *words: str) -> tuple[list[dict[str, str]], dict[str, object]]:
    """The rows and the outcome that a replay writes."""
    rows, outcome = folder / "slots.csv", folder / "outcome.json"
    files = ["--csv", str(rows), "--json", str(outcome)]
    assert main(["replay", str(path), *files, *words]) == 0
    with rows.open(newline="") as file:
        return list(csv.DictReader(file)), json.loads(outcome.read_text())


def column(rows: list[dict[str, str]], name: str) -> list[float]:
    return [float(row[name]) for row in rows]


class TestSlots:
    def test_every_slot_has_a_row(self, path: Path, tmp_path: Path) -> None:
        rows, _ = replay(path, tmp_path)
        header = (tmp_path / "slots.csv").read_text().splitlines()[0]
        assert header == "slot,position,target,reward,switched,transit"
        assert [row["slot"] for row in rows] == [str(slot) for slot in range(1, SLOTS + 1)]

    def test_the_rows_are_algorithm_1(
        self, config: Config, world: RewardMap, path: Path, tmp_path: Path
    ) -> None:
        rows, outcome = replay(path, tmp_path)
        survey = zip(world.survey_position.tolist(), world.survey_reward.tolist(), strict=True)
        expected = move_ucb(config, world.reward, world.noise, survey, beta=1.5)
        np.testing.assert_allclose(column(rows, "position"), expected.position, atol=1e-9)
        np.testing.assert_allclose(column(rows, "target"), expected.target, atol=1e-9)
        assert column(rows, "switched") == expected.switched.astype(float).tolist()
        assert column(rows, "transit") == expected.transit.astype(float).tolist()
        assert outcome["switches"] == expected.switched.sum() > 0
        assert outcome["transit_share"] == pytest.approx(expected.transit.mean())

    def test_the_reward_is_the_observed_one(
        self, config: Config, world: RewardMap, path: Path, tmp_path: Path
    ) -> None:
        rows, _ = replay(path, tmp_path)
        points = grid_points(config)
        for slot, row in enumerate(rows):
            true = np.interp(float(row["position"]), points, world.reward[slot])
            assert float(row["reward"]) == pytest.approx(true + world.noise[slot], abs=1e-9)


class TestOutcome:
    def test_it_has_its_keys(self, path: Path, tmp_path: Path) -> None:
        _, outcome = replay(path, tmp_path)
        wanted = "regret_per_slot reward_per_slot travel switches transit_share theory"
        assert set(wanted.split()) <= outcome.keys()
        theory = outcome["theory"]
        assert isinstance(theory, dict)
        assert theory.keys() == {
            "reach",
            "region",
            "travel",
            "transit",
            "switches",
            "persistence",
        }
        for verdict in theory.values():
            assert verdict["holds"] is True
            assert verdict["value"] <= verdict["bound"] + 1e-9
            assert verdict["statement"]

    @pytest.mark.parametrize(
        "policy", ["moveucb", "gp-ucb", "epsilon-greedy", "sweep-and-hold", "fixed"]
    )
    def test_it_adds_up(
        self, config: Config, world: RewardMap, path: Path, tmp_path: Path, policy: str
    ) -> None:
        rows, outcome = replay(path, tmp_path, "--policy", policy)
        x = np.array(column(rows, "position"))
        travel = float(np.abs(np.diff(x)).sum())
        earned = np.array(column(rows, "reward")) - world.noise
        best = float(oracle_value(world.reward, config)[0])
        assert outcome["policy"] == policy
        assert outcome["slots"] == SLOTS
        assert outcome["travel"] == pytest.approx(travel)
        assert outcome["reward_per_slot"] == pytest.approx(earned.mean())
        regret = (best - earned.sum() + 0.3 * travel) / SLOTS
        assert outcome["regret_per_slot"] == pytest.approx(regret, rel=1e-9)
        assert regret > 0

    def test_sweep_and_hold_pays_for_the_movement_from_x_0(
        self, path: Path, tmp_path: Path, world: RewardMap
    ) -> None:
        rows, outcome = replay(path, tmp_path, "--policy", "sweep-and-hold")
        best = float(world.survey_position[world.survey_reward.argmax()])
        assert column(rows, "position")[0] == 3.0
        assert column(rows, "position")[-1] == pytest.approx(best)
        assert outcome["travel"] == pytest.approx(abs(best - 3.0))
        assert abs(best - 3.0) > 0.06


class TestOptions:
    def test_beta_is_the_policys_own_unless_set(
        self, config: Config, world: RewardMap, path: Path, tmp_path: Path
    ) -> None:
        rows, _ = replay(path, tmp_path, "--policy", "gp-ucb")
        own = config.replace(algorithm__policy="gp-ucb", algorithm__beta=3.5)
        assert column(rows, "position") == play(own, world).trajectory.position.tolist()
        for policy in ("moveucb", "gp-ucb"):
            rows, _ = replay(path, tmp_path, "--policy", policy, "--set", "algorithm.beta=2")
            two = config.replace(algorithm__policy=policy, algorithm__beta=2.0)
            assert column(rows, "position") == play(two, world).trajectory.position.tolist()

    def test_the_seed_is_that_of_the_policy(self, path: Path, tmp_path: Path) -> None:
        words = ["--policy", "epsilon-greedy", "--set", "algorithm.epsilon=0.9"]
        first, _ = replay(path, tmp_path, *words, "--seed", "3")
        again, _ = replay(path, tmp_path, *words, "--set", "run.seed=3")
        other, _ = replay(path, tmp_path, *words, "--seed", "4")
        assert first == again
        assert first != other

    @pytest.mark.parametrize("policy", ["moveucb", "epsilon-greedy"])
    def test_two_replays_are_identical(self, path: Path, tmp_path: Path, policy: str) -> None:
        contents = []
        for name in ("first", "second"):
            folder = tmp_path / name
            folder.mkdir()
            replay(path, folder, "--policy", policy)
            contents.append([(folder / f).read_bytes() for f in ("slots.csv", "outcome.json")])
        assert contents[0] == contents[1]

    def test_it_prints_the_outcome(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["replay", str(path), *OPTIONS]) == 0
        output = capsys.readouterr().out
        assert "moveucb, 250 slots" in output
        assert "regret per slot" in output
        assert "VIOLATED" not in output


class TestConfig:
    """A replay starts from the map's config and reports differences."""

    def test_without_options_nothing_differs(self, path: Path, tmp_path: Path) -> None:
        _, outcome = replay(path, tmp_path)
        assert outcome["differs_from_map"] == {}

    def test_options_change_single_settings(
        self, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "some.toml"
        file.write_text("[algorithm]\neta = 1.0\nwindow = 60\n")
        words = ["--set", "run.seed=5", "--set", "timing.guard_share=0.03", "--policy", "gp-ucb"]
        _, outcome = replay(path, tmp_path, "--config", str(file), *words)
        assert outcome["differs_from_map"] == {
            "algorithm.policy": ["gp-ucb", "moveucb"],
            "algorithm.eta": [1.0, 2.0],
            "run.seed": [5, 1],
        }
        output = capsys.readouterr().out
        assert "algorithm.eta = 1.0" in output
        assert WORLD_NOTICE not in output

    def test_settings_of_the_world_do_not_change_its_rewards(
        self, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        plain, _ = replay(path, tmp_path)
        capsys.readouterr()
        other, outcome = replay(path, tmp_path, "--set", "channel.sub_ray_phases=random")
        assert other == plain
        assert outcome["differs_from_map"] == {"channel.sub_ray_phases": ["random", "aligned"]}
        assert WORLD_NOTICE in capsys.readouterr().out

    def test_a_preset_replaces_the_config(self, path: Path, tmp_path: Path) -> None:
        plain, _ = replay(path, tmp_path)
        again, outcome = replay(path, tmp_path, "--preset", "paper", *OPTIONS)
        assert again == plain
        assert outcome["differs_from_map"] == {}

    def test_a_map_of_an_earlier_version_has_aligned_phases(
        self, config: Config, world: RewardMap, tmp_path: Path
    ) -> None:
        path = tmp_path / "old.npz"
        tables = json.loads(config.model_dump_json())
        del tables["channel"]["sub_ray_phases"]
        keep(path, world, json.dumps(tables))
        assert map_config(path) == config
        _, outcome = replay(path, tmp_path)
        assert outcome["differs_from_map"] == {}

    def test_a_map_without_a_config_is_replayed_with_the_default_preset(
        self, config: Config, world: RewardMap, tmp_path: Path
    ) -> None:
        path = tmp_path / "bare.npz"
        world.save(path)
        assert map_config(path) is None
        rows, outcome = replay(path, tmp_path, *OPTIONS)
        assert outcome["differs_from_map"] == {}
        assert column(rows, "position") == play(config, world).trajectory.position.tolist()

    @pytest.mark.parametrize("content", ["nonsense", "{}", '{"physical": {"stroke": "far"}}'])
    def test_a_damaged_config_is_refused_unless_a_preset_replaces_it(
        self, world: RewardMap, tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "damaged.npz"
        keep(path, world, content)
        assert main(["replay", str(path)]) == 65
        output = capsys.readouterr().err
        assert str(path) in output
        assert "--preset" in output
        replay(path, tmp_path, "--preset", "paper", *OPTIONS)


def keep(path: Path, world: RewardMap, config: str) -> None:
    """Write a map with this text as its config."""
    world.save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    np.savez(path, allow_pickle=False, **arrays, config=np.array(config))


class TestRefusals:
    def test_a_map_of_another_grid(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["replay", str(path), "--preset", "paper"]) == 65
        output = capsys.readouterr().err
        assert "201" in output
        assert "601" in output

    def test_a_file_that_is_not_a_map(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["replay", str(tmp_path / "none.npz")]) == 66
        text = tmp_path / "text.npz"
        text.write_text("no map")
        assert main(["replay", str(text)]) == 65
        assert main(["replay", str(tmp_path)]) == 65
        assert capsys.readouterr().err.count("macontrol: ") == 3

    @pytest.mark.parametrize("option", ["--csv", "--json", "--plot"])
    def test_the_map_is_not_overwritten(
        self, path: Path, tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        copy, link = tmp_path / "copy.npz", tmp_path / "link.png"
        copy.write_bytes(path.read_bytes())
        link.symlink_to(copy)
        assert main(["replay", str(copy), option, str(link)]) == 64
        assert f"{option} {link}: is the map itself" in capsys.readouterr().err
        assert copy.read_bytes() == path.read_bytes()

    @pytest.mark.parametrize("option", ["--csv", "--json"])
    def test_outputs_that_cannot_be_written(
        self, path: Path, tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for bad in (tmp_path / "none" / "file", tmp_path, Path("/dev/full")):
            assert main(["replay", str(path), *OPTIONS, option, str(bad)]) == 74
            assert f"{bad}: cannot be written" in capsys.readouterr().err

    def test_a_plot_of_an_unknown_format(
        self, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        rows = tmp_path / "slots.csv"
        plot = str(tmp_path / "run.xyz")
        with pytest.raises(SystemExit) as stopped:
            main(["replay", str(path), *OPTIONS, "--csv", str(rows), "--plot", plot])
        assert stopped.value.code == 64
        assert "does not end with .png" in capsys.readouterr().err
        assert not rows.exists(), "refused before any work"

    def test_rewards_too_large_to_compute_with(
        self, world: RewardMap, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        huge = tmp_path / "huge.npz"
        RewardMap(
            world.reward * 1e100, world.noise, world.survey_position, world.survey_reward * 1e100
        ).save(huge)
        assert main(["replay", str(huge), *OPTIONS]) == 78
        assert "scale the rewards down" in capsys.readouterr().err


@pytest.mark.parametrize(("ending", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xm")])
def test_the_plot_has_its_format(path: Path, tmp_path: Path, ending: str, begins: bytes) -> None:
    pytest.importorskip("matplotlib")
    plot = tmp_path / f"run.{ending}"
    replay(path, tmp_path, "--plot", str(plot))
    assert plot.read_bytes()[:4] == begins


@pytest.fixture(scope="module")
def figure(config: Config, world: RewardMap) -> Iterator[Any]:
    pytest.importorskip("matplotlib")
    from macontrol.sim.research.plots.rail import episode_figure
    from macontrol.sim.research.plots.style import paper_style

    with paper_style():
        yield episode_figure(config, world, play(config, world))


class TestKnownInPart:
    """The world is known from 1 to 2 λ, and around x_0 in the first 100 slots."""

    @pytest.fixture(scope="class")
    @classmethod
    def site(
        cls, config: Config, world: RewardMap, tmp_path_factory: pytest.TempPathFactory
    ) -> Path:
        path = tmp_path_factory.mktemp("maps") / "site.npz"
        available = np.zeros(world.reward.shape, bool)
        available[:, 33:67] = True
        available[:100, 90:111] = True
        available[40:50, 90:111] = False  # closed by interpolation in time
        replaced(world, available).save(path, config=config)
        return path

    def test_an_unknown_place_gives_no_observation_and_no_reward(
        self, site: Path, world: RewardMap, tmp_path: Path
    ) -> None:
        rows, outcome = replay(site, tmp_path, "--policy", "fixed")
        assert [row["reward"] == "" for row in rows] == [slot > 100 for slot in range(1, 251)]
        assert outcome["unknown_share"] == pytest.approx(0.6)
        assert outcome["interpolated_share"] == pytest.approx(0.04)
        assert outcome["measured_share"] == pytest.approx(0.36)
        known = world.reward[:100, 100].copy()
        known[40:50] = np.interp(np.arange(40, 50), [39, 50], known[[39, 50]])
        assert outcome["reward_per_slot"] == pytest.approx(known.mean())
        assert outcome["regret_per_slot"] is outcome["oracle_per_slot"] is None

    def test_the_policy_decides_as_without_a_measurement(
        self, config: Config, site: Path, world: RewardMap, tmp_path: Path
    ) -> None:
        rows, outcome = replay(site, tmp_path)
        filled = fill(load_map(site, config), config).world
        policy = make_policy(config, Survey(world.survey_position, world.survey_reward), seed=1)
        x, position = policy.start_position, []
        for slot in range(1, SLOTS + 1):
            position.append(x)
            reward = filled.reward[slot - 1, round(x / 0.03)] + world.noise[slot - 1]
            if reward == reward:
                policy.observe(slot, x, reward)
            x = policy.decide(slot, x).position
        np.testing.assert_allclose(column(rows, "position"), position, atol=1e-9)
        unknown = sum(row["reward"] == "" for row in rows)
        assert 0 < unknown < SLOTS
        assert outcome["unknown_share"] == pytest.approx(unknown / SLOTS)

    def test_a_policy_that_never_sees_a_known_place_has_no_reward(
        self, config: Config, world: RewardMap, tmp_path: Path
    ) -> None:
        available = np.zeros(world.reward.shape, bool)
        available[:, 0] = True
        replaced(world, available).save(tmp_path / "map.npz", config=config)
        words = ["--policy", "fixed", "--plot", str(tmp_path / "run.png")]
        _, outcome = replay(tmp_path / "map.npz", tmp_path, *words)
        assert outcome["reward_per_slot"] is outcome["net_reward_per_slot"] is None
        assert outcome["unknown_share"] == 1.0

    def test_the_longest_gap_is_a_choice(self, site: Path, tmp_path: Path) -> None:
        words = ["--policy", "fixed", "--longest-gap"]
        assert replay(site, tmp_path, *words, "0.054")[1]["unknown_share"] == pytest.approx(0.64)
        assert replay(site, tmp_path, *words, "0.056")[1]["unknown_share"] == pytest.approx(0.6)

    def test_the_gap_is_that_of_the_config_in_the_file(self, site: Path, tmp_path: Path) -> None:
        """Policies with other windows are compared on the same map."""
        words = ["--policy", "fixed", "--set", "algorithm.window=5"]
        assert replay(site, tmp_path, *words)[1]["unknown_share"] == pytest.approx(0.6)

    def test_the_table_says_what_the_decisions_rest_on(
        self, site: Path, path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["replay", str(site), "--policy", "fixed"]) == 0
        printed = capsys.readouterr().out
        assert "after an interpolated one" in printed
        assert NO_REGRET in printed
        assert main(["replay", str(path)]) == 0
        assert "interpolated" not in capsys.readouterr().out

    def test_a_map_without_gaps_has_a_regret(
        self, config: Config, world: RewardMap, tmp_path: Path
    ) -> None:
        available = np.ones(world.reward.shape, bool)
        available[40:50] = False
        replaced(world, available).save(tmp_path / "map.npz", config=config)
        _, outcome = replay(tmp_path / "map.npz", tmp_path)
        filled = fill(load_map(tmp_path / "map.npz", config), config).world
        optimum = float(oracle_value(filled.reward, config)[0])
        assert outcome["oracle_per_slot"] == pytest.approx(optimum / SLOTS)
        assert outcome["interpolated_share"] == pytest.approx(10 / SLOTS)

    def test_the_plot_hatches_what_is_unknown(self, config: Config, site: Path) -> None:
        pytest.importorskip("matplotlib")
        from macontrol.sim.research.plots.rail import episode_figure
        from macontrol.sim.research.plots.style import paper_style

        world = fill(load_map(site, config), config).world
        with paper_style():
            figure = episode_figure(config, world, play(config, world))
            assert_legends_cover_no_data(figure)
        labels = [text.get_text() for text in figure.legends[0].get_texts()]
        assert labels[-1] == "unknown"
        (image,) = figure.axes[0].get_images()
        shown = image.get_array()
        assert shown is not None
        assert np.ma.getmaskarray(np.ma.masked_invalid(shown)).mean() == pytest.approx(
            np.isnan(world.reward).mean(), abs=0.01
        )
        (hatched,) = (patch for patch in figure.axes[0].patches if patch.get_hatch())
        assert hatched.get_zorder() < image.get_zorder()


def replaced(world: RewardMap, available: np.ndarray[Any, np.dtype[np.bool_]]) -> RewardMap:
    """The world, known where it is available."""
    return replace(world, reward=np.where(available, world.reward, np.nan), available=available)


class TestPlot:
    def test_its_legend_covers_no_data(self, figure: Any) -> None:
        assert_legends_cover_no_data(figure)

    def test_every_line_of_the_legend_is_visible_on_white(self, figure: Any) -> None:
        (legend,) = figure.legends
        for key in legend.legend_handles:
            assert luminance(key.get_color()) < 0.7

    def test_the_fixed_antenna_is_shown_for_comparison(self, figure: Any, world: RewardMap) -> None:
        (legend,) = figure.legends
        labels = [text.get_text() for text in legend.get_texts()]
        fixed = world.reward[:, 100].mean()  # x_0 = 3 λ on a grid of 0.03 λ
        assert f"fixed antenna at $x_0$: mean {fixed:.2f}" in labels
        drawn = [line.get_ydata() for line in figure.axes[1].get_lines()]
        expected = np.convolve(world.reward[:, 100], [1.0], mode="valid")
        assert any(np.allclose(line, expected) for line in drawn if len(line) == len(expected))

    def test_positions_are_in_wavelengths_and_millimetres(self, figure: Any) -> None:
        above = figure.axes[0]
        (millimetres,) = above.child_axes
        assert above.get_ylim() == (0.0, 6.0)
        assert millimetres.get_ylim() == pytest.approx((0.0, 6 * 9.9931), rel=1e-4)
        assert "mm" in millimetres.get_ylabel()

    def test_the_written_files_are_listed(
        self, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        pytest.importorskip("matplotlib")
        plot = tmp_path / "run.png"
        replay(path, tmp_path, "--plot", str(plot))
        written = [line for line in capsys.readouterr().out.splitlines() if "Written" in line]
        names = ("slots.csv", "outcome.json", "run.png")
        assert written == [f"Written: {tmp_path / name}" for name in names]


def luminance(colour: str) -> float:
    """The luminance of a colour: 0 for black, 1 for white."""
    from matplotlib.colors import to_rgb

    return float(np.dot(to_rgb(colour), (0.2126, 0.7152, 0.0722)))


def test_positions_of_a_recorded_survey_can_be_off_the_grid(
    config: Config, world: RewardMap, tmp_path: Path
) -> None:
    path = tmp_path / "recorded.npz"
    x = np.sort(np.random.default_rng(2).uniform(0.0, 6.0, 30))
    RewardMap(world.reward, world.noise, x, 2.0 + np.cos(x)).save(path)
    replay(path, tmp_path, *OPTIONS)
    loaded = load_map(path, config)
    survey = zip(x.tolist(), (2.0 + np.cos(x)).tolist(), strict=True)
    expected = move_ucb(config, world.reward, world.noise, survey, beta=1.5)
    np.testing.assert_allclose(
        play(config, loaded).trajectory.position, expected.position, atol=1e-9
    )
