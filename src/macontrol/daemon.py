"""The control daemon: wires a bench, a policy and the slot loop together, and ends them well."""

from __future__ import annotations

import sys
import time
import traceback
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from macontrol.config import Config
from macontrol.config.errors import InputOutputError, MacontrolError, UsageError
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
from macontrol.controller.record import Event, EventKind
from macontrol.controller.runfile.files import (
    default_run_folder,
    latest_run,
    new_run_path,
    set_aside,
)
from macontrol.controller.runfile.header import RunHeader
from macontrol.controller.runfile.recorder import RunFileRecorder
from macontrol.controller.runfile.resume import NoResume, Resume, find_resume
from macontrol.controller.survey import Survey
from macontrol.controller.survey_file import fresh_survey, kept_survey_path, save_survey
from macontrol.controller.survey_walk import walk_rail
from macontrol.controller.tally import Tally
from macontrol.controller.theory import Verdict
from macontrol.display.event_log import EventLog, make_logger
from macontrol.display.live_view import LiveView
from macontrol.display.output import Output
from macontrol.display.summary import print_summary, summarise
from macontrol.display.survey_progress import survey_progress
from macontrol.floor_request import FloorRequest
from macontrol.hal import Backend, Clock, ProbeError, StageError
from macontrol.hal.sdr_probe import NoiseFloor, SdrProbe
from macontrol.hal.traffic_log import TrafficFile
from macontrol.recorders import Fanout, Follower, PositionKeeper, Teller
from macontrol.serial_bench import SerialBench, may_home
from macontrol.sim.bench import SimulatedBench
from macontrol.sim.campaign.regret import MAX_REGRET_SLOTS, regret_of_run
from macontrol.sim.faults import FaultPlan, FaultyBackend
from macontrol.stop_signals import ForcedStop, StopSignals

_STATUS_EVERY_S = 1.0
# How long records and the summary may take at the end: who was told to stop has little time.
_AT_LEISURE_S = 10.0
_AFTER_SIGNAL_S = 0.6
# The oracle of so many slots takes a tenth of a second.
_REGRET_AFTER_SIGNAL = 2000


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
    backend: str = "sim"
    yes: bool = False
    """Whether the stage may be homed without asking."""
    traffic: Path | None = None
    """Where to write what goes over the serial line."""


