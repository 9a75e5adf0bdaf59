"""The panel: its cells and policies, ratios with paired errors, disturbed rewards, one map each."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from math import nan, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from macontrol.cli import main
from macontrol.commands.reproduce_panel import chosen_cells
from macontrol.config import Config
from macontrol.config.model.errors import ConfigError, UsageError
from macontrol.controller.policies.registry import POLICIES, make_policy
from macontrol.controller.survey.samples import Survey
from macontrol.sim.research.campaign import plan_jobs, run_job
from macontrol.sim.research.episode import play, play_policy
from macontrol.sim.research.oracle import oracle_value
from macontrol.sim.research.outcome import Estimate, Outcome, Row
from macontrol.sim.research.panel.cells import CELLS, GROUPS, Cell, quick_cells
from macontrol.sim.research.panel.contenders import by_name, by_settings, contenders, every_name
from macontrol.sim.research.panel.measure import Panel, Ratio
from macontrol.sim.research.panel.plays import Disturbance, PanelPlay
from macontrol.sim.research.panel.report import Tables
from macontrol.sim.research.tasks import Oracle, Play
from macontrol.sim.world.rewardmap import RewardMap, simulate_map
from macontrol.sim.world.worlds import World
from support.figure_checks import assert_legends_cover_no_data

SLOTS = 150


def cell(name: str, group: str | None = None) -> Cell:
    (found,) = (each for each in CELLS if each.name == name and group in (None, each.group))
    return replace(found, slots=SLOTS, realizations=2)


def test_the_cells_are_those_of_the_issue() -> None:
    counts = Counter(each.group for each in CELLS)
    assert counts == {"paper": 22, "ieee": 30, "robust": 18, "piecewise": 6, "cost": 6}
    assert len({(each.group, each.name) for each in CELLS}) == len(CELLS)
    assert len(quick_cells()) == 12
    assert {each.group for each in quick_cells()} == {"paper", "ieee"}


@pytest.mark.parametrize("each", CELLS, ids=lambda each: f"{each.group}: {each.name}")
def test_a_cell_has_a_valid_world_of_its_speed(each: Cell, paper: Config) -> None:
    config = each.config(paper, 7)
    assert (config.run.seed, config.run.horizon) == (7, each.slots)
    assert config.replace(**each.beliefs).physical == config.physical
    if each.world.name == "paper" and each.world.speed != 1.0:
        assert config.drift.gain_correlation == pytest.approx(0.9997**each.world.speed)
    else:
        assert config.drift.gain_correlation == 0.9997


def test_the_paper_own_cell_is_the_paper_world(paper: Config) -> None:
    own = cell("blocked, aligned, 0.1")
    assert own.config(paper, 3) == paper.replace(run__horizon=SLOTS, run__seed=3)


def test_where_only_the_policies_see_a_difference_the_map_is_shared(paper: Config) -> None:
    cells = tuple(replace(each, realizations=1) for each in CELLS)
    panel = Panel(paper, cells, tuple(contenders(["moveucb"], [], paper)), 1)
    worlds: dict[str, set[str]] = {group: set() for group in GROUPS}
    for each in cells:
        (first, *_) = panel._plays(each, panel.contenders[0])
        worlds[each.group].add(first.world_key)
    assert len(worlds["paper"]) == 22
    assert len(worlds["cost"]) == 1
    assert worlds["cost"] < worlds["paper"]
    # In each of two worlds: the rail (twice) and the survey need maps of their own.
    assert len(worlds["robust"]) == 2 * (1 + 3)
    assert len(worlds["robust"] & (worlds["paper"] | worlds["ieee"])) == 2


def test_all_policies_of_a_world_run_on_one_map(
    paper: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    simulate = World.simulate

    def counted(self: World, config: Config, seed: int, slots: int) -> RewardMap:
        made.append((self, seed))
        return simulate(self, config, seed, slots)

    monkeypatch.setattr(World, "simulate", counted)
    policies = tuple(contenders(["gp-ucb", "fixed"], ["b=moveucb algorithm.beta=1.0"], paper))
    panel = Panel(paper, (cell("dense, random, 0.015"),), policies, 5)
    jobs = plan_jobs(panel.tasks())
    for job in jobs:
        run_job(job)
    assert made == [(World("paper", 0.02), 5), (World("paper", 0.02), 6)]


def test_an_ieee_task_runs_on_the_map_of_its_world(paper: Config) -> None:
    pytest.importorskip("quadriga_lib")
    world = World("ieee-a", 0.002)
    config = paper.replace(run__horizon=100, algorithm__policy="fixed")
    task, own = PanelPlay(config, source=world), PanelPlay(config)
    assert len({task.world_key, own.world_key}) == len({task.key, own.key}) == 2
    result = run_job((task,))[task.key]
    made = world.simulate(config, config.run.seed, 100)
    assert result["reward"] == pytest.approx(made.reward[:, 300].sum(), rel=1e-12)


def test_the_paper_world_names_its_results_as_before_the_panel(paper: Config) -> None:
    assert Play(paper, source=World("paper", 2.0)).key == Play(paper).key
    assert Oracle(paper).world_key == Play(paper).world_key


class TestDisturbance:
    def test_more_noise_is_the_map_of_more_noise(self, paper: Config) -> None:
        """It is the same as the simulation at that noise level, in the survey too."""
        config = paper.replace(run__horizon=80, run__seed=9)
        louder = config.replace(reward__noise_level=2 * config.reward.noise_level)
        found = Disturbance(noise=2.0).of_map(config, simulate_map(config, 9, 80))
        expected = simulate_map(louder, 9, 80)
        np.testing.assert_allclose(found.noise, expected.noise, rtol=1e-12)
        np.testing.assert_allclose(found.survey_reward, expected.survey_reward, rtol=1e-12)
        np.testing.assert_array_equal(found.reward, expected.reward)

    def test_missing_rewards_never_come_and_late_ones_a_slot_later(self, paper: Config) -> None:
        config = paper.replace(run__horizon=60, algorithm__policy="fixed")
        world = simulate_map(config, 1, 60)
        rng = np.random.default_rng(2)
        missing, late = rng.random((2, 60)) < 0.3
        policy = make_policy(config, Survey(world.survey_position, world.survey_reward))
        seen: list[tuple[int, int, float]] = []
        now = 1

        def observe(slot: int, position: float, reward: float) -> None:
            seen.append((now, slot, reward))

        def decide(slot: int, position: float) -> Any:
            nonlocal now
            now = slot + 1
            return decision(slot, position)

        decision = policy.decide
        policy.observe, policy.decide = observe, decide  # type: ignore[method-assign]
        play_policy(config, policy, world, missing=missing, late=late)
        assert [(slot + late[slot - 1], slot) for _, slot, _ in seen] == [
            (at, slot) for at, slot, _ in seen
        ]
        expected = {t + 1 for t in range(60) if not missing[t] and not (late[t] and t == 59)}
        assert {slot for _, slot, _ in seen} == expected
        for _, slot, reward in seen:
            assert reward == world.reward[slot - 1, 300] + world.noise[slot - 1]

    def test_every_policy_misses_the_same_slots(self, paper: Config) -> None:
        disturbance = Disturbance(missing=0.2)
        missing, late = disturbance.masks(4, 5000)
        again, _ = disturbance.masks(4, 5000)
        assert late is None
        assert missing is not None
        np.testing.assert_array_equal(missing, again)
        assert missing.mean() == pytest.approx(0.2, abs=0.02)


def test_sweep_and_hold_pays_for_its_way_and_moves_a_stroke_per_slot(paper: Config) -> None:
    config = paper.replace(
        algorithm__policy="sweep-and-hold", algorithm__sweep_period=120, run__horizon=300
    )
    world = simulate_map(config, 1, 300)
    result = PanelPlay(config).compute(world)
    run = play(config, world, seed=1).trajectory
    steps = np.abs(np.diff(run.position, prepend=config.physical.x_0))
    assert run.start == config.physical.x_0
    assert steps.max() <= config.physical.rho_max + 1e-9
    assert result["travel"] == pytest.approx(steps.sum())
    # A sweep is all full strokes, except where it turns round at an end of the rail.
    sweep = np.sort(steps[120:220])
    assert sweep[1:] == pytest.approx(config.physical.rho_max)
    survey = Survey(world.survey_position, world.survey_reward)
    assert steps[:119].sum() == pytest.approx(abs(survey.best_position - config.physical.x_0))


class TestRatio:
    def test_the_error_is_that_of_the_mean_for_a_constant_reference(self) -> None:
        values = np.array([1.0, 2.0, 4.0, 1.0])
        ratio = Ratio.of(range(4), values, np.full(4, 2.0))
        assert ratio is not None
        assert ratio.estimate.mean == pytest.approx(1.0)
        assert ratio.estimate.standard_error == pytest.approx(values.std(ddof=1) / 2.0 / sqrt(4))

    def test_what_both_share_has_no_error(self) -> None:
        reference = np.array([1.0, 5.0, 2.0])
        ratio = Ratio.of(range(3), 0.7 * reference, reference)
        assert ratio is not None
        assert ratio.estimate.mean == pytest.approx(0.7)
        assert ratio.estimate.standard_error == pytest.approx(0.0, abs=1e-15)

    def test_the_error_is_the_spread_of_the_ratio_over_repetitions(self) -> None:
        rng = np.random.default_rng(8)
        found = []
        for _ in range(2000):
            reference = 1.0 + 0.3 * rng.standard_normal(24)
            values = 0.5 * reference + 0.1 * rng.standard_normal(24) + 0.2
            ratio = Ratio.of(range(24), values, reference)
            assert ratio is not None
            found.append(ratio.estimate[:2])
        means, errors = np.array(found).T
        assert means.std() == pytest.approx(errors.mean(), rel=0.06)

    def test_cells_of_the_same_seeds_do_not_count_as_independent(self) -> None:
        values, reference = np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.5, 2.0])
        one = Ratio.of(range(3), values, reference)
        other = Ratio.of(range(10, 13), values, reference)
        assert one is not None
        assert other is not None
        error = one.estimate.standard_error
        assert Ratio.average([one, one]).estimate.standard_error == pytest.approx(error)
        assert Ratio.average([one, other]).estimate.standard_error == pytest.approx(error / sqrt(2))

    def test_there_is_no_ratio_to_nothing_and_no_error_of_one_world(self) -> None:
        assert Ratio.of(range(2), np.ones(2), np.zeros(2)) is None
        single = Ratio.of(range(1), np.ones(1), np.full(1, 2.0))
        assert single is not None
        assert single.estimate.mean == 0.5
        assert np.isnan(single.estimate.standard_error)


class TestContenders:
    def test_all_built_in_policies_and_their_variants_run_by_default(self, paper: Config) -> None:
        found = contenders(None, [], paper)
        assert found[0].label == "moveucb"
        expected = set(POLICIES.built_in_names())
        assert {each.policy for each in found} == expected
        assert {each.label for each in found} == set(every_name())
        assert len(found) == len(every_name())

    def test_a_variant_of_a_description_is_policy_and_name(
        self, paper: Config, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        described = replace(
            POLICIES["gp-ucb"],
            variants={"bold": {"algorithm.beta": 5.0, "reward.offset": "survey"}},
        )
        monkeypatch.setitem(POLICIES._loaded, "gp-ucb", described)
        bold = by_name("gp-ucb:bold")
        config = bold.config(paper)
        assert (bold.label, config.algorithm.policy) == ("gp-ucb:bold", "gp-ucb")
        assert (config.algorithm.beta, config.reward.offset) == (5.0, "survey")
        assert "gp-ucb:bold" in every_name()
        with pytest.raises(UsageError):
            by_name("gp-ucb:shy")

    def test_a_variant_of_the_command_line_has_any_settings(self, paper: Config) -> None:
        short = by_settings("short=moveucb algorithm.window=100 'kernel.name = \"se\"'")
        config = short.config(paper)
        assert (short.label, config.algorithm.policy) == ("short", "moveucb")
        assert (config.algorithm.window, config.kernel.name) == (100, "se")

    @pytest.mark.parametrize("text", ["", "moveucb", "x=", "=moveucb", "x=moveucb 'a"])
    def test_a_variant_without_a_policy_is_refused(self, text: str) -> None:
        with pytest.raises(UsageError):
            by_settings(text)

    def test_wrong_names_and_settings_are_refused(self, paper: Config) -> None:
        with pytest.raises(UsageError, match="did you mean moveucb"):
            contenders(["moveubc"], [], paper)
        with pytest.raises(UsageError):
            contenders(["gp-ucb"], ["gp-ucb=fixed"], paper)
        with pytest.raises(ConfigError):
            contenders(["gp-ucb"], ["x=gp-ucb algorithm.nothing=1"], paper)


SMALL = ["--slots", str(SLOTS), "--realizations", "2", "--jobs", "2"]
CHOSEN = ["--cells", "blocked, aligned, 0.1;piecewise, S = 5;blocked: twice the noise"]
POLICIES_CHOSEN = ["--policies", "gp-ucb,fixed", "--variant", "bold=moveucb algorithm.beta=3.0"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("panel")
    words = ["reproduce", "panel", *SMALL, *CHOSEN, *POLICIES_CHOSEN, "--out", str(folder)]
    assert main(words) == 0
    return folder


def test_the_numbers_of_a_cell_are_those_of_its_runs(small: Path, paper: Config) -> None:
    rows = json.loads((small / "panel.json").read_text("utf-8"))["rows"]
    found = {
        (row["scenario"], row["series"], row["quantity"]): row["mean"]
        for row in rows
        if row["panel"] == "paper"
    }
    regrets, travels = {}, {}
    for policy, beta in (("moveucb", 1.5), ("gp-ucb", 3.5), ("bold", 3.0)):
        runs = []
        for seed in (1, 2):
            name = "moveucb" if policy == "bold" else policy
            config = paper.replace(
                run__seed=seed, run__horizon=SLOTS, algorithm__policy=name, algorithm__beta=beta
            )
            world = simulate_map(config, seed, SLOTS)
            episode = play(config, world, seed=seed)
            optimum = float(oracle_value(world.reward, config)[0])
            net = episode.net_reward(config.reward.movement_cost)
            runs.append(((optimum - net) / SLOTS, episode.trajectory.travel))
        regrets[policy], travels[policy] = np.mean(runs, axis=0)
    own = "blocked, aligned, 0.1"
    for policy in regrets:
        assert found[own, policy, "regret"] == pytest.approx(regrets[policy], rel=1e-9)
        assert found[own, policy, "travel"] == pytest.approx(travels[policy], rel=1e-9)
        ratio = regrets[policy] / regrets["moveucb"]
        assert found[own, policy, "regret ratio"] == pytest.approx(ratio, rel=1e-9)


def test_the_table_has_every_cell_and_policy(small: Path) -> None:
    text = (small / "panel.md").read_text("utf-8")
    for name in ("blocked, aligned, 0.1", "piecewise, S = 5", "blocked: twice the noise"):
        assert f"| {name} |" in text
    for policy in ("moveucb", "gp-ucb", "fixed", "bold"):
        assert f"| {policy} |" in text
    assert "- bold: `moveucb algorithm.beta=3.0`" in text


def test_cells_are_chosen_by_group_or_by_name() -> None:
    assert {each.group for each in chosen_cells(None)} == {"paper", "ieee"}
    assert {each.group for each in chosen_cells("robust, cost")} == {"robust", "cost"}
    assert [each.name for each in chosen_cells("ieee-b, 0.015")] == ["ieee-b, 0.015"]
    (own,) = chosen_cells("piecewise, S = 5")
    assert own.group == "paper"
    both = chosen_cells("piecewise, S = 15; ieee-b, 0.1")
    assert [each.group for each in both] == ["ieee", "piecewise"]
    assert len(chosen_cells("paper;piecewise, S = 5")) == 22


def test_the_page_is_drawn_and_its_legend_covers_no_data(small: Path) -> None:
    from unit.sim.research.test_reproduce import outcome_of

    from macontrol.sim.research.plots.panel import draw_panel
    from macontrol.sim.research.plots.style import paper_style

    assert (small / "panel.png").read_bytes().startswith(b"\x89PNG")
    with paper_style():
        assert_legends_cover_no_data(draw_panel(outcome_of(small, "panel")))


def test_a_cell_is_lost_beyond_two_standard_errors_above_1_03() -> None:
    outcome = Outcome()
    ratios = {("paper", "a"): (1.2, 0.08), ("paper", "b"): (1.2, 0.09), ("ieee", "c"): (1.1, 0.03)}
    ratios |= {("cost", "d"): (2.0, 0.1), ("ieee", "e"): (0.9, 0.001)}
    for (group, name), ratio in ratios.items():
        label = (group, name, "mine", "V_T/T", 0.1)
        outcome.add([Row(*label, "regret ratio", Estimate(*ratio, 6))])
    tables = Tables(outcome)
    assert tables.lost("mine", "paper + ieee") == ["a", "c"]
    assert tables.tally("mine", "paper") == "1 of 2"
    assert tables.tally("mine", "cost") == "1 of 1"
    outcome.add([Row("robust", "f", "mine", "V_T/T", 0.1, "regret ratio", Estimate(9.0, nan, 1))])
    assert Tables(outcome).tally("mine", "robust") == "unknown"


def test_another_policy_is_added_to_what_exists(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One more policy and one more realization compute only what is missing."""
    words = ["reproduce", "panel", *SMALL, *CHOSEN, "--no-plots", "--out", str(small)]
    assert main([*words, "--policies", "gp-ucb,epsilon-greedy"]) == 0
    output = capsys.readouterr().out
    assert "6 results to compute" in output  # ε-greedy in three cells of two realizations
    assert "epsilon-greedy" in output.partition("lost")[2]
    assert main([*words, "--policies", "gp-ucb,epsilon-greedy"]) == 0
    assert "to compute" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        "main --quick",
        "main --policies gp-ucb",
        "main --cells paper",
        "main --choosing",
        "panel --strict",
        "panel --quick --cells paper",
        "panel --choosing --first-seed 3",
        "panel --cells nowhere",
        "panel --cells ,",
        "panel --policies best",
        "panel --policies ,",
        "panel --variant x",
        "panel --set drift.model=piecewise",
    ],
)
def test_contradictions_are_refused(words: str, tmp_path: Path) -> None:
    assert main(["reproduce", *words.split(), "--no-plots", "--out", str(tmp_path / "x")]) == 64
    assert not (tmp_path / "x").exists()


def test_without_quadriga_lib_the_paper_cells_are_proposed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "quadriga_lib", None)
    words = ["reproduce", "panel", "--quick", "--no-plots", "--out", str(tmp_path / "x")]
    assert main(words) == 64
    error = capsys.readouterr().err
    assert "pip install" in error
    assert "--cells paper" in error
