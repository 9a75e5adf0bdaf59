"""The rewards that a run waits for: which have arrived, which are late, which are invalid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import nan

from macontrol.config import Config
from macontrol.controller.recording.events import EventKind, InvalidReason
from macontrol.controller.recording.records import Event, LateReward, Recorder
from macontrol.controller.runtime.observation import Observation
from macontrol.controller.runtime.patience import Outage
from macontrol.controller.runtime.signal_watch import WITHOUT_TRANSMITTER, SignalWatch
from macontrol.controller.runtime.silence import Silence
from macontrol.hal import Clock

_NO_HINT = "see docs/probes.md#reasons"


@dataclass(slots=True)
class _Pending:
    """A measurement that was requested and has not arrived."""

    position: float
    weight: float
    """The part of a holding antenna's reward that the slot earns."""
    start_s: float
    end_s: float
    is_fault: bool = False
    """Whether its slot was already reported as a fault of the probe."""


class Rewards:
    """Tracks the requested measurements and checks what arrives.

    `withdraw` gets the slots whose observed reward turns out to be invalid.
    """

    def __init__(
        self,
        config: Config,
        clock: Clock,
        recorder: Recorder,
        withdraw: Callable[[int], None],
        silence: Silence,
    ) -> None:
        self._clock = clock
        self._recorder = recorder
        self._withdraw_slot = withdraw
        self._silence = silence
        self._window = config.algorithm.window
        self._slot_s = config.physical.slot_duration_s
        self._pending: dict[int, _Pending] = {}
        self._watch = SignalWatch(config, clock, recorder, self._withdraw)
        self._blindness = Outage(
            "no measurement was valid for", config.timing.fault_patience_s, clock
        )

    def expect(
        self, slot: int, position: float, start_s: float, end_s: float, weight: float
    ) -> None:
        """Note that the reward of a slot was requested, where the antenna is, and its weight."""
        self._pending[slot] = _Pending(position, weight, start_s, end_s)

    def note_fault(self, slot: int) -> None:
        """Note that the slot is reported as a fault of the probe, not as invalid."""
        if slot in self._pending:
            self._pending[slot].is_fault = True

    def sort(
        self, slot: int, collected: Iterable[Observation]
    ) -> tuple[Observation | None, list[tuple[Observation, float]]]:
        """This slot's observation, if it arrived, and all valid ones with their positions."""
        own: Observation | None = None
        usable: list[tuple[Observation, float]] = []
        expected: dict[int, _Pending] = {}
        arrived: list[tuple[Observation, float]] = []
        for one in collected:
            if found := self._pending.pop(one.slot, None):
                expected[one.slot] = found
                if found.weight != 1.0:
                    one = replace(one, weight=found.weight)
                if self._silence.overlaps(found.start_s, found.end_s):
                    one = _of_noise(one)
                arrived.append((one, found.position))
        for measurement in self._watch.judge(arrived):
            pending = expected[measurement.slot]
            if measurement.slot == slot:
                own = measurement
            if not measurement.valid:
                self._miss(pending, measurement, slot)
                continue
            self._blindness.ended()
            usable.append((measurement, pending.position))
            if measurement.slot != slot:
                self._complete(slot, measurement)
        return own, usable

    def forget_stale(self, slot: int) -> None:
        """Stop waiting for rewards that are older than the window."""
        oldest = slot - self._window
        while self._pending and (first := next(iter(self._pending))) < oldest:
            never = Observation(first, nan, False, reason=InvalidReason.NEVER_ARRIVED)
            self._miss(self._pending.pop(first), never, slot)

    def _miss(self, pending: _Pending, measurement: Observation, slot: int) -> None:
        """Report a slot without a reward; the record of an earlier slot gets the reason."""
        if pending.is_fault:
            return
        of_slot, reason = measurement.slot, measurement.reason or InvalidReason.INVALID
        self._report(of_slot, EventKind.INVALID, reason)
        if of_slot != slot:
            self._recorder.submit(
                LateReward(of_slot, None, None, reason, signal=measurement.signal)
            )
        if reason not in WITHOUT_TRANSMITTER:  # the time between measured slots does not count
            self._blindness.failed(reason, measurement.hint or _NO_HINT, spent_s=self._slot_s)

    def _complete(self, slot: int, measurement: Observation) -> None:
        """Complete the record of an earlier slot with its reward."""
        self._recorder.submit(
            LateReward(
                measurement.slot,
                measurement.earned,
                measurement.earned_sigma,
                signal=measurement.signal,
            )
        )
        late_by = float(slot - measurement.slot)
        self._report(
            measurement.slot, EventKind.LATE_REWARD, "the reward arrived after its slot", late_by
        )

    def _withdraw(self, measurements: Sequence[Observation]) -> None:
        """Withdraw rewards that were measured without a signal."""
        for measurement in measurements:
            self._withdraw_slot(measurement.slot)
            self._recorder.submit(
                LateReward(
                    measurement.slot, None, None, measurement.reason, withdrawn=measurement.earned
                )
            )

    def _report(self, slot: int, kind: EventKind, detail: str, value: float | None = None) -> None:
        self._recorder.submit(Event(slot, self._clock.now(), kind, detail, value))


def _of_noise(seen: Observation) -> Observation:
    """A measurement without the transmitter: its signal is known, and it is no reward."""
    reason = InvalidReason.TRANSMITTER_OFF
    return replace(seen, valid=False, reward=nan, uncertainty=nan, reason=reason, hint="")
