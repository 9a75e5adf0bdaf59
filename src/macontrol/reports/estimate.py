"""The posterior at chosen slots of a recorded run, from its observations.

The policy of the stored config observes again what the run observed. A posterior depends on its
window only, so the observations of the window before the slot are enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from macontrol.controller.policies.policy import HasPosterior, HasSurface
from macontrol.controller.recording.events import EventKind
from macontrol.reports.recorded import Recorded, stored_policy

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimate:
    """The posterior after the observations of a slot, over the grid."""

    slot: int
    position: float
    target: float
    grid: Floats
    mean: Floats
    deviation: Floats
    surface: Floats | None
    """F_t, what the policy maximises; None without one."""
    samples: int
    """Rewards in the window; those of the survey are not counted."""
    agrees: bool
    """Whether the policy decides again what the run recorded."""


def estimate_at(recorded: Recorded, row: int) -> Estimate | str:
    """The posterior in a recorded slot, given by its row; the reason if that is not possible."""
    run, config, header = recorded.run, recorded.config, recorded.header
    if header.survey is None:
        return "the run has no survey"
    if header.policy != config.algorithm.policy:
        return f"{header.policy} is not a registered policy"
    policy = stored_policy(recorded, with_samples=_has_samples(recorded))
    if not isinstance(policy, HasPosterior):
        return f"{header.policy} has no posterior"
    slot = int(run["slot"][row])
    arrived = np.isfinite(run["reward"]) & np.isfinite(run["position"])
    arrived &= _arrival(recorded) <= slot
    arrived[row + 1 :] = False
    chosen = np.flatnonzero(arrived)[-config.algorithm.window :]
    seen = run["slot"], run["position"], recorded.learned
    try:
        for number, position, reward in header.window:
            policy.observe(number, position, reward)
        for index in chosen.tolist():
            policy.observe(*(column[index].item() for column in seen))
        if row > 0:
            policy.resume(float(run["target"][row - 1]))
        position = config.grid.clamp(float(run["position"][row]))
        decision = policy.decide(slot, position)
    except Exception as error:  # a policy of another distribution may raise anything
        return f"{header.policy} fails with the recorded observations: {error!r}"
    posterior = policy.posterior
    return Estimate(
        slot=slot,
        position=position,
        target=decision.target,
        grid=posterior.grid.points,
        mean=posterior.mean.copy(),
        deviation=np.sqrt(np.maximum(posterior.variance, 0.0)),
        surface=policy.surface.copy() if isinstance(policy, HasSurface) else None,
        samples=min(len(header.window) + len(chosen), config.algorithm.window),
        agrees=abs(decision.position - float(run["next_position"][row])) < 1e-6,
    )


def _has_samples(recorded: Recorded) -> bool:
    """Whether the window began with the survey's samples."""
    survey = recorded.header.survey
    return survey is not None and survey.is_in_window(
        recorded.config, recorded.header.started_wall_s
    )


def _arrival(recorded: Recorded) -> NDArray[np.int64]:
    """The slot in which each slot's reward arrived, as the events of late rewards record it."""
    run = recorded.run
    slots = run["slot"]
    found = slots.copy()
    for index in recorded.events_of(EventKind.LATE_REWARD).tolist():
        slot, delay = run.events["slot"][index], run.events["value"][index]
        row = int(np.searchsorted(slots, slot))
        if row < len(slots) and slots[row] == slot and np.isfinite(delay):
            found[row] = slot + int(delay)
    return np.asarray(found)
