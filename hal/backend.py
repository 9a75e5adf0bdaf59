"""A bench as the daemon sees it: a stage, a probe, and what is known of the world beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from macontrol.hal.probe import Probe
from macontrol.hal.stage import Stage


class Backend(Protocol):
    """One bench. Its name says which, as in "sim" or "/dev/ttyUSB0"."""

    @property
    def stage(self) -> Stage: ...
    @property
    def probe(self) -> Probe: ...

    @property
    def identity(self) -> Mapping[str, str]:
        """Get which bench this is, in named parts; two benches differ in at least one part."""
        ...

    def prior_survey(self, positions_mm: Sequence[float]) -> Sequence[float] | None:
        """Get the rewards at these positions (mm) as they are known before slot 1.

        None where nothing is known: then the rail has to be walked.
        """
        ...


def difference(before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """In which part a bench is another one than before, for a message; None if it is the same."""
    for part in sorted(before.keys() | now.keys()):
        if before.get(part) != now.get(part):
            return f"{part} was {before.get(part, 'unknown')} and is {now.get(part, 'unknown')}"
    return None
