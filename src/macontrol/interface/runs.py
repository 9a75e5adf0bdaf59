"""Run files as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.config.model.errors import UsageError
from macontrol.config.model.suggestion import pip_install
from macontrol.controller.recording.records import Event
from macontrol.controller.recording.runfile import OpenRun
from macontrol.controller.recording.runfile.schema import EVENT_COLUMNS, SLOT_COLUMNS

if TYPE_CHECKING:
    import xarray

# Nanoseconds in 64 bits end in the year 2262.
_LATEST_S = 9.2e9
_COLUMNS = {column.name: column for column in SLOT_COLUMNS}
_EVENT_TYPES: dict[str, Any] = {"count": np.int64, "number": np.float64, "word": np.str_}


@dataclass(frozen=True, eq=False)
class Run:
    """A recorded run: one array per column. `run["reward"]` is an entry of `slots`.

    Where there is no value, a number is NaN, a word is empty, and a truth is masked. Missed slots
    have no entry, so `run["slot"]` may have gaps.
    """

    config: Config
    policy: str
    """The name of the policy, or of its class."""
    seed: int
    backend: str
    """"sim" or "serial"."""
    version: str
    """The version of macontrol that recorded the run."""
    started: datetime
    """When the run began (UTC)."""
    slots: Mapping[str, NDArray[Any]]
    """One array per column, one value per slot."""
    events: Mapping[str, NDArray[Any]]
    """What happened besides: arrays `slot`, `time_s`, `kind`, `detail` and `value`."""
    time: NDArray[np.datetime64]
    """When each slot began (UTC)."""

    @property
    def units(self) -> dict[str, str]:
        """The unit of each column; "" for none."""
        return {name: column.unit for name, column in _COLUMNS.items()}

    @property
    def meanings(self) -> dict[str, str]:
        """What each column means."""
        return {name: column.meaning for name, column in _COLUMNS.items()}

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return the column of this name."""
        return self.slots[name]

    def __len__(self) -> int:
        """Return the number of recorded slots."""
        return len(self.slots["slot"])

    def regret_per_slot(self) -> float:
        """Return how much more the oracle earns per slot; only for a run on the simulated bench."""
        if self.backend != "sim" or len(self) == 0:
            raise UsageError(
                "the regret needs the rewards everywhere on the rail",
                "only a run on the simulated bench, with at least one slot, has them",
            )
        from macontrol.sim.research.oracle import regret_of_run

        slots, positions = self["slot"].tolist(), self["position"].tolist()
        return regret_of_run(self.config, self.seed, slots, positions)

    def to_xarray(self) -> xarray.Dataset:
        """Return the run as an xarray dataset, with units and meanings as attributes.

        The dimension `slot` has the numbers of the slots, the dimension `event` counts the events.
        A column of truths that lacks a value is a column of numbers: 0, 1 and NaN.
        """
        try:
            import xarray
        except ImportError:
            raise UsageError("xarray is not installed", pip_install("xarray")) from None
        about = {name: _attributes(column) for name, column in _COLUMNS.items()}
        data: dict[str, Any] = {
            name: ("slot", _plain(array), about[name])
            for name, array in self.slots.items()
            if name != "slot"
        }
        for column in EVENT_COLUMNS[1:]:
            data[f"event_{column.name}"] = ("event", self.events[column.name], _attributes(column))
        return xarray.Dataset(
            data,
            coords={"slot": ("slot", self["slot"], about["slot"]), "time": ("slot", self.time)},
            attrs={
                "policy": self.policy,
                "seed": self.seed,
                "backend": self.backend,
                "macontrol_version": self.version,
                "started": self.started.isoformat(),
                "config": self.config.model_dump_json(),
            },
        )


def open_run(path: Path | str) -> Run:
    """Read a run file, of a finished or of a running run. Nothing is written."""
    with OpenRun(path) as run:
        return run_from(run)


def run_from(run: OpenRun) -> Run:
    """Return the arrays of an opened run file."""
    header, found = run.header, run.columns()
    truths = [column.name for column in SLOT_COLUMNS if column.kind == "truth"]
    masks = [
        {name: np.ma.getmaskarray(values) for name, values in block.items()}
        for block in run.blocks(truths)
    ]
    for name in truths:
        mask = np.concatenate([np.empty(0, np.bool_), *(block[name] for block in masks)])
        found[name] = np.ma.MaskedArray(found[name], mask=mask)
    return Run(
        config=header.config,
        policy=header.policy,
        seed=header.seed,
        backend=header.backend,
        version=header.version,
        started=datetime.fromtimestamp(header.started_wall_s, UTC),
        slots=found,
        events=event_arrays(run.events()),
        time=_utc(header.wall_s(0.0) + found["start_s"]),
    )


def event_arrays(events: list[Event]) -> dict[str, NDArray[Any]]:
    """Return the events as one array per column."""
    return {
        column.name: np.array(
            [getattr(event, column.name) for event in events], _EVENT_TYPES[column.kind]
        )
        for column in EVENT_COLUMNS[1:]
    }


def _utc(unix_s: NDArray[np.float64]) -> NDArray[np.datetime64]:
    """Seconds since 1970 as times; NaN, and what is far from any run, become NaT."""
    moments = np.full(len(unix_s), np.datetime64("NaT", "ns"))
    known = np.abs(unix_s) < _LATEST_S
    moments[known] = (unix_s[known] * 1e9).astype("datetime64[ns]")
    return moments


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """A masked array of truths as numbers with NaN; complete ones stay truths."""
    if not isinstance(array, np.ma.MaskedArray):
        return array
    if np.ma.getmaskarray(array).any():
        return np.where(np.ma.getmaskarray(array), np.nan, array.data)
    return np.asarray(array.data)


def _attributes(column: Any) -> dict[str, str]:
    about = {"long_name": column.meaning}
    return {"units": column.unit, **about} if column.unit else about