class Daemon:
    """One run, from start to summary."""

    def __init__(self, config: Config, options: RunOptions) -> None:
        slots = options.slots or (options.duration_s or 0.0) / config.physical.slot_duration_s
        if options.regret and slots > MAX_REGRET_SLOTS:
            raise UsageError(f"--regret is for runs of at most {MAX_REGRET_SLOTS} slots")
        self._config = config
        self._options = options
        self._output = Output()
        self._log: EventLog | None = None
        self._notifier = Notifier()
        self._clock: Clock = VirtualClock(on_wait=self._throttle) if options.fast else WallClock()
        self._hub = Fanout()
        self._run_file: RunFileRecorder | None = None
        self._positions = PositionKeeper() if options.regret else None
        self._simulated: SimulatedBench | None = None
        self._plan: FaultPlan | None = None
        self._loop: SlotLoop | None = None
        self._last_slot_began_s = 0.0
        self._signals = StopSignals()
        self._unrecorded: str | None = None
        self._not_resumed: str | None = None
        self._status_due_s = 0.0

    def run(self) -> int:
        """Run until told to stop; returns the exit code."""
        try:
            return self._run()
        except ForcedStop:
            return 128 + self._signals.first
        except MacontrolError:
            raise
        except Exception as error:
            raise self._internal(error) from error
        finally:
            if self._log is not None:
                self._log.close()

    def _run(self) -> int:
        options = self._options
        forced, failure = False, None
        with ExitStack() as closing:
            closing.enter_context(self._signals)
            closing.callback(self._notifier.close)
            if not options.fast:
                serial = options.backend == "serial"
                lock = InstanceLock(self._config.stage.port_path if serial else options.name)
                closing.enter_context(lock)
                self._hub.add(Follower(lock.follow))
            resume = self._find_resume()
            try:
                bench = self._open_bench(closing, resume)
            except (StageError, ProbeError):
                if self._signals.first:
                    self._note("stopped before the bench was ready")
                    return 0
                raise
            survey = resume.survey if resume else self._survey(bench)
            if survey is None:
                self._note("stopped before the rail was walked")
                return 0
            loop, policy = self._make_loop(bench, survey, resume)
            self._start_recording(closing, survey, resume)
            self._start_display(closing, loop.tally)
            why = "the run has ended"
            try:
                self._drive(loop, policy, closing, survey, resume)
            except ForcedStop:
                forced, why = True, "forced"
            except MacontrolError as error:
                failure, why = error, str(error)
            except Exception as error:
                why = "internal error"
                self._tell(EventKind.INTERNAL, "".join(traceback.format_exception(error)))
                raise
            finally:
                with suppress(StageError):  # it is closed after all, and says so then
                    loop.halt()
                self._notifier.stopping()
                self._tell(EventKind.STOP, why)
        if failure is not None and loop.tally.slots == 0:
            raise failure
        summary = summarise(loop.tally, self._theory(policy, loop.tally))
        self._add_simulated_facts(summary)
        if self._run_file is not None:
            summary["run_file"] = str(self._run_file.path)
            summary["records_written"] = self._run_file.written
            summary["records_lost"] = self._run_file.lost
        self._show(summary)
        if failure is not None:
            raise failure
        return 128 + self._signals.first if forced else 0

    def _find_resume(self) -> Resume | None:
        """The run that this one goes on with, if there is a fresh one of the same config."""
        options = self._options
        if options.cold or options.fast or options.regret:  # the oracle begins with slot 1
            return None
        last = options.run_file or latest_run(default_run_folder(), options.name)
        if last is None or not last.exists():
            return None
        now_s = time.monotonic()
        found = find_resume(last, self._config, time.time(), now_clock_s=now_s, stage=options.name)
        if isinstance(found, NoResume):
            self._not_resumed = found.reason
            return None
        self._last_slot_began_s = now_s - found.age_s
        return found

    def _open_bench(self, closing: ExitStack, resume: Resume | None) -> Backend:
        """The bench, ready to run; it is closed when `closing` ends."""
        config, options = self._config, self._options
        if options.backend == "serial":
            log = None
            if options.traffic is not None:
                log = closing.enter_context(TrafficFile(options.traffic, self._clock))
            bench = SerialBench(
                config,
                self._clock,
                confirm_homing=self._confirm_homing,
                tell=self._note,
                log=log,
                is_stopped=lambda: bool(self._signals.first),
            )
            # Listening begins with the first step: the signal's default is to end the process.
            measure = partial(self._measure_floor, bench.probe)
            closing.enter_context(FloorRequest(measure, partial(self._tell, EventKind.NOISE_FLOOR)))
            bench.open(closing)
            return bench
        wavelength_mm = config.physical.wavelength_mm
        self._simulated = SimulatedBench(
            config,
            self._clock,
            seed=config.run.seed,
            slot=resume.last_slot if resume else 0,
            position_mm=resume.next_position * wavelength_mm if resume else None,
            name=options.name,
        )
        closing.callback(self._simulated.probe.close)
        closing.callback(self._simulated.stage.close)
        if options.faults is None:
            return self._simulated
        self._plan = FaultPlan(*options.faults)
        return FaultyBackend(self._simulated, self._plan, self._clock)

    def _measure_floor(self, probe: SdrProbe) -> NoiseFloor:
        """On request, in a thread of its own."""
        if self._loop is None:
            raise ProbeError("the noise floor is measured at the start by itself")
        return probe.measure_noise_floor()

    def _survey(self, bench: Backend) -> Survey | None:
        """What is known before slot 1: by the bench, from a fresh file, or by walking the rail.

        None if told to stop on the way.
        """
        config, wavelength_mm = self._config, self._config.physical.wavelength_mm
        positions = np.array(config.survey_positions)
        rewards = bench.prior_survey([float(x) * wavelength_mm for x in positions])
        if rewards is not None:
            return Survey(positions, np.asarray(rewards))
        kept = kept_survey_path(config.stage.port_path)
        if not self._options.cold and (survey := fresh_survey(kept, config)):
            self._note(f"survey: {len(survey.reward)} samples from {kept}")
            return survey
        self._note(f"survey: walking the rail, {len(positions)} positions")
        with survey_progress(len(positions), shown=self._output.is_terminal) as on_progress:
            survey = walk_rail(
                config,
                bench,
                self._clock,
                Teller(self._note),
                is_stopped=lambda: bool(self._signals.first),
                on_progress=on_progress,
            )
        if self._signals.first:
            return None
        with suppress(InputOutputError):
            save_survey(kept, config, survey)
        return survey

    def _confirm_homing(self) -> bool:
        at_terminal = sys.stdin.isatty() and self._output.is_terminal
        return may_home(
            yes=self._options.yes,
            at_terminal=at_terminal,
            is_stopped=lambda: bool(self._signals.first),
        )

    def _note(self, text: str) -> None:
        """Tell how the bench comes up, before the display is there."""
        if self._output.is_terminal:
            print(text, flush=True)
        else:
            make_logger(self._output).info("bench", detail=text)

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
        if resume is not None:
            loop.tally.target = resume.target
        self._loop = loop
        self._signals.on_stop(loop.stop)
        return loop, policy

    def _start_recording(self, closing: ExitStack, survey: Survey, resume: Resume | None) -> None:
        options, config = self._options, self._config
        if self._positions is not None:
            self._hub.add(self._positions)
        if options.fast and options.run_file is None:
            return
        earlier = resume.path if resume else None
        if options.run_file is not None:
            earlier = set_aside(options.run_file) or earlier
        header = RunHeader.of(
            config,
            backend=options.backend,
            stage=options.name,
            survey=survey,
            sigma_f2=survey.sigma_f2(config),
            started_wall_s=time.time(),
            started_clock_s=self._clock.now(),
            clock="virtual" if options.fast else "monotonic",
            window=resume.samples if resume else (),
            resumed_from=str(earlier) if resume else None,
        )
        try:
            path = options.run_file or new_run_path(
                default_run_folder(), options.name, header.started_wall_s
            )
            recorder = RunFileRecorder(path, header, on_problem=self._recording_problem)
            recorder.start()
        except InputOutputError as error:
            if options.run_file is not None:
                raise
            self._unrecorded = f"nothing is recorded: {error}"
            return
        self._run_file = recorder
        self._hub.add(recorder)
        closing.callback(lambda: recorder.close(self._within(_AT_LEISURE_S)))

    def _start_display(self, closing: ExitStack, tally: Tally) -> None:
        if self._output.is_terminal:
            physical, policy = self._config.physical, self._config.algorithm.policy
            facts = {
                "title": f"{policy} on {self._options.name}",
                "length": physical.region_length,
                "slot_s": physical.slot_duration_s,
                "g_max": self._config.g_max,
            }
            view = LiveView(tally, facts)
            with suppress(OSError):  # a run without a view is still a run
                view.start()
                self._hub.add(view)
                closing.callback(view.close)
            return
        log = EventLog(tally, make_logger(self._output))
        log.start()
        self._hub.add(log)
        self._log = log

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
        if self._unrecorded is not None:
            self._warn(self._unrecorded)
        self._tell(EventKind.POLICY, config.algorithm.policy)
        if resume is None:
            sigma_f = survey.sigma_f2(config) ** 0.5
            if self._not_resumed is not None:
                self._tell(EventKind.COLD_START, self._not_resumed)
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
        begin = policy.start_position if resume is None else resume.next_position
        if options.backend == "serial":  # which takes its time
            self._tell(EventKind.APPROACH, "to where the first slot begins, in wavelengths", begin)
        loop.approach(begin)
        first_slot = 1
        if resume is not None:
            slot_s = physical.slot_duration_s
            passed = time.monotonic() + slot_s - self._last_slot_began_s
            first_slot = resume.last_slot + max(1, round(passed / slot_s))
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

    def _within(self, at_leisure_s: float) -> float:
        """How long a part of the ending may take (s)."""
        return _AFTER_SIGNAL_S if self._signals.first else at_leisure_s

    def _after_slot(self, tally: Tally, boundary_s: float) -> None:
        """In a slot's idle time: word to the service manager."""
        self._notifier.watchdog()
        if self._notifier.enabled and boundary_s >= self._status_due_s:
            self._status_due_s = boundary_s + _STATUS_EVERY_S
            self._notifier.status(
                f"slot {tally.slot}, {tally.late} late"
                + ("" if isnan(tally.recent_reward) else f", reward {tally.recent_reward:.3f}")
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

    def _add_simulated_facts(self, summary: dict[str, Any]) -> None:
        """What only a simulator knows: the fixed antenna, the oracle, the faults injected."""
        bench = self._simulated
        if bench is None or summary["slots"] == 0:
            return
        fixed, earned = bench.fixed_antenna_reward, bench.earned_reward
        summary["fixed_antenna_reward"] = fixed
        summary["gain_over_fixed"] = earned / fixed - 1 if fixed > 0 else None
        if self._plan is not None:
            summary["faults_injected"] = dict(sorted(self._plan.injected.items()))
        kept = self._positions
        longest = _REGRET_AFTER_SIGNAL if self._signals.first else MAX_REGRET_SLOTS
        if kept is not None and kept.slots[-1] <= longest:
            summary["regret_per_slot"] = regret_of_run(
                self._config, self._config.run.seed, kept.slots, kept.positions
            )

    def _show(self, summary: dict[str, Any]) -> None:
        if self._log is not None:
            self._log.close(summary, self._within(_AT_LEISURE_S))
        else:
            console = Console()
            with console.capture() as capture:
                print_summary(console, summary)
            self._output.write_within(capture.get(), self._within(_AT_LEISURE_S))

    def _internal(self, error: Exception) -> MacontrolError:
        """What went wrong inside macontrol, in a line; and where the rest of it can be read."""
        where = "the traceback is above"
        if self._run_file is not None and self._run_file.lost == 0:
            where = f"the traceback is among the events of {self._run_file.path}"
        elif self._log is not None:
            where = "the traceback is in the log"
        else:
            traceback.print_exception(error)
        told = f"internal error: {type(error).__name__}: {error}; {where}; please report it"
        return MacontrolError(told)

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
