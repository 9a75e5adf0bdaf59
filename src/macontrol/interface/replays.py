"""Replay a policy on a map, and compare it with the oracle."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

import numpy as np
from numpy.typing import NDArray

from macontrol.config.model.errors import UsageError
from macontrol.controller.survey.samples import Survey
from macontrol.interface.arguments import seed_of
from macontrol.interface.maps import Map
from macontrol.interface.policies import AnyPolicy, build_policy, with_policy
from macontrol.sim.research.episode import outcome_of, play_policy
from macontrol.sim.research.oracle import oracle_path
from macontrol.sim.world.partial import fill

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
    """g_t(x_t): what it earned, without noise; NaN where the map is unknown."""
    observed: Floats
    """r_t: what the policy observed, with noise; NaN where the map is unknown."""
    switched: Flags
    """Whether the target changed."""
    transit: Flags
    """Whether the antenna was under way."""
    travel: float
    """The distance travelled (wavelengths)."""
    reward_per_slot: float
    """The mean reward without noise, over the slots where it is known."""
    net_reward_per_slot: float
    """The mean reward less the price of travel."""
    oracle_per_slot: float
    """The net reward per slot of the oracle, which knows the map; NaN if it is known in part."""
    regret_per_slot: float
    """How much more the oracle earns per slot; NaN if the map is known in part."""
    measured_share: float
    """The share of the slots in which the policy observed a measured reward …"""
    interpolated_share: float
    """… an interpolated one …"""
    unknown_share: float
    """… and none, because the place is unknown."""


@dataclass(frozen=True, eq=False)
class Oracle:
    """The best trajectory on a map. Positions are in wavelengths, rewards in bit/s/Hz."""

    position: Floats
    """Where the antenna is in each slot."""
    reward: Floats
    """What it earns in each slot, without noise."""
    net_reward_per_slot: float
    """The mean reward less the price of travel."""


def replay(
    map: Map,
    policy: AnyPolicy | None = None,
    *,
    seed: int | None = None,
    longest_gap_s: float | None = None,
) -> Replay:
    """Replay a policy on a map: a name, an object, or a class or function that builds one.

    A class or a function is called with `PolicyInputs`. An object remembers what it observed: use a
    new one for each replay. Without a policy, the config's is used. `seed` is for a policy's own
    random choices (default: `run.seed`).

    On the map of a site the reward is interpolated, in time between measurements that are at most
    `longest_gap_s` apart (default: w·T_s).
    """
    config = with_policy(map.config, policy)
    survey = Survey(map.survey_position, map.survey_reward)
    built, name = build_policy(policy, config, survey, seed_of(config, seed))
    filled = fill(map._world, map.config, longest_gap_s)
    episode = play_policy(config, built, filled.world)
    run = episode.trajectory
    outcome = outcome_of(config, episode, filled)
    figures = {name: nan if value is None else value for name, value in outcome.items()}
    return Replay(
        policy=name,
        position=run.position,
        target=run.target,
        reward=episode.reward,
        observed=episode.observed,
        switched=run.switched,
        transit=run.transit,
        travel=figures["travel"],
        reward_per_slot=figures["reward_per_slot"],
        net_reward_per_slot=figures["net_reward_per_slot"],
        oracle_per_slot=figures["oracle_per_slot"],
        regret_per_slot=figures["regret_per_slot"],
        measured_share=figures["measured_share"],
        interpolated_share=figures["interpolated_share"],
        unknown_share=figures["unknown_share"],
    )


def oracle(map: Map, *, longest_gap_s: float | None = None) -> Oracle:
    """Return the best trajectory on a map, for one that knows all rewards in advance.

    The map of a site is interpolated as in `replay`, and is refused if it is known in part.
    """
    world = fill(map._world, map.config, longest_gap_s).world
    if world.available is not None:
        raise UsageError(
            f"the oracle needs the reward everywhere, and it is known in "
            f"{world.available.mean():.1%} of the map",
            "walk the rail more often, or give a longer longest_gap_s",
        )
    path = oracle_path(world.reward, map.config)
    return Oracle(path.position, path.reward, path.value / world.slots)
