"""The samples of a calibration, as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Integers = NDArray[np.int_]

WALK, HOP, STAND = 0, 1, 2
"""What the antenna did: a walk along the rail, a hop, standing still."""


@dataclass(frozen=True)
class Sample:
    """One valid measurement."""

    time_s: float
    """The middle of its interval, on the clock of the calibration."""
    slot: int
    """Its number; slots are T_s apart."""
    position: float
    """As the stage reported it (wavelengths)."""
    reward: float
    sigma: float
    """The uncertainty that the probe states; NaN if it states none."""
    above_floor: float
    """Distance from the noise floor, as in a `Measurement`."""
    clipped: float
    """The share of clipped samples; NaN if the probe does not know it."""
    part: int
    """WALK, HOP or STAND."""
    cycle: int
    group: int
    """The number of the walk, or of the hop; 0 for standing still."""
    index: int
    """The index of the position in the plan, or of the measurement after a hop."""
    direction: int
    """+1 if the antenna came from below, -1 from above, 0 if it did not move."""
    delay_s: float
    """From the arrival to the middle of the interval."""


@dataclass(frozen=True)
class Samples:
    """All valid measurements in the order of time, one array per field of `Sample`."""

    time_s: Floats
    slot: Integers
    position: Floats
    reward: Floats
    sigma: Floats
    above_floor: Floats
    clipped: Floats
    part: Integers
    cycle: Integers
    group: Integers
    index: Integers
    direction: Integers
    delay_s: Floats
    invalid: Mapping[str, int] = field(default_factory=dict)
    """How many measurements were invalid, by reason."""

    @classmethod
    def of(cls, samples: Sequence[Sample], invalid: Mapping[str, int]) -> Samples:
        columns: dict[str, Any] = {
            each.name: np.array([getattr(sample, each.name) for sample in samples])
            for each in fields(Sample)
        }
        return cls(**columns, invalid=dict(invalid))

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def cycles(self) -> list[int]:
        """The numbers of the cycles that have samples."""
        return [int(cycle) for cycle in np.unique(self.cycle)]

    def only(self, chosen: Bools) -> Samples:
        """Some of the samples."""
        columns: dict[str, Any] = {
            each.name: getattr(self, each.name)[chosen] for each in fields(Sample)
        }
        return Samples(**columns, invalid=self.invalid)

    def stand(self, cycle: int) -> Samples:
        """The samples at one place."""
        return self.only((self.part == STAND) & (self.cycle == cycle))

    def walks(self, cycle: int) -> list[Samples]:
        """The walks of a cycle, in the order of time."""
        walked = self.only((self.part == WALK) & (self.cycle == cycle))
        return [walked.only(walked.group == group) for group in np.unique(walked.group)]
