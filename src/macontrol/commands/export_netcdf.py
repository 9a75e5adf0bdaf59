"""A run as netCDF: one file that xarray, MATLAB and the netCDF tools open.

It is netCDF-3 with 64-bit offsets, which SciPy writes: no other package is needed, and every reader
of netCDF knows it. The format has neither truths nor whole numbers of 64 bits. So truths are bytes
with the values 0 and 1, slots that do not fit 32 bits are doubles, and words are arrays of
characters in UTF-8. A missing value is the variable's _FillValue, never 0, and `reward_available`
says in which slots there is a reward.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import netcdf_file

from macontrol.config.model.errors import DataError
from macontrol.controller.recording.runfile import OpenRun
from macontrol.controller.recording.runfile.schema import EVENT_COLUMNS, SLOT_COLUMNS, Column
from macontrol.interface.runs import Run, run_from

_NO_TRUTH = -1
_LARGEST = np.iinfo(np.int32).max
_UNIX = "seconds since 1970-01-01 00:00:00 UTC"


def write_netcdf(file: IO[bytes], run: OpenRun) -> None:
    """Write slots, events, survey and header of a run; DataError without slots."""
    if run.count == 0:  # the format has no dimension of length 0
        raise DataError(f"{run.path}: contains no slot yet", "export it as npz")
    # The format needs a file in which it can go back, and SciPy closes what it wrote.
    with tempfile.TemporaryFile() as part:
        with netcdf_file(os.fdopen(os.dup(part.fileno()), "wb"), "w", version=2) as dataset:
            _fill(dataset, run, run_from(run))
        part.seek(0)
        shutil.copyfileobj(part, file)


def _fill(dataset: Any, opened: OpenRun, run: Run) -> None:
    header = opened.header
    dataset.createDimension("slot", len(run))
    for column in SLOT_COLUMNS:
        _add(dataset, column.name, ("slot",), run[column.name], _about(column))
    rewarded = np.isfinite(run["reward"])
    meaning = "whether the slot has a reward; the column invalid has the reason if not"
    _add(dataset, "reward_available", ("slot",), rewarded, {"long_name": meaning})
    start = header.wall_s(0.0) + run["start_s"]
    about = {"units": _UNIX, "long_name": "when the slot began, UTC", "standard_name": "time"}
    _add(dataset, "time", ("slot",), start, about)
    if events := len(run.events["slot"]):
        dataset.createDimension("event", events)
        for column in EVENT_COLUMNS[1:]:
            values = run.events[column.name]
            _add(dataset, f"event_{column.name}", ("event",), values, _about(column))
    if header.survey is not None:
        dataset.createDimension("survey", len(header.survey.position))
        for name, values, unit in (
            ("position", header.survey.position, "wavelengths"),
            ("reward", header.survey.reward, "bit/s/Hz"),
        ):
            about = {"units": unit, "long_name": f"{name} of a sample of the survey"}
            _add(dataset, f"survey_{name}", ("survey",), values, about)
    for key, text in opened.header.rows():
        value = json.loads(text)
        if isinstance(value, dict | list):
            value = None if key in ("survey", "window") else text
        if value not in (None, ""):
            setattr(dataset, key, _attribute(value))
    dataset.title = f"macontrol run {opened.path.name}".encode()


def _attribute(value: Any) -> Any:
    """A value of the header in a type that the format has."""
    if isinstance(value, float):
        return np.float64(value)
    if isinstance(value, int) and abs(value) <= _LARGEST:
        return np.int32(value)
    return str(value).encode()


def _about(column: Column) -> dict[str, str]:
    units = {"units": column.unit} if column.unit else {}
    return {**units, "long_name": column.meaning}


def _add(
    dataset: Any,
    name: str,
    dimensions: Sequence[str],
    values: NDArray[Any],
    about: Mapping[str, str],
) -> None:
    """Add a variable in a type that the format has."""
    kind = values.dtype.kind
    extra: dict[str, Any] = {key: text.encode() for key, text in about.items()}
    if kind == "U":
        encoded = np.char.encode(values, "utf-8")
        width = max(1, encoded.dtype.itemsize)
        size = f"{name}_length"
        dataset.createDimension(size, width)
        stored = np.zeros((len(values), width), "S1")
        if len(values):
            stored[:] = encoded.astype(f"S{width}").view("S1").reshape(-1, width)
        dimensions, extra = (*dimensions, size), {**extra, "_Encoding": b"utf-8"}
    elif kind == "b":
        stored = np.ma.filled(np.ma.asarray(values).astype(np.int8), _NO_TRUTH)
        extra |= {
            "_FillValue": np.int8(_NO_TRUTH),
            "flag_values": np.array([0, 1], np.int8),
            "flag_meanings": b"no yes",
        }
    elif kind == "i":
        fits = not len(values) or np.abs(values).max() <= _LARGEST
        stored = values.astype(np.int32 if fits else np.float64)
    else:
        stored = values.astype(np.float64)
        extra["_FillValue"] = np.float64(np.nan)
    variable = dataset.createVariable(name, stored.dtype, tuple(dimensions))
    variable[:] = stored
    for key, value in extra.items():
        setattr(variable, key, value)
