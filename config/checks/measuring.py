"""The part of a slot that is measured, and whether it is long enough.

The probe leaves its guards and its lead out of the measuring interval of the slot (`SlotTiming`),
and measures one second at most.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from macontrol.config.model.rounding import at_least
from macontrol.config.model.slot_timing import shortest_slot_s
from macontrol.config.probe_settings import (
    LEAST_BAND_TIMES_WINDOW,
    LONGEST_WINDOW_S,
    ProbeSettings,
)

if TYPE_CHECKING:
    from macontrol.config.schema import Config

_LONGEST_LEAD_S = 1.0
# A suggested lead exceeds the longest delay seen by this.
_LEAD_ROOM_MS = 5
# A suggested slot has this factor of room for rounding errors.
_ROOM = 1 + 1e-6


def measured_s(config: Config) -> float:
    """The measured part of a slot; not above 0 if the guards and the lead leave no time."""
    return min(config.slot_timing.measure_s - _left_out_s(config.probe), LONGEST_WINDOW_S)


def shortcoming(config: Config) -> str | None:
    """Why a slot is too short to be measured, as `key: reason; fix`; None if it is long enough."""
    probe, measured = config.probe, measured_s(config)
    samples = measured * probe.sample_rate_hz
    if samples >= probe.least_samples:
        return _too_narrow(config) if probe.mode == "tone" else None
    slot_s = slot_for(config, probe.least_samples / probe.sample_rate_hz)
    interval_ms, measured_ms = config.slot_timing.measure_s * 1e3, max(0.0, measured) * 1e3
    return (
        f"probe.least_samples: the measuring interval of a slot is {interval_ms:.3g} ms, or "
        f"{measured_ms:.3g} ms without probe.guard_s and probe.lead_s; that is "
        f"{max(0, int(samples))} samples, and {probe.least_samples} are needed; set "
        f"physical.slot_duration_s to at least {slot_s}, or lower probe.guard_s or probe.lead_s"
    )


def slot_for(config: Config, window_s: float) -> str:
    """The shortest slot with this time to measure, rounded up so that the config accepts it."""
    timing = config.timing
    slot_s = shortest_slot_s(
        config.physical.actuation_time_s + _left_out_s(config.probe) + window_s,
        guard_share=timing.guard_share,
        decision_share=timing.decision_share,
    )
    return at_least(slot_s * _ROOM, 4)


def lead_fix(config: Config, delay_s: float) -> str:
    """The settings with which rewards arrive before the decision, for the longest delay seen."""
    probe = config.probe
    lead_s = ceil((delay_s - probe.guard_s) * 1e3 + _LEAD_ROOM_MS) / 1e3
    if lead_s > _LONGEST_LEAD_S:
        return "use a faster connection to the radio: no probe.lead_s is long enough for this delay"
    fix = f"set probe.lead_s to {lead_s:g}"
    led = config.model_copy(update={"probe": probe.model_copy(update={"lead_s": lead_s})})
    if shortcoming(led) is not None:
        window_s = probe.least_samples / probe.sample_rate_hz
        if probe.mode == "tone":
            window_s = max(window_s, LEAST_BAND_TIMES_WINDOW / probe.tone_bandwidth_hz)
        fix += f" and physical.slot_duration_s to at least {slot_for(led, window_s)}"
    return fix


def _left_out_s(probe: ProbeSettings) -> float:
    return 2 * probe.guard_s + probe.lead_s


def _too_narrow(config: Config) -> str | None:
    """Why a window is too short for the tone's bandwidth; None if all are long enough."""
    probe = config.probe
    windows = {"are measured per slot": measured_s(config)}
    if probe.noise_floor == "measure":
        windows["the noise floor is measured for"] = probe.noise_floor_s
    of_what, shortest_s = min(windows.items(), key=lambda each: each[1])
    width_hz, needed_s = probe.tone_bandwidth_hz, LEAST_BAND_TIMES_WINDOW / probe.tone_bandwidth_hz
    if needed_s <= shortest_s:
        return None
    fixes, least_hz = [], at_least(LEAST_BAND_TIMES_WINDOW / shortest_s)
    if abs(probe.tone_offset_hz) + float(least_hz) / 2 <= probe.sample_rate_hz / 2:
        fixes.append(f"set probe.tone_bandwidth_hz to at least {least_hz}")
    if of_what.startswith("the noise floor"):
        fixes.append(f"set probe.noise_floor_s to at least {at_least(needed_s)}")
    elif needed_s <= LONGEST_WINDOW_S:
        fixes.append(f"set physical.slot_duration_s to at least {slot_for(config, needed_s)}")
    return (
        f"probe.tone_bandwidth_hz: {width_hz:g} Hz are too narrow for the {shortest_s:.3g} s that "
        f"{of_what}: the noise floor and the slots would be measured in bands of different "
        f"widths; {', or '.join(fixes) or 'move the tone nearer to the tuner'}"
    )
