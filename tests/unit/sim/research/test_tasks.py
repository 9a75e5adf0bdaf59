"""The kernel comparison: samples merged by position are equivalent to single ones."""

from __future__ import annotations

import numpy as np
import pytest

from macontrol.config import Config
from macontrol.controller.policies.kernel import kernel_from_config
from macontrol.controller.policies.moveucb.algorithm import MoveUCB
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.survey.samples import Survey
from macontrol.sim.research.campaign import plan_jobs, run_job
from macontrol.sim.research.episode import play_policy
from macontrol.sim.research.tasks import KernelErrors, window_mean
from macontrol.sim.world.rewardmap import simulate_map
from support.paper_reference import covariance, posterior


@pytest.mark.parametrize("name", ["physics", "se", "const-se", "nonoscillatory"])
def test_the_mean_of_a_window_is_the_direct_solution(paper: Config, name: str) -> None:
    kernel = paper.replace(kernel__name=name).kernel
    rng = np.random.default_rng(5)
    position = rng.choice([0.4, 1.11, 1.12, 3.0, 5.9], size=80)
    reward = rng.normal(2.0, 1.0, size=80)
    points = np.linspace(0.0, 6.0, 61)
    scale = {"sigma_f2": 0.7, "ridge": 0.1}
    expected, _ = posterior(covariance(kernel), position, reward, points, **scale)
    found = window_mean(kernel_from_config(kernel), points, position, reward, **scale)
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_the_example_is_a_full_window_with_the_estimate_of_each_kernel(paper: Config) -> None:
    config = paper.replace(run__horizon=400)
    task = KernelErrors(config, (("physics", 0.5), ("se", 0.5)), 100, example=True)
    result = run_job(plan_jobs([task])[0])[task.key]
    assert len(result["rmse"]) == 2
    assert len(result["example_position"]) == paper.algorithm.window
    assert len(result["example_mean_1"]) == len(result["example_truth"]) == paper.grid_size


def test_the_physics_estimate_is_that_of_moveucb(paper: Config) -> None:
    """Half of the window is the survey: both must use the same half."""
    slots = 250
    config = paper.replace(run__horizon=slots, run__seed=4)
    world = simulate_map(config, 4, slots)
    policy = make_policy(config, Survey(world.survey_position, world.survey_reward))
    assert isinstance(policy, MoveUCB)
    play_policy(config, policy, world)
    error = float(np.sqrt(np.mean((policy.posterior.mean - world.reward[-1]) ** 2)))
    task = KernelErrors(config, (("physics", 0.5),), slots)
    result = run_job(plan_jobs([task])[0])[task.key]
    assert result["rmse"] == pytest.approx([error], rel=1e-9)
