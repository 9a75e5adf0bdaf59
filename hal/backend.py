"""A bench as the daemon sees it: a stage, a probe, and what is known of the world beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from macontrol.hal.probe import Probe
from macontrol.hal.stage import Stage


class Backend(Protocol):
    """One bench. Its name says which, as in "sim" or "/dev/ttyUSB0"."""

    @property
    def stage(self) -> Stage: ...
    @property
    def probe(self) -> Probe: ...

    def prior_survey(self, positions_mm: Sequence[float]) -> Sequence[float] | None:
        """Get the rewards at these positions (mm) as they are known before slot 1.

        None where nothing is known: then the rail has to be walked.
        """
        ...
