"""The control daemon: wires a bench, a policy and the slot loop together, and ends them well."""

from __future__ import annotations

import signal
import sys
import time
from array import array
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from rich.console import Console

from macontrol.config import Config
from macontrol.config.errors import InputOutputError, UsageError
from macontrol.config.schema import Physical
from macontrol.controller.clock import SPIN_S, VirtualClock, WallClock
from macontrol.controller.guard import Guard
from macontrol.controller.instance import InstanceLock
from macontrol.controller.loop import SlotLoop
from macontrol.controller.moveucb import MoveUCB
from macontrol.controller.notify import Notifier
from macontrol.controller.policies import make_policy
from macontrol.controller.policy import Policy
from macontrol.controller.realtime import enter_realtime, leave_realtime
from macontrol.controller.record import Event, EventKind, LateReward, Recorder, SlotRecord
from macontrol.controller.runfile.files import (
    default_run_folder,
    latest_run,
    new_run_path,
    set_aside,
)
from macontrol.controller.runfile.header import RunHeader
from macontrol.controller.runfile.recorder import RunFileRecorder
from macontrol.controller.runfile.resume import Resume, find_resume
from macontrol.controller.survey import Survey
from macontrol.controller.tally import Tally
from macontrol.controller.theory import Verdict
from macontrol.display.event_log import EventLog, make_logger
from macontrol.display.live_view import LiveView
from macontrol.display.summary import print_summary, summarise
from macontrol.hal import Backend, Clock
from macontrol.sim.bench import SimulatedBench
from macontrol.sim.campaign.regret import MAX_REGRET_SLOTS, regret_of_run
from macontrol.sim.channel import survey_positions
from macontrol.sim.faults import FaultPlan, FaultyBackend

_STATUS_EVERY_S = 1.0
_CLOSE_WITHIN_S = 0.8


@dataclass(frozen=True)
class RunOptions:
    """What the command line asks of a run besides its config."""

    name: str
    slots: int | None
    duration_s: float | None
    fast: bool
    run_file: Path | None
    cold: bool
    regret: bool
    faults: tuple[int, float] | None


class ForcedStopError(Exception):
    """A second signal came: end without waiting for the slot."""


class Fanout(Recorder):
    """Hands every record to several recorders."""

    def __init__(self) -> None:
        self._recorders: list[Recorder] = []

    def add(self, recorder: Recorder) -> None:
        self._recorders.append(recorder)

    def hand_over(self, item: SlotRecord | Event | LateReward) -> None:
        for recorder in self._recorders:
            recorder.hand_over(item)


class PositionKeeper(Recorder):
    """Keeps where the antenna was in each slot, for the regret at the end."""

    def __init__(self) -> None:
        self.slots = array("q")
        self.positions = array("d")

    def hand_over(self, item: SlotRecord | Event | LateReward) -> None:
        if isinstance(item, SlotRecord):
            self.slots.append(item.slot)
            self.positions.append(item.position)


