"""Tasks and jobs: results are named by what they depend on, shared, and computed once."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from macontrol.config import Config
from macontrol.config.model.errors import MacontrolError
from macontrol.sim.research.campaign import JOB_SECONDS, Results, job_seconds, plan_jobs, run_job
from macontrol.sim.research.episode import play
from macontrol.sim.research.figures import FIGURES, PAPER_FIGURES, Setting
from macontrol.sim.research.figures.parameters import LADDER
from macontrol.sim.research.figures.setting import BLOCKED, DENSE, Runs, World, canonical
from macontrol.sim.research.tasks import Oracle, Play, Task, Variation
from macontrol.sim.world.rewardmap import simulate_map


def done(tasks: list[Task], folder: Path) -> Results:
    results = Results(folder)
    for job in plan_jobs(tasks):
        for key, result in run_job(job).items():
            results.keep(key, result)
    return results


def test_a_task_is_named_by_what_it_depends_on(paper: Config) -> None:
    play_once, again = Play(paper), Play(paper.replace(run__seed=paper.run.seed))
    assert play_once.key == again.key
    others = [
        Play(paper.replace(run__seed=2)),
        Play(paper.replace(run__horizon=100)),
        Play(paper.replace(algorithm__eta=3.0)),
        Oracle(paper),
        Variation(paper, (5,)),
        Variation(paper, (6,)),
    ]
    assert len({task.key for task in [play_once, *others]}) == 1 + len(others)


POLICY = """
class Careless:
    start_position = 0.0

    def __init__(self, inputs): ...
    def observe(self, slot, position, reward): ...
    def withdraw(self, slot): ...
    def resume(self, target): ...
    def decide(self, slot, position):
        raise ZeroDivisionError
"""


@pytest.fixture
def careless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a policy of a user, careless_policy:Careless, which fails in slot 1."""
    path = tmp_path / "careless_policy.py"
    path.write_text(POLICY)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield path
    sys.modules.pop("careless_policy", None)


def test_a_changed_policy_of_a_user_has_other_results(careless: Path, paper: Config) -> None:
    config = paper.replace(algorithm__policy="careless_policy:Careless")
    before = Play(config).key
    assert Play(config).key == before
    careless.write_text(POLICY.replace("ZeroDivisionError", "KeyError"))
    assert Play(config).key != before
    assert Play(config).world_key == Play(paper).world_key


def test_a_policy_that_fails_is_named_with_its_world(careless: Path, paper: Config) -> None:
    config = paper.replace(
        algorithm__policy="careless_policy:Careless", run__seed=7, run__horizon=100
    )
    with pytest.raises(MacontrolError) as caught:
        run_job((Play(config),))
    # As the error of a worker process arrives.
    detail = pickle.loads(pickle.dumps(caught.value)).detail
    for part in ("careless_policy:Careless", "blocked", "seed 7"):
        assert part in detail


def test_policies_of_one_world_share_its_map_and_other_worlds_do_not(paper: Config) -> None:
    same = Play(paper.replace(algorithm__policy="gp-ucb", reward__movement_cost=30.0))
    assert same.world_key == Play(paper).world_key
    for change in ({"run__seed": 2}, {"channel__scenario": "dense"}, {"reward__snr_db": 5.0}):
        assert Play(paper.replace(**change)).world_key != same.world_key


def test_in_the_figures_sweep_and_hold_starts_held(paper: Config, tmp_path: Path) -> None:
    """The paper's reading: its first period costs no travel (Setup)."""
    task = Play(paper.replace(algorithm__policy="sweep-and-hold", run__horizon=150))
    results = done([task], tmp_path)
    assert results[task]["travel"] == 0.0


def test_figures_share_runs(paper: Config) -> None:
    setting = Setting(paper, 1, 15300)
    tasks_of_figures = [task for figure in PAPER_FIGURES.values() for task in figure.tasks(setting)]
    plays = [task for task in tasks_of_figures if isinstance(task, Play)]
    blocked = {
        task.key
        for task in plays
        if task.config.channel.scenario == "blocked" and task.config.drift.model == "continuous"
    }
    # MoveUCB: defaults, 5 more c_e, 8 more β, 5 more η, 6 more Δ, (ii), (iii) at c_e = 30;
    # GP-UCB at 9 β, of which 1.5 is rung (i); ε-greedy, Fixed, 3 periods of Sweep-and-hold.
    assert len(blocked) == 27 + 9 + 1 + 1 + 3


