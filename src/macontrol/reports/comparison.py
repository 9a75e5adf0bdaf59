"""Runs side by side, and the difference of each one's reward from that of the first.

Two runs in the same simulated world are compared slot by slot: what the world does to both cancels,
and so does the noise. Other runs are compared by their means, and the difference of their worlds is
in the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot

import numpy as np
from numpy.typing import NDArray

from macontrol.config import differing_keys
from macontrol.reports.batches import METHOD, Mean, batch_mean
from macontrol.reports.recorded import Recorded
from macontrol.reports.world import World, sampled_map, world_of

Floats = NDArray[np.float64]

RULE = "A difference within two standard errors may be chance."
_PAIRED = "paired: the same simulated world, compared slot by slot over the {} common slots"
_UNPAIRED = "not paired, so the difference of the worlds is in it: {}"
_PROBED_SLOTS, _PROBED_POSITIONS = 50, 20
_SAME = 1e-9

HOW = f"{METHOD} Runs in the same simulated world are paired slot by slot. {RULE}"


@dataclass(frozen=True, eq=False)
class Entry:
    """One run of a comparison."""

    name: str
    recorded: Recorded
    world: World | str
    reward: Mean


@dataclass(frozen=True, eq=False)
class Difference:
    """How much more a run earned than the first one, in bit/s/Hz per slot."""

    run: str
    first: str
    paired: bool
    basis: str
    """How it was computed, or why it is not paired."""
    mean: Mean
    slots: NDArray[np.int64]
    series: Floats
    """The paired differences in these slots; empty if they are not paired."""
    settings: dict[str, tuple[object, object]]
    """The settings that differ, with their values in the first run and in this one."""

    @property
    def verdict(self) -> str:
        """What the difference means, in words."""
        value, error = self.mean.value, self.mean.error
        if error is None:
            return f"unknown: {self.mean.count} slots are too few for a standard error"
        if self.mean.is_level:
            return f"level: {value:+.4f} ± {error:.4f}. {RULE}"
        word = "higher" if value > 0 else "lower"
        text = f"{word} by {abs(value):.4f} ± {error:.4f} bit/s/Hz"
        if self.mean.correlated:
            text += "; the run is short compared with its slow changes, so the error is too small"
        return text


def entries_of(found: Sequence[Recorded]) -> list[Entry]:
    """The runs of a comparison, by the names of their files, or by their paths if names repeat."""
    names = [recorded.name for recorded in found]
    if len(set(names)) < len(names):
        names = [str(recorded.path) for recorded in found]
    return [_entry(name, recorded) for name, recorded in zip(names, found, strict=True)]


def _entry(name: str, recorded: Recorded) -> Entry:
    """A run with its mean reward and, if it is known, its world."""
    run = recorded.run
    world = world_of(recorded.config, run.backend, run.seed, run.slots)
    reward = run["reward"]
    return Entry(name, recorded, world, batch_mean(reward[np.isfinite(reward)]))


def differences(entries: Sequence[Entry]) -> list[Difference]:
    """Each run compared with the first one."""
    return [difference(entries[0], entry) for entry in entries[1:]]


def difference(first: Entry, other: Entry) -> Difference:
    """How much more `other` earned than `first`."""
    settings = differing_keys(first.recorded.config, other.recorded.config)
    if first.recorded.run.seed != other.recorded.run.seed:
        settings["run.seed"] = (first.recorded.run.seed, other.recorded.run.seed)
    why_not = _not_paired(first, other)
    slots, series = _paired(first, other)
    if not why_not and not len(series):
        why_not = "they have no slot in common with a reward in both"
    if why_not:
        a, b = first.reward, other.reward
        known = a.error is not None and b.error is not None
        error = hypot(a.error or 0.0, b.error or 0.0) if known else None
        count = min(a.count, b.count)
        mean = Mean(b.value - a.value, error, count, a.correlated or b.correlated)
        slots, series, basis = slots[:0], series[:0], _UNPAIRED.format(why_not)
    else:
        mean, basis = batch_mean(series), _PAIRED.format(len(series))
    return Difference(other.name, first.name, not why_not, basis, mean, slots, series, settings)


def _not_paired(first: Entry, other: Entry) -> str:
    """Why two runs cannot be paired; empty if they can."""
    for entry in (first, other):
        if isinstance(entry.world, str):
            return f"{entry.name}: {entry.world}"
    a, b = first.recorded, other.recorded
    if a.config.physical.slot_duration_s != b.config.physical.slot_duration_s:
        return "their slots have different lengths"
    last = min(a.facts.last_slot, b.facts.last_slot)
    slots = np.linspace(1, last, min(last, _PROBED_SLOTS)).astype(np.int64)
    length = min(a.config.physical.region_length, b.config.physical.region_length)
    positions = np.linspace(0.0, length, _PROBED_POSITIONS)
    # The link while it transmits: with as-needed actuation it transmits longer in the same world.
    maps = [
        sampled_map(one.config, one.run.seed, slots, positions)
        / one.config.physical.transmission_share
        for one in (a, b)
    ]
    if np.abs(maps[0] - maps[1]).max() > _SAME:
        return "they ran in different simulated worlds"
    return ""


def _paired(first: Entry, other: Entry) -> tuple[NDArray[np.int64], Floats]:
    """The slots with a reward in both runs, and the difference in each."""
    a, b = first.recorded.run, other.recorded.run
    slots, of_a, of_b = np.intersect1d(
        a["slot"], b["slot"], assume_unique=True, return_indices=True
    )
    series = b["reward"][of_b] - a["reward"][of_a]
    known = np.isfinite(series)
    return slots[known], series[known]
