"""The reference receiver: a second, fixed probe, whose power is recorded beside each slot.

It is measured in a thread of its own. The slot thread only notes which intervals it measures, so
whatever the receiver does, no slot waits for it and none loses its reward. A receiver that fails is
tried again for as long as the run lasts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from queue import Empty, SimpleQueue
from typing import Protocol, TypeAlias

from macontrol.config import Config
from macontrol.config.model.errors import PROBE_CODE, ConfigError, ProbeError
from macontrol.config.sections.probe import ProbeSettings
from macontrol.controller.recording.records import Recorder, ReferenceReading
from macontrol.controller.runtime.loop import SlotLoop
from macontrol.controller.runtime.observation import Rewarding
from macontrol.hal import Clock, Measurement, Probe
from macontrol.hal.capabilities import HasNoiseFloor, Openable
from macontrol.hal.registry import PROBES

RETRY_S = 10.0
"""A receiver that cannot be opened is tried again after this time; the run continues."""
_POLL_INTERVAL_S = 0.25
# The reading of the last slot may take this long.
_LAST_S = 0.3
_JOIN_S = 2.0
# Requests that wait while the receiver is opened; the slots beyond have no reading.
_MOST_WAITING = 1000

LastSlot: TypeAlias = Callable[[], int]
ReferenceReport: TypeAlias = Callable[[str, float | None], None]
"""Reports what happens to a receiver, from any thread."""


class Reference(Protocol):
    """What records a power beside each slot."""

    def start(self, recorder: Recorder, last_slot: LastSlot) -> None:
        """Give readings to `recorder` from now on, up to the last slot that it has."""

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        """Request the reading of a slot, in the slot thread; it returns at once."""

    def stop(self) -> None:
        """Give the last readings, and end."""


def beside(probe: Probe, reference: Reference | None) -> Probe:
    """The probe for the slots, whose requests are passed to the reference receiver too."""
    return probe if reference is None else _Beside(probe, reference)


def start_reference(
    reference: Reference | None, recorder: Recorder, loop: SlotLoop, closing: ExitStack
) -> None:
    """Record the readings of a run, until `closing` ends."""
    if reference is not None:
        reference.start(recorder, lambda: loop.tally.slot)
        closing.callback(reference.stop)


class _Beside:
    def __init__(self, probe: Probe, reference: Reference) -> None:
        self._probe = probe
        self._reference = reference
        self.collect, self.close = probe.collect, probe.close

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        try:
            self._probe.request(slot, start_s, end_s)
        finally:
            self._reference.request(slot, start_s, end_s)


class ReferenceReceiver:
    """A reference receiver of a serial bench."""

    def __init__(
        self,
        config: Config,
        settings: ProbeSettings,
        clock: Clock,
        report: ReferenceReport,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._report = report
        self._rewarding = Rewarding(config)
        self._probe: Probe | None = None
        self._opening: Probe | None = None
        self._failed_since_s: float | None = None
        self._recorder, self._last_slot = Recorder(), _no_slot
        self._jobs: SimpleQueue[tuple[int, float, float]] = SimpleQueue()
        self._held: list[ReferenceReading] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="reference", daemon=True)
        self.problem = ""
        """Why it does not measure; empty if it does."""

    @property
    def name(self) -> str:
        """Which device it is."""
        if self._probe is not None and isinstance(self._probe, Openable):
            return self._probe.name
        return self._settings.driver

    def open(self) -> None:
        """Open it; a failure is reported, and tried again during the run."""
        try:
            with PROBE_CODE:
                probe = PROBES[self._settings.driver].make(self._settings, self._clock)
                self._opening = probe
                if isinstance(probe, Openable):
                    probe.open()
        except (ConfigError, ProbeError) as error:
            self._close_opening()
            self._fail(error, f"trying again every {RETRY_S:g} s")
            return
        self._probe, self._opening = probe, None
        self._recover()

    def measure_floor(self, *, again: bool = False) -> None:
        """Measure its noise floor, with the transmitter off; a failure is reported."""
        is_wanted = again or self._settings.noise_floor == "measure"
        if not (is_wanted and isinstance(self._probe, HasNoiseFloor)):
            return
        try:
            with PROBE_CODE:
                floor = self._probe.measure_noise_floor()
        except ProbeError as error:
            self._report(f"{error}; its SNR is unknown, or by an earlier floor", None)
        else:
            self._report(f"{self.name}: noise floor {floor}", floor.dbfs)

    def start(self, recorder: Recorder, last_slot: LastSlot) -> None:
        self._recorder, self._last_slot = recorder, last_slot
        if self.problem:  # it was reported before there was a run file
            self._report(self.problem, None)
        self._thread.start()

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        if self._jobs.qsize() < _MOST_WAITING:
            self._jobs.put((slot, start_s, end_s))

    def stop(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)

    def close(self) -> None:
        """Release the receiver."""
        self.stop()
        self._close_opening()
        probe, self._probe = self._probe, None
        if probe is not None:
            with suppress(ProbeError), PROBE_CODE:
                probe.close()

    # The methods below run in the receiver's thread, once it has started.

    def _work(self) -> None:
        retry_s = self._clock.now() + RETRY_S
        while not self._ended.is_set():
            if self._probe is None and self._clock.now() >= retry_s:
                self.open()
                retry_s = self._clock.now() + RETRY_S
            try:
                job = self._jobs.get(timeout=_POLL_INTERVAL_S)
            except Empty:
                job = None
            self._measure(job, self._clock.now())
        self._measure(None, self._clock.now() + _LAST_S)

    def _measure(self, job: tuple[int, float, float] | None, deadline_s: float) -> None:
        """Request the power of a slot, if there is one, and pass on what is ready."""
        probe = self._probe
        if probe is None:
            return
        try:
            with PROBE_CODE:
                if job is not None and job[2] > self._clock.now():
                    probe.request(*job)
                self._take(probe.collect(deadline_s))
        except ProbeError as error:
            self._fail(error, "the run continues")
        else:
            if job is not None:
                self._recover()

    def _take(self, found: Sequence[Measurement]) -> None:
        """Submit the readings of slots that are recorded; keep the others."""
        for one in found:
            seen = self._rewarding.observe(one)
            level, unit, _, snr, *_ = seen.signal
            if level is not None or snr is not None:
                self._held.append(ReferenceReading(seen.slot, level, unit, snr))
        last = self._last_slot()
        for reading in self._held:
            if reading.slot <= last:
                self._recorder.submit(reading)
        self._held = [reading for reading in self._held if reading.slot > last]

    def _fail(self, error: ConfigError | ProbeError, outcome: str) -> None:
        """Report a failure, once until it works again."""
        self.problem = f"{error}; {outcome}"
        if self._failed_since_s is None:
            self._failed_since_s = self._clock.now()
            self._report(self.problem, None)

    def _recover(self) -> None:
        self.problem = ""
        if self._failed_since_s is not None:
            lasted_s, self._failed_since_s = self._clock.now() - self._failed_since_s, None
            self._report(f"{self.name}: works again", lasted_s)

    def _close_opening(self) -> None:
        probe, self._opening = self._opening, None
        if probe is not None:
            with suppress(ProbeError), PROBE_CODE:
                probe.close()


class SimulatedReference:
    """A fixed receiver in the world of the simulated bench, which has its SNR at once."""

    def __init__(self, snr_db: Callable[[], float | None]) -> None:
        self._snr_db = snr_db
        self._recorder = Recorder()
        self._last_slot: LastSlot = _no_slot
        self._held: ReferenceReading | None = None

    def start(self, recorder: Recorder, last_slot: LastSlot) -> None:
        self._recorder, self._last_slot = recorder, last_slot

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        self.stop()
        snr_db = self._snr_db()
        self._held = ReferenceReading(slot, snr_db, "dB", snr_db)

    def stop(self) -> None:
        held, self._held = self._held, None
        if held is not None and held.slot <= self._last_slot():
            self._recorder.submit(held)


def _no_slot() -> int:
    return 0
