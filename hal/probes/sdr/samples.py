"""Storage of the latest samples of a stream in bounded memory."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Samples: TypeAlias = npt.NDArray[Any]
"""One row per sample with the columns I and Q: unsigned bytes or floats."""


class SampleStore:
    """A circular buffer. Samples are numbered from 0 since the last `clear`."""

    def __init__(self, capacity: int, dtype: npt.DTypeLike) -> None:
        self._rows = np.zeros((max(1, capacity), 2), dtype)
        self.count = 0
        """Number of samples since the last `clear`, overwritten ones included."""

    @property
    def capacity(self) -> int:
        return len(self._rows)

    @property
    def oldest(self) -> int:
        """The lowest number that is not overwritten; below 0 while the buffer is not full."""
        return self.count - len(self._rows)

    def clear(self) -> None:
        self.count = 0

    def append(self, block: Samples) -> None:
        size = len(self._rows)
        end = self.count + len(block)
        kept = block[-size:]
        at = (end - len(kept)) % size
        head = min(len(kept), size - at)
        self._rows[at : at + head] = kept[:head]
        self._rows[: len(kept) - head] = kept[head:]
        self.count = end

    def copy(self, first: int, last: int) -> Samples:
        """Return the samples with first ≤ number < last."""
        size = len(self._rows)
        at, count = first % size, last - first
        if at + count <= size:
            return self._rows[at : at + count].copy()
        return np.concatenate([self._rows[at:], self._rows[: at + count - size]])
