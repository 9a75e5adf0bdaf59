"""How a calibration divides its time: walks in both directions, hops, and standing still.

The time consists of equal cycles. Each cycle walks up and down the rail (the map, its change from
walk to walk, the backlash), hops beside a place (the settling), and stands still there until its
end (the noise, and the change within a walk). The cycles stand at different places, spread over the
rail, and the scatter from cycle to cycle gives the uncertainties.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.config.model.errors import UsageError
from macontrol.config.model.rounding import at_least

MINUTES = (2, 5, 15)
"""The times that an operator can choose."""
LEAST_CYCLES, MOST_CYCLES = 3, 12
LEAST_STAND = 12
"""Samples at one place that a cycle needs at least."""
HOP_SAMPLES = 4
"""Measurements after each hop."""
# Fringes are not shorter than half a wavelength; a period needs a few samples.
_GAP = 0.1
_WALKING_SHARE = 0.6
_HOPPING_SHARE = 0.08
_MOST_HOPS = 12
_LEAST_HOPS = 2


@dataclass(frozen=True)
class Plan:
    """What is measured, and how long it takes at the pace of the config."""

    positions: NDArray[np.float64]
    """Where a walk measures, from the low end to the high end (wavelengths)."""
    places: tuple[float, ...]
    """Where each cycle hops and stands (wavelengths)."""
    pairs: int
    """Walks up and down per cycle."""
    hops: int
    """Hops per cycle."""
    cycle_s: float
    """How long one cycle lasts."""
    walk_s: float
    """How long one walk along the rail takes."""

    @property
    def cycles(self) -> int:
        return len(self.places)

    @property
    def duration_s(self) -> float:
        return self.cycles * self.cycle_s


def plan_for(config: Config, minutes: float) -> Plan:
    """The plan for a time; UsageError if it is too short on this rail with these slots."""
    physical = config.physical
    slot_s, length = physical.slot_duration_s, physical.region_length
    gap = min(_GAP, physical.rho_max * max(1, int(_GAP / physical.rho_max)))
    count = max(8, ceil(length / gap - 1e-9)) + 1
    positions = np.linspace(0.0, length, count)
    strokes = ceil((length / (count - 1)) / physical.rho_max - 1e-9)
    step_s = strokes * physical.actuation_time_s + config.slot_timing.measure_s
    step_s = slot_s * ceil(step_s / slot_s - 1e-9)
    walk_s = count * step_s
    hop_s = step_s + (HOP_SAMPLES - 1) * slot_s
    # From one end of the rail to the place, and back to the end.
    travel_s = length / physical.rho_max * physical.actuation_time_s
    least_s = 2 * walk_s + travel_s + _LEAST_HOPS * hop_s + LEAST_STAND * slot_s
    time_s = minutes * 60
    cycles = min(MOST_CYCLES, int(time_s / least_s))
    if cycles < LEAST_CYCLES:
        raise UsageError(
            f"--minutes {minutes:g} is too short: a walk up and down this rail takes "
            f"{2 * walk_s:.3g} s, and {LEAST_CYCLES} of them, with hops and standing still, take "
            f"{at_least(LEAST_CYCLES * least_s / 60, 2)} minutes",
            _longer(LEAST_CYCLES * least_s / 60),
        )
    cycle_s = time_s / cycles
    pairs = max(1, int(_WALKING_SHARE * cycle_s / (2 * walk_s)))
    hops = min(_MOST_HOPS, max(_LEAST_HOPS, int(_HOPPING_SHARE * cycle_s / hop_s)))
    places = tuple(length * (0.04 + 0.92 * _spread(cycle, cycles)) for cycle in range(cycles))
    return Plan(positions, places, pairs, hops, cycle_s, walk_s)


def _longer(minutes: float) -> str:
    enough = [choice for choice in MINUTES if choice >= minutes]
    if enough:
        return f"choose --minutes {enough[0]}"
    return "shorten physical.slot_duration_s or physical.region_length"


def _spread(cycle: int, cycles: int) -> float:
    """Places in an order that is even over the rail at any time: 0, 1/2, 1/4, 3/4, …"""
    order = sorted(range(cycles), key=_reversed_bits)
    return (order.index(cycle) + 0.5) / cycles


def _reversed_bits(number: int) -> int:
    return int(f"{number:08b}"[::-1], 2)
