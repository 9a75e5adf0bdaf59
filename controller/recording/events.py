"""The table of event kinds and of the reasons why a slot has no reward, with their meaning.

The names are in run files, logs and summaries. Code uses the names, documentation and
`macontrol runs --schema` print the table.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from macontrol.hal.probe import PROBE_REASONS


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


class EventMeaning(NamedTuple):
    """What an event of a kind says."""

    meaning: str
    value: str = ""
    """What the event's number is, with its unit; empty if it has none."""


EVENTS: dict[EventKind, EventMeaning] = {
    EventKind.START: EventMeaning("the first slot of the run begins"),
    EventKind.RESUME: EventMeaning("the run continues with the window of an earlier run"),
    EventKind.COLD_START: EventMeaning("no earlier run is continued, although that was requested"),
    EventKind.SURVEY: EventMeaning("the run starts from a survey", "sigma_f"),
    EventKind.APPROACH: EventMeaning(
        "the stage moves to the start position", "start position in wavelengths"
    ),
    EventKind.LATE_ARRIVAL: EventMeaning(
        "the stage was not in position by T_a; the slot has no reward", "delay in s"
    ),
    EventKind.LATE_REWARD: EventMeaning(
        "a reward arrived after its slot; it counts for its own slot", "delay in slots"
    ),
    EventKind.LATE_DECISION: EventMeaning("the decision came after the slot's end", "delay in s"),
    EventKind.MISSED: EventMeaning("slots began while the loop was busy", "number of slots"),
    EventKind.INVALID: EventMeaning("a measurement is invalid; the detail is its reason"),
    EventKind.NO_SIGNAL: EventMeaning("the signal is lost", "slots in a row at the noise floor"),
    EventKind.REFUSED: EventMeaning(
        "the guard refused a command; the antenna holds", "position in wavelengths"
    ),
    EventKind.STAGE_FAULT: EventMeaning("the stage failed"),
    EventKind.PROBE_FAULT: EventMeaning("the probe failed"),
    EventKind.RECOVERY: EventMeaning("a device or the signal works again", "outage in s"),
    EventKind.HOMING: EventMeaning("the stage was homed again on schedule", "duration in s"),
    EventKind.NOISE_FLOOR: EventMeaning(
        "the noise floor in use, or the result of a request", "noise floor in dBFS"
    ),
    EventKind.POLICY: EventMeaning("the policy of the run"),
    EventKind.RECORDING: EventMeaning("recording stopped, continues, or lost records"),
    EventKind.WARNING: EventMeaning("a condition that the operator should know"),
    EventKind.INTERNAL: EventMeaning("a bug in macontrol, with its traceback"),
    EventKind.STOP: EventMeaning("the run ended; the detail says why"),
}


class InvalidReason(StrEnum):
    """Why the controller has no reward for a slot; a probe has reasons of its own."""

    LATE_ARRIVAL = "late-arrival"
    STILL_MOVING = "still-moving"
    STAGE_FAULT = "stage-fault"
    OFF_RAIL = "off-rail"
    PROBE_FAULT = "probe-fault"
    NOT_READY = "not-ready"
    NEVER_ARRIVED = "never-arrived"
    OUT_OF_RANGE = "out-of-range"
    INVALID = "invalid"


REASONS: dict[str, str] = {
    InvalidReason.LATE_ARRIVAL: "the stage was not in position by T_a",
    InvalidReason.STILL_MOVING: "the stage was still moving from an earlier slot",
    InvalidReason.STAGE_FAULT: "the stage failed",
    InvalidReason.OFF_RAIL: "the stage reported a position off the rail",
    InvalidReason.PROBE_FAULT: "the probe failed",
    InvalidReason.NOT_READY: "the measurement was not ready at the decision; it can arrive late",
    InvalidReason.NEVER_ARRIVED: "the measurement did not arrive within the window",
    InvalidReason.OUT_OF_RANGE: "the reward is larger than any link can give",
    InvalidReason.INVALID: "the probe gave no reason",
    **PROBE_REASONS,
}
"""Every reason in the column `invalid` and its meaning; a probe of a plug-in can add its own."""


def event_rows() -> list[tuple[str, str, str]]:
    """The event table: kind, meaning, and what its value is."""
    return [(str(kind), event.meaning, event.value) for kind, event in EVENTS.items()]


def reason_rows() -> list[tuple[str, str]]:
    """The table of reasons without a reward: name and meaning."""
    return [(str(name), meaning) for name, meaning in REASONS.items()]
