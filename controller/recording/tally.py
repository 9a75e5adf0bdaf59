"""The statistics of a run, computed from its records in memory that does not grow."""

from __future__ import annotations

from collections import Counter
from math import ceil, exp, isnan, log, nan

from macontrol.controller.policies.theory import Verdict, verdicts
from macontrol.controller.recording.events import EventKind
from macontrol.controller.recording.records import Event, Item, LateReward, Recorder, SlotRecord


class Percentiles:
    """Percentiles of a stream of durations, stored as counts in bins that grow by 2 % each."""

    _LEAST_S = 1e-7
    _GROWTH = log(1.02)

    def __init__(self) -> None:
        self.count = 0
        self.largest = 0.0
        self._bins: list[int] = [0] * (ceil(log(1e3 / self._LEAST_S) / self._GROWTH) + 2)

    def add(self, seconds: float) -> None:
        """Count a duration."""
        self.count += 1
        if seconds > self.largest:
            self.largest = seconds
        if seconds <= self._LEAST_S:
            self._bins[0] += 1
        else:
            index = 1 + int(log(seconds / self._LEAST_S) / self._GROWTH)
            self._bins[min(index, len(self._bins) - 1)] += 1

    def at(self, percent: float) -> float:
        """The duration (s) that this percentage does not exceed, to within 2 %."""
        if self.count == 0:
            return nan
        left = ceil(self.count * percent / 100)
        for index, count in enumerate(self._bins):
            left -= count
            if left <= 0:
                edge = self._LEAST_S * exp(index * self._GROWTH)
                return min(edge, self.largest)
        return self.largest


class Tally(Recorder):
    """Counts and sums over the records of a run. Positions in wavelengths.

    `start` is shown as position and target before the first record.
    """

    def __init__(self, start: float) -> None:
        self.slots = 0
        self.slot = 0
        self.position = self.target = start
        self.reward = nan
        self.rewards = 0
        self.reward_sum = 0.0
        self.recent_reward = nan
        """Moving average of the reward over about 100 slots; over all of them at first."""
        self.recent_share = nan
        """The same of the transmission share; NaN if none is recorded."""
        self.share_sum = 0.0
        """The sum of the transmission shares of all slots."""
        self.travel = 0.0
        self.switches = 0
        self.transit = 0
        self.displaced = 0
        """How often homing moved the antenna away from the policy's position."""
        self.late_arrivals = 0
        self.late_rewards = 0
        self.invalid = 0
        self.late_decisions = 0
        self.missed = 0
        self.refused = 0
        self.stage_faults = 0
        self.probe_faults = 0
        self.longest_step = 0.0
        self.lowest = self.highest = start
        self.largest_shortfall = nan
        self.surface_movement: float | None = None
        """S_T, the sum of the surface's movements; None for a policy without a surface."""
        self.wake = Percentiles()
        self.actuate = Percentiles()
        self.measure = Percentiles()
        self.decide = Percentiles()

    def submit(self, item: Item) -> None:
        """Add a record to the statistics."""
        if type(item) is SlotRecord:
            self._add_slot(item)
        elif type(item) is Event:
            self._add_event(item)
        elif type(item) is LateReward:
            self._add_late_reward(item)

    def _add_slot(self, record: SlotRecord) -> None:
        self._add_step(record)
        self.slot = record.slot
        self.slots += 1
        if record.reward is not None:
            self._add_reward(record.reward)
            self._add_share(record.transmission_share)
        self.share_sum += record.transmission_share or 0.0
        self.target = record.target
        self.switches += record.switched
        self.transit += record.transit
        shortfall, movement = record.shortfall, record.surface_movement
        if shortfall is not None and not self.largest_shortfall >= shortfall:
            self.largest_shortfall = shortfall
        if movement is not None:
            self.surface_movement = (self.surface_movement or 0.0) + movement
        self.wake.add(record.wake_s)
        self.actuate.add(record.actuate_s)
        self.measure.add(record.measure_s)
        self.decide.add(record.decide_s)

    def _add_step(self, record: SlotRecord) -> None:
        """Add the way to the slot's position.

        The step of a slot starts where the stage was found, which is not the previous position if
        the stage was late or lost. The ways to the first slot and from a homing are not the
        policy's travel.
        """
        position = record.position
        before = self.position if self.slots else position
        origin = before if record.origin is None else record.origin
        self.displaced += record.homings
        self.travel += abs(position - (origin if record.homings else before))
        self.longest_step = max(self.longest_step, abs(position - origin))
        self.lowest, self.highest = min(self.lowest, position), max(self.highest, position)
        self.position = position

    def _add_reward(self, reward: float) -> None:
        self.reward = reward
        self.rewards += 1
        self.reward_sum += reward
        if isnan(self.recent_reward):
            self.recent_reward = reward
        else:
            self.recent_reward += max(0.01, 1 / self.rewards) * (reward - self.recent_reward)

    def _add_share(self, share: float | None) -> None:
        if share is None:
            return
        if isnan(self.recent_share):
            self.recent_share = share
        else:
            self.recent_share += max(0.01, 1 / self.rewards) * (share - self.recent_share)

    def _add_late_reward(self, late: LateReward) -> None:
        if late.reward is not None:
            self._add_reward(late.reward)
        if late.withdrawn is not None:  # the moving average forgets it by itself
            self.reward = nan
            self.rewards -= 1
            self.reward_sum -= late.withdrawn
            self.invalid += 1

    def _add_event(self, event: Event) -> None:
        if event.kind is EventKind.MISSED:
            self.missed += int(event.value or 0)
        elif count := _COUNTED.get(event.kind):
            setattr(self, count, getattr(self, count) + 1)

    @property
    def late(self) -> int:
        """Slots that were late or missed; a late reward is used and does not count."""
        return self.late_arrivals + self.late_decisions + self.missed

    @property
    def mean_reward(self) -> float:
        return self.reward_sum / self.rewards if self.rewards else nan

    def theory(self, *, length: float, rho_max: float, margin: float) -> dict[str, Verdict]:
        """Compare the run so far with the paper's inequalities for every run of MoveUCB."""
        return verdicts(
            longest_step=self.longest_step,
            farthest_off=max(0.0, -self.lowest, self.highest - length),
            travel=self.travel,
            transit=self.transit,
            switches=self.switches,
            displaced=self.displaced,
            shortfall=None if isnan(self.largest_shortfall) else self.largest_shortfall,
            surface_movement=self.surface_movement,
            length=length,
            rho_max=rho_max,
            margin=margin,
        )


_COUNTED = {
    EventKind.LATE_ARRIVAL: "late_arrivals",
    EventKind.LATE_REWARD: "late_rewards",
    EventKind.LATE_DECISION: "late_decisions",
    EventKind.INVALID: "invalid",
    EventKind.REFUSED: "refused",
    EventKind.STAGE_FAULT: "stage_faults",
    EventKind.PROBE_FAULT: "probe_faults",
}
"""The kinds whose number the summary shows, and the attribute that counts them."""


class EventCounter(Recorder):
    """Count the events of each kind."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def submit(self, item: Item) -> None:
        if isinstance(item, Event):
            self.counts[item.kind] += 1
