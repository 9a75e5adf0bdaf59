"""The time of a complete decision: observe, posterior on the grid, acquisition, persistence, step.

The policy plays a simulated map, and its peers get the same samples, so that all solve the same
problem and must make the same decisions. They take turns in short blocks, so that other load on
the machine affects all of them equally. The first decision of a block is not counted, because the
caches hold the data of another peer.

Both wall-clock time and processor time are measured. On a busy machine a decision of milliseconds
is interrupted and one of microseconds seldom is, so that a ratio of wall-clock times would favour
the faster one. Ratios are of processor time.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import sqrt
from time import perf_counter_ns, thread_time_ns
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.config.model.grid import Grid
from macontrol.controller.policies.kernel import StationaryKernel, kernel_from_config
from macontrol.controller.policies.policy import Decision, Policy, Posterior
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.survey.samples import Survey
from macontrol.sim.world.rewardmap import simulate_map

Array = NDArray[np.float64]

# With fewer decisions than this, the 99.9th percentile is just the longest one.
_LEAST_FOR_P99_9 = 1000


class Turn(NamedTuple):
    """One slot: what was observed, and what was decided."""

    slot: int
    position: float
    reward: float
    target: float
    """The target before the decision."""
    decision: Decision
    took: Took


class Took(NamedTuple):
    """The duration of a decision in nanoseconds."""

    wall: int
    processor: int


@dataclass(frozen=True)
class Times:
    """The durations of decisions in microseconds."""

    count: int
    median: float
    p99: float
    p99_9: float | None
    """None if there were too few decisions."""
    processor_median: float
    """Of processor time; the others are of the wall clock."""

    @classmethod
    def of(cls, took: list[Took]) -> Times:
        wall, processor = np.array(took).T / 1e3
        median, p99, p99_9 = np.percentile(wall, [50, 99, 99.9]).tolist()
        enough = len(took) >= _LEAST_FOR_P99_9
        return cls(len(took), median, p99, p99_9 if enough else None, float(np.median(processor)))


@dataclass(frozen=True)
class PeerResult:
    """The result of a peer on the same samples."""

    times: Times
    other_decisions: int
    """The number of decisions with another target or step than ours."""
    mean_difference: float
    """The largest difference of the posterior means, in units of sigma_f."""
    variance_difference: float
    """The largest difference of the posterior variances, in units of sigma_f^2."""


class PosteriorType(Protocol):
    """Makes the posterior of a peer."""

    def __call__(
        self, kernel: StationaryKernel, grid: Grid, *, sigma_f2: float, ridge: float, window: int
    ) -> Posterior: ...


@runtime_checkable
class _Estimating(Policy, Protocol):
    """A policy whose posterior can be replaced by that of a peer."""

    posterior: Posterior


class World:
    """A simulated map that is repeated without end."""

    def __init__(self, config: Config, *, seed: int, slots: int) -> None:
        simulated = simulate_map(config, seed, slots)
        self.survey = Survey(simulated.survey_position, simulated.survey_reward)
        self._grid = config.grid
        self._reward = simulated.reward
        self._noise = simulated.noise

    def observe(self, slot: int, position: float) -> float:
        """r_t at a position."""
        t = slot % len(self._noise)
        return self._grid.interpolate(self._reward[t], position) + float(self._noise[t])


class Player:
    """The policy with our posterior, on a map, slot by slot."""

    def __init__(self, config: Config, world: World) -> None:
        self.policy = _make_policy(config, world)
        self._world = world
        self._slot = 0
        self._position = self._target = self.policy.start_position

    def play(self, slots: int) -> Iterator[Turn]:
        policy, world = self.policy, self._world
        for _ in range(slots):
            self._slot += 1
            slot, position, target = self._slot, self._position, self._target
            reward = world.observe(slot, position)
            decision, took = _timed(policy, slot, position, reward)
            self._position, self._target = decision.position, decision.target
            yield Turn(slot, position, reward, target, decision, took)


def made_for(config: Config, world: World, make: PosteriorType) -> Posterior:
    """A posterior of another kind with the kernel and the sizes of a config."""
    return make(
        kernel_from_config(config.kernel),
        config.grid,
        sigma_f2=world.survey.sigma_f2(config),
        ridge=config.algorithm.ridge,
        window=config.algorithm.window,
    )


def differences(one: Posterior, other: Posterior, sigma_f2: float) -> tuple[float, float]:
    """The largest differences of mean and variance, in units of sigma_f and sigma_f^2."""
    mean = float(np.abs(one.mean - other.mean).max())
    return mean / sqrt(sigma_f2), float(np.abs(one.variance - other.variance).max()) / sigma_f2


class _Peer:
    """The policy with the posterior of a peer, which repeats the decisions of a player."""

    def __init__(self, config: Config, world: World, make: PosteriorType) -> None:
        self._policy = _make_policy(config, world)
        self._sigma_f2 = world.survey.sigma_f2(config)
        self._posterior = self._policy.posterior = made_for(config, world, make)
        samples = zip(world.survey.position.tolist(), world.survey.reward.tolist(), strict=True)
        for slot, sample in enumerate(samples, start=1 - len(world.survey.position)):
            self._posterior.observe(slot, *sample)
        self._took: list[Took] = []
        self._other_decisions = 0
        self._differences = np.zeros(2)

    def observe(self, turn: Turn) -> None:
        """Add a sample without a decision; the posterior is not solved."""
        self._posterior.observe(turn.slot, turn.position, turn.reward)

    def decide(self, turn: Turn, *, counted: bool) -> None:
        """Decide in the same situation as the player."""
        policy = self._policy
        policy.resume(turn.target)
        decision, took = _timed(policy, turn.slot, turn.position, turn.reward)
        self._other_decisions += decision[:2] != turn.decision[:2]
        if counted:
            self._took.append(took)

    def compare(self, ours: Posterior) -> None:
        """Compare the posteriors, which have the same samples now."""
        now = differences(self._posterior, ours, self._sigma_f2)
        np.maximum(self._differences, now, out=self._differences)

    def result(self) -> PeerResult:
        mean, variance = self._differences.tolist()
        return PeerResult(Times.of(self._took), self._other_decisions, mean, variance)


def side_by_side(
    config: Config,
    world: World,
    peers: Mapping[str, tuple[PosteriorType, int]],
    *,
    rounds: int,
    block: int,
    advance: Callable[[], None] = lambda: None,
) -> tuple[Times, dict[str, PeerResult]]:
    """Time our decisions in blocks, and each peer on the given number of each block."""
    player = Player(config, world)
    followers = {name: _Peer(config, world, make) for name, (make, _) in peers.items()}
    # Decisions are cheaper until the window is full of samples of the run.
    for turn in player.play(config.algorithm.window):
        for follower in followers.values():
            follower.observe(turn)
    times: list[Took] = []
    with no_garbage_collection():
        for _ in range(rounds):
            gc.collect()
            turns = list(player.play(block + 1))
            times.extend(turn.took for turn in turns[1:])
            for name, (_, decisions) in peers.items():
                follower = followers[name]
                first = len(turns) - decisions - 1
                for turn in turns[:first]:
                    follower.observe(turn)
                for number, turn in enumerate(turns[first:]):
                    follower.decide(turn, counted=number > 0)
                follower.compare(player.policy.posterior)
            advance()
    return Times.of(times), {name: follower.result() for name, follower in followers.items()}


def growth(
    configs: Mapping[int, Config],
    world: World | Mapping[int, World],
    *,
    rounds: int,
    block: int,
    advance: Callable[[], None] = lambda: None,
) -> dict[int, Times]:
    """Time our decisions with several configs, which take turns block by block, in one world or
    each in its own."""
    players = {
        size: Player(config, world if isinstance(world, World) else world[size])
        for size, config in configs.items()
    }
    for size, player in players.items():
        for _ in player.play(configs[size].algorithm.window):
            pass
    times: dict[int, list[Took]] = {size: [] for size in configs}
    with no_garbage_collection():
        for _ in range(rounds):
            gc.collect()
            for size, player in players.items():
                turns = list(player.play(block + 1))
                times[size].extend(turn.took for turn in turns[1:])
            advance()
    return {size: Times.of(taken) for size, taken in times.items()}


def _timed(policy: Policy, slot: int, position: float, reward: float) -> tuple[Decision, Took]:
    """One complete decision."""
    began, begin = thread_time_ns(), perf_counter_ns()
    policy.observe(slot, position, reward)
    decision = policy.decide(slot, position)
    end, ended = perf_counter_ns(), thread_time_ns()
    return decision, Took(end - begin, ended - began)


def _make_policy(config: Config, world: World) -> _Estimating:
    policy = make_policy(config, world.survey)
    if not isinstance(policy, _Estimating):
        raise TypeError(f"{config.algorithm.policy} has no posterior to time")
    return policy


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Disable the garbage collector, as the slot loop does."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
