"""What is kept of a run: one record a slot, one an event; written off the slot thread."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class SlotRecord(NamedTuple):
    """One slot as it went. Positions in wavelengths, times in seconds."""

    slot: int
    start_s: float
    """The slot's boundary s_t on the monotonic clock."""
    position: float
    """x_t, as the stage reported it."""
    commanded: float | None
    """Where the stage was sent in this slot; None if it was left standing."""
    on_time: bool
    """Whether the stage stood still by s_t + T_a."""
    reward: float | None
    """r_t, if it was there in time; a late one is told by an event and set afterwards."""
    uncertainty: float | None
    invalid: str | None
    """Why there is no reward, in a word."""
    target: float
    """z_t."""
    next_position: float
    """x_{t+1} as decided."""
    switched: bool
    transit: bool
    shortfall: float | None
    """max F_t − F_t(z_t)."""
    surface_movement: float | None
    """sup|F_t − F_{t−1}|."""
    wake_s: float
    """How late the loop woke up for the slot."""
    actuate_s: float
    """From the boundary until the stage's arrival was known."""
    measure_s: float
    """From the start of the transmission interval until the measurement was in, or given up."""
    decide_s: float
    """What observing and deciding took."""


class EventKind(StrEnum):
    """What can happen in a run besides slots."""

    START = "start"
    RESUME = "resume"
    COLD_START = "cold-start"
    SURVEY = "survey"
    APPROACH = "approach"
    LATE_ARRIVAL = "late-arrival"
    LATE_REWARD = "late-reward"
    LATE_DECISION = "late-decision"
    MISSED = "missed-slots"
    INVALID = "invalid-measurement"
    NO_SIGNAL = "no-signal"
    REFUSED = "refused-command"
    STAGE_FAULT = "stage-fault"
    PROBE_FAULT = "probe-fault"
    RECOVERY = "recovery"
    HOMING = "homing"
    NOISE_FLOOR = "noise-floor"
    POLICY = "policy"
    RECORDING = "recording"
    WARNING = "warning"
    INTERNAL = "internal-error"
    STOP = "stop"


class Event(NamedTuple):
    """Something worth knowing that happened in or between slots."""

    slot: int
    time_s: float
    """On the monotonic clock."""
    kind: EventKind
    detail: str
    value: float | None = None
    """A number that goes with it: how many slots were missed, the late reward …"""


class LateReward(NamedTuple):
    """What arrived after its slot's record and completes it.

    A reward, or why there is none: it never arrived, or was withdrawn.
    """

    slot: int
    reward: float | None
    uncertainty: float | None
    invalid: str | None = None


class Recorder:
    """Where records go. This one keeps nothing; see `runfile` for the one that writes a file."""

    def submit(self, item: SlotRecord | Event | LateReward) -> None:
        """Take a record from the slot thread; must return at once."""
