"""Tasks: what is computed in a simulated world, and how.

A task has one result: the run of a policy, an oracle value, a variation budget, or a comparison of
kernels. Its key is a hash of everything that the result depends on. By the key figures share
results, and an interrupted reproduction finds those that are finished. Results are plain numbers
and lists of numbers.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from macontrol import __version__
from macontrol.config import Config
from macontrol.config.model.registry import is_reference
from macontrol.config.policies import unused_settings
from macontrol.controller.policies.kernel import StationaryKernel, kernel_from_config
from macontrol.controller.survey.samples import Survey
from macontrol.sim.research.episode import Episode, play
from macontrol.sim.research.oracle import oracle_path, oracle_value
from macontrol.sim.world.rewardmap import RewardMap, cumulative_variation
from macontrol.sim.world.worlds import PAPER, World

Array = NDArray[np.float64]
Result: TypeAlias = dict[str, Any]
"""Numbers or lists of numbers, by name."""

RESULTS_FORMAT = 2
"""Raise this number when the meaning of a result changes."""
CHECKPOINTS = 60
"""The number of slots of a run at which its reward and travel are stored."""
TYPICAL_POSITIONS = 9
"""The number of distinct positions in the example window of the paper."""

# The sections of a config that a world depends on, and those that only a policy depends on; the
# others concern live runs.
_WORLD_SECTIONS = {"physical", "survey", "channel", "drift", "run"}
_RESULT_SECTIONS = _WORLD_SECTIONS | {"reward", "kernel", "algorithm"}


@dataclass(frozen=True)
class Task(ABC):
    """One result to compute in the world of `config`, with its seed and horizon."""

    config: Config
    source: World = field(default=World(), kw_only=True)
    """What makes the map; `config` has the drift of its speed already."""

    @abstractmethod
    def compute(self, world: RewardMap) -> Result:
        """The result, from the map of the world."""

    @property
    def description(self) -> str:
        """The policy and its world, for a message."""
        config = self.config
        model = f"{config.channel.scenario}, {config.drift.model} drift"
        world = model if self.source.name == PAPER else self.source.name
        return (
            f"{config.algorithm.policy} in the world {world}, speed {self.source.speed:g}, "
            f"seed {config.run.seed}"
        )

    @property
    def seconds_per_slot(self) -> float:
        """The approximate time on one core, for planning and progress only."""
        return 1e-5

    @property
    def seconds(self) -> float:
        """The approximate time of all slots."""
        return self.seconds_per_slot * self.config.run.horizon

    @property
    def map_seconds(self) -> float:
        """The approximate time of the map."""
        return self.config.run.horizon * (4e-5 if self.source.name == PAPER else 1e-3)

    @cached_property
    def key(self) -> str:
        """A hash of everything the result depends on."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        del own["config"], own["source"]
        return _hash(
            {
                "format": RESULTS_FORMAT,
                "version": __version__,
                "kind": type(self).__name__,
                "parameters": own,
                "config": self.config.model_dump(mode="json", include=_RESULT_SECTIONS),
                **self._source_key,
                **self._policy_key,
            }
        )

    @cached_property
    def world_key(self) -> str:
        """A hash of everything the world depends on: tasks with the same key share the map."""
        reward = self.config.reward
        return _hash(
            {
                **self.config.model_dump(mode="json", include=_WORLD_SECTIONS),
                "reward": [reward.snr_db, reward.noise_level],
                "grid": self.config.algorithm.grid_spacing,
                **self._source_key,
            }
        )

    @property
    def _source_key(self) -> dict[str, Any]:
        """The source, unless it is the paper's channel: its config says everything."""
        return {} if self.source.name == PAPER else {"source": asdict(self.source)}

    @property
    def _policy_key(self) -> dict[str, Any]:
        """The module of a policy `module:Name`: with another text it is another policy."""
        policy = self.config.algorithm.policy
        if not is_reference(policy):
            return {}
        path = import_module(policy.partition(":")[0]).__file__
        return {"module": hashlib.sha256(Path(path).read_bytes()).hexdigest()} if path else {}


class Play(Task):
    """A run of a policy: reward, travel, switches, transit, and their course over time."""

    @property
    def seconds_per_slot(self) -> float:
        has_posterior = "kernel" not in unused_settings(self.config.algorithm.policy)
        return 4e-5 if has_posterior else 4e-6

    def compute(self, world: RewardMap) -> Result:
        return self.summary(play(self.config, world, seed=self.config.run.seed, begin_held=True))

    @staticmethod
    def summary(episode: Episode) -> Result:
        """What is kept of a run."""
        run = episode.trajectory
        at = checkpoints(len(episode.reward)) - 1
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


class Oracle(Task):
    """OPT_T (eq. oracle) at the config's c_e."""

    def compute(self, world: RewardMap) -> Result:
        return self.compute_all([self], world)[0]

    @staticmethod
    def compute_all(
        oracles: list[Oracle], world: RewardMap, known: Mapping[float, float] | None = None
    ) -> list[Result]:
        """The results of several movement costs, in one pass; without those that are `known`."""
        optima = dict(known or {})
        costs = [oracle.config.reward.movement_cost for oracle in oracles]
        if missing := [cost for cost in costs if cost not in optima]:
            values = oracle_value(world.reward, oracles[0].config, missing)
            optima.update(zip(missing, values.tolist(), strict=True))
        return [{"value": optima[cost]} for cost in costs]


