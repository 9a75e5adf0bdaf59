"""A probe that measures with the continuous IQ stream of a radio.

`StreamReader` reads the samples into a ring, in a thread. `WindowWorker` computes the power of
requested windows, in a second thread. The slot thread only submits requests and takes finished
measurements: it neither reads nor computes, and waits only in `collect`.

Guards at both ends of the transmission interval are not measured, because the time stamps of
samples have about that error. A measurement is invalid if the worker has no reading (see there),
if the noise floor is unknown, or if the floor itself is being measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isnan, nan

import numpy.typing as npt

from macontrol.config.model.errors import ProbeError
from macontrol.config.model.units import to_db
from macontrol.config.sections.sdr import LONGEST_WINDOW_S, SdrSettings
from macontrol.hal.capabilities import ProbeHealth, SlotSamples
from macontrol.hal.clock import Clock
from macontrol.hal.probes.power_probe import PowerProbe, Request
from macontrol.hal.probes.sdr.reader import HasStreamGain, IQStream, StreamReader
from macontrol.hal.probes.sdr.worker import WindowWorker


class SdrProbe(PowerProbe):
    """The Probe for any IQ stream: Openable, HasNoiseFloor, HasHealth, HasSamples, HasGain."""

    longest_s = LONGEST_WINDOW_S
    floor_piece_s = 0.25

    def __init__(self, settings: SdrSettings, stream: IQStream, clock: Clock) -> None:
        super().__init__(settings, clock, stream.name, "dBFS")
        self._reader = StreamReader(settings, stream, clock, on_fault=self._answered.set)
        self._worker = WindowWorker(settings, self._reader.ring, clock, self._reader.stop)

        self._stream = stream
        self.gain_db = settings.gain_db
        self.sample_rate_hz = settings.sample_rate_hz
        self.frequency_hz = settings.tuner_frequency_hz
        self.dtype: npt.DTypeLike = stream.dtype

    def keep_samples(
        self, wants: Callable[[int], bool], take: Callable[[SlotSamples], None]
    ) -> None:
        """Give the samples of chosen slots to `take`, in the worker's thread."""
        self._worker.wants, self._worker.take = wants, take

    @property
    def gain_key(self) -> str:
        return "probe.gain_db"

    @property
    def gains_db(self) -> Sequence[float]:
        return self._stream.gains_db if isinstance(self._stream, HasStreamGain) else ()

    def set_gain(self, gain_db: float) -> None:
        """Change the gain; ProbeError if this radio has only one."""
        if not isinstance(self._stream, HasStreamGain):
            raise self._error(ProbeError("its gain cannot be changed"))
        self._stream.set_gain(gain_db)
        self.gain_db = gain_db

    @property
    def fault(self) -> ProbeError | None:
        return self._reader.fault

    @property
    def reopened(self) -> int:
        return self._reader.reopened

    def open(self) -> None:
        """Connect, tune and wait for samples; raise ProbeError or ConfigError."""
        try:
            self._reader.open()
        except ProbeError as error:
            self.close()
            raise self._error(error) from None
        except BaseException:
            self.close()
            raise
        self._worker.start()

    def close(self) -> None:
        """Stop both threads and release the radio."""
        self._reader.close()
        self._worker.join()

    def health(self) -> ProbeHealth:
        """Return the state of the probe and of its samples."""
        ring, worker = self._reader.ring, self._worker
        return replace(
            super().health(),
            breaks=dict(ring.restarts),
            level_dbfs=nan if isnan(worker.level) else to_db(worker.level),
            clipped_share=worker.clipped_share,
            measured_rate_hz=ring.measured_rate_hz,
        )

    def _submit(self, request: Request) -> None:
        self._worker.submit(request)
