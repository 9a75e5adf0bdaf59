"""The Probe protocol: measure the link over an interval of time.

A probe works in parallel to the slot loop. The loop requests an interval in advance and collects
finished measurements later. A late measurement still belongs to the slot in which it was taken. A
measurement has the value that the instrument gives: a signal-to-noise ratio, a power or a rate. The
runtime computes the reward from it. An invalid measurement has a reason and no value.

Nothing here depends on how a probe measures: with a software radio, a power meter, or a simulation.
What only some probes can do is in `hal.capabilities`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple, Protocol

from macontrol.config.model.reward import Value

# Reasons of a measurement without a reward. They are in run files, events and summaries.
NO_SIGNAL = "no-signal"
TONE_LOST = "tone-lost"
FLOOR_IS_MEASURED = "noise-floor"
NO_NOISE_FLOOR = "no-noise-floor"
CLIPPING = "clipping"
GAP = "gap"
OVERFLOW = "overflow"
SETTLING = "settling"
STALE = "stale"
SAMPLE_RATE = "sample-rate"
TOO_FEW_SAMPLES = "too-few-samples"
CONSTANT = "constant"
NOT_A_NUMBER = "not-a-number"

PROBE_REASONS = {
    NO_SIGNAL: "the power is at the noise floor: the transmitter is off",
    TONE_LOST: "the tone's band is at the noise floor, but another band has a new line",
    FLOOR_IS_MEASURED: "the noise floor was measured in this slot, on request; this is not a fault",
    NO_NOISE_FLOOR: "no noise floor is known yet",
    CLIPPING: "too many samples are clipped: the radio is overdriven",
    GAP: "samples are missing",
    OVERFLOW: "the driver of the radio dropped samples",
    SETTLING: "the radio was opened, or lost samples, too short a time before",
    STALE: "the samples did not arrive in time",
    SAMPLE_RATE: "samples are lost repeatedly, because the radio does not keep its sample rate",
    TOO_FEW_SAMPLES: "the interval is too short for a measurement",
    CONSTANT: "all samples are equal: the radio is stuck",
    NOT_A_NUMBER: "a sample is not a number, or too large",
}
"""The meaning of each reason; a probe of another distribution can have its own reasons.

The first two belong to a valid measurement that stays at the noise floor.
"""


class Signal(NamedTuple):
    """What a probe knows of the signal that it measured in a slot; None for what it does not know.

    The fields are columns of the run file. None of them changes the reward.
    """

    level_db: float | None = None
    """The received power, in `level_unit`."""
    level_unit: str | None = None
    """dBFS (0 is the full scale of a radio), dBm (a calibrated power) or dB (a ratio)."""
    noise_floor_db: float | None = None
    """The noise floor in use, in the same unit."""
    snr_db: float | None = None
    """The signal-to-noise ratio; if it is None, the runtime computes it from the value."""
    clipped_share: float | None = None
    """The share of the samples that were at the limit of the receiver."""
    samples: int | None = None
    """How many samples or readings were used."""


UNKNOWN_SIGNAL = Signal()


@dataclass(frozen=True, slots=True)
class Measurement:
    """The result for one slot."""

    slot: int
    value: Value | None
    """What was measured, with its uncertainty; None if the measurement is invalid."""
    reason: str = ""
    """Why the measurement is invalid, as one short noun.

    A valid measurement at the noise floor has a reason too: the fault it indicates if it persists.
    """
    above_floor: float = inf
    """Distance from the noise floor, in multiples of what noise alone can cause.

    Below 1 there is possibly no signal. It is inf for a probe without a noise floor.
    """
    hint: str = ""
    """What the operator can do about the reason."""
    signal: Signal = UNKNOWN_SIGNAL
    """What is known of the signal. An invalid measurement can have it too, as with clipping."""

    @property
    def valid(self) -> bool:
        return self.value is not None


class Probe(Protocol):
    """A source of measurements. Every method can raise ProbeError; none waits past its deadline."""

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        """Request the measurement of a slot, taken between two times on the clock.

        On ProbeError the request is not accepted and has no result. Results of earlier requests
        can still be collected.
        """

    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        """Return all finished measurements; wait for the latest request until the deadline."""

    def close(self) -> None:
        """Release the hardware; requests are refused afterwards. A second call has no effect."""
