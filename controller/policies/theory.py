"""The paper's theory in numbers: its constants, and a check of any finished run.

The constants are Theorem 1's confidence parameter, the information gain γ_n, C_0 and the margin
rule. The check compares the trajectory of a run with the inequalities of Lemma 1 (travel), Lemma 2
(switches and the measured movement of the surface), Proposition 1 (persistence) and the reach
constraint.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from macontrol.config.model.grid import are_apart
from macontrol.controller.policies.features import KernelFeatures
from macontrol.controller.policies.posterior import WindowedPosterior

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]


# Relative difference below which two variances are equal: above the error of the features.
_EQUAL = 1e-10


def information_gain(
    features: KernelFeatures, samples: int, *, sigma_f2: float, ridge: float
) -> float:
    """γ_n (eq. infogain) of the greedy set: each sample where the variance is largest.

    Of equal variances the lowest position is taken, so that rounding does not decide the set.

    The sum is the log-determinant of that set (Lemma chain), which is at least 1 − 1/e of the
    maximum over all sets.
    """
    posterior = WindowedPosterior(features, sigma_f2=sigma_f2, ridge=ridge, window=samples)
    gain = 0.0
    for number in range(samples):
        variance = posterior.variance
        widest = int((variance >= (1.0 - _EQUAL) * variance.max()).argmax())
        gain += 0.5 * log(1.0 + max(float(variance[widest]), 0.0) / ridge)
        posterior.observe(number, float(features.grid.points[widest]), 0.0)
    return gain


def confidence_beta(
    *,
    norm_bound: float,
    noise_bound: float,
    ridge: float,
    gamma_w: float,
    horizon: int,
    delta: float,
) -> float:
    """β = B + R/√ϱ·√(2(γ_w + 1 + ln(2T/δ))) (Theorem 1)."""
    width = sqrt(2.0 * (gamma_w + 1.0 + log(2.0 * horizon / delta)))
    return norm_bound + noise_bound / sqrt(ridge) * width


def switch_cost(
    *, length: float, movement_cost: float, g_max: float, rho_max: float, arrival: float = 0.0
) -> float:
    """C_0 = D·(c_e + 2·g_max/ρ_max): the highest cost of one target switch (eq. c0).

    `arrival` is what the last slot of the way loses, which counts for actuation as needed only. The
    slots before it are in transit; their whole reward is counted as lost.
    """
    return length * (movement_cost + 2.0 * g_max / rho_max) + arrival


def surface_bound(
    *,
    beta: float,
    sigma_f: float,
    noise_bound: float,
    ridge: float,
    gamma_w: float,
    window: int,
    horizon: int,
    variation: float,
) -> float:
    """S̄_T: the bound on the surface's movement, hidden constant 1 (eq. surface-bound)."""
    a = sigma_f * ((beta * sigma_f + noise_bound) / ridge + beta / sqrt(ridge))
    forgetting = a * horizon * sqrt(gamma_w / window)
    drift = sqrt(sigma_f**2 / ridge * window) ** 3 * variation
    return forgetting + drift


def balanced_margin(*, c_0: float, surface_movement: float, horizon: int) -> float:
    """Δ = √(C_0·S_T/T): where the costs of switching and of holding are equal (eq. margin)."""
    return sqrt(c_0 * surface_movement / horizon)


class SurfaceMeter:
    """Sum S_T = Σ sup|F_{t+1} − F_t|, the movement of the acquisition surface (Lemma 2)."""

    def __init__(self) -> None:
        self.movement = 0.0
        self._last: Array | None = None
        self._difference: Array | None = None

    def update(self, surface: Array) -> float:
        """Add the surface of the next slot; return its movement since the previous slot."""
        if self._last is None or self._difference is None:
            self._last, self._difference = surface.copy(), np.empty_like(surface)
            return 0.0
        np.subtract(surface, self._last, out=self._difference)
        np.abs(self._difference, out=self._difference)
        moved = float(self._difference.max())
        self.movement += moved
        np.copyto(self._last, surface)
        return moved


