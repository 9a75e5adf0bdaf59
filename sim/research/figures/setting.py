"""What the figures share: realizations, worlds, and the runs of policies in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from macontrol.config import Config, differing_keys, load_config
from macontrol.sim.research.campaign import Results
from macontrol.sim.research.outcome import Array, Estimate, Row, estimate
from macontrol.sim.research.tasks import Oracle, OracleCourse, Play, Task, Variation, checkpoints

POLICIES: dict[str, str] = {
    "MoveUCB": "moveucb",
    "GP-UCB": "gp-ucb",
    "Sweep-and-hold": "sweep-and-hold",
    "ε-greedy": "epsilon-greedy",
    "Fixed": "fixed",
}
"""The names of the policies in the figures and in a config."""

SWEEP_PERIODS = (500, 1000, 2000)
"""The candidate periods of Sweep-and-hold (Benchmarks)."""


@dataclass(frozen=True)
class World:
    """A kind of world: its scenario and its drift."""

    scenario: Literal["blocked", "dense"] = "blocked"
    drift: Literal["continuous", "piecewise"] = "continuous"
    change_points: int | Literal["auto"] = "auto"


BLOCKED = World()
DENSE = World(scenario="dense")


@dataclass(frozen=True)
class Setting:
    """The size and the settings of a reproduction.

    Realization i has the seed `first_seed` + i in every figure, so that all policies and figures
    use the same worlds.
    """

    base: Config
    realizations: int
    slots: int
    first_seed: int = 1

    @property
    def changes(self) -> dict[str, Any]:
        """The settings that differ from the preset of the paper."""
        return {key: value for key, (value, _) in differing_keys(self.base, load_config()).items()}

    def seeds(self, most: int | None = None) -> range:
        """The seeds of the realizations, or of the first few of them."""
        count = self.realizations if most is None else min(most, self.realizations)
        return range(self.first_seed, self.first_seed + count)

    def world(self, world: World, seed: int, slots: int | None = None, **changes: Any) -> Config:
        """The config of one realization of a world, with some values changed."""
        return self.base.replace(
            **{
                "channel__scenario": world.scenario,
                "drift__model": world.drift,
                "drift__change_points": world.change_points,
                "run__horizon": self.slots if slots is None else slots,
                "run__seed": seed,
                **changes,
            }
        )

    def runs(
        self, world: World, policy: str, *, seeds: Sequence[int] | None = None, **changes: Any
    ) -> Runs:
        """A policy, by its name in the figures, over the realizations of a world."""
        changes = {"algorithm__policy": POLICIES[policy], **changes}
        seeds = self.seeds() if seeds is None else seeds
        plays = tuple(Play(canonical(self.world(world, seed, **changes))) for seed in seeds)
        return Runs(self, world, tuple(seeds), plays)

    def sweeps(self, world: World, seeds: Sequence[int] | None = None) -> dict[int, Runs]:
        """Sweep-and-hold at each candidate period."""
        return {
            period: self.runs(world, "Sweep-and-hold", seeds=seeds, algorithm__sweep_period=period)
            for period in SWEEP_PERIODS
        }

    def sweep_period(self, results: Results) -> int:
        """The period with the least regret in the blocked scenario, used throughout (Benchmarks).

        It is not known in advance, so that the tasks of a figure include all periods.
        """
        runs = self.sweeps(BLOCKED)
        return min(runs, key=lambda period: runs[period].estimate(results, "regret").mean)

    def variations(self, world: World, most: int | None = None) -> list[Variation]:
        """The variation budget of each realization of a world at the horizon."""
        return [Variation(self.world(world, seed), (self.slots,)) for seed in self.seeds(most)]


@dataclass(frozen=True)
class Runs:
    """One policy over the realizations of one world; a measure is one number per realization."""

    setting: Setting
    world: World
    seeds: tuple[int, ...]
    plays: tuple[Play, ...]

    def tasks(self, *movement_costs: float) -> list[Task]:
        """The runs, and the oracles at each c_e; without any, at that of the base."""
        costs = movement_costs or (self.setting.base.reward.movement_cost,)
        return [*self.plays, *(oracle for cost in costs for oracle in self._oracles(cost))]

    def course_tasks(self) -> list[OracleCourse]:
        """The trajectories of the oracle, for the regret over time."""
        return [OracleCourse(self.setting.world(self.world, seed)) for seed in self.seeds]

    def measure(self, results: Results, quantity: str, movement_cost: float | None = None) -> Array:
        """One quantity per realization; regret is per slot, with c_e (default: the base's)."""
        if quantity != "regret":
            return np.array([results[play][quantity] for play in self.plays], dtype=np.float64)
        cost = self.setting.base.reward.movement_cost if movement_cost is None else movement_cost
        optimum = np.array([results[oracle]["value"] for oracle in self._oracles(cost)])
        earned = self.measure(results, "reward") - cost * self.measure(results, "travel")
        return np.asarray((optimum - earned) / self.setting.slots, dtype=np.float64)

    def estimate(
        self, results: Results, quantity: str, movement_cost: float | None = None
    ) -> Estimate:
        """The mean of a quantity over the realizations."""
        return estimate(self.measure(results, quantity, movement_cost))

    def rows(
        self,
        results: Results,
        quantities: Iterable[str],
        label: tuple[str, str, str, str, float | str],
        movement_cost: float | None = None,
    ) -> Iterator[Row]:
        """One row per quantity, with the first five fields of a row as the label."""
        for quantity in quantities:
            yield Row(*label, quantity, self.estimate(results, quantity, movement_cost))

    def regret_course(self, results: Results) -> tuple[list[int], Array]:
        """The cumulative regret (eq. regret) after each checkpoint: realizations × checkpoints."""
        optimum = np.array([results[course]["net_course"] for course in self.course_tasks()])
        reward = self.measure(results, "reward_course")
        energy = self.setting.base.reward.movement_cost * self.measure(results, "travel_course")
        return checkpoints(self.setting.slots).tolist(), optimum - (reward - energy)

    def _oracles(self, movement_cost: float) -> list[Oracle]:
        return [
            Oracle(self.setting.world(self.world, seed, reward__movement_cost=movement_cost))
            for seed in self.seeds
        ]


def canonical(config: Config) -> Config:
    """One common form of all configs that mean the same, so that they share one result.

    The confidence parameter becomes a number. No persistence is a margin of 0 (eq. hysteresis).
    MoveUCB with local search, without cost and persistence, is GP-UCB.
    """
    algorithm = config.algorithm
    same: dict[str, Any] = {"algorithm__beta": algorithm.beta_for(algorithm.policy)}
    if algorithm.policy == "moveucb" and not algorithm.use_persistence:
        same |= {"algorithm__margin": 0.0, "algorithm__use_persistence": True}
    config = config.replace(**same)
    algorithm = config.algorithm
    free = algorithm.margin == 0.0 and not algorithm.use_movement_cost
    if algorithm.policy == "moveucb" and algorithm.search == "local" and free:
        config = config.replace(algorithm__policy="gp-ucb")
    if config.algorithm.policy == "gp-ucb":  # these have no effect
        unused = {"eta": 0.0, "margin": 0.0, "search": "local", "use_movement_cost": False}
        config = config.replace(**{f"algorithm__{key}": value for key, value in unused.items()})
    return config
