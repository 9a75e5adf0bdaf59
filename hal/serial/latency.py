"""How long a board takes to answer, measured until two batches of questions in a row agree.

A busy computer makes answers slow for a while, which is no property of the board. The medians of
two batches agree if they differ by at most a quarter, or a millisecond. After some batches without
agreement the measurement is not stable. The quickest answers are kept too: a busy computer delays
answers and never makes them quicker, so they show what the board itself needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median, median_low

_BATCHES = 8
_TOLERANCE = 0.25
_TOLERANCE_S = 1e-3

Parts = tuple[float, ...]
"""The times of one exchange (s): one for each of its questions, in the same order every time."""


@dataclass(frozen=True, slots=True)
class AnswerTimes:
    """What a stage's timed exchanges took."""

    samples: tuple[Parts, ...] = ()
    is_stable: bool = True

    @property
    def usual(self) -> Parts:
        """Get the median of each part."""
        return tuple(median(part) for part in zip(*self.samples, strict=True))

    @property
    def quickest(self) -> Parts:
        """Get the least of each part."""
        return tuple(min(part) for part in zip(*self.samples, strict=True))


def measure_until_stable(measure: Callable[[], Parts], per_batch: int) -> AnswerTimes:
    """Measure batch by batch until two in a row agree; all of them if none do."""
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