@dataclass(frozen=True)
class Trajectory:
    """What a policy did: one entry per slot, positions in wavelengths."""

    start: float
    """x_0, which is z_0 too."""
    position: Array
    """x_1 … x_T."""
    next_position: Array
    """x_2 … x_{T+1}, as decided after each slot."""
    target: Array
    """z_1 … z_T."""
    shortfall: Array
    """max F_t − F_t(z_t); NaN for a policy without a surface."""
    surface_movement: float | None
    """S_T, where it was measured."""

    @property
    def switched(self) -> Flags:
        """The slots in which the target changed."""
        before = np.concatenate(([self.start], self.target[:-1]))
        return are_apart(self.target, before)

    @property
    def transit(self) -> Flags:
        """The slots whose target is not reached by the next position."""
        return are_apart(self.target, self.next_position)

    @property
    def travel(self) -> float:
        """Σ |x_t − x_{t−1}| over slots 1 … T, in wavelengths."""
        return float(np.abs(np.diff(self.position, prepend=self.start)).sum())


@dataclass(frozen=True)
class Verdict:
    """One inequality for a run: `value` ≤ `bound`; `holds` is None without one of them."""

    statement: str
    holds: bool | None
    value: float | None
    bound: float | None


def check_run(
    run: Trajectory, *, length: float, rho_max: float, margin: float
) -> dict[str, Verdict]:
    """Compare a finished run with what the paper proves for every run of MoveUCB."""
    steps = np.abs(run.next_position - run.position)
    # The decided and the actual steps; in a replay they are the same.
    taken = np.abs(np.diff(run.position, prepend=run.start))
    lowest = min(run.position.min(), run.next_position.min())
    highest = max(run.position.max(), run.next_position.max())
    return verdicts(
        longest_step=float(max(steps.max(), taken.max())),
        farthest_off=max(0.0, -float(lowest), float(highest) - length),
        travel=float(steps.sum()),
        transit=int(run.transit.sum()),
        switches=int(run.switched.sum()),
        shortfall=None if np.isnan(run.shortfall).any() else float(run.shortfall.max()),
        surface_movement=run.surface_movement,
        length=length,
        rho_max=rho_max,
        margin=margin,
    )


def verdicts(
    *,
    longest_step: float,
    farthest_off: float,
    travel: float,
    transit: int,
    switches: int,
    shortfall: float | None,
    surface_movement: float | None,
    length: float,
    rho_max: float,
    margin: float,
    displaced: int = 0,
) -> dict[str, Verdict]:
    """The inequalities, from the statistics of a run.

    Each time that homing `displaced` the antenna, it starts for its target again: one more leg.
    """
    allowance = length * (switches + 1 + displaced)
    legs = f"N_sw + 1 + {displaced}" if displaced else "N_sw + 1"
    by_surface = None
    if surface_movement is not None and margin > 0:
        by_surface = 1.0 + 2.0 * surface_movement / margin
    return {
        "reach": _verdict("|x_{t+1} − x_t| ≤ ρ_max (eq. reachable)", longest_step, rho_max),
        "region": _verdict("0 ≤ x_t ≤ D: distance off the rail", farthest_off, 0.0),
        "travel": _verdict(f"Σ|x_{{t+1}} − x_t| ≤ D({legs}) (Lemma 1)", travel, allowance),
        "transit": _verdict(f"T_trans ≤ D({legs})/ρ_max (Lemma 1)", transit, allowance / rho_max),
        "switches": _verdict("N_sw ≤ 1 + 2S_T/Δ (Lemma 2)", switches, by_surface),
        "persistence": _verdict(
            "max F_t − F_t(z_t) ≤ Δ (Proposition 1)",
            shortfall,
            None if shortfall is None else margin,
        ),
    }


def _verdict(statement: str, value: float | None, bound: float | None) -> Verdict:
    if value is None or bound is None:
        return Verdict(statement, None, value, bound)
    # The tolerance is for the rounding error of sums of positions.
    return Verdict(statement, value <= bound + 1e-9 * max(1.0, abs(bound)), value, bound)
