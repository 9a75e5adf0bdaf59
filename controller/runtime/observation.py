"""The reward of a measurement: the one place where a probe's value becomes a reward."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, isnan, nan
from operator import index

from macontrol.config import Config
from macontrol.config.model.units import known_db
from macontrol.controller.recording.events import InvalidReason
from macontrol.hal import Measurement
from macontrol.hal.probe import UNKNOWN_SIGNAL, Signal

_LONGEST_UNIT = 10


@dataclass(frozen=True, slots=True)
class Observation:
    """The reward of one slot, or the reason why it has none."""

    slot: int
    reward: float
    """The reward of a slot in which the antenna holds, which a policy learns (eq. observation); NaN
    if the measurement is invalid."""
    valid: bool
    uncertainty: float = nan
    """Standard deviation of the reward; NaN if unknown."""
    reason: str = ""
    above_floor: float = inf
    hint: str = ""
    signal: Signal = UNKNOWN_SIGNAL
    weight: float = 1.0
    """The part of it that the slot earns: the antenna moved in the others' time (`Actuation`)."""

    @property
    def earned(self) -> float:
        """r_t, the reward of the slot."""
        return self.reward * self.weight

    @property
    def earned_sigma(self) -> float | None:
        """The standard deviation of r_t; None if it is unknown."""
        return None if isnan(self.uncertainty) else self.uncertainty * self.weight


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
        signal = self._signal(measurement)
        if value is None:
            reason = reason or InvalidReason.INVALID
            return Observation(slot, nan, False, reason=reason, hint=hint, signal=signal)
        try:
            reward, sigma = map(float, value.reward(self._share))
        except Exception:  # numbers that no instrument measures, or a value of another type
            reward = sigma = nan
        if not abs(reward) <= self._largest:
            return Observation(slot, nan, False, reason=InvalidReason.OUT_OF_RANGE, signal=signal)
        above_floor = float(measurement.above_floor)
        return Observation(slot, reward, True, sigma, reason, above_floor, hint, signal)

    def _signal(self, measurement: Measurement) -> Signal:
        """What is known of the signal, as plain numbers; the SNR is that of the value."""
        level, unit, floor, snr, clipped, samples = measurement.signal
        if snr is None and measurement.value is not None:
            try:
                snr = known_db(measurement.value.snr(self._share))
            except Exception:  # as for the reward
                snr = None
        return Signal(
            None if level is None or not isfinite(level) else float(level),
            None if unit is None else str(unit)[:_LONGEST_UNIT],
            None if floor is None or not isfinite(floor) else float(floor),
            None if snr is None or not isfinite(snr) else float(snr),
            None if clipped is None or not isfinite(clipped) else float(clipped),
            None if samples is None else index(samples),
        )
