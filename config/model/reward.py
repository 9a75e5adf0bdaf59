"""The rate reward g = (1 − T_a/T_s)·log2(1 + SNR) of eq. (reward), and its inverse.

`share` is 1 − T_a/T_s, the part of a slot in which the link transmits.

A probe measures a signal-to-noise ratio, a power or a rate. The runtime converts it to a reward
with `reward(share)`, which returns the reward and its standard deviation, to first order in the
uncertainty of the value. A value that is not a number has a reward that is not a number. The SNR
behind a value is `snr(share)`; NaN if it is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp2, inf, log, log2, nan, sqrt
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


DB_PER_NEPER = 10.0 / log(10.0)
"""4.343: a relative power error of 1, in dB."""


def reward_of(share: float, snr: float) -> float:
    """The reward of a slot (bit/s/Hz) at a signal-to-noise ratio."""
    return share * log2(1.0 + snr)


def rewards_of(
    share: float, snr: NDArray[np.float64], *, out: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """`reward_of` for an array; `out` may be the array itself."""
    import numpy as np  # the config, which needs one reward, loads without NumPy

    result = np.add(snr, 1.0, out=out)
    np.log2(result, out=result)
    result *= share
    return result


def snr_of(share: float, reward: float, *, reference_snr: float = 0.0) -> float:
    """The SNR whose reward exceeds that of a reference by `reward`; the inverse of `reward_of`.

    A reward that is larger than any link's raises OverflowError.
    """
    return (1.0 + reference_snr) * exp2(reward / share) - 1.0


@dataclass(frozen=True, slots=True)
class Snr:
    """A signal-to-noise ratio (linear). Below 0, which only noise can cause, it counts as 0."""

    ratio: float
    sigma: float = nan

    def reward(self, share: float) -> tuple[float, float]:
        """The derivative of log2(1 + SNR) is 1/((1 + SNR)·ln 2)."""
        ratio = max(self.ratio, 0.0)  # max returns a NaN only if it comes first
        return reward_of(share, ratio), share / log(2.0) * self.sigma / (1.0 + ratio)

    def snr(self, share: float) -> float:
        return self.ratio


@dataclass(frozen=True, slots=True)
class Power:
    """A received power P and the noise floor N, linear and in one unit: SNR = (P − N)/N.

    The uncertainties are in dB.
    """

    power: float
    noise: float
    sigma_db: float = nan
    noise_sigma_db: float = 0.0

    def reward(self, share: float) -> tuple[float, float]:
        """1 + SNR = P/N, so the derivatives with respect to ln P and −ln N are share/ln 2.

        For P < N the reward is 0, with the standard deviation of P = N.
        """
        relative = sqrt(self.sigma_db**2 + self.noise_sigma_db**2) / DB_PER_NEPER
        return reward_of(share, max(self.snr(share), 0.0)), share / log(2.0) * relative

    def snr(self, share: float) -> float:
        return (self.power - self.noise) / self.noise if self.noise else inf


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate of the link while it transmits: bit/s with a bandwidth, or bit/s/Hz without."""

    rate: float
    sigma: float = nan
    bandwidth_hz: float = 1.0

    def reward(self, share: float) -> tuple[float, float]:
        scale = share / self.bandwidth_hz if self.bandwidth_hz else nan
        return scale * self.rate, scale * self.sigma

    def snr(self, share: float) -> float:
        """Unknown: a real link's rate is not log2(1 + SNR)."""
        return nan


@dataclass(frozen=True, slots=True)
class Reward:
    """A reward itself, of a simulation: eq. (observation) adds noise to the reward."""

    value: float
    sigma: float = nan

    def reward(self, share: float) -> tuple[float, float]:
        return self.value, self.sigma

    def snr(self, share: float) -> float:
        """The SNR that has this reward; below 0 if the noise made the reward negative."""
        return snr_of(share, self.value)


Value: TypeAlias = Snr | Power | Rate | Reward
"""What a probe measures."""
