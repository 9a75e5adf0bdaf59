"""What the command line asks of a run besides its config."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from macontrol.display.log_format import LogFormat


@dataclass(frozen=True)
class RunOptions:
    """The options of one run."""

    name: str
    slots: int | None
    duration_s: float | None
    fast: bool
    run_file: Path | None
    regret: bool
    faults: tuple[int, float] | None
    backend: str = "sim"
    resume: bool = False
    """Whether to continue the last run of this bench, if it is fresh."""
    cold: bool = False
    """Whether to walk the rail even if a fresh survey is kept."""
    yes: bool = False
    """Whether the stage may be homed without asking."""
    log: LogFormat = "auto"
    """How events are shown: a live view or text for a person, JSON for journald, or as named."""
    traffic: Path | None = None
    """Where to write what goes over the serial line."""
