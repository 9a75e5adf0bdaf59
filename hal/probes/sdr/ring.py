"""The latest seconds of an IQ stream, addressed by time.

A window of time is ready when its last sample has arrived and a block at or after that sample was
on time. Until then it is pending; older samples never replace it. Samples are lost if all blocks
stay late and do not catch up. Then the numbering starts again, and every window that reaches back
further is a gap. The same happens if blocks arrive earlier and earlier: their sample rate is not
the requested one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor, inf, isnan, nan
from typing import Literal

import numpy as np
import numpy.typing as npt

from macontrol.config.model.errors import ProbeError
from macontrol.hal.probe import GAP, SETTLING, STALE
from macontrol.hal.probes.sdr.sample_rate import RATE_KNOWN_S, RateMonitor
from macontrol.hal.probes.sdr.samples import Samples, SampleStore
from macontrol.hal.probes.sdr.timestamps import ArrivalEnvelope, Backlog

RELEARN_S = 0.25
"""No windows are ready for this time after lost samples, until the envelope is known again."""
SETTLING_LIMIT_S = RATE_KNOWN_S + 1.5
"""A stream that is unsettled for this time longer than planned does not settle any more."""


@dataclass(frozen=True, slots=True)
class Window:
    """The samples of an interval, or the reason why they are lost, or neither yet."""

    state: Literal["ready", "pending", "lost"]
    samples: Samples | None = None
    reason: str = ""
    first_s: float = nan
    """When the first sample was taken."""


_PENDING = Window("pending")


class IQRing:
    """A ring of samples. One thread appends, others request windows."""

    def __init__(
        self,
        sample_rate_hz: float,
        *,
        capacity_s: float,
        tolerance_s: float,
        settling_s: float = 0.0,
        stale_s: float = 1.5,
        delay_s: float = 0.0,
        dtype: npt.DTypeLike = np.uint8,
        on_settled: Callable[[], None] = lambda: None,
    ) -> None:
        self.sample_rate_hz = sample_rate_hz
        self._on_settled = on_settled
        self._settling_s = settling_s
        self._stale_s = stale_s
        self._delay_s = delay_s
        self._store = SampleStore(ceil(capacity_s * sample_rate_hz), dtype)
        self._envelope = ArrivalEnvelope(tolerance_s)
        self._backlog = Backlog(tolerance_s)
        self._rate = RateMonitor(sample_rate_hz)
        self._changed = threading.Condition()
        self._awaited_s = inf
        self._broken_at_s = -inf
        self._break_reason = GAP
        self.restarts: dict[str, int] = {}
        self._unsettled_since_s: float | None = None
        self._reset(settling_s)

    def _reset(self, settling_s: float) -> None:
        """Number the samples from 0 again, and learn their times again."""
        self._store.clear()
        self._envelope.reset()
        self._backlog.clear()
        self._confirmed = 0
        self._settle_for_s = settling_s
        self._settles_at_s = inf
        self._settled: int | None = None

    @property
    def is_settled(self) -> bool:
        """Whether windows can become ready."""
        return self._settled is not None

    @property
    def why_unsettled(self) -> str:
        """What prevents windows from becoming ready, as far as it is visible."""
        return self._rate.description

    @property
    def measured_rate_hz(self) -> float:
        """Samples per second since the stream was opened; NaN in the first 5 s."""
        return self._rate.measured_hz

    @property
    def loses_by_its_rate(self) -> bool:
        """Whether samples are lost repeatedly because the rate is not the requested one."""
        with self._changed:
            return self._rate.causes_losses

    def append(self, block: Samples, arrival_s: float) -> None:
        """Append the next samples of the stream; the last of them arrived just now.

        Raise ProbeError if the stream must be reopened: because it is too far behind, and reopening
        discards the queue, or because its rate is wrong, and can be right afterwards.
        """
        if len(block) == 0:
            return
        with self._changed:
            self._store.append(block)
            self._rate.count(len(block), arrival_s)
            self._stamp(arrival_s)
            self._limit_settling(arrival_s)

    def restart(self, reason: str, at_s: float, *, reopened: bool = False) -> None:
        """Start again after samples were lost, or after the stream was reopened."""
        with self._changed:
            if reopened:
                self._rate.reset()
                self._unsettled_since_s = None
            self._restart(reason, at_s, self._settling_s if reopened else RELEARN_S)

    def _restart(self, reason: str, at_s: float, settling_s: float) -> None:
        self.restarts[reason] = self.restarts.get(reason, 0) + 1
        self._broken_at_s = at_s
        self._break_reason = reason
        self._reset(settling_s)
        self._changed.notify_all()

    def _stamp(self, arrival_s: float) -> None:
        """Learn from the arrival of a block when samples are taken, and whether any are missing."""
        offset_s = arrival_s - self._store.count / self.sample_rate_hz
        envelope = self._envelope
        if envelope.is_empty:
            self._settles_at_s = arrival_s + self._settle_for_s
        elif self._settled is not None and envelope.is_early(offset_s, arrival_s):
            self._break(arrival_s)
            return
        if envelope.is_late(offset_s):
            self._late(offset_s - envelope.offset_s, arrival_s)
            return
        envelope.add(offset_s, arrival_s)
        self._backlog.clear()
        self._confirmed = self._store.count
        if self._settled is None and arrival_s >= self._settles_at_s:
            self._settle(arrival_s)
        elif self._has_arrived(self._awaited_s):
            self._changed.notify_all()

    def _settle(self, arrival_s: float) -> None:
        """Make windows available. After a wrong rate, first see that the rate is right."""
        if self._rate.is_doubted:
            if isnan(self._rate.measured_hz):
                return
            if self._rate.is_wrong:
                raise self._rate.refusal()
            self._rate.is_doubted = False
        self._settled = self._store.count
        self._envelope.set_reference(arrival_s)
        self._on_settled()
        self._changed.notify_all()

    def _limit_settling(self, arrival_s: float) -> None:
        """Raise ProbeError if the stream has been unsettled for too long."""
        if self._settled is not None:
            self._unsettled_since_s = None
        elif self._unsettled_since_s is None:
            self._unsettled_since_s = arrival_s
        elif arrival_s - self._unsettled_since_s > self._settling_s + SETTLING_LIMIT_S:
            if self._rate.is_steadily_wrong:
                raise self._rate.refusal()
            raise ProbeError(f"samples are lost repeatedly ({self._break_reason})")

    def _late(self, lateness_s: float, arrival_s: float) -> None:
        """Distinguish lost samples (late forever) from a backlog (late, but catching up)."""
        backlog = self._backlog
        backlog.add(lateness_s, arrival_s)
        is_stale, is_slow = backlog.smallest_s > self._stale_s, backlog.is_slow(arrival_s)
        is_lost = backlog.is_loss(arrival_s)
        if is_lost:
            self._break(arrival_s)
        if is_stale and (is_lost or is_slow):
            raise ProbeError(
                f"samples arrive more than {self._stale_s:g} s late and do not catch up"
            )

    def _break(self, arrival_s: float) -> None:
        self._restart(GAP, arrival_s, RELEARN_S)
        self._rate.count_break(arrival_s)

    def _time_of(self, index: int) -> float:
        """Return when a sample was taken (s); NaN before the first arrival."""
        return self._envelope.offset_s + index / self.sample_rate_hz - self._delay_s

    def _has_arrived(self, moment_s: float) -> bool:
        """Whether a window that ends at this time is complete and can be read."""
        return self._settled is not None and self._time_of(self._confirmed) >= moment_s

    def wait(self, moment_s: float, timeout_s: float) -> None:
        """Wait until the samples up to a time can be read, but at most `timeout_s`.

        The wait also ends when the stream breaks or settles.
        """
        with self._changed:
            if self._has_arrived(moment_s):
                return
            self._awaited_s = moment_s
            self._changed.wait(timeout_s)
            self._awaited_s = inf

    def window(self, start_s: float, end_s: float) -> Window:
        """Return the samples taken in an interval, once all of them have arrived."""
        with self._changed:
            if start_s < self._broken_at_s:
                return Window("lost", reason=self._break_reason)
            if self._settled is None:
                return _PENDING
            first = ceil((start_s - self._time_of(0)) * self.sample_rate_hz)
            last = floor((end_s - self._time_of(0)) * self.sample_rate_hz)
            if first < self._settled:
                return Window("lost", reason=SETTLING)
            if first < self._store.oldest:
                return Window("lost", reason=STALE)
            if self._confirmed < last:
                return _PENDING
            samples = self._store.copy(first, max(first, last))
            return Window("ready", samples, first_s=self._time_of(first))
