"""One whole decision, timed: observe, posterior on the grid, acquisition, persistence, step.

What is timed is a real run: MoveUCB plays a simulated map, and its peers are fed the very same
samples, so that all of them solve the same problem and must come to the same decisions. Contenders
take turns in short blocks, so that whatever else the machine does hits all alike; the first
decision of each block is not counted, as it finds the caches as another contender left them.

Time is taken twice: on the wall clock, and as processor time. On a busy machine a decision of many
milliseconds is interrupted and one of microseconds seldom is, so a ratio of wall-clock times would
flatter the faster one; ratios are of processor time.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter_ns, thread_time_ns
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.config.model.grid import Grid
from macontrol.controller.policies.kernel import StationaryKernel, kernel_from_config
from macontrol.controller.policies.moveucb.algorithm import MoveUCB
from macontrol.controller.policies.policy import Decision, Posterior
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.survey.samples import Survey
from macontrol.sim.world.rewardmap import simulate_map

Array = NDArray[np.float64]

# With fewer decisions than this, the 99.9th percentile would be no more than the worst of them.
_LEAST_FOR_P99_9 = 1000


class Turn(NamedTuple):
    """A slot as it was played: what was observed, and what was decided."""

    slot: int
    position: float
    reward: float
    target: float
    """The target before the decision."""
    decision: Decision
    took: Took


class Took(NamedTuple):
    """How long a decision took, in nanoseconds."""

    wall: int
    processor: int


@dataclass(frozen=True)
class Times:
    """How long decisions took, in microseconds."""

    count: int
    median: float
    p99: float
    p99_9: float | None
    """None if there were too few decisions to tell."""
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
    """How a peer did on the same samples."""

    times: Times
    other_decisions: int
    """How often it chose another target or step."""
    mean_difference: float
    """The largest difference of the posterior means, in units of sigma_f."""
    variance_difference: float
    """The largest difference of the posterior variances, in units of sigma_f^2."""


class PosteriorType(Protocol):
    """A posterior solved from scratch, as a peer of ours."""

    def __call__(
        self, kernel: StationaryKernel, grid: Grid, *, sigma_f2: float, ridge: float, window: int
    ) -> Posterior: ...


class World:
    """A simulated map, played round and round; between its grid positions it is interpolated."""

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
    """MoveUCB with our posterior, playing a world slot after slot."""

    def __init__(self, config: Config, world: World) -> None:
        self.policy = _moveucb(config, world)
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


class _Peer:
    """MoveUCB with a posterior of another make, following a player."""

    def __init__(self, config: Config, world: World, make: PosteriorType) -> None:
        self._policy = _moveucb(config, world)
        sigma_f2, algorithm = world.survey.sigma_f2(config), config.algorithm
        self._sigma_f2 = sigma_f2
        self._posterior = self._policy.posterior = make(
            kernel_from_config(config.kernel),
            config.grid,
            sigma_f2=sigma_f2,
            ridge=algorithm.ridge,
            window=algorithm.window,
        )
        samples = zip(world.survey.position.tolist(), world.survey.reward.tolist(), strict=True)
        for slot, sample in enumerate(samples, start=1 - len(world.survey.position)):
            self._posterior.observe(slot, *sample)
        self._took: list[Took] = []
        self._other_decisions = 0
        self._differences = np.zeros(2)

    def look_on(self, turn: Turn) -> None:
        """Take in a sample without deciding anything; nothing is solved until it is needed."""
        self._posterior.observe(turn.slot, turn.position, turn.reward)

    def follow(self, turn: Turn, *, counted: bool) -> None:
        """Decide what the player decided."""
        policy = self._policy
        policy.resume(turn.target)
        decision, took = _timed(policy, turn.slot, turn.position, turn.reward)
        self._other_decisions += decision[:2] != turn.decision[:2]
        if counted:
            self._took.append(took)

    def compare(self, ours: Posterior) -> None:
        """Take note of how far the posteriors are apart; both hold the same samples now."""
        now = [
            np.abs(self._posterior.mean - ours.mean).max() / np.sqrt(self._sigma_f2),
            np.abs(self._posterior.variance - ours.variance).max() / self._sigma_f2,
        ]
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
    """Time our decisions in blocks, and each peer on as many of a block as it is listed with."""
    player = Player(config, world)
    followers = {name: _Peer(config, world, make) for name, (make, _) in peers.items()}
    # Until the window is full of the run's own samples, decisions are cheaper.
    for turn in player.play(config.algorithm.window):
        for follower in followers.values():
            follower.look_on(turn)
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
                    follower.look_on(turn)
                for number, turn in enumerate(turns[first:]):
                    follower.follow(turn, counted=number > 0)
                follower.compare(player.policy.posterior)
            advance()
    return Times.of(times), {name: follower.result() for name, follower in followers.items()}


def growth(
    configs: Mapping[int, Config],
    world: World,
    *,
    rounds: int,
    block: int,
    advance: Callable[[], None] = lambda: None,
) -> dict[int, Times]:
    """Time our decisions under several configs, block by block in turn."""
    players = {size: Player(config, world) for size, config in configs.items()}
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


def _timed(policy: MoveUCB, slot: int, position: float, reward: float) -> tuple[Decision, Took]:
    """One whole decision."""
    began, begin = thread_time_ns(), perf_counter_ns()
    policy.observe(slot, position, reward)
    decision = policy.decide(slot, position)
    end, ended = perf_counter_ns(), thread_time_ns()
    return decision, Took(end - begin, ended - began)


def _moveucb(config: Config, world: World) -> MoveUCB:
    policy = make_policy(config, world.survey)
    if not isinstance(policy, MoveUCB):
        raise TypeError(f"{config.algorithm.policy} has no posterior to time")
    return policy


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """As in the controller's slot loop, where collecting waits for idle time."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
