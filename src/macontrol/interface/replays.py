"""Replay a policy on a map, and compare it with the oracle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from macontrol.controller.survey.samples import Survey
from macontrol.interface.arguments import seed_of
from macontrol.interface.maps import Map
from macontrol.interface.policies import AnyPolicy, build_policy, with_policy
from macontrol.sim.research.episode import outcome_of, play_policy
from macontrol.sim.research.oracle import oracle_path, oracle_value

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Replay:
    """A policy on a map: one value per slot in each array, and how it compares with the oracle.

    Positions are in wavelengths, rewards in bit/s/Hz.
    """

    policy: str
    """The name of the policy, or of its class."""
    position: Floats
    """x_t: where the antenna was."""
    target: Floats
    """z_t: where it was headed."""
    reward: Floats
    """g_t(x_t): what it earned, without noise."""
    observed: Floats
    """r_t: what the policy observed, with noise."""
    switched: Flags
    """Whether the target changed."""
    transit: Flags
    """Whether the antenna was under way."""
    travel: float
    """The distance travelled (wavelengths)."""
    reward_per_slot: float
    """The mean reward without noise."""
    net_reward_per_slot: float
    """The mean reward less the price of travel."""
    oracle_per_slot: float
    """The net reward per slot of the oracle, which knows the map."""
    regret_per_slot: float
    """How much more the oracle earns per slot."""


@dataclass(frozen=True, eq=False)
class Oracle:
    """The best trajectory on a map. Positions are in wavelengths, rewards in bit/s/Hz."""

    position: Floats
    """Where the antenna is in each slot."""
    reward: Floats
    """What it earns in each slot, without noise."""
    net_reward_per_slot: float
    """The mean reward less the price of travel."""


def replay(map: Map, policy: AnyPolicy | None = None, *, seed: int | None = None) -> Replay:
    """Replay a policy on a map: a name, an object, or a class or function that builds one.

    A class or a function is called with `PolicyInputs`. An object remembers what it observed: use a
    new one for each replay. Without a policy, the config's is used. `seed` is for a policy's own
    random choices (default: `run.seed`).
    """
    config = with_policy(map.config, policy)
    survey = Survey(map.survey_position, map.survey_reward)
    built, name = build_policy(policy, config, survey, seed_of(config, seed))
    episode = play_policy(config, built, map._world)
    run = episode.trajectory
    outcome = outcome_of(config, episode, float(oracle_value(map.reward, config)[0]))
    return Replay(
        policy=name,
        position=run.position,
        target=run.target,
        reward=episode.reward,
        observed=episode.observed,
        switched=run.switched,
        transit=run.transit,
        travel=outcome["travel"],
        reward_per_slot=outcome["reward_per_slot"],
        net_reward_per_slot=outcome["net_reward_per_slot"],
        oracle_per_slot=outcome["oracle_per_slot"],
        regret_per_slot=outcome["regret_per_slot"],
    )


def oracle(map: Map) -> Oracle:
    """Return the best trajectory on a map, for one that knows all rewards in advance."""
    path = oracle_path(map.reward, map.config)
    return Oracle(path.position, path.reward, path.value / map.slots)
