"""The Backend protocol: a bench as the daemon uses it, with a stage and a probe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from macontrol.hal.probe import Probe
from macontrol.hal.stage import Stage


class Backend(Protocol):
    """One bench."""

    @property
    def stage(self) -> Stage: ...
    @property
    def probe(self) -> Probe: ...

    @property
    def identity(self) -> Mapping[str, str]:
        """Identify the bench by named parts; two benches differ in at least one part."""

    def prior_survey(self, positions_mm: Sequence[float]) -> Sequence[float] | None:
        """Return the rewards at these positions (mm) as known before slot 1.

        None if they are unknown. Then the rail must be surveyed.
        """


def difference(before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """Describe the first part in which two identities differ; None if they are equal."""
    for part in sorted(before.keys() | now.keys()):
        if before.get(part) != now.get(part):
            return f"{part} was {before.get(part, 'unknown')} and is {now.get(part, 'unknown')}"
    return None
