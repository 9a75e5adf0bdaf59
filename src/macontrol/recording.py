"""The files that a run records: the run file and the traffic log, and how much is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from macontrol.config import Config
from macontrol.config.files.free_space import FreeSpace
from macontrol.config.model.errors import InputOutputError
from macontrol.controller.recording.events import EventKind
from macontrol.controller.recording.runfile.files import (
    default_run_folder,
    new_run_path,
    runs_in,
    set_aside,
)
from macontrol.controller.recording.runfile.header import RunHeader
from macontrol.controller.recording.runfile.recorder import RunFileRecorder
from macontrol.controller.recording.runfile.resume import Resume
from macontrol.controller.recording.runfile.retention import (
    Keep,
    remove_run,
    stored_runs,
    surplus,
)
from macontrol.controller.survey.samples import Survey
from macontrol.hal import Clock, Probe
from macontrol.hal.capabilities import HasSamples
from macontrol.hal.serial.traffic_log import TrafficFile
from macontrol.iq_recording import IQRecording, samples_of
from macontrol.run_options import RunOptions


class Recording:
    """The run file and the traffic log, if this run has them."""

    def __init__(
        self,
        config: Config,
        options: RunOptions,
        clock: Clock,
        *,
        note: Callable[[str], None],
        report: Callable[[EventKind, str, float | None], None],
    ) -> None:
        self._config = config
        self._options = options
        self._clock = clock
        self._note = note
        self._report = report
        self._on_problem: Callable[[str], None] = lambda problem: report(
            EventKind.RECORDING, problem, None
        )
        self.file: RunFileRecorder | None = None
        self._traffic: TrafficFile | None = None
        self._probe: HasSamples | None = None
        self._samples: IQRecording | None = None
        self._cleaning: threading.Thread | None = None
        self.warning: str | None = None
        """Why nothing is recorded although that was requested."""

    def open_traffic(self, closing: ExitStack) -> TrafficFile | None:
        """The traffic log, if this run has one; `closing` closes it."""
        path = self._options.traffic
        if path is None:
            return None
        room = FreeSpace(path, self._config.run.free_space_floor_mb)
        log = TrafficFile(path, self._clock, on_problem=self._on_problem, room=room)
        self._traffic = closing.enter_context(log)
        return self._traffic

    def keep_samples_of(self, probe: Probe) -> None:
        """Record samples of this probe, if this run does that; an error if it cannot."""
        if self._options.record_iq is not None:
            self._probe = samples_of(probe, self._options.record_iq, self._config)

    def start(
        self, survey: Survey, resume: Resume | None, identity: Mapping[str, str]
    ) -> RunFileRecorder | None:
        """Create the run file, if this run has one; InputOutputError if a named one fails."""
        options = self._options
        if options.fast and options.run_file is None:
            return None
        earlier = resume.path if resume else None
        if options.run_file is not None and (renamed := set_aside(options.run_file)):
            self._note(f"{options.run_file}: the earlier run of this name is now {renamed}")
            if resume is not None and resume.path == options.run_file:
                earlier = renamed
        header = RunHeader.of(
            self._config,
            backend=options.backend,
            stage=options.name,
            survey=survey,
            sigma_f2=survey.sigma_f2(self._config),
            started_wall_s=time.time(),
            started_clock_s=self._clock.now(),
            clock="virtual" if options.fast else "monotonic",
            window=resume.samples if resume else (),
            resumed_from=str(earlier) if resume else None,
            identity=identity,
            origins=options.origins,
        )
        try:
            path = options.run_file or new_run_path(
                default_run_folder(), options.name, header.started_wall_s
            )
            room = FreeSpace(path, self._config.run.free_space_floor_mb)
            recorder = RunFileRecorder(path, header, on_problem=self._on_problem, room=room)
            recorder.start()
        except InputOutputError as error:
            if options.run_file is not None:
                raise
            self.warning = f"nothing is recorded: {error}"
            return None
        if shortage := room.shortage():
            self.warning = f"{path}: recording is paused from the start: {shortage}"
        self.file = recorder
        self._start_samples(recorder, room)
        if options.run_file is None:
            self._remove_surplus(path)
        return recorder

    def _start_samples(self, recorder: RunFileRecorder, room: FreeSpace) -> None:
        """Record samples beside the run file, if this run does that."""
        if self._probe is None or self._options.record_iq is None:
            return
        recording = IQRecording(
            recorder.path,
            self._probe,
            self._options.record_iq,
            wall_s=recorder.header.wall_s,
            room=room,
            on_problem=self._on_problem,
        )
        try:
            recording.start()
        except InputOutputError:
            recorder.close()
            raise
        self._samples = recording

    def _remove_surplus(self, own: Path) -> None:
        """Remove the bench's earlier runs that the config does not keep, in a thread of its own."""
        keep = Keep.of(self._config.run)
        if keep.is_all:
            return
        # This run counts, but its file is not opened: closing it would drop the locks of SQLite.
        others = replace(keep, runs=None if keep.runs is None else keep.runs - 1)

        def work() -> None:
            earlier = [path for path in runs_in(own.parent, self._options.name) if path != own]
            try:
                for run in surplus(stored_runs(earlier), others, time.time()):
                    if remove_run(run.path):
                        size_mb = run.size_bytes / 1e6
                        self._report(EventKind.REMOVED_RUN, str(run.path), size_mb)
            except InputOutputError as error:
                self._on_problem(str(error))

        self._cleaning = threading.Thread(target=work, name="run-file-retention", daemon=True)
        self._cleaning.start()

    def throttle(self) -> None:
        """On a virtual clock: wait for the disk."""
        if self.file is not None:
            self.file.throttle()

    def close(self, timeout_s: float) -> None:
        """Write the remaining records, within this time."""
        if self._cleaning is not None:
            self._cleaning.join(timeout_s)
        if self._samples is not None:
            self._samples.close()
        if self.file is not None:
            self.file.close(timeout_s)

    def add_to(self, summary: dict[str, Any]) -> None:
        """Add the file and the counts of its records to a run's summary."""
        if self.file is not None:
            summary["run_file"] = str(self.file.path)
            summary["records_written"] = self.file.written
            summary["records_lost"] = self.file.lost
        if self._samples is not None:
            summary["iq_file"] = str(self._samples.meta)
            summary["iq_slots"] = self._samples.written
            summary["iq_slots_lost"] = self._samples.lost
        if self._traffic is not None:
            summary["traffic_lost"] = self._traffic.lost