def test_jobs_do_each_task_once_and_stay_in_one_world(paper: Config) -> None:
    setting = Setting(paper, 2, 15300)
    tasks_of_figures = [task for figure in FIGURES.values() for task in figure.tasks(setting)]
    jobs = plan_jobs(tasks_of_figures + tasks_of_figures)
    planned = [task.key for job in jobs for task in job]
    assert sorted(planned) == sorted({task.key for task in tasks_of_figures})
    for job in jobs:
        assert len({task.world_key for task in job}) == 1
        assert job_seconds(job) < 2 * JOB_SECONDS


@pytest.mark.parametrize(
    ("config", "equivalent"),
    [
        ({"algorithm__use_persistence": False}, {"algorithm__margin": 0.0}),
        (LADDER["(i)"], {"algorithm__policy": "gp-ucb", "algorithm__beta": 1.5}),
        ({}, {"algorithm__beta": 1.5}),
    ],
    ids=["no persistence", "local search", "default confidence"],
)
def test_equivalent_configs_share_one_result(
    paper: Config, config: dict[str, object], equivalent: dict[str, object]
) -> None:
    paper = paper.replace(run__horizon=400, run__seed=3)
    one, other = paper.replace(**config), paper.replace(**equivalent)
    assert Play(canonical(one)).key == Play(canonical(other)).key
    world = simulate_map(paper, 3, 400)
    runs = [play(config, world).trajectory for config in (one, other, canonical(one))]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.position, runs[0].position)


def test_an_oracle_is_the_same_alone_and_among_others(paper: Config) -> None:
    paper = paper.replace(run__horizon=300)
    tasks = [Oracle(paper.replace(reward__movement_cost=cost)) for cost in (0.3, 3.0, 66.0)]
    (together,) = plan_jobs(tasks)
    alone = [run_job(plan_jobs([task])[0])[task.key] for task in tasks]
    found = run_job(together)
    assert [found[task.key] for task in tasks] == alone
    assert alone[0]["value"] > alone[1]["value"] > alone[2]["value"]


def test_regret_accumulates_over_time_with_the_given_cost(paper: Config, tmp_path: Path) -> None:
    runs = Setting(paper, 2, 500).runs(DENSE, "GP-UCB")
    results = done([*runs.tasks(0.3, 30.0), *runs.course_tasks()], tmp_path)
    slots, course = runs.regret_course(results)
    assert slots[-1] == 500
    np.testing.assert_allclose(course[:, -1] / 500, runs.measure(results, "regret"), rtol=1e-9)
    travel = runs.measure(results, "travel")
    dearer = runs.measure(results, "regret", 30.0) - runs.measure(results, "regret")
    # The oracle pays too, so the difference is less than the learner's own energy.
    assert (dearer > 0).all()
    assert (dearer < 29.7 * travel / 500).all()


def test_change_points_make_another_world(paper: Config, tmp_path: Path) -> None:
    setting = Setting(paper, 1, 200)
    budgets = []
    for count in (0, 20):
        config = setting.world(World(drift="piecewise", change_points=count), 1)
        task = Variation(config, (100, 200))
        budgets.append(done([task], tmp_path)[task]["budget"])
    assert budgets[0] == [0.0, 0.0]
    assert 0 < budgets[1][0] < budgets[1][1]


def test_realizations_are_counted_from_the_first_seed(paper: Config) -> None:
    def seeds(runs: Runs) -> list[int]:
        return [play.config.run.seed for play in runs.plays]

    assert seeds(Setting(paper, 3, 100).runs(BLOCKED, "Fixed")) == [1, 2, 3]
    assert seeds(Setting(paper, 2, 100, first_seed=40).runs(BLOCKED, "Fixed")) == [40, 41]
    assert list(Setting(paper, 3, 100).seeds(8)) == [1, 2, 3]
