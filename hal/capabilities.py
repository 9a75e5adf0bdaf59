"""What a probe or a bench can do beyond the protocols `Probe` and `Backend`, as small protocols.

The runtime needs only `Probe`. The start of a bench, the doctor and the noise floor request check
with `isinstance` whether a probe has one of these capabilities, and need no concrete driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from macontrol.hal.noise_floor import NoiseFloor

if TYPE_CHECKING:  # the command line asks for capabilities without NumPy
    from numpy.typing import DTypeLike, NDArray


@runtime_checkable
class Openable(Protocol):
    """A probe that needs time to become ready, such as a radio."""

    @property
    def name(self) -> str:
        """Which device this is, for messages."""

    def open(self) -> None:
        """Connect and wait until measurements are possible; raise ProbeError or ConfigError.

        `close` ends it from another thread.
        """


@runtime_checkable
class TakesTime(Protocol):
    """A probe whose measurement takes a time of its own, such as a sweep of an instrument."""

    @property
    def identification(self) -> str:
        """What the instrument calls itself."""

    @property
    def measuring_time_s(self) -> float:
        """How long one measurement takes; NaN before the probe is open."""


@runtime_checkable
class HasNoiseFloor(Protocol):
    """A probe whose rewards are relative to a noise floor."""

    @property
    def noise_floor(self) -> NoiseFloor | None:
        """The noise floor in use; None if none was measured or configured."""

    def measure_noise_floor(self) -> NoiseFloor:
        """Measure with the transmitter off, and use the result.

        This takes seconds and must not run on the slot thread. On ProbeError the previous floor
        stays in use.
        """

    def use_noise_floor(self, floor: NoiseFloor) -> None:
        """Replace the noise floor in use by an earlier one."""


@runtime_checkable
class MeasuresFloor(Protocol):
    """A bench that switches its transmitter off while the noise floor is measured, if it can."""

    def silent_floor(self, probe: HasNoiseFloor, *, again: bool = False) -> NoiseFloor:
        """Measure the noise floor; `again`: that of the reference receiver too, if known before."""


@runtime_checkable
class HasGain(Protocol):
    """A probe whose gain can be changed while it measures, such as a radio's."""

    @property
    def gain_key(self) -> str:
        """The setting of the gain, as in probe.gain_db."""

    @property
    def gain_db(self) -> float:
        """The gain now."""

    @property
    def gains_db(self) -> Sequence[float]:
        """The gains that can be set; empty if this device has only one."""

    def set_gain(self, gain_db: float) -> None:
        """Change the gain, until the probe is closed. Samples of the former one still arrive."""


@dataclass(frozen=True, slots=True)
class ProbeHealth:
    """The state of a probe, for the doctor. A value the probe does not have is NaN or empty."""

    fault: str = ""
    """Why the probe cannot measure at present; empty if it can."""
    reopened: int = 0
    """How often the connection was restored."""
    valid: int = 0
    invalid: Mapping[str, int] = field(default_factory=dict)
    """Number of invalid measurements, by reason."""
    breaks: Mapping[str, int] = field(default_factory=dict)
    """Number of interruptions of a sample stream, by reason."""
    level_dbfs: float = nan
    clipped_share: float = nan
    lateness_s: float = nan
    """Time from the end of the latest valid window until its measurement was ready."""
    measured_rate_hz: float = nan


@runtime_checkable
class HasHealth(Protocol):
    """A probe that reports its state."""

    def health(self) -> ProbeHealth: ...


@dataclass(frozen=True, slots=True)
class SlotSamples:
    """The IQ samples from which the measurement of a slot was computed."""

    slot: int
    samples: NDArray[Any]
    """One row per sample with the columns I and Q, as the radio sent them."""
    first_s: float
    """When the first sample was taken, on the clock."""
    start_s: float
    """The interval that was measured, on the clock."""
    end_s: float
    power: float | None
    """What was measured; 1 is the full scale. None if the measurement is invalid."""
    reason: str
    """Why it is invalid."""


@runtime_checkable
class HasSamples(Protocol):
    """A probe that computes its measurements from IQ samples, and can give them to a recorder."""

    @property
    def name(self) -> str: ...
    @property
    def sample_rate_hz(self) -> float: ...
    @property
    def frequency_hz(self) -> float:
        """The frequency to which the radio is tuned."""
        ...

    @property
    def dtype(self) -> DTypeLike:
        """The type of I and Q."""
        ...

    def keep_samples(
        self, wants: Callable[[int], bool], take: Callable[[SlotSamples], None]
    ) -> None:
        """Give the samples of slots for which `wants` is true to `take`, in the probe's thread.

        `take` must return at once and raise nothing.
        """
        ...