class OracleCourse(Task):
    """The reward of the oracle's trajectory, net of movement cost, at each checkpoint."""

    seconds_per_slot = 1.5e-5

    def compute(self, world: RewardMap) -> Result:
        return self.course(world)[0]

    def course(self, world: RewardMap) -> tuple[Result, float]:
        """The result, and OPT_T."""
        path = oracle_path(world.reward, self.config)
        steps = np.abs(np.diff(path.position, prepend=self.config.physical.x_0))
        net = np.cumsum(path.reward - self.config.reward.movement_cost * steps)
        course = net[checkpoints(world.slots) - 1].tolist()
        return {"net_course": course, "travel": float(steps.sum())}, path.optimum


@dataclass(frozen=True)
class Variation(Task):
    """V_T (eq. variation) for each T of `horizons`, and the drift of the maximizer.

    The per-slot maximizer moves with its peak, and jumps when another peak becomes the highest. A
    step longer than a stroke counts as a jump. The mean step, in wavelengths, is given with and
    without the jumps (Drift models).
    """

    horizons: tuple[int, ...]

    def compute(self, world: RewardMap) -> Result:
        budget = cumulative_variation(world.reward)
        best = world.reward.argmax(axis=1) * self.config.algorithm.grid_spacing
        steps = np.abs(np.diff(best))
        jumps = steps > self.config.physical.rho_max * (1 + 1e-9)
        return {
            "budget": [float(budget[horizon - 1]) for horizon in self.horizons],
            "maximizer_step": float(steps.mean()) if len(steps) else 0.0,
            "maximizer_step_without_jumps": 0.0 if jumps.all() else float(steps[~jumps].mean()),
            "maximizer_jump_share": float(jumps.mean()) if len(steps) else 0.0,
        }


@dataclass(frozen=True)
class KernelErrors(Task):
    """The RMSE of μ_t over the rail on the windows that MoveUCB collects (fig. kernel).

    `kernels` are names and SE lengths, and all get the same windows. There is one estimate per
    `every` slots. With `example` the result also has one window: the truth, the samples, and the
    estimate of each kernel.
    """

    kernels: tuple[tuple[str, float], ...]
    every: int
    example: bool = False

    @property
    def seconds_per_slot(self) -> float:
        return 4e-5 + len(self.kernels) / self.every * 4e-4

    def compute(self, world: RewardMap) -> Result:
        config, algorithm = self.config, self.config.algorithm
        kernels = [
            kernel_from_config(config.replace(kernel__name=name, kernel__se_length=length).kernel)
            for name, length in self.kernels
        ]
        run = play(config, world, seed=config.run.seed)
        survey = Survey(world.survey_position, world.survey_reward)
        sigma_f2, offset = survey.sigma_f2(config), survey.offset(config)
        position = np.concatenate((world.survey_position, run.trajectory.position))
        reward = np.concatenate((world.survey_reward, run.observed / run.weight))
        surveyed = len(world.survey_position)

        def window_of(slot: int) -> tuple[Array, Array]:
            part = slice(max(0, surveyed + slot - algorithm.window), surveyed + slot)
            return position[part], reward[part]

        def estimates(slot: int) -> list[Array]:
            (held, rewards), ridge, points = window_of(slot), algorithm.ridge, config.grid.points
            rewards = rewards - offset
            return [
                window_mean(kernel, points, held, rewards, sigma_f2=sigma_f2, ridge=ridge) + offset
                for kernel in kernels
            ]

        slots = range(self.every, world.slots + 1, self.every)
        errors = np.array(
            [
                [np.sqrt(np.mean((mean - world.reward[t - 1]) ** 2)) for mean in estimates(t)]
                for t in slots
            ]
        )
        result: Result = {"rmse": errors.mean(axis=0).tolist()}
        if self.example:
            slot = _typical_slot(run.trajectory.position, algorithm.window, errors[:, 0], slots)
            held_position, held_reward = window_of(slot)
            result["example_slot"] = float(slot)
            result["example_truth"] = world.reward[slot - 1].tolist()
            result["example_position"] = held_position.tolist()
            result["example_reward"] = held_reward.tolist()
            for number, mean in enumerate(estimates(slot)):
                result[f"example_mean_{number}"] = mean.tolist()
        return result


def window_mean(
    kernel: StationaryKernel,
    points: Array,
    position: Array,
    reward: Array,
    *,
    sigma_f2: float,
    ridge: float,
) -> Array:
    """μ_t at `points` from the samples of a window (eq. posterior_mean).

    The antenna stays long at each position, so that a window of 300 samples has only a few
    positions. Samples at one position are merged, which is exact: n samples with mean r̄ are
    equivalent to one sample r̄ with the ridge ϱ/n.
    """
    distinct, index, count = np.unique(position, return_inverse=True, return_counts=True)
    mean_reward = np.bincount(index, weights=reward) / count
    gram = sigma_f2 * kernel(distinct[:, None] - distinct[None, :])
    gram[np.diag_indices_from(gram)] += ridge / count
    weights = cho_solve(cho_factor(gram, lower=True), mean_reward)
    mean: Array = sigma_f2 * kernel(points[:, None] - distinct[None, :]) @ weights
    return mean


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


def checkpoints(slots: int) -> NDArray[np.int_]:
    """The slots at which the course of a run is stored; the last slot is one of them."""
    return np.unique(np.rint(np.linspace(0, slots, CHECKPOINTS + 1)[1:]).astype(int))


def _hash(content: dict[str, Any]) -> str:
    text = json.dumps(
        content, sort_keys=True, allow_nan=False, separators=(",", ":"), default=asdict
    )
    return hashlib.sha256(text.encode()).hexdigest()[:32]
