"""Records of a run: one per slot, one per event; written outside the slot thread."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from macontrol.controller.recording.events import EventKind
from macontrol.hal.probe import UNKNOWN_SIGNAL, Signal

__all__ = [
    "Event",
    "EventKind",
    "Item",
    "LateReward",
    "Recorder",
    "Recorders",
    "ReferenceReading",
    "SlotRecord",
]


class SlotRecord(NamedTuple):
    """One slot. Positions in wavelengths, times in seconds.

    The fields up to `samples` are columns of the run file; see `runfile.schema` for their meaning.
    """

    slot: int
    start_s: float
    position: float
    commanded: float | None
    on_time: bool
    reward: float | None
    uncertainty: float | None
    invalid: str | None
    target: float
    next_position: float
    switched: bool
    transit: bool
    shortfall: float | None
    surface_movement: float | None
    wake_s: float
    actuate_s: float
    measure_s: float
    decide_s: float
    level_db: float | None = None
    level_unit: str | None = None
    noise_floor_db: float | None = None
    snr_db: float | None = None
    clipped_share: float | None = None
    samples: int | None = None
    transmission_share: float | None = None
    """1 − τ_t/T_s, by which the reward was multiplied."""
    origin: float | None = None
    """Where the stage was found at the start of the slot; None if its position was known."""
    homings: int = 0
    """How often the stage was homed since the previous record."""


class Event(NamedTuple):
    """Something that happened in or between slots."""

    slot: int
    time_s: float
    """On the monotonic clock."""
    kind: EventKind
    detail: str
    value: float | None = None
    """A number that depends on the kind: see `recording.events`."""


class LateReward(NamedTuple):
    """Completes the record of an earlier slot.

    It has a reward, or the reason why there is none: it never arrived, or was withdrawn.
    """

    slot: int
    reward: float | None
    uncertainty: float | None
    invalid: str | None = None
    withdrawn: float | None = None
    """The reward that the record had before and that does not count any more."""
    signal: Signal = UNKNOWN_SIGNAL
    """What is known of the signal; it replaces nothing by None."""


class ReferenceReading(NamedTuple):
    """Completes the record of a slot with what the reference receiver measured in it."""

    slot: int
    reference_db: float | None
    reference_unit: str | None
    reference_snr_db: float | None


Item: TypeAlias = SlotRecord | Event | LateReward | ReferenceReading


class Recorder:
    """Takes records. This one drops them; `RunFileRecorder` writes a file."""

    def submit(self, item: Item) -> None:
        """Take a record from the slot thread; must return at once."""


class Recorders(Recorder):
    """Pass every record to several recorders, in the order in which they were added."""

    def __init__(self, *recorders: Recorder) -> None:
        self._recorders = list(recorders)

    def add(self, recorder: Recorder) -> None:
        self._recorders.append(recorder)

    def submit(self, item: Item) -> None:
        for recorder in self._recorders:
            recorder.submit(item)
