"""The RF plan: carrier, converter and tuner must agree, or the radio listens beside the signal.

A converter moves the carrier to |carrier − LO|; without one the radio receives the carrier itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeGuard

from macontrol.config.model.errors import ConfigError, Problem
from macontrol.config.model.rounding import close_to
from macontrol.config.sections.probe import ProbeSettings
from macontrol.config.sections.sdr import SdrSettings

PLAN_KEYS = {
    "physical.carrier_frequency_hz",
    "probe.tuner_frequency_hz",
    "probe.sample_rate_hz",
}
"""What a converter has to agree with."""


def is_planned(probe: ProbeSettings) -> TypeGuard[SdrSettings]:
    """Whether the probe is a radio with a known RF plan."""
    return isinstance(probe, SdrSettings) and probe.converter_lo_hz != "unknown"


def received_hz(carrier_hz: float, probe: ProbeSettings) -> float | None:
    """Where the radio finds the carrier; None if it is unknown what is between them."""
    if not isinstance(probe, SdrSettings) or probe.converter_lo_hz == "unknown":
        return None
    lo_hz = probe.converter_lo_hz
    return carrier_hz if lo_hz == "none" else abs(carrier_hz - lo_hz)


def describe_plan(carrier_hz: float, probe: SdrSettings) -> str:
    """The plan in one line."""
    carrier, lo_hz = mega(carrier_hz), probe.converter_lo_hz
    if isinstance(lo_hz, str):
        plan = f"{carrier} without a converter"
    else:
        plan = f"{carrier} less an LO of {mega(lo_hz)} is {mega(carrier_hz - lo_hz)}"
        if lo_hz > carrier_hz:
            plan = f"an LO of {mega(lo_hz)} less {carrier} is {mega(lo_hz - carrier_hz)}"
    return f"{plan}, tuner at {mega(probe.tuner_frequency_hz)}"


def plan_contradictions(carrier_hz: float, probe: ProbeSettings) -> Iterator[Problem]:
    """Why the tuner does not receive the carrier, and the fix; nothing if it does."""
    received = received_hz(carrier_hz, probe)
    if received is None or not isinstance(probe, SdrSettings):
        return
    centre_hz, half_hz = probe.tuner_frequency_hz, probe.sample_rate_hz / 2
    # For a tone too: oscillators may be off by more than the tone's own band.
    if abs(received - centre_hz) <= half_hz:
        return
    # Beside the centre of the signal, as the receiver has a line of its own there.
    aside_hz = probe.tone_offset_hz if probe.mode == "tone" else probe.sample_rate_hz / 8
    how = (
        "no converter moves it"
        if isinstance(probe.converter_lo_hz, str)
        else f"a converter's LO of {mega(probe.converter_lo_hz)} moves it to {mega(received)}"
    )
    fixes = []
    if _may_tune(probe, tuner_hz := received - aside_hz):
        fixes.append(f"set probe.tuner_frequency_hz to {close_to(tuner_hz)}")
    wanted_hz = centre_hz + aside_hz
    if abs(carrier_hz - centre_hz) <= half_hz:
        fixes.append('set probe.converter_lo_hz to "none"')
    elif not fixes or _may_tune(probe, centre_hz):
        lo_hz = carrier_hz - wanted_hz if carrier_hz > wanted_hz else carrier_hz + wanted_hz
        fixes.append(f"set probe.converter_lo_hz to {close_to(lo_hz)}")
    which = ", whichever is wrong" if len(fixes) > 1 else ""
    yield Problem(
        "probe.tuner_frequency_hz",
        f"the carrier is at {mega(carrier_hz)}, {how}, and with the tuner at "
        f"{mega(probe.tuner_frequency_hz)} the radio receives {mega(centre_hz - half_hz)} to "
        f"{mega(centre_hz + half_hz)}",
        f"{', or '.join(fixes)}{which}",
    )


def _may_tune(probe: SdrSettings, hz: float) -> bool:
    """Whether a tuner frequency is worth suggesting."""
    low_hz, high_hz = probe.usual_range_hz
    return low_hz <= hz <= high_hz


def refuse_beyond(tuner_hz: float, ranges_hz: Sequence[tuple[float, float]], tuner: str) -> None:
    """Raise ConfigError for a frequency outside all ranges; an empty list means unknown ranges."""
    if not ranges_hz or any(low <= tuner_hz <= high for low, high in ranges_hz):
        return
    received = " and ".join(f"{mega(low)} to {mega(high)}" for low, high in ranges_hz)
    raise ConfigError(
        f"probe.tuner_frequency_hz: {mega(tuner_hz)} is outside the range of the radio: its "
        f"{tuner} receives {received}",
        "tune to a frequency in that range, with a converter between antenna and radio "
        "(probe.converter_lo_hz) if the carrier is outside it, or use another radio",
    )


def mega(hz: float) -> str:
    """A frequency in MHz, to the hertz."""
    return f"{hz / 1e6:.6f}".rstrip("0").rstrip(".") + " MHz"
