"""The reward map of a file: of a run, simulated or real, or of a repeated survey of a site."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np

from macontrol import __version__
from macontrol.config import Config
from macontrol.config.files.input_file import check_input
from macontrol.config.model.errors import DataError
from macontrol.controller.recording.runfile import OpenRun
from macontrol.controller.survey.file import read_walks
from macontrol.sim.research import site
from macontrol.sim.world.rewardmap import Floats, RewardMap, simulate_map

SIMULATED_BACKEND = "sim"
LATEST_S = 1e9
"""A boot lasts less long, in seconds."""


@dataclass(frozen=True)
class RecordedMap:
    """A map, the config of its run or survey, and what made it."""

    world: RewardMap
    config: Config
    seed: int | None
    """The seed of a simulated world."""
    origin: Mapping[str, Any] | None
    """What a real site was measured by."""

    def save(self, path: Path | str) -> None:
        self.world.save(path, seed=self.seed, config=self.config, origin=self.origin)


def is_survey(path: Path) -> bool:
    """Whether a file is an archive, as a survey is, and not a run file."""
    check_input(path)
    return is_zipfile(path)


def recorded_map(path: Path | str, slots: int | None = None) -> RecordedMap:
    """The map of a run file or a survey file; only its first `slots` slots, if given."""
    path = Path(path)
    if is_survey(path):
        return _map_of_survey(path, slots)
    with OpenRun(path) as run:
        return map_of_run(run, slots)


def map_of_run(run: OpenRun, slots: int | None = None) -> RecordedMap:
    """The map of a run, known everywhere if the run was on the simulated bench."""
    if run.count == 0:
        raise DataError(f"{run.path}: contains no slot yet")
    if run.first_slot < 1:
        raise DataError(f"{run.path}: is damaged: it begins at slot {run.first_slot}")
    config = run.header.config
    if run.header.backend == SIMULATED_BACKEND:
        return RecordedMap(_simulated(run, config, slots), config, run.header.seed, None)
    return RecordedMap(measured_map(run, config, slots), config, None, _origin("run"))


def _origin(measured_by: str, **facts: float) -> dict[str, Any]:
    versions = {"macontrol": __version__, "numpy": np.__version__}
    return {"world": "site", "measured_by": measured_by, **facts, "versions": versions}


def _map_of_survey(path: Path, slots: int | None) -> RecordedMap:
    config, walks = read_walks(path)
    world = site.map_of_walks(path, config, walks)
    if slots is not None and world.span is not None:
        first, end = world.span
        world = replace(world, span=(first, min(end, first + slots)))
    origin = _origin(
        "survey",
        walks=len(walks),
        noise_std=site.noise_std(walks),
        left_out_error=site.left_out_error(walks),
    )
    return RecordedMap(world, config, None, origin)


def measured_map(run: OpenRun, config: Config, slots: int | None) -> RewardMap:
    """What a run on a real site measured, where its antenna was."""
    survey = run.header.survey
    if survey is None or not survey.can_be(config):
        raise DataError(f"{run.path}: has no usable survey, and a policy starts from one")
    columns = run.columns(["slot", "start_s", "position", "reward", "transmission_share"])
    chosen = np.abs(columns["start_s"]) < LATEST_S  # a damaged file can contain any number
    if slots is not None:
        chosen &= columns["slot"] < run.first_slot + slots
    if not chosen.any():
        raise DataError(f"{run.path}: has no slot with a time")
    found = {name: column[chosen] for name, column in columns.items()}
    # A map has the rewards of a holding antenna.
    weight = config.physical.actuation_plan.recorded(found["transmission_share"])
    return site.map_of_slots(
        run.path,
        config,
        survey,
        found["slot"],
        run.header.wall_s(0.0) + found["start_s"],
        found["position"],
        found["reward"] / weight,
    )


def _simulated(run: OpenRun, config: Config, slots: int | None) -> RewardMap:
    """The world of a run on the simulated bench, computed again from config and seed."""
    if run.header.resumed_from is not None:
        raise DataError(
            f"{run.path}: begins at slot {run.first_slot}, since it continues an earlier run "
            f"({run.header.resumed_from})",
            "export a run that begins at slot 1, or write the world with `macontrol simulate-map`",
        )
    wanted = min(run.last_slot, slots or run.last_slot)
    site.check_size(run.path, config, wanted)
    world = simulate_map(config, run.header.seed, wanted)
    world = replace(world, unix_s=_times(run, config, wanted))
    if run.header.survey is not None:
        survey = run.header.survey
        world = replace(world, survey_position=survey.position, survey_reward=survey.reward)
    seen, off = _differing(run, config, world)
    if off:
        print(
            f"macontrol: {run.path}: {off} of {seen} recorded rewards differ from the map's; "
            f"macontrol {run.header.version} wrote the run, and may simulate another world",
            file=sys.stderr,
        )
    return world


def _times(run: OpenRun, config: Config, slots: int) -> Floats | None:
    """When the slots 1, 2, … began; None if the file is damaged there."""
    begun_s = next(run.rows(["start_s"]))[0]
    if begun_s is None or not abs(begun_s) < LATEST_S:
        return None
    slot: Floats = np.arange(1.0 - run.first_slot, slots + 1.0 - run.first_slot)
    return run.header.wall_s(begun_s) + slot * config.physical.slot_duration_s


def _differing(run: OpenRun, config: Config, world: RewardMap) -> tuple[int, int]:
    """The number of recorded rewards that can be compared with the map's, and that differ."""
    slots = run.columns(["slot", "position", "reward", "transmission_share"])
    last = config.grid_size - 1
    with np.errstate(invalid="ignore", over="ignore"):  # a damaged file can contain any number
        steps = slots["position"] / config.algorithm.grid_spacing
        usable = (slots["slot"] <= world.slots) & np.isfinite(slots["reward"])
        usable &= np.abs(steps - np.rint(steps)) < 1e-6
    number = slots["slot"][usable] - 1
    place = np.clip(np.rint(steps[usable]), 0, last).astype(np.intp)
    weight = config.physical.actuation_plan.recorded(slots["transmission_share"][usable])
    expected = (world.reward[number, place] + world.noise[number]) * weight
    off = np.abs(expected - slots["reward"][usable]) > 1e-6 * config.g_max
    return int(usable.sum()), int(off.sum())
