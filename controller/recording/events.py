"""The table of event kinds and of the reasons why a slot has no reward, with their meaning.

The names are in run files, logs and summaries. Code uses the names, documentation and
`macontrol runs --schema` print the table.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from macontrol.hal.probe import PROBE_REASONS


class _Name(StrEnum):
    """A name with its meaning, and what the number of such an event is, with its unit."""

    meaning: str
    number: str

    def __new__(cls, name: str, meaning: str = "", number: str = "") -> Self:
        self = str.__new__(cls, name)
        self._value_ = name
        self.meaning, self.number = meaning, number
        return self


class EventKind(_Name):
    """What can happen in a run besides slots."""

    START = "start", "the first slot of the run begins"
    RESUME = "resume", "the run continues with the window of an earlier run"
    COLD_START = "cold-start", "no earlier run is continued, although that was requested"
    SURVEY = "survey", "the policy starts from a survey", "sigma_f"
    APPROACH = "approach", "the stage moves to the start position", "start position in wavelengths"
    LATE_ARRIVAL = (
        "late-arrival",
        "the stage was not in position by T_a; the slot has no reward",
        "delay in s",
    )
    LATE_REWARD = (
        "late-reward",
        "a reward arrived after its slot; it counts for its own slot",
        "delay in slots",
    )
    LATE_DECISION = "late-decision", "the decision came after the slot's end", "delay in s"
    MISSED = "missed-slots", "slots began while the loop was busy", "number of slots"
    INVALID = "invalid-measurement", "a measurement is invalid; the detail is its reason"
    NO_SIGNAL = "no-signal", "the signal is lost", "slots in a row at the noise floor"
    REFUSED = (
        "refused-command",
        "the guard refused a command; the antenna holds",
        "position in wavelengths",
    )
    STAGE_FAULT = "stage-fault", "the stage failed"
    PROBE_FAULT = "probe-fault", "the probe failed"
    POLICY_FAULT = "policy-fault", "the policy failed; the antenna holds"
    RECOVERY = "recovery", "a device, the signal or the policy works again", "outage in s"
    HOMING = "homing", "the stage was homed again on schedule", "duration in s"
    NOISE_FLOOR = (
        "noise-floor",
        "the noise floor in use, or the result of a request",
        "noise floor in dBFS",
    )
    REFERENCE = (
        "reference",
        "the reference receiver failed, works again, or has a noise floor; the run continues",
        "outage in s, or noise floor in dBFS",
    )
    POLICY = "policy", "the policy of the run"
    ACTION = (
        "action",
        "an operator's action through the control socket; the detail says who",
        "position in wavelengths, or the new value",
    )
    CONTROL = "control", "the control socket failed; the run continues"
    RECORDING = "recording", "recording stopped, continues, or lost records"
    REMOVED_RUN = (
        "removed-run",
        "an earlier run was removed, because the config does not keep it",
        "size in MB",
    )
    WARNING = "warning", "a condition that the operator should know"
    INTERNAL = "internal-error", "a bug in macontrol, with its traceback"
    STOP = "stop", "the run ended; the detail says why"


class InvalidReason(_Name):
    """Why the controller has no reward for a slot; a probe has reasons of its own."""

    LATE_ARRIVAL = "late-arrival", "the stage was not in position by T_a"
    STILL_MOVING = "still-moving", "the stage was still moving from an earlier slot"
    STAGE_FAULT = "stage-fault", "the stage failed"
    OFF_RAIL = "off-rail", "the stage reported a position off the rail"
    PROBE_FAULT = "probe-fault", "the probe failed"
    NOT_READY = "not-ready", "the measurement was not ready at the decision; it can arrive late"
    NEVER_ARRIVED = "never-arrived", "the measurement did not arrive within the window"
    OUT_OF_RANGE = "out-of-range", "the reward is larger than any link can give"
    TRANSMITTER_OFF = (
        "transmitter-off",
        "the run had switched the transmitter off, to measure the noise floor; this is not a fault",
    )
    INVALID = "invalid", "the probe gave no reason"


REASONS: dict[str, str] = {
    **{reason: reason.meaning for reason in InvalidReason},
    **PROBE_REASONS,
}
"""Every reason in the column `invalid` and its meaning; a probe of a plug-in can add its own."""


def event_rows() -> list[tuple[str, str, str]]:
    """The event table: kind, meaning, and what its value is."""
    return [(str(kind), kind.meaning, kind.number) for kind in EventKind]


def reason_rows() -> list[tuple[str, str]]:
    """The table of reasons without a reward: name and meaning."""
    return [(str(name), meaning) for name, meaning in REASONS.items()]
