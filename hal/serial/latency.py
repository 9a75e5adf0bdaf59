"""The time a board takes to answer, measured until two consecutive batches of questions agree.

A busy computer slows answers down for a while, which is not a property of the board. The medians of
two batches agree if they differ by at most a quarter, or a millisecond. After some batches without
agreement the measurement is not stable. The quickest answers are kept as well: a busy computer only
delays answers, so the quickest ones show what the board itself needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median, median_low

_BATCHES = 8
_TOLERANCE = 0.25
_TOLERANCE_S = 1e-3

Parts = tuple[float, ...]
"""The times (s) of one exchange: one per question, always in the same order."""


@dataclass(frozen=True, slots=True)
class AnswerTimes:
    """The times of all timed exchanges with a board."""

    samples: tuple[Parts, ...] = ()
    is_stable: bool = True

    @property
    def usual(self) -> Parts:
        """The median of each part."""
        return tuple(median(part) for part in zip(*self.samples, strict=True))

    @property
    def quickest(self) -> Parts:
        """The minimum of each part."""
        return tuple(min(part) for part in zip(*self.samples, strict=True))


def measure_until_stable(measure: Callable[[], Parts], per_batch: int) -> AnswerTimes:
    """Measure until two consecutive batches agree; return all batches if none do."""
    batches: list[list[Parts]] = []
    while len(batches) < _BATCHES:
        batches.append([measure() for _ in range(per_batch)])
        if len(batches) > 1 and _agree(*(sum(_medians(batch)) for batch in batches[-2:])):
            return AnswerTimes((*batches[-2], *batches[-1]))
    return AnswerTimes(tuple(sample for batch in batches for sample in batch), is_stable=False)


def _medians(batch: Sequence[Parts]) -> Iterator[float]:
    return (median_low(part) for part in zip(*batch, strict=True))


def _agree(one_s: float, other_s: float) -> bool:
    return abs(one_s - other_s) <= max(_TOLERANCE_S, _TOLERANCE * min(one_s, other_s))
