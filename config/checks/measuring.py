"""The part of a slot that is measured, and whether it is long enough.

The probe leaves its guards and its lead out of the measuring interval of the slot (`SlotTiming`),
and measures one second at most.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from macontrol.config.model.errors import Problem
from macontrol.config.model.rounding import at_least
from macontrol.config.model.slot_timing import shortest_slot_s
from macontrol.config.sections.probe import ProbeSettings
from macontrol.config.sections.sdr import LEAST_BAND_TIMES_WINDOW, LONGEST_WINDOW_S, SdrSettings

if TYPE_CHECKING:
    from macontrol.config.schema import Config

_LONGEST_LEAD_S = 1.0
# A suggested lead exceeds the longest delay seen by this.
_LEAD_ROOM_MS = 5
# A suggested slot leaves room for measurements that take longer than the one that was timed.
_SLOWER = 1.2
# A suggested slot has this factor of room for rounding errors.
_ROOM = 1 + 1e-6


def measured_s(config: Config) -> float:
    """How much of it is measured; nothing or less if the guards take it all."""
    left_s = config.slot_timing.measure_s - _left_out_s(config.probe)
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
        f"the measuring interval of a slot is {config.slot_timing.measure_s * 1e3:.3g} ms, or "
        f"{max(0.0, measured) * 1e3:.3g} ms without probe.guard_s and probe.lead_s; that is "
        f"{max(0, int(samples))} samples, and {probe.least_samples} are needed",
        f"set physical.slot_duration_s to at least {slot_s}, or lower probe.guard_s or "
        "probe.lead_s",
    )


def too_slow(config: Config, needed_s: float) -> Problem | None:
    """Why a measurement that takes this time does not fit into a slot; None if it does."""
    measured = measured_s(config)
    if needed_s <= measured:
        return None
    return Problem(
        "physical.slot_duration_s",
        f"a measurement takes {needed_s * 1e3:.3g} ms, and a slot has {measured * 1e3:.3g} ms for "
        "it",
        "set physical.slot_duration_s to at least "
        f"{slot_for(config, needed_s * _SLOWER)}, or make the measurement of the probe shorter",
    )


def _nothing_left(config: Config) -> Problem:
    return Problem(
        "probe.guard_s",
        f"the measuring interval of a slot is {config.slot_timing.measure_s * 1e3:.3g} ms, and "
        "probe.guard_s and probe.lead_s take all of it",
        f"set physical.slot_duration_s to at least {slot_for(config, config.probe.guard_s)}, or "
        "lower probe.guard_s or probe.lead_s",
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
    """What to set so that rewards arrive before the decision, given the longest delay seen."""
    probe = config.probe
    lead_s = ceil((delay_s - probe.guard_s) * 1e3 + _LEAD_ROOM_MS) / 1e3
    if lead_s > _LONGEST_LEAD_S:
        return "use a faster connection to the radio: no probe.lead_s is long enough for this delay"
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
    shortest_s, of_what = measured_s(config), "are measured per slot"
    is_floor = probe.noise_floor == "measure" and probe.noise_floor_s < shortest_s
    if is_floor:
        shortest_s, of_what = probe.noise_floor_s, "the noise floor is measured for"
    width_hz, needed_s = probe.tone_bandwidth_hz, LEAST_BAND_TIMES_WINDOW / probe.tone_bandwidth_hz
    if needed_s <= shortest_s:
        return None
    fixes, least_hz = [], at_least(LEAST_BAND_TIMES_WINDOW / shortest_s)
    if abs(probe.tone_offset_hz) + float(least_hz) / 2 <= probe.sample_rate_hz / 2:
        fixes.append(f"set probe.tone_bandwidth_hz to at least {least_hz}")
    if is_floor:
        fixes.append(f"set probe.noise_floor_s to at least {at_least(needed_s)}")
    elif needed_s <= LONGEST_WINDOW_S:
        fixes.append(f"set physical.slot_duration_s to at least {slot_for(config, needed_s)}")
    return Problem(
        "probe.tone_bandwidth_hz",
        f"{width_hz:g} Hz are too narrow for the {shortest_s:.3g} s that {of_what}: the noise "
        "floor and the slots would be measured in bands of different widths",
        f"{', or '.join(fixes) or 'move the tone nearer to the tuner'}",
    )
