"""The IQ samples of chosen slots as SigMF, beside the run file.

The probe's thread gives the samples to a queue, and a thread of this module writes them: bytes as
the radio sent them to NAME.sigmf-data, and their meaning to NAME.sigmf-meta. Each slot is one
capture with its time, and one annotation with its number and measuring window. What the disk does
delays neither the probe nor a slot: samples that do not fit into the queue are lost and counted.
"""

from __future__ import annotations

import hashlib
import json
import queue
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import numpy as np

from macontrol import __version__
from macontrol.config import Config
from macontrol.config.files.atomic_file import atomic_text
from macontrol.config.files.free_space import FreeSpace
from macontrol.config.model.errors import (
    ConfigError,
    InputOutputError,
    MacontrolError,
    UsageError,
    reason_of,
)
from macontrol.config.sections.sdr import LONGEST_WINDOW_S
from macontrol.controller.recording.runfile.schema import SAMPLES
from macontrol.hal import Probe
from macontrol.hal.capabilities import HasSamples, SlotSamples
from macontrol.slot_choice import SlotChoice

MOST_BYTES = 2_000_000_000
"""The size of all samples of a run."""
SIGMF_VERSION = "1.2.0"
_QUEUED_BYTES = 100_000_000
_JOIN_S = 10.0
_FORMATS = {"u1": "cu8", "i1": "ci8", "i2": "ci16_le", "f4": "cf32_le", "f8": "cf64_le"}


def samples_of(probe: Probe, choice: SlotChoice, config: Config) -> HasSamples:
    """The probe as one with samples; an error if it has none, or if they are too large."""
    if not isinstance(probe, HasSamples):
        raise ConfigError(
            f"--record-iq: the probe {config.probe.driver} has no IQ samples",
            "use a probe that is a radio, or leave the option out",
        )
    _format_of(probe)
    measure_s = min(config.longest_measure_s, LONGEST_WINDOW_S)
    per_slot = measure_s * probe.sample_rate_hz * 2 * np.dtype(probe.dtype).itemsize
    size = choice.count * per_slot
    if size > MOST_BYTES:
        raise UsageError(
            f"--record-iq: {choice.count} slots have up to {size / 1e6:.0f} MB of samples, more "
            f"than {MOST_BYTES / 1e6:.0f} MB",
            f"choose at most {int(MOST_BYTES / per_slot)} slots",
        )
    return probe


def _format_of(probe: HasSamples) -> str:
    """The SigMF datatype of a probe's samples."""
    kind = np.dtype(probe.dtype)
    name = _FORMATS.get(f"{kind.kind}{kind.itemsize}")
    if name is None:
        raise ConfigError(f"--record-iq: SigMF has no datatype for samples of type {kind}")
    return name


