"""Jobs: the unit of work of a reproduction, one simulated world with the tasks in it.

A job simulates the map once and computes the oracle for all movement costs in one pass. Its input
and its output are plain data, so that it runs in any process on any machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.sim.research.episode import play
from macontrol.sim.research.oracle import oracle_path, oracle_value
from macontrol.sim.research.tasks import (
    KernelErrors,
    Oracle,
    OracleCourse,
    Play,
    Result,
    Task,
    Variation,
    checkpoints,
)
from macontrol.sim.research.windows import kernel_errors
from macontrol.sim.world.rewardmap import RewardMap, cumulative_variation, simulate_map

MAP_SECONDS_PER_SLOT = 4e-5
JOB_SECONDS = 8.0
"""The approximate length of a job: long compared with the simulation of its map."""


@dataclass(frozen=True)
class Job:
    """Tasks that share one simulated world."""

    tasks: tuple[Task, ...]

    @property
    def seconds(self) -> float:
        """The approximate time on one core."""
        slots = self.tasks[0].config.run.horizon
        return slots * MAP_SECONDS_PER_SLOT + sum(task.seconds for task in self.tasks)


def plan_jobs(tasks: Iterable[Task]) -> list[Job]:
    """Group tasks by world, each task once. Long jobs come first, so that none is the last."""
    worlds: dict[str, dict[str, Task]] = {}
    for task in tasks:
        worlds.setdefault(task.world_key, {})[task.key] = task
    jobs = [job for world in worlds.values() for job in _cut(list(world.values()))]
    return sorted(jobs, key=lambda job: -job.seconds)


def _cut(tasks: list[Task]) -> list[Job]:
    """The tasks of one world as jobs of about equal length, none much longer than JOB_SECONDS."""
    # Oracles stay together, because they are computed in one pass.
    tasks = sorted(tasks, key=lambda task: task.kind)
    total = sum(task.seconds for task in tasks)
    pieces = max(1, round(total / JOB_SECONDS))
    share = total / pieces
    ends = np.cumsum([task.seconds for task in tasks])
    cuts = [0, *(int(np.searchsorted(ends, share * (n + 1))) for n in range(pieces - 1)), None]
    return [Job(tuple(tasks[a:b])) for a, b in pairwise(cuts) if tasks[a:b]]


def run_job(job: Job) -> dict[str, Result]:
    """Execute a job; the result of each task by its key."""
    config = job.tasks[0].config
    world = simulate_map(config, config.run.seed, config.run.horizon)
    costs = [task.config.reward.movement_cost for task in job.tasks if isinstance(task, Oracle)]
    optima = iter(oracle_value(world.reward, config, costs).tolist() if costs else [])
    return {
        task.key: {"value": next(optima)} if isinstance(task, Oracle) else _execute(task, world)
        for task in job.tasks
    }


def _execute(task: Task, world: RewardMap) -> Result:
    match task:
        case Play():
            return _play(task, world)
        case OracleCourse():
            return _oracle_course(task, world)
        case Variation():
            return _variation(task, world)
        case KernelErrors():
            return kernel_errors(task, world)
    raise TypeError(f"unknown task: {task.kind}")


def _play(task: Play, world: RewardMap) -> Result:
    config = task.config
    episode = play(config, world, seed=config.run.seed, begin_held=True)
    run = episode.trajectory
    at = checkpoints(world.slots) - 1
    steps = np.abs(np.diff(run.position, prepend=run.start))
    return {
        "reward": float(episode.reward.sum()),
        "travel": run.travel,
        "switches": float(run.switched.sum()),
        "transit_share": float(run.transit.mean()),
        "reward_course": np.cumsum(episode.reward)[at].tolist(),
        "travel_course": np.cumsum(steps)[at].tolist(),
        "violations": float(sum(verdict.holds is False for verdict in episode.theory.values())),
    }


def _oracle_course(task: OracleCourse, world: RewardMap) -> Result:
    config = task.config
    path = oracle_path(world.reward, config)
    earned = world.reward[np.arange(world.slots), path.index]
    steps = np.abs(np.diff(path.position, prepend=config.physical.x_0))
    net = np.cumsum(earned - config.reward.movement_cost * steps)
    return {"net_course": net[checkpoints(world.slots) - 1].tolist(), "travel": float(steps.sum())}


def _variation(task: Variation, world: RewardMap) -> Result:
    budget = cumulative_variation(world.reward)
    return {
        "budget": [float(budget[horizon - 1]) for horizon in task.horizons],
        **_maximizer_drift(world.reward, task.config),
    }


def _maximizer_drift(reward: NDArray[np.float64], config: Config) -> Result:
    """How far the per-slot maximizer moves from slot to slot, in wavelengths (Drift models).

    It moves with its peak, and jumps when another peak becomes the highest. A step longer than a
    stroke counts as a jump. The mean is given with and without the jumps.
    """
    best = reward.argmax(axis=1) * config.algorithm.grid_spacing
    steps = np.abs(np.diff(best))
    jumps = steps > config.physical.rho_max * (1 + 1e-9)
    return {
        "maximizer_step": float(steps.mean()) if len(steps) else 0.0,
        "maximizer_step_without_jumps": float(steps[~jumps].mean()) if not jumps.all() else 0.0,
        "maximizer_jump_share": float(jumps.mean()) if len(steps) else 0.0,
    }
