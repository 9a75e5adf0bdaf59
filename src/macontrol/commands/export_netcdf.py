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
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.io import netcdf_file

from macontrol.config.model.errors import DataError
from macontrol.controller.recording.runfile import OpenRun
from macontrol.controller.recording.runfile.schema import EVENT_COLUMNS, SLOT_COLUMNS, Column
from macontrol.controller.survey.samples import Survey
from macontrol.interface.runs import event_arrays

_NO_TRUTH = -1
_LARGEST = np.iinfo(np.int32).max
_UNIX = "seconds since 1970-01-01 00:00:00 UTC"

Array: TypeAlias = NDArray[Any]
Blocks: TypeAlias = Callable[[], Iterator[Array]]
"""The values of a variable, in blocks of limited length."""


def write_netcdf(file: IO[bytes], run: OpenRun) -> None:
    """Write slots, events, survey and header of a run; DataError without slots.

    The slots are read and written in blocks: a long run is larger than the memory.
    """
    if run.count == 0:  # the format has no dimension of length 0
        raise DataError(f"{run.path}: contains no slot yet", "export it as npz")
    # The format needs a file in which it can go back, and SciPy closes what it wrote.
    with tempfile.TemporaryFile(dir=_folder_of(file)) as part:
        with _Dataset(os.fdopen(os.dup(part.fileno()), "wb"), "w", version=2) as dataset:
            _fill(dataset, run)
        part.seek(0)
        shutil.copyfileobj(part, file)