class IQRecording:
    """Writes the samples of chosen slots, from `start` to `close`."""

    def __init__(
        self,
        run_file: Path,
        probe: HasSamples,
        choice: SlotChoice,
        *,
        wall_s: Callable[[float], float],
        room: FreeSpace,
        on_problem: Callable[[str], None],
    ) -> None:
        """`wall_s` converts a time of the clock to seconds of UTC since 1970."""
        self.data, self.meta = map(run_file.with_suffix, SAMPLES)
        self._refused = 0  # counted by the probe's thread, …
        self._failed = 0  # … and by the writer: no counter has two threads
        self.written = 0
        self._probe = probe
        self._choice = choice
        self._wall_s = wall_s
        self._room = room
        self._on_problem = on_problem
        self._queue: queue.SimpleQueue[SlotSamples | None] = queue.SimpleQueue()
        self._taken_bytes = self._done_bytes = 0
        self._count = 0
        """Samples in the file."""
        self._captures: list[dict[str, Any]] = []
        self._annotations: list[dict[str, Any]] = []
        self._hash = hashlib.sha512()
        self._is_failing = False
        self._file: IO[bytes] | None = None
        self._thread = threading.Thread(target=self._work, name="iq-recording", daemon=True)

    @property
    def lost(self) -> int:
        """Slots whose samples are not in the file."""
        return self._refused + self._failed

    def start(self) -> None:
        """Create the file and ask the probe for samples; InputOutputError if that fails."""
        try:
            self._file = self.data.open("xb")
        except OSError as error:
            fix = "choose another name with --run" if self.data.exists() else ""
            raise InputOutputError(f"{self.data}: {reason_of(error)}", fix) from error
        self._thread.start()
        self._probe.keep_samples(self._choice.__contains__, self.submit)

    def submit(self, samples: SlotSamples) -> None:
        """Take the samples of a slot in the probe's thread; return at once."""
        if self._taken_bytes - self._done_bytes + samples.samples.nbytes > _QUEUED_BYTES:
            self._refused += 1
            return
        self._taken_bytes += samples.samples.nbytes
        self._queue.put(samples)

    def close(self) -> None:
        """Write what is left."""
        if self._file is not None:
            self._queue.put(None)
            self._thread.join(_JOIN_S)

    def _work(self) -> None:
        assert self._file is not None
        with self._file as file:
            while (samples := self._queue.get()) is not None:
                self._append(file, samples)
                self._done_bytes += samples.samples.nbytes
                if self._queue.empty():
                    self._describe()
        if self._count == 0:
            self.data.unlink(missing_ok=True)
        else:
            self._describe()

    def _append(self, file: IO[bytes], taken: SlotSamples) -> None:
        """Write the samples of one slot; count them as lost if that fails."""
        begin = file.tell()
        try:
            if shortage := self._room.shortage():
                raise InputOutputError(shortage)
            content = np.ascontiguousarray(taken.samples).tobytes()
            file.write(content)
            file.flush()
        except (OSError, MacontrolError) as error:
            self._failed += 1
            self._fail(error)
            try:  # a part of a slot would shift all later ones
                file.seek(begin)
                file.truncate(begin)
            except OSError as worse:
                self._fail(worse)
            return
        self._hash.update(content)
        self._add(taken)

    def _add(self, taken: SlotSamples) -> None:
        start, count = self._count, len(taken.samples)
        moment = datetime.fromtimestamp(self._wall_s(taken.first_s), UTC)
        self._captures.append(
            {
                "core:sample_start": start,
                "core:frequency": self._probe.frequency_hz,
                "core:datetime": f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}",
            }
        )
        self._annotations.append(
            {
                "core:sample_start": start,
                "core:sample_count": count,
                "core:label": f"slot {taken.slot}",
                "macontrol:slot": taken.slot,
                "macontrol:first_sample_s": taken.first_s,
                "macontrol:window_start_s": taken.start_s,
                "macontrol:window_end_s": taken.end_s,
                "macontrol:power": taken.power,
                "macontrol:invalid": taken.reason or None,
            }
        )
        self._count += count
        self.written += 1

    def _describe(self) -> None:
        """Write the meaning of the samples so far."""
        try:
            with atomic_text(self.meta) as file:
                json.dump(self._metadata(), file, indent=1)
                file.write("\n")
        except MacontrolError as error:
            self._fail(error)

    def _metadata(self) -> dict[str, Any]:
        return {
            "global": {
                "core:version": SIGMF_VERSION,
                "core:datatype": _format_of(self._probe),
                "core:sample_rate": self._probe.sample_rate_hz,
                "core:hw": self._probe.name,
                "core:recorder": f"macontrol {__version__}",
                "core:description": "samples of chosen slots of a run, one capture per slot",
                "core:sha512": self._hash.hexdigest(),
                "core:extensions": [
                    {"name": "macontrol", "version": __version__, "optional": True}
                ],
            },
            "captures": self._captures,
            "annotations": [
                {key: value for key, value in one.items() if value is not None}
                for one in self._annotations
            ],
        }

    def _fail(self, error: Exception) -> None:
        if not self._is_failing:  # once, not per slot
            self._is_failing = True
            reason = reason_of(error) if isinstance(error, OSError) else str(error)
            self._on_problem(f"--record-iq: samples are lost: {reason}")
