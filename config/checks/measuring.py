"""What is measured of a slot, and why that may be too little.

A slot's interval begins after T_a and the guard interval and ends when the decision is due. The
probe leaves its own guards and its lead out of it, and measures one second at most.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from macontrol.config.checks.problem import Problem
from macontrol.config.model.rounding import at_least
from macontrol.config.sections.probe import ProbeSettings
from macontrol.config.sections.sdr import LEAST_BAND_TIMES_WINDOW, LONGEST_WINDOW_S, SdrSettings

if TYPE_CHECKING:
    from macontrol.config.schema import Config

_LONGEST_LEAD_S = 1.0
# A lead is suggested with this much more than the longest delay seen.
_LEAD_ROOM_MS = 5
# A slot is suggested with this much room for the rounding of sums.
_ROOM = 1 + 1e-6


def interval_s(config: Config) -> float:
    """How long the link may be measured in a slot."""
    kept_free = config.timing.guard_share + config.timing.decision_share
    physical = config.physical
    return physical.slot_duration_s * (1 - kept_free) - physical.actuation_time_s


def measured_s(config: Config) -> float:
    """How much of it is measured; nothing or less if the guards take it all."""
    left_s = interval_s(config) - _left_out_s(config.probe)
    return min(left_s, LONGEST_WINDOW_S) if isinstance(config.probe, SdrSettings) else left_s


def shortcoming(config: Config) -> Problem | None:
    """Why a slot is too short to be measured; None if it is not."""
    probe, measured = config.probe, measured_s(config)
    if not isinstance(probe, SdrSettings):
        return None if measured > 0 else _nothing_left(config)
    samples = measured * probe.sample_rate_hz
    if samples >= probe.least_samples:
        return _too_narrow(config, probe) if probe.mode == "tone" else None
    slot_s = slot_for(config, probe.least_samples / probe.sample_rate_hz)
    return Problem(
        "probe.least_samples",
        f"a slot leaves {interval_s(config) * 1e3:.3g} ms to measure in, less probe.guard_s and "
        f"probe.lead_s {max(0.0, measured) * 1e3:.3g} ms; that holds {max(0, int(samples))} "
        f"samples, and {probe.least_samples} are needed",
        f"set physical.slot_duration_s to at least {slot_s}, or lower probe.guard_s or "
        "probe.lead_s",
    )


def _nothing_left(config: Config) -> Problem:
    return Problem(
        "probe.guard_s",
        f"a slot leaves {interval_s(config) * 1e3:.3g} ms to measure in, and probe.guard_s and "
        "probe.lead_s take all of it",
        f"set physical.slot_duration_s to at least {slot_for(config, config.probe.guard_s)}, or "
        "lower probe.guard_s or probe.lead_s",
    )


def slot_for(config: Config, window_s: float) -> str:
    """The shortest slot that leaves this window to measure, rounded so that it is accepted."""
    kept_free = config.timing.guard_share + config.timing.decision_share
    busy_s = config.physical.actuation_time_s + _left_out_s(config.probe) + window_s
    return at_least(busy_s / (1 - kept_free) * _ROOM, 4)


def lead_fix(config: Config, delay_s: float) -> str:
    """What to set so that rewards arrive before the decision, given the longest delay seen."""
    probe = config.probe
    lead_s = ceil((delay_s - probe.guard_s) * 1e3 + _LEAD_ROOM_MS) / 1e3
    if lead_s > _LONGEST_LEAD_S:
        return "bring the radio's server nearer: no probe.lead_s makes up for that"
    fix = f"set probe.lead_s to {lead_s:g}"
    led = config.model_copy(update={"probe": probe.model_copy(update={"lead_s": lead_s})})
    if shortcoming(led) is not None:
        fix += f" and physical.slot_duration_s to at least {slot_for(led, _needed_s(probe))}"
    return fix


def _needed_s(probe: ProbeSettings) -> float:
    """The shortest window that can be measured."""
    if not isinstance(probe, SdrSettings):
        return probe.guard_s
    window_s = probe.least_samples / probe.sample_rate_hz
    if probe.mode == "tone":
        window_s = max(window_s, LEAST_BAND_TIMES_WINDOW / probe.tone_bandwidth_hz)
    return window_s


def _left_out_s(probe: ProbeSettings) -> float:
    return 2 * probe.guard_s + probe.lead_s


def _too_narrow(config: Config, probe: SdrSettings) -> Problem | None:
    """Why the windows are too short for the tone's bandwidth; None if they are not."""
    windows = {"are measured of a slot": measured_s(config)}
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
    return Problem(
        "probe.tone_bandwidth_hz",
        f"{width_hz:g} Hz are too narrow for the {shortest_s:.3g} s that {of_what}: the noise "
        "floor and the slots would be measured in bands of different widths",
        f"{', or '.join(fixes) or 'move the tone nearer to the tuner'}",
    )
