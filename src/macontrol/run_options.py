"""The options of a run on the command line, besides its config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from macontrol.slot_choice import SlotChoice

LogFormat: TypeAlias = Literal["auto", "text", "json"]
LOG_FORMATS: tuple[LogFormat, ...] = get_args(LogFormat)


@dataclass(frozen=True)
class RunOptions:
    """The options of one run."""

    name: str
    """The bench's name; its runs are stored under it."""
    slots: int | None
    duration_s: float | None
    fast: bool
    """Whether to run on a virtual clock, as fast as possible."""
    run_file: Path | None
    regret: bool
    """Whether to compare the run with the oracle at its end."""
    faults: tuple[int, float] | None
    """The seed and the rate per slot of injected faults."""
    backend: str = "sim"
    resume: bool = False
    """Whether to continue the last run of this bench, if it is fresh."""
    cold: bool = False
    """Whether to walk the rail even if a fresh survey is stored."""
    yes: bool = False
    """Whether the stage may be homed without asking."""
    log: LogFormat = "auto"
    """How events are shown: as a live view, text or JSON lines; "auto" depends on the output."""
    traffic: Path | None = None
    """Where to write the traffic on the serial line."""
    origins: Mapping[str, str] | None = None
    """Where each value of the config was set, for the run file."""
    record_iq: SlotChoice | None = None
    """The slots whose IQ samples are recorded."""
