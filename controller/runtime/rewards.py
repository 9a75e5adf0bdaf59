"""The measurements that a run requests: which have arrived, which are late, which are invalid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan, nan

from macontrol.config import Config
from macontrol.config.model.errors import HardwareError
from macontrol.controller.policies.policy import Policy
from macontrol.controller.recording.records import Event, EventKind, LateReward, Recorder
from macontrol.controller.recording.tally import Tally
from macontrol.controller.runtime.signal_watch import SignalWatch
from macontrol.hal import Clock, Measurement
from macontrol.hal.probe import FLOOR_IS_MEASURED


@dataclass(slots=True)
class _Awaited:
    """A measurement that was requested and has not arrived."""

    position: float
    is_accounted_for: bool = False
    """Whether its slot was reported as a fault of the probe: it is one thing or the other."""


class Rewards:
    """Tracks what was requested of the probe, and judges what arrives."""

    def __init__(
        self, config: Config, policy: Policy, clock: Clock, recorder: Recorder, tally: Tally
    ) -> None:
        self._policy = policy
        self._clock = clock
        self._recorder = recorder
        self._tally = tally
        self._window = config.algorithm.window
        self._slot_s = config.physical.slot_duration_s
        self._patience_s = config.timing.fault_patience_s
        self._largest = config.largest_reward
        self._pending: dict[int, _Awaited] = {}
        self._watch = SignalWatch(config, clock, recorder, self._withdraw)
        self._blind_slots = 0
        """How many measurements in a row were not valid."""

    def expect(self, slot: int, position: float) -> None:
        """Note that the reward of a slot was requested, and where the antenna is."""
        self._pending[slot] = _Awaited(position)

    def account_for(self, slot: int) -> None:
        """Note that the slot is reported as a fault of the probe."""
        if slot in self._pending:
            self._pending[slot].is_accounted_for = True

    def sort(
        self, slot: int, collected: Iterable[Measurement]
    ) -> tuple[Measurement | None, list[tuple[Measurement, float]]]:
        """This slot's measurement, if it is in, and all valid ones with their positions."""
        own: Measurement | None = None
        usable: list[tuple[Measurement, float]] = []
        awaited: dict[int, _Awaited] = {}
        arrived: list[tuple[Measurement, float]] = []
        for measurement in collected:
            if found := self._pending.pop(measurement.slot, None):
                awaited[measurement.slot] = found
                arrived.append((self._in_range(measurement), found.position))
        for measurement in self._watch.judge(arrived):
            if measurement.slot == slot:
                own = measurement
            if not measurement.valid:
                self._miss(awaited[measurement.slot], measurement, slot)
                continue
            self._blind_slots = 0
            usable.append((measurement, awaited[measurement.slot].position))
            if measurement.slot != slot:
                self._complete(slot, measurement)
        return own, usable

    def forget_stale(self, slot: int) -> None:
        """Stop waiting for rewards that the window would no longer take."""
        oldest = slot - self._window
        while self._pending and (first := next(iter(self._pending))) < oldest:
            never = Measurement(first, nan, False, reason="the measurement never arrived")
            self._miss(self._pending.pop(first), never, slot)

    def _in_range(self, measurement: Measurement) -> Measurement:
        if measurement.valid and not abs(measurement.reward) <= self._largest:
            return Measurement(measurement.slot, nan, False, reason="out of range")
        return measurement

    def _miss(self, awaited: _Awaited, measurement: Measurement, slot: int) -> None:
        """Count a slot without a reward; the record of an earlier one still needs the reason."""
        if awaited.is_accounted_for:
            return
        of_slot, why = measurement.slot, measurement.reason or "invalid"
        self._tally.invalid += 1
        self._report(of_slot, EventKind.INVALID, why)
        if of_slot != slot:
            self._recorder.submit(LateReward(of_slot, None, None, why))
        self._blind_slots += why != FLOOR_IS_MEASURED
        blind_s = self._blind_slots * self._slot_s
        if blind_s > self._patience_s + self._slot_s:
            raise HardwareError(
                f"no valid measurement in {blind_s:.0f} s of slots "
                f"(timing.fault_patience_s = {self._patience_s:g}), the last one: {why}; "
                f"{measurement.hint or 'docs/hardware-probes.md says what helps'}"
            )

    def _complete(self, slot: int, measurement: Measurement) -> None:
        """Complete the record of an earlier slot with its reward."""
        known = None if isnan(measurement.uncertainty) else measurement.uncertainty
        self._recorder.submit(LateReward(measurement.slot, measurement.reward, known))
        self._tally.late_rewards += 1
        late_by = float(slot - measurement.slot)
        self._report(
            measurement.slot, EventKind.LATE_REWARD, "the reward arrived late, in slots", late_by
        )

    def _withdraw(self, measurements: Sequence[Measurement]) -> None:
        """Take back rewards that were none: in policy, tally and records."""
        for measurement in measurements:
            self._policy.withdraw(measurement.slot)
            self._tally.withdraw(measurement.reward)
            withdrawn = LateReward(measurement.slot, None, None, measurement.reason)
            self._recorder.submit(withdrawn)

    def _report(self, slot: int, kind: EventKind, detail: str, value: float | None = None) -> None:
        self._recorder.submit(Event(slot, self._clock.now(), kind, detail, value))
