"""Run one policy on one reward map, slot by slot."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.config.model.errors import POLICY_CODE, CommandRefusedError
from macontrol.config.model.grid import ON_GRID
from macontrol.controller.policies.policy import HasSurface, Policy, margin_of
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.policies.theory import SurfaceMeter, Trajectory, Verdict, check_run
from macontrol.controller.survey.samples import Survey
from macontrol.sim.research.oracle import oracle_value
from macontrol.sim.world.partial import Filled, basis_of
from macontrol.sim.world.rewardmap import RewardMap

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Episode:
    """A finished run on a map: the trajectory, and the rewards along it."""

    trajectory: Trajectory
    reward: Array
    """g_t(x_t), without noise; NaN where the map is unknown."""
    observed: Array
    """r_t, with noise; NaN where the map is unknown."""
    weight: Array
    """The part of a holding antenna's reward that each slot earns; the policy learns that reward.
    """
    theory: dict[str, Verdict]

    def net_reward(self, movement_cost: float) -> float:
        """Σ g_t(x_t) − c_e·|x_t − x_{t−1}| (the objective, eq. online)."""
        return float(self.reward.sum()) - movement_cost * self.trajectory.travel


def play(
    config: Config,
    world: RewardMap,
    *,
    seed: int = 0,
    meter: bool = False,
    late: NDArray[np.bool_] | None = None,
    missing: NDArray[np.bool_] | None = None,
    begin_held: bool = False,
) -> Episode:
    """Run the policy of a config on a map. `meter` also measures how the surface moves (Lemma 2).

    `begin_held` starts Sweep-and-hold as in the paper's figures: see `make_policy`.
    """
    survey = Survey(world.survey_position, world.survey_reward)
    policy = make_policy(config, survey, seed=seed, begin_held=begin_held)
    return play_policy(config, policy, world, meter=meter, late=late, missing=missing)


def play_policy(
    config: Config,
    policy: Policy,
    world: RewardMap,
    *,
    meter: bool = False,
    late: NDArray[np.bool_] | None = None,
    missing: NDArray[np.bool_] | None = None,
) -> Episode:
    """Run a policy on a map, as in Algorithm 1: observe at x_t, decide x_{t+1}.

    The rewards of `late` slots arrive one slot later, as with a radio that sends in blocks; those
    of `missing` slots never. The policy learns the reward of a holding antenna, as the map has it.
    """
    grid, slots = config.grid, world.slots
    position, after, target, shortfall, reward, observed = np.empty((6, slots))
    # Numbers of Python, and the grid index only after a move: the loop is as fast as it can be.
    noise, reward_at = world.noise.tolist(), world.reward.item
    surface = policy if meter and isinstance(policy, HasSurface) else None
    surface_meter = SurfaceMeter()
    lowest, highest = -ON_GRID, grid.length + ON_GRID
    stroke = config.physical.rho_max + 2 * ON_GRID
    absent = np.zeros(slots, dtype=np.bool_) if missing is None else missing
    delayed = np.zeros(slots, dtype=np.bool_) if late is None else late & ~absent
    comes_late, comes = delayed.tolist(), (~(absent | delayed)).tolist()
    x = policy.start_position
    index = grid.index(x)
    for t in range(slots):
        g = grid.interpolate(world.reward[t], x) if index is None else reward_at(t, index)
        r = g + noise[t]
        with POLICY_CODE:
            # Where a map is unknown there is no observation, as in a slot without a measurement.
            if t > 0 and comes_late[t - 1] and isfinite(observed[t - 1]):
                policy.observe(t, float(position[t - 1]), float(observed[t - 1]))
            if comes[t] and isfinite(r):
                policy.observe(t + 1, x, r)
            decision = policy.decide(t + 1, x)
            target[t], after[t], _, _, shortfall[t] = decision
            if surface is not None:
                surface_meter.update(surface.surface)
        wanted = after.item(t)
        # A comparison with NaN is false.
        if not (lowest <= wanted <= highest and abs(wanted - x) <= stroke):
            raise _out_of_reach(config, t + 1, x, wanted)
        position[t], reward[t], observed[t] = x, g, r
        if wanted != x:
            x, index = wanted, grid.index(wanted)
    # x_1 is where the antenna already is.
    weight = config.physical.actuation_plan.weights(np.abs(np.diff(position, prepend=position[0])))
    trajectory = Trajectory(
        start=policy.start_position,
        position=position,
        next_position=after,
        target=target,
        shortfall=shortfall,
        surface_movement=None if surface is None else surface_meter.movement,
    )
    verdicts = check_run(
        trajectory,
        length=grid.length,
        rho_max=config.physical.rho_max,
        margin=margin_of(policy),
    )
    return Episode(trajectory, reward * weight, observed * weight, weight, verdicts)


def outcome_of(config: Config, episode: Episode, filled: Filled) -> dict[str, Any]:
    """Regret per slot compared with the oracle's OPT_T, reward, movement, theory, and shares.

    The reward is the mean over the slots at known places. On a map that is known in part there is
    no regret: the oracle needs the reward of every place that it could go to.
    """
    run, slots, world = episode.trajectory, len(episode.reward), filled.world
    optimum = float(oracle_value(world.reward, config)[0]) if world.available is None else None
    known = episode.reward[~np.isnan(episode.reward)]
    reward = float(known.mean()) if len(known) else None
    travel = config.reward.movement_cost * run.travel
    basis = basis_of(filled, config, run.position, episode.reward)
    net = None if reward is None else reward - travel / slots
    regret = None
    if optimum is not None:
        total = episode.net_reward(config.reward.movement_cost)
        net, regret = total / slots, (optimum - total) / slots
    return {
        "policy": config.algorithm.policy,
        "slots": slots,
        "regret_per_slot": regret,
        "reward_per_slot": reward,
        "net_reward_per_slot": net,
        "oracle_per_slot": None if optimum is None else optimum / slots,
        "travel": run.travel,
        "switches": int(run.switched.sum()),
        "transit_share": float(run.transit.mean()),
        "theory": {name: asdict(verdict) for name, verdict in episode.theory.items()},
        **{f"{name}_share": share for name, share in basis._asdict().items()},
    }


def _out_of_reach(config: Config, slot: int, position: float, wanted: float) -> CommandRefusedError:
    """The error for a position that the guard refuses in a run."""
    physical = config.physical
    return CommandRefusedError(
        f"slot {slot}: the policy sends the antenna from {position:g} to {wanted:g} wavelengths; "
        f"a stroke is {physical.rho_max:g}, the region [0, {physical.region_length:g}]",
        "Grid.advance(position, target, stroke) returns a position within reach",
    )
