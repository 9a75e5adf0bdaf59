"""Export a run file as a table, as arrays, or as the reward map that `macontrol replay` takes.

  csv     one row per slot (with --events: one row per event), to a file or to standard output
  npz     one array per column, the events as arrays event_…, the header as JSON in `header`
  netcdf  one variable per column with unit and meaning, for xarray, MATLAB and others; what is
          missing is NaN or the variable's _FillValue, and `reward_available` is 0 or 1
  map     the rewards on the rail in every slot. Of a run on the simulated bench they are known
          everywhere: its world is computed again from config and seed. Any other run has the
          reward where the antenna was, and a survey of 3 walks or more (`macontrol survey
          --repeat`) where it measured. All else is marked as unknown; `macontrol replay` says
          what it interpolates.

Positions are in wavelengths, times in seconds; start_s is on the run's own clock, unix_s in UTC.
`macontrol runs --schema` describes the columns. A run can be exported before it ends.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import zipfile
from pathlib import Path
from typing import IO, TextIO

import numpy as np
from numpy.typing import NDArray

from macontrol.commands.shared_arguments import positive_int, refuse_input_as_output
from macontrol.config.files.atomic_file import atomic_file, atomic_text
from macontrol.config.model.errors import DataError, InputOutputError, UsageError
from macontrol.controller.recording.records import Event
from macontrol.controller.recording.runfile import OpenRun
from macontrol.controller.recording.runfile.schema import SLOT_COLUMNS
from macontrol.controller.survey.samples import Survey
from macontrol.exported_map import RecordedMap, is_survey, recorded_map
from macontrol.sim.world.partial import fill


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", type=Path, metavar="RUN", help="the run file; for a map also a survey file"
    )
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
    if form == "map":
        found = recorded_map(arguments.run, arguments.slots)
        found.save(out)
        _describe(found)
        print(f"Written: {out}")
        return 0
    if is_survey(arguments.run):
        raise DataError(f"{arguments.run}: is no run file", "a survey has only --format map")
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
        else:
            from macontrol.commands.export_netcdf import write_netcdf

            with atomic_file(out) as dataset:
                write_netcdf(dataset, run)
    if out is not None:
        print(f"Written: {out}")
    return 0


def _describe(found: RecordedMap) -> None:
    """Say how much of the site is known; a simulated world is known everywhere."""
    filled = fill(found.world, found.config)
    if filled.measured is None:
        return
    available = filled.world.available
    known = "everywhere" if available is None else f"in {available.mean():.2%}"
    print(
        f"{filled.world.slots} slots to replay × {found.config.grid_size} positions: the reward is "
        f"measured in {filled.measured.mean():.2%}, and known {known} with the interpolation of "
        "a replay"
    )
    origin = found.origin or {}
    if "left_out_error" in origin:
        print(
            f"each walk differs from what those before and after it say by "
            f"{origin['left_out_error']:.3f} bit/s/Hz (root mean square); "
            f"sigma_f = {_sigma_f(found):.3f}, noise of the probe {origin['noise_std']:.3f}"
        )


def _sigma_f(found: RecordedMap) -> float:
    survey = Survey(found.world.survey_position, found.world.survey_reward, 0.0)
    return float(survey.sigma_f2(found.config) ** 0.5)


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


def _standard_output() -> TextIO:
    if sys.stdout is None:
        raise InputOutputError("standard output: is closed", "give --out FILE")
    return sys.stdout


def _unix_s(run: OpenRun, clock_s: float | None) -> float | None:
    return None if clock_s is None else run.header.wall_s(clock_s)


def _put(archive: zipfile.ZipFile, name: str, array: NDArray[np.generic]) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array(file, array, allow_pickle=False)
