"""The RF plan: carrier, converter and tuner must agree, or the radio listens beside the signal.

A converter moves the carrier to |carrier − LO|; without one the radio receives the carrier itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from macontrol.config.model.rounding import close_to
from macontrol.config.probe_settings import ProbeSettings

PLAN_KEYS = {
    ("physical", "carrier_frequency_hz"),
    ("probe", "tuner_frequency_hz"),
    ("probe", "sample_rate_hz"),
}
"""What a converter has to agree with."""
_RTL_SDR_HZ = 24e6, 1766e6
"""What the tuner of nearly all RTL-SDRs receives (R820T)."""


def has_radio(probe: ProbeSettings) -> bool:
    """Whether the config is of a bench with a radio: its RF plan is stated."""
    return probe.converter_lo_hz != "unknown"


def received_hz(carrier_hz: float, probe: ProbeSettings) -> float | None:
    """Where the radio finds the carrier; None if it is unknown what is between them."""
    lo_hz = probe.converter_lo_hz
    if lo_hz == "unknown":
        return None
    return carrier_hz if lo_hz == "none" else abs(carrier_hz - lo_hz)


def describe_plan(carrier_hz: float, probe: ProbeSettings) -> str:
    """The plan in one line."""
    carrier, lo_hz = mega(carrier_hz), probe.converter_lo_hz
    if isinstance(lo_hz, str):
        plan = f"{carrier} without a converter"
    else:
        plan = f"{carrier} less an LO of {mega(lo_hz)} is {mega(carrier_hz - lo_hz)}"
        if lo_hz > carrier_hz:
            plan = f"an LO of {mega(lo_hz)} less {carrier} is {mega(lo_hz - carrier_hz)}"
    return f"{plan}, tuner at {mega(probe.tuner_frequency_hz)}"


def plan_contradictions(carrier_hz: float, probe: ProbeSettings) -> Iterator[str]:
    """Why the tuner does not receive the carrier, and what would do; nothing if it does."""
    received = received_hz(carrier_hz, probe)
    if received is None:
        return
    centre_hz, half_hz = probe.tuner_frequency_hz, probe.sample_rate_hz / 2
    # Also of a tone: within the received band, oscillators may be off by more than its own band.
    if abs(received - centre_hz) <= half_hz:
        return
    # Off the signal's centre, as the receiver has a line of its own there.
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
    yield (
        f"probe.tuner_frequency_hz: the carrier is at {mega(carrier_hz)}, {how}, and with "
        f"the tuner at {mega(probe.tuner_frequency_hz)} the radio receives "
        f"{mega(centre_hz - half_hz)} to {mega(centre_hz + half_hz)}; {', or '.join(fixes)}{which}"
    )


def _may_tune(probe: ProbeSettings, hz: float) -> bool:
    """Whether a tuner frequency is worth suggesting: an RTL-SDR's range is known beforehand."""
    low_hz, high_hz = _RTL_SDR_HZ if probe.driver == "rtl_tcp" else (1, 2**32 - 2)
    return low_hz <= hz <= high_hz


def mega(hz: float) -> str:
    """A frequency in MHz, to the hertz."""
    return f"{hz / 1e6:.6f}".rstrip("0").rstrip(".") + " MHz"
