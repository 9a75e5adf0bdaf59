"""The control socket of a trial: `status`, snapshots and events, the posterior, and `stop`.

A trial compares policies that decide on their own, so what would steer them is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from macontrol.config import Config
from macontrol.control.link import ControlLink
from macontrol.control.live_run import LiveRun, TrialBlock
from macontrol.control.states import State
from macontrol.controller.recording.events import EventKind
from macontrol.controller.recording.records import Event, Recorder, Recorders
from macontrol.controller.recording.runfile import RunFileRecorder
from macontrol.controller.recording.tally import EventCounter
from macontrol.controller.runtime.loop import SlotLoop
from macontrol.controller.runtime.steering import Steering
from macontrol.controller.runtime.stop import StopToken
from macontrol.hal import Clock
from macontrol.recording import Recording
from macontrol.run_options import RunOptions


class TrialControl:
    """Shows a trial as a run whose policy and run file change with each block."""

    def __init__(
        self, config: Config, options: RunOptions, clock: Clock, stop: StopToken, records: Recorders
    ) -> None:
        """`records` get what operators do, until the first block."""
        recording = Recording(config, options, clock, note=_ignore, report=_ignore)
        counter = EventCounter()
        self.live = LiveRun(
            config, options, stop, Steering(), counter, recording, trial=TrialBlock(0, 0, 0, 0)
        )
        self._clock = clock
        self._records: Recorder = records
        records.add(counter)
        records.add(self.live)

    def start(self, note: Callable[[str], None], closing: ExitStack) -> None:
        """Serve until `closing`."""
        link = ControlLink.of(self.live, self._report)
        closing.callback(link.close)
        if problem := link.start():
            note(problem)

    def begin_block(
        self,
        block: TrialBlock,
        config: Config,
        loop: SlotLoop,
        file: RunFileRecorder | None,
        records: Recorder,
    ) -> None:
        """Show this block, whose antenna goes to its start position."""
        live = self.live
        live.phase, live.last = State.STARTING, None
        live.trial, live.config, live.loop = block, config, loop
        live.recording.file = file
        self._records = records

    def begin_slots(self) -> None:
        self.live.phase = None

    def end_block(self) -> None:
        self.live.phase = State.STARTING

    def _report(self, kind: EventKind, detail: str, value: float | None) -> None:
        slot = self.live.loop.tally.slot if self.live.loop else 0
        self._records.submit(Event(slot, self._clock.now(), kind, detail, value))


def _ignore(*_: object) -> None:
    """A trial reports by itself what its bench and its run files report."""