class Daemon:
    """One run, from start to summary."""

    def __init__(self, config: Config, options: RunOptions) -> None:
        if options.regret and (options.slots or 0) > MAX_REGRET_SLOTS:
            raise UsageError(f"--regret is for runs of at most {MAX_REGRET_SLOTS} slots")
        self._config = config
        self._options = options
        self._on_terminal = sys.stdout.isatty()
        self._logger = make_logger()
        self._notifier = Notifier()
        self._clock: Clock = VirtualClock(on_wait=self._throttle) if options.fast else WallClock()
        self._hub = Fanout()
        self._run_file: RunFileRecorder | None = None
        self._positions = PositionKeeper() if options.regret else None
        self._loop: SlotLoop | None = None
        self._signals = 0
        self._status_due_s = 0.0

    def run(self) -> int:
        """Run until told to stop; returns the exit code."""
        options = self._options
        forced = 0
        with ExitStack() as closing:
            closing.callback(self._notifier.close)
            if not options.fast:
                closing.enter_context(InstanceLock(options.name))
            resume = self._find_resume()
            simulated = self._make_bench(resume)
            plan = FaultPlan(*options.faults) if options.faults else None
            bench = FaultyBackend(simulated, plan, self._clock) if plan else simulated
            closing.callback(bench.probe.close)
            closing.callback(bench.stage.close)
            survey = resume.survey if resume else self._survey(bench)
            loop, policy = self._make_loop(bench, survey, resume)
            self._take_signals(closing)
            self._start_recording(closing, survey, resume)
            self._start_display(closing, loop.tally)
            try:
                self._drive(loop, policy, closing, survey, resume)
            except ForcedStopError:
                forced = 128 + self._signals
            finally:
                self._notifier.stopping()
                self._tell(EventKind.STOP, "forced" if forced else "the run has ended")
            summary = summarise(loop.tally, self._theory(policy, loop.tally))
            self._add_simulated_facts(summary, simulated, plan)
        if self._run_file is not None:
            summary["run_file"] = str(self._run_file.path)
            summary["records_written"] = self._run_file.written
            summary["records_lost"] = self._run_file.lost
        self._show(summary)
        return forced

    def _find_resume(self) -> Resume | None:
        """The run that this one goes on with, if there is a fresh one of the same config."""
        options = self._options
        if options.cold or options.fast:
            return None
        last = options.run_file or latest_run(default_run_folder(), options.name)
        if last is None or not last.exists():
            return None
        found = find_resume(
            last, self._config, time.time(), now_clock_s=time.monotonic(), stage=options.name
        )
        return found if isinstance(found, Resume) else None

    def _make_bench(self, resume: Resume | None) -> SimulatedBench:
        config, wavelength_mm = self._config, self._config.physical.wavelength_mm
        return SimulatedBench(
            config,
            self._clock,
            seed=config.run.seed,
            slot=resume.last_slot if resume else 0,
            position_mm=resume.next_position * wavelength_mm if resume else None,
            name=self._options.name,
        )

    def _survey(self, bench: Backend) -> Survey:
        positions = survey_positions(self._config)
        wavelength_mm = self._config.physical.wavelength_mm
        rewards = bench.prior_survey([float(x) * wavelength_mm for x in positions])
        return Survey(positions, np.asarray(rewards))

    def _make_loop(
        self, bench: Backend, survey: Survey, resume: Resume | None
    ) -> tuple[SlotLoop, Policy]:
        config, physical = self._config, self._config.physical
        policy = make_policy(config, survey)
        if resume is not None:
            for sample in resume.samples:
                policy.observe(*sample)
            policy.resume(resume.target)
        guard = Guard(
            bench.stage,
            region_mm=physical.region_length * physical.wavelength_mm,
            stroke_mm=physical.rho_max * physical.wavelength_mm,
        )
        loop = SlotLoop(
            config, policy, guard, bench.probe, self._clock, self._hub, on_slot=self._after_slot
        )
        self._loop = loop
        return loop, policy

    def _start_recording(self, closing: ExitStack, survey: Survey, resume: Resume | None) -> None:
        options, config = self._options, self._config
        if self._positions is not None:
            self._hub.add(self._positions)
        if options.fast and options.run_file is None:
            return
        header = RunHeader.of(
            config,
            backend="sim",
            stage=options.name,
            survey=survey,
            sigma_f2=survey.sigma_f2(config),
            started_wall_s=time.time(),
            started_clock_s=self._clock.now(),
            clock="virtual" if options.fast else "monotonic",
            window=resume.samples if resume else (),
            resumed_from=str(resume.path) if resume else None,
        )
        try:
            if options.run_file is not None:
                set_aside(options.run_file)
            path = options.run_file or new_run_path(
                default_run_folder(), options.name, header.started_wall_s
            )
            recorder = RunFileRecorder(path, header, on_problem=self._recording_problem)
            recorder.start()
        except InputOutputError as error:
            if options.run_file is not None:
                raise
            self._warn(f"nothing is recorded: {error}")
            return
        self._run_file = recorder
        self._hub.add(recorder)
        closing.callback(recorder.close, _CLOSE_WITHIN_S)

    def _start_display(self, closing: ExitStack, tally: Tally) -> None:
        display: LiveView | EventLog
        if self._on_terminal:
            physical, policy = self._config.physical, self._config.algorithm.policy
            facts = {
                "title": f"{policy} on {self._options.name}",
                "length": physical.region_length,
                "slot_s": physical.slot_duration_s,
                "g_max": self._config.g_max,
            }
            display = LiveView(tally, facts)
        else:
            display = EventLog(tally, self._logger)
        display.start()
        self._hub.add(display)
        closing.callback(display.close)

    def _drive(
        self,
        loop: SlotLoop,
        policy: Policy,
        closing: ExitStack,
        survey: Survey,
        resume: Resume | None,
    ) -> None:
        """Tell what the run starts from, take the starting position, and run the slots."""
        config, options, physical = self._config, self._options, self._config.physical
        self._tell(EventKind.POLICY, config.algorithm.policy)
        if resume is None:
            sigma_f = survey.sigma_f2(config) ** 0.5
            self._tell(EventKind.SURVEY, f"{len(survey.reward)} samples, sigma_f", sigma_f)
        else:
            self._tell(EventKind.RESUME, f"{len(resume.samples)} samples of {resume.path}")
        if physical.rho_max < min(physical.nominal_reach, _configured_stroke(physical)) - 1e-12:
            self._warn(
                f"the actuator covers {physical.rho_max:.4g} wavelengths in T_a, less than "
                f"v·T_a = {physical.nominal_reach:.4g}: that is the stroke of this run"
            )
        if not options.fast:
            self._enter_realtime(closing)
        loop.approach(policy.start_position if resume is None else resume.next_position)
        first_slot = 1
        if resume is not None:
            passed = time.time() - resume.last_wall_s + physical.slot_duration_s
            first_slot = resume.last_slot + max(1, round(passed / physical.slot_duration_s))
        self._notifier.ready(f"{config.algorithm.policy} on {options.name}")
        self._tell(EventKind.START, f"slot {first_slot}, T_s = {physical.slot_duration_s:g} s")
        loop.run(first_slot=first_slot, slots=options.slots, duration_s=options.duration_s)

    def _enter_realtime(self, closing: ExitStack) -> None:
        report = enter_realtime()
        closing.callback(leave_realtime)
        if report.fifo and isinstance(self._clock, WallClock):
            self._clock.spin_s = SPIN_S
        if warning := report.warning:
            self._warn(warning)

    def _take_signals(self, closing: ExitStack) -> None:
        """SIGTERM and SIGINT end the run after its slot; a second one ends it at once."""

        def handle(number: int, _frame: FrameType | None) -> None:
            if self._signals:
                raise ForcedStopError
            self._signals = number
            if self._loop is not None:
                self._loop.stop()

        for number in (signal.SIGTERM, signal.SIGINT):
            closing.callback(signal.signal, number, signal.signal(number, handle))

    def _after_slot(self, tally: Tally, boundary_s: float) -> None:
        """In a slot's idle time: word to the service manager."""
        self._notifier.watchdog()
        if self._notifier.enabled and boundary_s >= self._status_due_s:
            self._status_due_s = boundary_s + _STATUS_EVERY_S
            self._notifier.status(
                f"slot {tally.slot}, reward {tally.recent_reward:.3f}, {tally.late} late"
            )

    def _throttle(self) -> None:
        """On a virtual clock: do not outrun the disk."""
        if self._run_file is not None:
            self._run_file.throttle()

    def _theory(self, policy: Policy, tally: Tally) -> dict[str, Verdict]:
        return tally.theory(
            length=self._config.physical.region_length,
            rho_max=self._config.physical.rho_max,
            margin=policy.margin if isinstance(policy, MoveUCB) else 0.0,
        )

    def _add_simulated_facts(
        self, summary: dict[str, Any], bench: SimulatedBench, plan: FaultPlan | None
    ) -> None:
        """What only a simulator knows: the fixed antenna, the oracle, the faults injected."""
        if summary["slots"] == 0:
            return
        fixed, earned = bench.fixed_antenna_reward, bench.earned_reward
        summary["fixed_antenna_reward"] = fixed
        summary["gain_over_fixed"] = earned / fixed - 1 if fixed > 0 else None
        if plan is not None:
            summary["faults_injected"] = dict(sorted(plan.injected.items()))
        if self._positions is not None and self._positions.slots[-1] <= MAX_REGRET_SLOTS:
            kept = self._positions
            summary["regret_per_slot"] = regret_of_run(
                self._config, self._config.run.seed, kept.slots, kept.positions
            )

    def _show(self, summary: dict[str, Any]) -> None:
        if self._on_terminal:
            print_summary(Console(), summary)
        else:
            self._logger.info("summary", **summary)

    def _recording_problem(self, message: str) -> None:
        """Called by the recorder's own thread."""
        self._tell(EventKind.RECORDING, message)

    def _warn(self, message: str) -> None:
        self._tell(EventKind.WARNING, message)

    def _tell(self, kind: EventKind, detail: str, value: float | None = None) -> None:
        slot = self._loop.tally.slot if self._loop is not None else 0
        self._hub.hand_over(Event(slot, self._clock.now(), kind, detail, value))


def _configured_stroke(physical: Physical) -> float:
    return float("inf") if physical.stroke == "auto" else physical.stroke
