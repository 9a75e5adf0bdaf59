"""A choice of slots, such as 100,200-210."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SlotChoice:
    """Ranges of slots, with both ends."""

    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def parse(cls, text: str) -> SlotChoice:
        """Read a list such as 100,200-210; ValueError if it is not one."""
        ranges = []
        for part in text.split(","):
            first, dash, last = part.strip().partition("-")
            low, high = int(first), int(last if dash else first)
            if not 1 <= low <= high:
                raise ValueError(f"{part} is not a slot or a range of slots")
            ranges.append((low, high))
        return cls(tuple(ranges))

    def __contains__(self, slot: int) -> bool:
        return any(low <= slot <= high for low, high in self.ranges)

    @property
    def count(self) -> int:
        """An upper bound of the number of slots: ranges may overlap."""
        return sum(high - low + 1 for low, high in self.ranges)
