"""The reward of a measurement: the one place where a probe's value becomes a reward."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan
from operator import index

from macontrol.config import Config
from macontrol.controller.recording.events import InvalidReason
from macontrol.hal import Measurement


@dataclass(frozen=True, slots=True)
class Observation:
    """The reward of one slot, or the reason why it has none."""

    slot: int
    reward: float
    """r_t (eq. observation); NaN if the measurement is invalid."""
    valid: bool
    uncertainty: float = nan
    """Standard deviation of the reward; NaN if unknown."""
    reason: str = ""
    above_floor: float = inf
    hint: str = ""


class Rewarding:
    """Computes rewards for the slots of a config; a reward out of range is invalid."""

    def __init__(self, config: Config) -> None:
        self._share = config.physical.transmission_share
        self._largest = config.largest_reward

    def observe(self, measurement: Measurement) -> Observation:
        """The observation of a measurement, whose fields may be anything; TypeError otherwise."""
        if not isinstance(measurement, Measurement):
            raise TypeError(f"it measured {type(measurement).__name__}, not a Measurement")
        slot, value = index(measurement.slot), measurement.value
        reason, hint = str(measurement.reason), str(measurement.hint)
        if value is None:
            return Observation(slot, nan, False, reason=reason or InvalidReason.INVALID, hint=hint)
        try:
            reward, sigma = map(float, value.reward(self._share))
        except Exception:  # numbers that no instrument measures, or a value of another type
            reward = sigma = nan
        if not abs(reward) <= self._largest:
            return Observation(slot, nan, False, reason=InvalidReason.OUT_OF_RANGE)
        above_floor = float(measurement.above_floor)
        return Observation(slot, reward, True, sigma, reason, above_floor, hint)