class _Dataset(netcdf_file):
    """A netCDF file whose long variables are written in blocks, when it is closed."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._blocks: dict[str, Blocks] = {}
        super().__init__(*arguments, **options)

    def stream(self, name: str, dtype: Any, dimensions: Sequence[str], blocks: Blocks) -> Any:
        """Create a variable with the values of these blocks."""
        variable = self.createVariable(name, dtype, tuple(dimensions))
        data = variable.data
        # Only its type and shape count.
        variable.__dict__["data"] = np.broadcast_to(np.zeros((), data.dtype), data.shape)
        self._blocks[name] = blocks
        return variable

    def _write_var_data(self, name: str) -> None:
        """As in SciPy, with the values of blocks."""
        base: Any = super()
        if name not in self._blocks:
            base._write_var_data(name)
            return
        variable: Any = self.variables[name]
        begin = self.fp.tell()
        self.fp.seek(variable._begin)
        base._pack_begin(begin)
        self.fp.seek(begin)
        for block in self._blocks[name]():
            self.fp.write(block.astype(variable.data.dtype).tobytes())
        size = variable.data.size * variable.data.itemsize
        if self.fp.tell() != begin + size:
            raise DataError("the run file has changed while it was exported", "export it again")
        base._write_var_padding(variable, variable._vsize - size)


def _folder_of(file: IO[bytes]) -> str | None:
    """The folder of a file: the temporary folder may be in memory."""
    name = getattr(file, "name", None)
    return os.path.dirname(os.path.abspath(name)) if isinstance(name, str) else None


def _fill(dataset: _Dataset, run: OpenRun) -> None:
    header = run.header
    dataset.createDimension("slot", run.count)
    for column in SLOT_COLUMNS:
        _add_column(dataset, run, column)

    def available() -> Iterator[Array]:
        for block in run.blocks(["reward"]):
            yield np.isfinite(block["reward"]).astype(np.int8)

    meaning = "whether the slot has a reward; the column invalid has the reason if not"
    variable = dataset.stream("reward_available", np.int8, ("slot",), available)
    _describe(variable, {**_TRUTH, "long_name": meaning})

    def time() -> Iterator[Array]:
        for block in run.blocks(["start_s"]):
            yield header.wall_s(0.0) + block["start_s"]

    variable = dataset.stream("time", np.float64, ("slot",), time)
    about = {"units": _UNIX, "long_name": "when the slot began, UTC", "standard_name": "time"}
    _describe(variable, {**about, **_NUMBER})
    _add_events(dataset, run)
    if header.survey is not None:
        _add_survey(dataset, header.survey)
    facts: Any = dataset
    for key, text in header.rows():
        value = json.loads(text)
        if isinstance(value, dict | list):
            value = None if key in ("survey", "resurvey", "window") else text
        if value not in (None, ""):
            setattr(facts, key, _attribute(value))
    facts.title = f"macontrol run {run.path.name}".encode()


def _add_events(dataset: _Dataset, run: OpenRun) -> None:
    events = event_arrays(run.events())
    if count := len(events["slot"]):
        dataset.createDimension("event", count)
        for column in EVENT_COLUMNS[1:]:
            name = f"event_{column.name}"
            _add(dataset, name, ("event",), events[column.name], _about(column))


def _add_survey(dataset: _Dataset, survey: Survey) -> None:
    dataset.createDimension("survey", len(survey.position))
    for name, values, unit in (
        ("position", survey.position, "wavelengths"),
        ("reward", survey.reward, "bit/s/Hz"),
    ):
        about = {"units": unit, "long_name": f"{name} of a sample of the survey"}
        _add(dataset, f"survey_{name}", ("survey",), values, about)


def _add_column(dataset: _Dataset, run: OpenRun, column: Column) -> None:
    """Add a column of the slots, in a type that the format has."""
    name, dimensions = column.name, ["slot"]
    extra: dict[str, Any] = _NUMBER
    dtype: Any = np.float64
    if column.kind == "count" and abs(run.last_slot) <= _LARGEST:
        dtype, extra = np.int32, {}
    elif column.kind == "truth":
        dtype, extra = np.int8, _TRUTH
    elif column.kind == "word":
        blocks = run.blocks([name])
        width = max(np.char.encode(block[name], "utf-8").dtype.itemsize for block in blocks)
        dataset.createDimension(f"{name}_length", width)
        dimensions.append(f"{name}_length")
        dtype, extra = "S1", _WORD

    def values() -> Iterator[Array]:
        for block in run.blocks([name]):
            array = block[name]
            if column.kind == "word":
                yield _letters(array, width)
            else:
                yield np.ma.filled(array.astype(dtype), _NO_TRUTH)

    _describe(dataset.stream(name, dtype, dimensions, values), {**_about(column), **extra})


def _letters(words: Array, width: int) -> Array:
    """Words as rows of `width` bytes in UTF-8."""
    encoded = np.char.encode(words, "utf-8").astype(f"S{width}")
    return encoded.view("S1").reshape(-1, width)


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


_NUMBER = {"_FillValue": np.float64(np.nan)}
_WORD = {"_Encoding": "utf-8"}
_TRUTH = {
    "_FillValue": np.int8(_NO_TRUTH),
    "flag_values": np.array([0, 1], np.int8),
    "flag_meanings": "no yes",
}


def _describe(variable: Any, about: Mapping[str, Any]) -> None:
    """Set the attributes of a variable."""
    for key, value in about.items():
        setattr(variable, key, value.encode() if isinstance(value, str) else value)


def _add(
    dataset: _Dataset, name: str, dimensions: tuple[str, ...], values: Array, about: dict[str, str]
) -> None:
    """Add a variable that is in memory, in a type that the format has."""
    extra: dict[str, Any] = _NUMBER
    if values.dtype.kind == "U":
        width = max(1, np.char.encode(values, "utf-8").dtype.itemsize)
        dataset.createDimension(f"{name}_length", width)
        values, extra = _letters(values, width), _WORD
        dimensions = (*dimensions, f"{name}_length")
    elif values.dtype.kind == "i" and np.abs(values).max() <= _LARGEST:
        values, extra = values.astype(np.int32), {}
    else:
        values = values.astype(np.float64)
    variable = dataset.createVariable(name, values.dtype, dimensions)
    variable[:] = values
    _describe(variable, {**about, **extra})
