"""Run the blocks of a trial on an open bench.

Each block is a run of its own: a new policy, a new loop and a run file, which `macontrol runs`,
`report` and `compare` read. All blocks share the bench, its survey and the guard.

All policies know the same at the start of a block: the survey's sigma_f, and no samples, as those
of the survey age and those of the block before come from another policy. (Sweep-and-hold starts
with the survey's best position; that is what it is.) The first w slots of a block, but at most half
of it, do not count, for any policy: after w slots the window is full of samples of this block, and
the reward depends neither on this start nor on the policy before.

A policy sees the slots 1, 2, … of its block. The probe and the run file number the slots through
the trial, by the time since its start: a late measurement belongs to no later block, and a
simulated channel drifts also while the antenna goes to the next start position.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from macontrol.config import Config
from macontrol.config.files.free_space import FreeSpace
from macontrol.config.model.errors import MacontrolError, PolicyError, StageError
from macontrol.control.live_run import TrialBlock
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.recording.events import EventKind
from macontrol.controller.recording.records import Event, Item, Recorder, Recorders
from macontrol.controller.recording.runfile import RunFileRecorder, RunHeader, set_aside
from macontrol.controller.recording.runfile.files import SUFFIX, file_stem
from macontrol.controller.recording.tally import Tally
from macontrol.controller.runtime.guard import Guard
from macontrol.controller.runtime.loop import SlotLoop
from macontrol.controller.runtime.stop import StopToken
from macontrol.controller.survey.samples import Survey
from macontrol.hal import Backend, Clock, Measurement, Probe
from macontrol.policy_monitor import PolicyMonitor
from macontrol.realtime_slots import run_in_realtime
from macontrol.trial.control import TrialControl
from macontrol.trial.outcome import BlockResult
from macontrol.trial.plan import Block, Plan

_CLOSE_S = 10.0


@dataclass(frozen=True)
class Place:
    """Where a trial runs, for its run files."""

    backend: str
    name: str
    folder: Path | None
    """Of the run files; None if there are none."""
    is_virtual: bool = False
    """Whether the clock is virtual."""


class Trial:
    """Runs the blocks of a plan one after the other, until the end, a stop or a fault."""

    def __init__(
        self,
        plan: Plan,
        configs: Sequence[Config],
        bench: Backend,
        survey: Survey,
        clock: Clock,
        place: Place,
        *,
        stop: StopToken,
        also: Recorder,
        note: Callable[[str], None],
        on_hang: Callable[[], None],
        control: TrialControl | None = None,
    ) -> None:
        """`configs` has the config of each policy of the plan; they differ in the policy only.

        `also` gets all records. `on_hang` is called before a policy that does not return ends the
        process. `control` shows the trial to operators.
        """
        self._plan = plan
        self._configs = configs
        self._bench = bench
        self._survey = survey
        self._clock = clock
        self._place = place
        self._stop = stop
        self._also = also
        self._note = note
        self._on_hang = on_hang
        self._control = control
        self._guard = Guard.of(configs[0], bench.stage)
        self._began_s = clock.now()
        self._slots_before = 0
        self._file: RunFileRecorder | None = None
        self._noted: set[str] = set()
        self.results: list[BlockResult] = []
        """The blocks so far; the last one may be incomplete."""

    def run(self) -> None:
        """Run all blocks; an error ends the trial, and `results` keeps what was measured."""
        for block in self._plan.blocks:
            if self._stop.is_set:
                return
            self._run_block(block)

    def throttle(self) -> None:
        """On a virtual clock: wait for the disk."""
        if self._file is not None:
            self._file.throttle()

    def _run_block(self, block: Block) -> None:
        config, label = self._configs[block.policy], self._plan.labels[block.policy]
        seed = config.run.seed + block.number
        policy = make_policy(config, self._survey, seed=seed, with_samples=False)
        counted = _Counted(self._plan.settling, policy.start_position)
        probe = _NumberedProbe(self._bench.probe)
        recorders = Recorders(counted, self._also)
        with ExitStack() as closing:
            loop = SlotLoop(
                config, policy, self._guard, probe, self._clock, recorders, stop=self._stop
            )
            file = self._record(block, config, label)
            if file is not None:
                recorders.add(_NumberedRecorder(file, probe))
                closing.callback(file.close, _CLOSE_S)

            def report(kind: EventKind, detail: str) -> None:
                recorders.submit(Event(loop.tally.slot, self._clock.now(), kind, detail))

            if self._control is not None:
                rounds = len(self._plan.order)
                shown = TrialBlock(block.number, len(self._plan.blocks), block.round, rounds)
                self._control.begin_block(shown, config, loop, file, recorders)
                closing.callback(self._control.end_block)
            reason, is_complete = "the block has ended", False
            report(EventKind.POLICY, label)
            try:
                loop.approach(policy.start_position)
                probe.offset = self._slots_before = self._slots_so_far(config)
                report(EventKind.START, f"block {block.number}, round {block.round}")
                if self._control is not None:
                    self._control.begin_slots()
                with self._realtime(loop), self._monitor(loop, config, report, closing):
                    loop.run(duration_s=self._plan.slots * config.physical.slot_duration_s)
                is_complete = not self._stop.is_set
            except MacontrolError as error:
                reason = str(error)
                raise
            finally:
                with suppress(StageError):  # closing the stage reports it
                    loop.halt()
                report(EventKind.STOP, reason)
                self._slots_before += loop.tally.slot
                self._add(block, loop.tally, counted.tally, config, is_complete=is_complete)

    def _slots_so_far(self, config: Config) -> int:
        passed = (self._clock.now() - self._began_s) / config.physical.slot_duration_s
        return max(self._slots_before, round(passed))

    def _add(
        self, block: Block, whole: Tally, counted: Tally, config: Config, *, is_complete: bool
    ) -> None:
        label = self._plan.labels[block.policy]
        ran = self._plan.slots if is_complete else whole.slot
        slots = max(0, ran - self._plan.settling)
        self.results.append(
            BlockResult(
                number=block.number,
                round=block.round,
                policy=label,
                is_complete=is_complete,
                slots=slots,
                rewards=counted.rewards,
                reward=counted.mean_reward if counted.rewards else None,
                travel_mm=config.physical.to_mm(counted.travel),
                switches=counted.switches,
                run_file=None if self._file is None else str(self._file.path),
            )
        )
        shown = "no reward" if not counted.rewards else f"{counted.mean_reward:.4f} bit/s/Hz"
        rounds = len(self._plan.order)
        self._note(f"round {block.round}/{rounds}: {label}: {shown} over {slots} slots")

    def _record(self, block: Block, config: Config, label: str) -> RunFileRecorder | None:
        """The run file of a block, if the trial has run files."""
        folder, survey = self._place.folder, self._survey
        if folder is None:
            return None
        header = RunHeader.of(
            config,
            backend=self._place.backend,
            stage=self._place.name,
            survey=survey,
            sigma_f2=survey.sigma_f2(config),
            started_wall_s=time.time(),
            started_clock_s=self._clock.now(),
            clock="virtual" if self._place.is_virtual else "monotonic",
            identity=self._bench.identity,
        )
        path = folder / f"{block.number:03}-{file_stem(label)}{SUFFIX}"
        set_aside(path)
        room = FreeSpace(path, config.run.free_space_floor_mb)
        self._file = RunFileRecorder(path, header, on_problem=self._note_once, room=room)
        self._file.start()
        return self._file

    def _realtime(self, loop: SlotLoop) -> ExitStack:
        """Real-time scheduling for one block, on a wall clock."""
        closing = ExitStack()
        if self._place.is_virtual:
            return closing
        is_simulated = self._place.backend == "sim"
        report = run_in_realtime(loop, self._clock, closing, is_simulated=is_simulated)
        if report.warning:
            self._note_once(report.warning)
        return closing

    def _monitor(
        self,
        loop: SlotLoop,
        config: Config,
        report: Callable[[EventKind, str], None],
        closing: ExitStack,
    ) -> PolicyMonitor:
        """End the process if the policy does not return."""

        def before_end(error: PolicyError, stack: str) -> None:
            report(EventKind.POLICY_FAULT, f"{error}\n{stack}")
            self._note(error.detail)
            closing.close()
            self._on_hang()

        return PolicyMonitor.of(config, loop, before_end)

    def _note_once(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._note(text)


class _Counted(Recorder):
    """The statistics of a block without its first slots."""

    def __init__(self, settling: int, start: float) -> None:
        self.tally = Tally(start)
        self._settling = settling

    def submit(self, item: Item) -> None:
        if item.slot > self._settling:
            self.tally.submit(item)


class _NumberedProbe:
    """A probe whose slots are numbered through the trial."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self.offset = 0

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        self._probe.request(slot + self.offset, start_s, end_s)

    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        found = self._probe.collect(deadline_s)
        return [replace(one, slot=one.slot - self.offset) for one in found]

    def close(self) -> None:
        """The bench closes its probe."""


class _NumberedRecorder(Recorder):
    """A run file whose slots are those of its probe."""

    def __init__(self, recorder: Recorder, probe: _NumberedProbe) -> None:
        self._recorder = recorder
        self._probe = probe

    def submit(self, item: Item) -> None:
        self._recorder.submit(item._replace(slot=item.slot + self._probe.offset))
