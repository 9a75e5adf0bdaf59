"""A thread that waits for requested windows of samples and computes their power.

A window has a reading, or a reason why it has none; `hal.probe` lists the reasons.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from math import isfinite, nan

import numpy as np

from macontrol.config.sections.sdr import SdrSettings
from macontrol.hal.capabilities import SlotSamples
from macontrol.hal.clock import Clock
from macontrol.hal.probe import (
    CLIPPING,
    CONSTANT,
    GAP,
    NOT_A_NUMBER,
    SAMPLE_RATE,
    STALE,
    TOO_FEW_SAMPLES,
)
from macontrol.hal.probes.power_probe import Outcome, Request
from macontrol.hal.probes.sdr.power import PowerReading, tone, wideband
from macontrol.hal.probes.sdr.ring import IQRing
from macontrol.hal.probes.sdr.samples import Samples

# The longest wait for samples before new and overdue requests are checked.
_POLL_INTERVAL_S = 0.05
_THREAD_ENDS_S = 5.0
# Samples that show whether a radio is stuck.
_FEW = 1000


class WindowWorker:
    """Compute the power in windows of time, in the order in which they become complete."""

    def __init__(
        self, settings: SdrSettings, ring: IQRing, clock: Clock, stop: threading.Event
    ) -> None:
        self._settings = settings
        self._ring = ring
        self._clock = clock
        self._stop = stop
        self._incoming: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.level = nan
        """The latest power; NaN before the first window."""
        self.clipped_share = nan
        self.wants: Callable[[int], bool] = lambda _slot: False
        self.take: Callable[[SlotSamples], None] = lambda _samples: None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._work, name="probe-worker", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait for the end of the thread, after `stop` is set."""
        if self._thread is not None:
            self._thread.join(_THREAD_ENDS_S)

    def submit(self, request: Request) -> None:
        """Request the power in a window, which the worker thread answers."""
        self._incoming.put(request)

    def _work(self) -> None:
        pending: deque[Request] = deque()
        while not self._stop.is_set():
            if pending:
                self._ring.wait(min(request.end_s for request in pending), _POLL_INTERVAL_S)
            else:
                try:
                    pending.append(self._incoming.get(timeout=5 * _POLL_INTERVAL_S))
                except queue.Empty:
                    continue
            while not self._incoming.empty():
                pending.append(self._incoming.get())
            for _ in range(len(pending)):
                request = pending.popleft()
                try:
                    outcome: Outcome | None = self._measure(request)
                except Exception as error:  # every request gets an answer; the thread continues
                    outcome = f"{type(error).__name__}: {error}"
                if outcome is None:
                    pending.append(request)
                else:
                    request.answer(outcome)

    def _measure(self, request: Request) -> PowerReading | str | None:
        """Return the reading or the reason why there is none; None while it is pending."""
        settings = self._settings
        wanted = (request.end_s - request.start_s) * settings.sample_rate_hz
        if wanted < settings.least_samples:
            return TOO_FEW_SAMPLES
        window = self._ring.window(request.start_s, request.end_s)
        if window.state == "pending":
            overdue = self._clock.now() > request.end_s + settings.stale_s
            return self._reason_of_loss(STALE) if overdue else None
        if window.samples is None:
            return self._reason_of_loss(window.reason)
        outcome = self._evaluate(window.samples)
        if request.slot is not None and self.wants(request.slot):
            if isinstance(outcome, str):
                power, reason = None, outcome
            else:
                reason = outcome.reason
                power = None if reason else outcome.power
            times = (window.first_s, request.start_s, request.end_s)
            self.take(SlotSamples(request.slot, window.samples, *times, power, reason))
        return outcome

    def _evaluate(self, samples: Samples) -> PowerReading | str:
        with np.errstate(all="ignore"):  # floats can have any value: the result is checked
            if _is_constant(samples):
                return CONSTANT  # every working radio shows at least its own noise
            reading = self._reading(samples)
        if not isfinite(reading.power):
            return NOT_A_NUMBER
        if reading.clipped_share > self._settings.clipping_share:
            return replace(reading, reason=CLIPPING)
        return reading

    def _reason_of_loss(self, reason: str) -> str:
        is_loss = reason in (GAP, STALE)
        return SAMPLE_RATE if is_loss and self._ring.loses_by_its_rate else reason

    def _reading(self, samples: Samples) -> PowerReading:
        settings = self._settings
        if settings.mode == "tone":
            reading = tone(
                samples,
                settings.sample_rate_hz,
                settings.tone_offset_hz,
                settings.tone_bandwidth_hz,
            )
        else:
            reading = wideband(samples)
        self.level, self.clipped_share = reading.power, reading.clipped_share
        return reading


def _is_constant(samples: Samples) -> bool:
    """Whether all samples are equal. The first ones show it for a working radio, at little cost."""
    few = samples[:_FEW]
    return not (np.ptp(few, axis=0).any() or np.ptp(samples, axis=0).any())
