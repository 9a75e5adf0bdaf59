"""The connection to a radio: a thread that reads its stream, and reopens it after a failure."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from math import inf
from typing import Protocol, runtime_checkable

import numpy.typing as npt

from macontrol.config.model.errors import ProbeError
from macontrol.config.sections.sdr import LONGEST_WINDOW_S, SdrSettings
from macontrol.hal.clock import Clock
from macontrol.hal.probe import GAP
from macontrol.hal.probes.power_probe import CLOSED, NOT_OPEN
from macontrol.hal.probes.sdr.ring import IQRing

# Pause between attempts to reopen a stream. It doubles, and starts again after a stream that worked
# for a while.
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 8.0
_WORKED_S = 5.0
# How long `close` waits for another thread that is opening the radio, and for the reader thread.
_OPENING_ENDS_S = 2.0
_THREAD_ENDS_S = 5.0
_POLL_INTERVAL_S = 0.01


class IQStream(Protocol):
    """A radio that delivers samples continuously. Only one thread uses it at a time."""

    @property
    def name(self) -> str:
        """Which radio this is."""

    @property
    def dtype(self) -> npt.DTypeLike:
        """The type of I and Q: bytes or floats."""

    def open(self, stop: threading.Event) -> None:
        """Connect and tune; raise ProbeError or ConfigError if that fails, or if `stop` is set."""

    def read(self, ring: IQRing, stop: threading.Event) -> None:
        """Append samples to the ring until `stop` is set; raise ProbeError if they end."""

    def close(self) -> None:
        """Release the radio; a radio that is not open stays closed."""


@runtime_checkable
class HasStreamGain(Protocol):
    """A stream whose gain can be changed. Any thread may call it, while another one reads."""

    @property
    def gains_db(self) -> Sequence[float]:
        """The gains of the open radio."""

    def set_gain(self, gain_db: float) -> None:
        """Note the gain; the thread that reads sets it, now and whenever the radio is reopened."""


class StreamReader:
    """Keep the samples of a stream flowing into a ring."""

    def __init__(
        self,
        settings: SdrSettings,
        stream: IQStream,
        clock: Clock,
        on_fault: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._stream = stream
        self._clock = clock
        self._on_fault = on_fault
        self.ring = IQRing(
            settings.sample_rate_hz,
            capacity_s=LONGEST_WINDOW_S + settings.stale_s + 0.5,
            tolerance_s=settings.guard_s,
            settling_s=settings.settling_s,
            stale_s=settings.stale_s,
            delay_s=settings.delay_s,
            dtype=stream.dtype,
            on_settled=self._clear_fault,
        )
        self.stop = threading.Event()
        self.fault: ProbeError | None = NOT_OPEN
        """Why there are no samples at present; None if there are."""
        self.reopened = 0
        # Held while the radio is opened or closed outside the reader thread.
        self._opening = threading.Lock()
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Connect, tune and wait for samples; raise ProbeError or ConfigError."""
        with self._opening:
            self._stream.open(self.stop)
            if self.stop.is_set():
                raise ProbeError(CLOSED.detail)
            self.fault = None
            self._thread = threading.Thread(target=self._read, name="probe-reader", daemon=True)
            self._thread.start()
        self._await_samples()

    def _await_samples(self) -> None:
        settings = self._settings
        until_s = self._clock.now() + settings.settling_s + settings.silence_s + 1.0
        while not self.ring.is_settled:
            if self.stop.wait(_POLL_INTERVAL_S):
                raise ProbeError(CLOSED.detail)
            if self.fault or self._clock.now() > until_s:
                raise self.fault or ProbeError(self.ring.why_unsettled)

    def close(self) -> None:
        """Stop reading and release the radio.

        A radio must not be closed by one thread while another thread uses it. A thread that is
        still opening or reading the radio closes it itself.
        """
        self.stop.set()
        self.fault = self.fault or CLOSED
        if not self._opening.acquire(timeout=_OPENING_ENDS_S):
            return
        try:
            if self._thread is not None:
                self._thread.join(_THREAD_ENDS_S)
            if self._thread is None or not self._thread.is_alive():
                self._stream.close()
        finally:
            self._opening.release()

    def _read(self) -> None:
        """Read, and reopen the stream after any failure."""
        pause_s, is_open = _FIRST_PAUSE_S, True
        while not self.stop.is_set():
            began_s = inf  # the time to open a radio does not count as working
            try:
                if not is_open:
                    self._stream.open(self.stop)
                    is_open = True
                    self.ring.restart(GAP, self._clock.now(), reopened=True)
                began_s = self._clock.now()
                self._stream.read(self.ring, self.stop)
            except ProbeError as error:
                self._report(error)
            except Exception as error:  # the reader must not end without a message
                self._report(ProbeError(f"{type(error).__name__}: {error}"))
            self._stream.close()
            is_open = False
            if self.stop.is_set():
                break
            self.ring.restart(GAP, self._clock.now(), reopened=True)
            if self._clock.now() - began_s > _WORKED_S:
                pause_s = _FIRST_PAUSE_S
            self.stop.wait(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        self._stream.close()

    def _report(self, fault: ProbeError) -> None:
        self.fault = fault
        self._on_fault()

    def _clear_fault(self) -> None:
        """Samples are available. An open stream without samples is still a fault."""
        if self.fault and not self.stop.is_set():
            self.fault = None
            self.reopened += 1
