"""A recorded run as reports need it, and the figures that follow from its records alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.config.model.errors import DamagedFileError, MacontrolError
from macontrol.controller.policies.policy import Policy, margin_of
from macontrol.controller.policies.registry import POLICIES, make_policy
from macontrol.controller.policies.theory import Verdict, verdicts
from macontrol.controller.recording.events import EventKind
from macontrol.controller.recording.runfile import OpenRun, RunHeader
from macontrol.controller.recording.runfile.retention import is_being_written
from macontrol.interface.runs import Run, run_from
from macontrol.reports.batches import Mean, batch_mean

Array = NDArray[Any]
State: TypeAlias = Literal["being recorded", "ended", "cut off"]

FAULTS = (
    EventKind.STAGE_FAULT,
    EventKind.PROBE_FAULT,
    EventKind.POLICY_FAULT,
    EventKind.NO_SIGNAL,
    EventKind.REFUSED,
    EventKind.INTERNAL,
)
"""The kinds of events that are counted as faults."""
_MOVED = (EventKind.HOMING, EventKind.RECOVERY)
_SHORTEST_RUN = 2
_AT_ONCE = 50_000
# No time (s), no position (wavelengths), no slot of a run is larger.
_FAR = 1e12


@dataclass(frozen=True, eq=False)
class Recorded:
    """A run file that was read once: header, arrays, and whether the run is over."""

    path: Path
    header: RunHeader
    run: Run
    state: State

    @property
    def config(self) -> Config:
        return self.run.config

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def length(self) -> int:
        return len(self.run)

    @cached_property
    def facts(self) -> Facts:
        return Facts(self)

    @cached_property
    def learned(self) -> Array:
        """What the policy learned from each slot: the reward of a holding antenna."""
        plan = self.config.physical.actuation_plan
        return self.run["reward"] / plan.recorded(self.run["transmission_share"])

    def column(self, name: str) -> Array:
        return self.run[name]

    @cached_property
    def gain_over_reference(self) -> Mean | None:
        """The SNR over that of the reference receiver (dB), where both are known; else None."""
        gain = self.run["snr_db"] - self.run["reference_snr_db"]
        gain = gain[np.isfinite(gain) & np.isfinite(self.run["reward"])]
        return batch_mean(gain) if len(gain) else None

    def events_of(self, kind: EventKind) -> Array:
        """The numbers of the events of a kind, in the order of recording."""
        return np.flatnonzero(self.run.events["kind"] == str(kind))


def read_recorded(path: Path) -> Recorded:
    """Read a run file, of a finished or of a running run; DataError if it cannot be used."""
    # First: the lock is opened and closed, and that would drop the locks of an open database.
    is_running = is_being_written(path)
    with OpenRun(path) as opened:
        check_slots(opened)
        found = run_from(opened)
        header = opened.header
    run = replace(found, slots=_plausible(found.slots), events=_plausible(found.events))
    state = state_of(run.events["kind"].tolist(), is_running=is_running)
    return Recorded(path, header, run, state)


def check_slots(run: OpenRun) -> None:
    """Raise DamagedFileError if the slots have numbers that no run gives them."""
    if run.count and not 1 <= run.first_slot <= run.last_slot <= _FAR:
        raise DamagedFileError(
            f"{run.path}: the run file is damaged: it has the slots {run.first_slot} to "
            f"{run.last_slot}"
        )


def plausible(values: Array) -> Array:
    """The same array, with NaN for numbers that no run records: a damaged file can contain any."""
    if values.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            values[~(np.abs(values) <= _FAR)] = np.nan
    return values


def _plausible(columns: Mapping[str, Array]) -> dict[str, Array]:
    return {name: plausible(values) for name, values in columns.items()}


def state_of(kinds: Collection[str], *, is_running: bool) -> State:
    """The state of a run with events of these kinds: one that began reports its end."""
    if is_running:
        return "being recorded"
    return "cut off" if EventKind.START in kinds and EventKind.STOP not in kinds else "ended"


class Facts:
    """The figures of a run. Positions in wavelengths, times in seconds."""

    def __init__(self, recorded: Recorded) -> None:
        run = recorded.run
        self._recorded = recorded
        self._step = np.abs(np.diff(run["position"]))
        slot, reward = run["slot"], run["reward"]
        known = reward[np.isfinite(reward)]
        self.slots = len(slot)
        self.first_slot = int(slot[0]) if self.slots else 0
        self.last_slot = int(slot[-1]) if self.slots else 0
        self.rewards = len(known)
        self.mean_reward: float | None = float(known.mean()) if len(known) else None
        self.travel = float(np.nansum(self._step))
        self.switches = int(np.ma.filled(run["switched"], False).sum())
        self.transit = int(np.ma.filled(run["transit"], False).sum())
        self.late_rewards = int(np.ma.filled(run["late"], False).sum())
        self.invalid: Counter[str] = Counter()
        for begin in range(0, self.slots, _AT_ONCE):  # a list of all words is large
            self.invalid.update(run["invalid"][begin : begin + _AT_ONCE].tolist())
        del self.invalid[""]
        self.events = Counter(run.events["kind"].tolist())

    @property
    def transmission_share(self) -> float | None:
        """The share of the time in which the link transmitted; None if it was not recorded."""
        shares = self._recorded.run["transmission_share"]
        return float(np.nanmean(shares)) if np.isfinite(shares).any() else None

    @property
    def duration_s(self) -> float:
        """The time from the first slot to the end of the last one, missed slots included."""
        slots = self.last_slot - self.first_slot + 1 if self.slots else 0
        return slots * self._recorded.config.physical.slot_duration_s

    @property
    def missed(self) -> int:
        """Slots that began while the loop was busy."""
        values = self._recorded.run.events["value"][self._recorded.events_of(EventKind.MISSED)]
        return int(np.nansum(values))

    @property
    def faults(self) -> int:
        """Events that are faults of stage, probe or policy, refused commands, or lost signals."""
        return sum(self.events[str(kind)] for kind in FAULTS)

    @property
    def travel_mm(self) -> float:
        return self._recorded.config.physical.to_mm(self.travel)

    def theory(self) -> dict[str, Verdict]:
        """Compare the run with the paper's inequalities for every run of MoveUCB."""
        if self.slots < _SHORTEST_RUN or not np.isfinite(self._recorded.run["position"]).any():
            return {}
        run, config = self._recorded.run, self._recorded.config
        displaced = sum(self.events[str(kind)] for kind in _MOVED)
        shortfall, movement = run["shortfall"], run["surface_movement"]
        position = run["position"]
        return verdicts(
            longest_step=self._longest_step(),
            farthest_off=max(
                0.0,
                -float(np.nanmin(position)),
                float(np.nanmax(position)) - config.physical.region_length,
            ),
            travel=self.travel,
            transit=self.transit,
            switches=self.switches,
            displaced=displaced,
            shortfall=None if np.isnan(shortfall).all() else float(np.nanmax(shortfall)),
            surface_movement=None if np.isnan(movement).all() else float(np.nansum(movement)),
            length=config.physical.region_length,
            rho_max=config.physical.rho_max,
            margin=margin_of(policy) if (policy := stored_policy(self._recorded)) else 0.0,
        )

    def _longest_step(self) -> float:
        """The longest step between neighbouring slots, apart from those around a homing."""
        recorded, slot = self._recorded, self._recorded.run["slot"]
        is_step = np.diff(slot) == 1
        for kind in _MOVED:
            for moved in recorded.run.events["slot"][recorded.events_of(kind)].tolist():
                is_step &= ~((slot[:-1] <= moved) & (moved <= slot[1:]))
        steps = self._step[is_step & np.isfinite(self._step)]
        return float(steps.max()) if len(steps) else 0.0


def stored_policy(recorded: Recorded, *, with_samples: bool = False) -> Policy | None:
    """Build the policy of the run's config again; None if that is not possible here.

    Only registered policies are built: a file must not choose the code that reads it.
    """
    header, config = recorded.header, recorded.config
    name = config.algorithm.policy
    if header.survey is None or name != header.policy or name not in POLICIES.names():
        return None
    try:
        return make_policy(config, header.survey, with_samples=with_samples)
    except MacontrolError:
        return None
