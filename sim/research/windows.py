"""The error of each kernel's estimate on the windows that MoveUCB collects (fig. kernel).

Every kernel gets the same windows. The antenna stays long at each position, so that a window of
300 samples has only a few positions. Samples at one position are merged, which is exact: n samples
with mean r̄ are equivalent to one sample r̄ with the ridge ϱ/n.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from macontrol.controller.policies.kernel import StationaryKernel, kernel_from_config
from macontrol.controller.survey.samples import Survey
from macontrol.sim.research.episode import play
from macontrol.sim.research.tasks import KernelErrors, Result
from macontrol.sim.world.rewardmap import RewardMap

Array = NDArray[np.float64]

TYPICAL_POSITIONS = 9
"""The number of distinct positions in the example window of the paper."""


def window_mean(
    kernel: StationaryKernel,
    points: Array,
    position: Array,
    reward: Array,
    *,
    sigma_f2: float,
    ridge: float,
) -> Array:
    """μ_t at `points` from the samples of a window (eq. posterior_mean)."""
    distinct, index, count = np.unique(position, return_inverse=True, return_counts=True)
    mean_reward = np.bincount(index, weights=reward) / count
    gram = sigma_f2 * kernel(distinct[:, None] - distinct[None, :])
    gram[np.diag_indices_from(gram)] += ridge / count
    weights = cho_solve(cho_factor(gram, lower=True), mean_reward)
    mean: Array = sigma_f2 * kernel(points[:, None] - distinct[None, :]) @ weights
    return mean


def kernel_errors(task: KernelErrors, world: RewardMap) -> Result:
    """The RMSE over the rail of each kernel's μ_t, averaged over slots `every` apart."""
    config, algorithm = task.config, task.config.algorithm
    points = config.grid.points
    kernels = [
        kernel_from_config(config.replace(kernel__name=name, kernel__se_length=length).kernel)
        for name, length in task.kernels
    ]
    episode = play(config, world, seed=config.run.seed)
    sigma_f2 = Survey(world.survey_position, world.survey_reward).sigma_f2(config)
    position = np.concatenate((world.survey_position, episode.trajectory.position))
    reward = np.concatenate((world.survey_reward, episode.observed))
    surveyed = len(world.survey_position)

    def window_of(slot: int) -> slice:
        return slice(max(0, surveyed + slot - algorithm.window), surveyed + slot)

    def estimates(slot: int) -> list[Array]:
        part = window_of(slot)
        return [
            window_mean(
                kernel,
                points,
                position[part],
                reward[part],
                sigma_f2=sigma_f2,
                ridge=algorithm.ridge,
            )
            for kernel in kernels
        ]

    slots = range(task.every, world.slots + 1, task.every)
    errors = np.array(
        [
            [float(np.sqrt(np.mean((mean - world.reward[t - 1]) ** 2))) for mean in estimates(t)]
            for t in slots
        ]
    )
    result: Result = {"rmse": errors.mean(axis=0).tolist()}
    if task.example:
        slot = _typical_slot(episode.trajectory.position, algorithm.window, errors[:, 0], slots)
        held = window_of(slot)
        result["example_slot"] = float(slot)
        result["example_truth"] = world.reward[slot - 1].tolist()
        result["example_position"] = position[held].tolist()
        result["example_reward"] = reward[held].tolist()
        for number, mean in enumerate(estimates(slot)):
            result[f"example_mean_{number}"] = mean.tolist()
    return result


def _typical_slot(position: Array, window: int, error: Array, slots: range) -> int:
    """The slot whose window has about as many positions as the paper's example; of equal slots the
    one with the error closest to the median."""
    full = [number for number, slot in enumerate(slots) if slot >= window]
    if not full:
        return slots[-1]
    median = float(np.median(error[full]))

    def distance(number: int) -> tuple[int, float]:
        held = position[slots[number] - window : slots[number]]
        distinct = len(np.unique(held))
        return abs(distinct - TYPICAL_POSITIONS), abs(float(error[number]) - median)

    return slots[min(full, key=distance)]
