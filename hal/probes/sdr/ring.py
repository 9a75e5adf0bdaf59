"""The last seconds of an IQ stream, and the time at which each of its samples was taken.

Samples are numbered as they come. A block can arrive late but never early, so over some seconds
the lower envelope of arrival − n/fs, taken at the ends of the blocks, tells when sample n was
taken, whatever the delivery jitters.

A block that is on time by that envelope also proves that no samples are missing before it: what
is lost is never made up, and would make all that follows late. A window of time is therefore
handed out once its last sample is in and a block at or after that sample was on time. Until then
it is pending; older samples never stand in for it. When all blocks stay late and catch up no
more, samples were lost: the numbering starts anew, and every window that reaches back is a gap.
So it is when blocks come earlier and earlier: their sample rate is not the one that was asked for.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor, inf, isnan, nan
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[Any]
"""One row a sample, I and Q its columns: unsigned bytes or floats."""

ENVELOPE_S = 8.0
"""How far the envelope looks back. A sample clock 100 ppm slow then errs by 0.8 ms."""
LOST_AFTER_S = 1.0
"""Samples count as lost when all blocks were late for so long without catching up."""
EARLY_S = 0.05
"""A block that is earlier than the envelope improves it; one that is so much earlier breaks it."""
RELEARN_S = 0.25
"""What is left out after lost samples until the envelope is known again."""
CLOCK_TOLERANCE = 0.005
"""A sample clock off by more shifts samples by more than a guard within the longest window."""
RATE_KNOWN_S = 5.0
"""How long samples are counted until their rate is known ..."""
RATE_TOLERANCE = 0.02
"""... to this share: a server's block may be in the count or not."""
HOPELESS_S = RATE_KNOWN_S + 1.5
"""A stream that has not settled so long after it should have is not going to."""
_BREAKS_OF_A_WRONG_RATE = 3
_BREAKS_KEPT_S = 6.0


@dataclass(frozen=True, slots=True)
class Window:
    """The samples of an interval; or why there are none; or neither yet."""

    state: Literal["ready", "pending", "lost"]
    samples: Samples | None = None
    reason: str = ""


_PENDING = Window("pending")


