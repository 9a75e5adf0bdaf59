"""The rate reward g = (1 − T_a/T_s)·log2(1 + SNR) of eq. (reward), and its inverse.

`share` is 1 − T_a/T_s, the part of a slot in which the link transmits.
"""

from __future__ import annotations

from math import exp2, log2
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def transmission_share(actuation_s: float, slot_s: float) -> float:
    """1 − T_a/T_s: the part of a slot in which the link transmits."""
    return 1.0 - actuation_s / slot_s


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
