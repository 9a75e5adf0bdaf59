"""The simulated bench of a run, and what only a simulator knows about the run.

The daemon imports this module for `--backend sim` only: a hardware run imports nothing from `sim`.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from macontrol.config import Config
from macontrol.config.model.errors import UsageError
from macontrol.controller.recording.records import Item, Recorder, Recorders, SlotRecord
from macontrol.controller.recording.runfile.resume import Resume
from macontrol.hal import Backend, Clock
from macontrol.recorders import PositionKeeper
from macontrol.reference import SimulatedReference
from macontrol.run_options import RunOptions
from macontrol.sim.bench.faults import FaultPlan, FaultyBackend
from macontrol.sim.bench.simulated import SimulatedBench, SimulatedProbe
from macontrol.sim.research.oracle import MAX_REGRET_SLOTS, regret_of_run

# The oracle of this many slots takes a tenth of a second.
_REGRET_AFTER_SIGNAL = 2000


class SimulatedRun:
    """A run on the simulated bench. `recorder` takes its records."""

    def __init__(self, config: Config, options: RunOptions) -> None:
        slots = options.slots or (options.duration_s or 0.0) / config.physical.slot_duration_s
        if options.regret and slots > MAX_REGRET_SLOTS:
            raise UsageError(
                f"--regret is for runs of at most {MAX_REGRET_SLOTS} slots",
                "shorten the run, or leave --regret out",
            )
        self._config = config
        self._options = options
        self._bench: SimulatedBench | None = None
        self._positions = PositionKeeper() if options.regret else None
        self._earned = _Earned(config)
        self._faults = None if options.faults is None else FaultPlan(*options.faults)

    def open(self, clock: Clock, resume: Resume | None, closing: ExitStack) -> Backend:
        """Make the bench, as the earlier run left it; `closing` closes it."""
        config = self._config
        bench = self._bench = SimulatedBench(
            config,
            clock,
            seed=config.run.seed,
            slot=resume.last_slot if resume else 0,
            position_mm=config.physical.to_mm(resume.next_position) if resume else None,
            name=self._options.name,
        )
        self._earned.probe = bench.probe
        closing.callback(bench.probe.close)
        closing.callback(bench.stage.close)
        return bench if self._faults is None else FaultyBackend(bench, self._faults, clock)

    def fixed_reward(self) -> float | None:
        """The mean reward of a fixed antenna so far; None before the first measurement."""
        bench = self._bench
        return bench.fixed_antenna_reward if bench and bench.probe.measured else None

    @property
    def reference(self) -> SimulatedReference | None:
        """The fixed receiver in the world, if the config has one: its driver does not matter."""
        if self._config.reference_probe is None or self._bench is None:
            return None
        return SimulatedReference(self._bench.reference_snr_db)

    @property
    def recorder(self) -> Recorder:
        kept = self._positions
        return self._earned if kept is None else Recorders(self._earned, kept)

    def add_to(self, summary: dict[str, Any], *, is_short: bool) -> None:
        """Add the fixed antenna's reward, the regret and the injected faults to a summary.

        A short summary leaves out a regret that takes long to compute.
        """
        if self._bench is None or summary["slots"] == 0:
            return
        fixed, earned = self._bench.fixed_antenna_reward, self._earned.mean
        summary["fixed_antenna_reward"] = fixed
        summary["gain_over_fixed"] = earned / fixed - 1 if fixed > 0 else None
        if self._faults is not None:
            summary["faults_injected"] = dict(sorted(self._faults.injected.items()))
        kept, longest = self._positions, _REGRET_AFTER_SIGNAL if is_short else MAX_REGRET_SLOTS
        if kept is not None and kept.slots[-1] <= longest:
            summary["regret_per_slot"] = regret_of_run(
                self._config, self._config.run.seed, kept.slots, kept.positions
            )


class _Earned(Recorder):
    """The mean reward of the antenna without noise, over the slots that were measured."""

    def __init__(self, config: Config) -> None:
        self.probe: SimulatedProbe | None = None
        self._holding_share = config.physical.transmission_share
        self._sum = 0.0
        self._slots = 0

    @property
    def mean(self) -> float:
        return self._sum / max(self._slots, 1)

    def submit(self, item: Item) -> None:
        if self.probe is None or type(item) is not SlotRecord:
            return
        slot, reward = self.probe.latest
        if item.slot == slot and item.transmission_share is not None:
            self._sum += reward * (item.transmission_share / self._holding_share)
            self._slots += 1
