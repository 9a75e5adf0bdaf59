"""Export a run file: as a table, as arrays, or as the reward map that `macontrol replay` takes.

  csv     one row per slot (with --events: one row per event), to a file or to standard output
  npz     one array per column, the events as arrays event_…, the header as JSON in `header`
  netcdf  one variable per column with unit and meaning, for xarray, MATLAB and others; what is
          missing is NaN or the variable's _FillValue, and `reward_available` is 0 or 1
  map     the rewards everywhere on the rail in every slot. Only a run on the simulated bench has
          one: its world is computed again from config and seed. Any other run has the reward only
          where the antenna was.

Positions are in wavelengths, times in seconds; start_s is on the run's own clock, unix_s in UTC.
`macontrol runs --schema` describes the columns. A run can be exported before it ends.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import IO, TextIO

import numpy as np
from numpy.typing import NDArray

from macontrol.commands.shared_arguments import positive_int, refuse_input_as_output
from macontrol.config import Config
from macontrol.config.files.atomic_file import atomic_file, atomic_text
from macontrol.config.model.errors import DataError, InputOutputError, UsageError
from macontrol.controller.recording.records import Event
from macontrol.controller.recording.runfile import OpenRun
from macontrol.controller.recording.runfile.schema import SLOT_COLUMNS
from macontrol.sim.world.rewardmap import RewardMap, simulate_map

MAP_LIMIT_BYTES = 2 << 30
SIMULATED_BACKEND = "sim"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="the run file")
    parser.add_argument("--format", choices=("csv", "npz", "netcdf", "map"), required=True)
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="the file to write (csv: default is to print)"
    )
    parser.add_argument("--events", action="store_true", help="csv: the events, not the slots")
    parser.add_argument(
        "--slots", type=positive_int, metavar="N", help="map: only the first N slots"
    )


def main(arguments: argparse.Namespace) -> int:
    form, out = arguments.format, arguments.out
    if arguments.events and form != "csv":
        raise UsageError("--events needs --format csv", "the other formats contain the events")
    if arguments.slots and form != "map":
        raise UsageError("--slots needs --format map")
    if out is None and form != "csv":
        raise UsageError(f"--format {form} needs --out FILE")
    refuse_input_as_output("--out", out, arguments.run, "run file")
    with OpenRun(arguments.run) as run:
        if form == "csv":
            write = write_events if arguments.events else write_slots
            if out is None:
                write(_standard_output(), run)
            else:
                with atomic_text(out) as file:
                    write(file, run)
        elif form == "npz":
            with atomic_file(out) as archive:
                write_arrays(archive, run)
        elif form == "netcdf":
            from macontrol.commands.export_netcdf import write_netcdf

            with atomic_file(out) as dataset:
                write_netcdf(dataset, run)
        else:
            config = run.header.config
            world = reward_map(run, config, arguments.slots)
            world.save(out, seed=run.header.seed, config=config)
    if out is not None:
        print(f"Written: {out}")
    return 0


def write_slots(file: TextIO, run: OpenRun) -> None:
    """One row per slot; an empty field for no value, 0 and 1 for no and yes."""
    names = [column.name for column in SLOT_COLUMNS]
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["unix_s", *names])
    start = names.index("start_s")
    writer.writerows((_unix_s(run, row[start]), *row) for row in run.rows(names))


def write_events(file: TextIO, run: OpenRun) -> None:
    """One row per event."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["unix_s", *Event._fields])
    writer.writerows((_unix_s(run, event.time_s), *event) for event in run.events())


def write_arrays(file: IO[bytes], run: OpenRun) -> None:
    """One array per column, read and written one by one: a long run is larger than the memory.

    NaN means no number, "" no text.
    """
    events = run.events()
    number, word = np.dtype(np.float64), np.dtype(np.str_)
    kinds = {"slot": np.dtype(np.int64), "time_s": number, "kind": word, "detail": word}
    header = {key: json.loads(value) for key, value in run.header.rows()}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _put(archive, "header", np.array(json.dumps(header)))
        for column in SLOT_COLUMNS:
            _put(archive, column.name, run.columns([column.name])[column.name])
        for name in Event._fields:
            values = [getattr(event, name) for event in events]
            _put(archive, f"event_{name}", np.array(values, kinds.get(name, number)))


def reward_map(run: OpenRun, config: Config, slots: int | None = None) -> RewardMap:
    """The world of a run on the simulated bench, computed again from config and seed."""
    if run.header.backend != SIMULATED_BACKEND:
        raise DataError(
            f"{run.path}: a run on {run.header.backend} has the reward only where the antenna "
            "was, not everywhere on the rail, so it gives no reward map",
            "export it as csv or npz",
        )
    if run.count == 0:
        raise DataError(f"{run.path}: contains no slot yet")
    if run.first_slot < 1:
        raise DataError(f"{run.path}: is damaged: it begins at slot {run.first_slot}")
    if run.header.resumed_from is not None:
        raise DataError(
            f"{run.path}: begins at slot {run.first_slot}, since it continues an earlier run "
            f"({run.header.resumed_from})",
            "export a run that begins at slot 1, or write the world with `macontrol simulate-map`",
        )
    wanted = min(run.last_slot, slots or run.last_slot)
    most = MAP_LIMIT_BYTES // (8 * config.grid_size)
    if wanted > most:
        raise DataError(
            f"{run.path}: a map of {wanted} slots × {config.grid_size} positions takes "
            f"{wanted * config.grid_size * 8 / 2**30:.1f} GiB, and {MAP_LIMIT_BYTES / 2**30:g} "
            "GiB is the limit",
            f"export its beginning with --slots {most} or fewer",
        )
    world = simulate_map(config, run.header.seed, wanted)
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


def _standard_output() -> TextIO:
    if sys.stdout is None:
        raise InputOutputError("standard output: is closed", "give --out FILE")
    return sys.stdout


def _unix_s(run: OpenRun, clock_s: float | None) -> float | None:
    return None if clock_s is None else run.header.wall_s(clock_s)


def _put(archive: zipfile.ZipFile, name: str, array: NDArray[np.generic]) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array(file, array, allow_pickle=False)