class IQRing:
    """A ring of samples in bounded memory. One thread appends, others ask for windows."""

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
        self._tolerance_s = tolerance_s
        self._settling_s = settling_s
        self._stale_s = stale_s
        self._delay_s = delay_s
        self._data = np.zeros((max(1, ceil(capacity_s * sample_rate_hz)), 2), dtype)
        self._changed = threading.Condition()
        self._awaited_s = inf
        self._broken_at_s = -inf
        self._break_reason = "gap"
        self.restarts: dict[str, int] = {}
        self._rate_is_doubted = False
        self.complaint = ""
        """Why the stream is to be reopened, once `append` has said that it is."""
        self._connection_began()
        self._begin(settling_s)

    def _connection_began(self) -> None:
        self._total = 0
        self._first_arrival_s = nan
        self._last_arrival_s = nan
        # Moments since the first arrival, and the samples until then: one that parts the time since
        # then so that neither part is short, and the next one that will.
        self._parting = self._next_parting = (nan, 0)
        self._breaks_at_s: deque[float] = deque()
        self._unsettled_since_s: float | None = None

    def _begin(self, settling_s: float) -> None:
        """Number from 0 again, and learn the envelope anew."""
        self._count = 0
        self._confirmed = 0
        self._settle_for_s = settling_s
        self._settles_at_s = inf
        self._settled: int | None = None
        # When the envelope was last held against the sample clock, and where it was.
        self._held_at_s, self._held_offset_s = inf, nan
        # Rising offsets only, oldest first: the first is the lowest of all that are recent.
        self._lowest: deque[tuple[float, float]] = deque()
        self._late_since_s: float | None = None
        self._late_best_s = 0.0
        self._late_best_at_s = 0.0

    @property
    def capacity(self) -> int:
        """Get how many samples are held at the most."""
        return len(self._data)

    @property
    def is_settled(self) -> bool:
        """Get whether windows can be had from now on."""
        return self._settled is not None

    @property
    def why_unsettled(self) -> str:
        """Get what keeps windows from being had, as far as it shows."""
        elapsed = self._last_arrival_s - self._first_arrival_s
        if not elapsed > 0:
            return "no samples come"
        return (
            f"samples come too unevenly, or not at their rate: {self._total / elapsed:,.0f} a "
            f"second of {self.sample_rate_hz:,.0f}"
        )

    @property
    def behind_s(self) -> float:
        """Get how late the stream runs at present; 0 if it is on time."""
        return 0.0 if self._late_since_s is None else self._late_best_s

    @property
    def measured_rate_hz(self) -> float:
        """Get the samples a second since the stream was opened; NaN before 5 s have passed.

        It errs by up to a block of the server's in all the samples since then.
        """
        elapsed = self._last_arrival_s - self._first_arrival_s
        return self._total / elapsed if elapsed >= RATE_KNOWN_S else nan

    @property
    def is_off_its_rate(self) -> bool:
        """Get whether the rate is known, and not the one that was asked for."""
        rate = self.measured_rate_hz
        return not isnan(rate) and abs(rate / self.sample_rate_hz - 1) > RATE_TOLERANCE

    @property
    def _is_steadily_off_its_rate(self) -> bool:
        """Whether it was off the same way before and after: a loss or a stall is so for a while."""
        moment_s, total = self._parting
        if not self.is_off_its_rate or isnan(moment_s):
            return False
        elapsed_s = self._last_arrival_s - self._first_arrival_s
        before = total / moment_s / self.sample_rate_hz - 1
        after = (self._total - total) / (elapsed_s - moment_s) / self.sample_rate_hz - 1
        return before * after > 0 and min(abs(before), abs(after)) > RATE_TOLERANCE / 2

    def _count_arrived(self, samples: int, arrival_s: float) -> None:
        """Count towards the rate; what the first block holds came before the time that is taken."""
        self._last_arrival_s = arrival_s
        if isnan(self._first_arrival_s):
            self._first_arrival_s = arrival_s
            return
        self._total += samples
        elapsed_s, due_s = arrival_s - self._first_arrival_s, 2 * self._next_parting[0]
        if elapsed_s >= (RATE_KNOWN_S / 2 if isnan(due_s) else due_s):
            self._parting, self._next_parting = self._next_parting, (elapsed_s, self._total)

    @property
    def loses_by_its_rate(self) -> bool:
        """Get whether samples are lost again and again, as the rate is not the one asked for.

        Samples that were lost once, or are late, are also too few for a while.
        """
        with self._changed:
            since_s = self._last_arrival_s - _BREAKS_KEPT_S
            breaks = sum(moment_s >= since_s for moment_s in self._breaks_at_s)
            return breaks > 1 and self._is_steadily_off_its_rate

    def append(self, block: Samples, arrival_s: float) -> bool:
        """Take in the next samples of the stream, whose last one arrived just now.

        False says that the stream is to be reopened, `complaint` why: it is hopelessly behind, and
        reopening gets rid of what is queued; or its rate is wrong, and may be right then.
        """
        if len(block) == 0:
            return True
        with self._changed:
            self._store(block)
            self._count_arrived(len(block), arrival_s)
            return self._stamp(arrival_s) and self._has_hope(arrival_s)

    def restart(self, reason: str, at_s: float, *, reopened: bool = False) -> None:
        """Start anew after samples were lost, or after the stream was reopened."""
        with self._changed:
            if reopened:
                self._connection_began()
            self._restart(reason, at_s, self._settling_s if reopened else RELEARN_S)

    def _restart(self, reason: str, at_s: float, settling_s: float) -> None:
        self.restarts[reason] = self.restarts.get(reason, 0) + 1
        self._broken_at_s = at_s
        self._break_reason = reason
        self._begin(settling_s)
        self._changed.notify_all()

    def _store(self, block: Samples) -> None:
        size = len(self._data)
        end = self._count + len(block)
        kept = block[-size:]
        at = (end - len(kept)) % size
        head = min(len(kept), size - at)
        self._data[at : at + head] = kept[:head]
        self._data[: len(kept) - head] = kept[head:]
        self._count = end

    def _stamp(self, arrival_s: float) -> bool:
        """Learn from a block's arrival when samples are taken, and whether all are there."""
        offset = arrival_s - self._count / self.sample_rate_hz
        lowest = self._lowest
        if not lowest:
            self._settles_at_s = arrival_s + self._settle_for_s
        elif self._settled is not None and self._is_early(offset, arrival_s):
            return self._break(arrival_s)
        if lowest and offset > lowest[0][1] + self._tolerance_s:
            return self._late(offset - lowest[0][1], arrival_s)
        while lowest and lowest[-1][1] >= offset:
            lowest.pop()
        lowest.append((arrival_s, offset))
        # Forgotten only while blocks are on time: a backlog must not become the new envelope.
        while lowest[0][0] < arrival_s - ENVELOPE_S:
            lowest.popleft()
        self._late_since_s = None
        self._confirmed = self._count
        if self._settled is None and arrival_s >= self._settles_at_s:
            return self._settle(arrival_s)
        if self._is_in(self._awaited_s):
            self._changed.notify_all()
        return True

    def _has_hope(self, arrival_s: float) -> bool:
        """Whether windows can be had, or were until a short while ago."""
        if self._settled is not None:
            self._unsettled_since_s = None
        elif self._unsettled_since_s is None:
            self._unsettled_since_s = arrival_s
        elif arrival_s - self._unsettled_since_s > self._settling_s + HOPELESS_S:
            if self._is_steadily_off_its_rate:
                return self._complain_of_rate()
            self.complaint = f"samples are lost again and again ({self._break_reason})"
            return False
        return True

    def _settle(self, arrival_s: float) -> bool:
        """Hand out windows from now on; after a wrong rate only once it is seen to be right."""
        if self._rate_is_doubted:
            if isnan(self.measured_rate_hz):
                return True
            if self.is_off_its_rate:
                return self._complain_of_rate()
            self._rate_is_doubted = False
        self._settled = self._count
        self._held_at_s, self._held_offset_s = arrival_s, self._lowest[0][1]
        self._on_settled()
        self._changed.notify_all()
        return True

    def _is_early(self, offset_s: float, arrival_s: float) -> bool:
        """Tell what is earlier than jitter explains: the clock stood still, or runs too fast."""
        lowest_s = self._lowest[0][1]
        if arrival_s - self._held_at_s > ENVELOPE_S:
            self._held_at_s, self._held_offset_s = arrival_s, lowest_s
        allowed_s = EARLY_S + CLOCK_TOLERANCE * (arrival_s - self._held_at_s)
        return offset_s < max(lowest_s - EARLY_S, self._held_offset_s - allowed_s)

    def _late(self, excess_s: float, arrival_s: float) -> bool:
        """Tell lost samples (late for good) from a backlog (late, but catching up)."""
        if self._late_since_s is None:
            self._late_since_s = arrival_s
            self._late_best_s, self._late_best_at_s = excess_s, arrival_s
        elif excess_s < self._late_best_s - self._tolerance_s:
            self._late_best_s, self._late_best_at_s = excess_s, arrival_s
        hopeless = self._late_best_s > self._stale_s
        if hopeless:
            self.complaint = f"samples come more than {self._stale_s:g} s late and do not catch up"
        if arrival_s - self._late_best_at_s > LOST_AFTER_S:
            return self._break(arrival_s) and not hopeless
        return not (hopeless and arrival_s - self._late_since_s > 2 * LOST_AFTER_S)

    def _break(self, arrival_s: float) -> bool:
        """Start anew; False if it has come to that again and again, for the rate is wrong."""
        breaks = self._breaks_at_s
        breaks.append(arrival_s)
        while breaks[0] < arrival_s - _BREAKS_KEPT_S:
            breaks.popleft()
        self._restart("gap", arrival_s, RELEARN_S)
        if len(breaks) >= _BREAKS_OF_A_WRONG_RATE and self._is_steadily_off_its_rate:
            return self._complain_of_rate()
        return True

    def _complain_of_rate(self) -> bool:
        self._rate_is_doubted = True
        self.complaint = (
            f"{self.measured_rate_hz:,.0f} samples a second come, {self.sample_rate_hz:,.0f} were "
            "asked for; set probe.sample_rate_hz to a rate that the radio has and the computer "
            "can take"
        )
        return False

    def _time_of(self, index: int) -> float:
        offset = self._lowest[0][1] if self._lowest else nan
        return offset + index / self.sample_rate_hz - self._delay_s

    def time_of(self, index: int) -> float:
        """Get when a sample was taken (s); NaN before anything has arrived."""
        with self._changed:
            return self._time_of(index)

    def _is_in(self, moment_s: float) -> bool:
        """Whether a window that ends at a moment need not be waited for any longer."""
        return self._settled is not None and self._time_of(self._confirmed) >= moment_s

    def wait(self, moment_s: float, timeout_s: float) -> None:
        """Wait until the samples up to a moment are in and can be had, at the longest so long.

        It ends sooner when the stream breaks, or settles.
        """
        with self._changed:
            if self._is_in(moment_s):
                return
            self._awaited_s = moment_s
            self._changed.wait(timeout_s)
            self._awaited_s = inf

    def window(self, start_s: float, end_s: float) -> Window:
        """Get the samples taken in an interval, once all of them are in."""
        with self._changed:
            if start_s < self._broken_at_s:
                return Window("lost", reason=self._break_reason)
            if self._settled is None:
                return _PENDING
            first = ceil((start_s - self._time_of(0)) * self.sample_rate_hz)
            last = floor((end_s - self._time_of(0)) * self.sample_rate_hz)
            if first < self._settled:
                return Window("lost", reason="settling")
            if first < self._count - len(self._data):
                return Window("lost", reason="stale")
            if self._confirmed < last:
                return _PENDING
            return Window("ready", self._copy(first, max(first, last)))

    def _copy(self, first: int, last: int) -> Samples:
        size = len(self._data)
        at, count = first % size, last - first
        if at + count <= size:
            return self._data[at : at + count].copy()
        return np.concatenate([self._data[at:], self._data[: at + count - size]])
