"""What a run adds up to, slot by slot, in memory that does not grow with the run."""

from __future__ import annotations

from math import ceil, exp, isnan, log, nan

from macontrol.config.model.grid import are_apart
from macontrol.controller.policies.theory import Verdict, verdicts


class Percentiles:
    """Percentiles of a stream of durations, kept as counts in bins that grow by 2 % each."""

    _LEAST_S = 1e-7
    _GROWTH = log(1.02)

    def __init__(self) -> None:
        self.count = 0
        self.largest = 0.0
        self._bins: list[int] = [0] * (ceil(log(1e3 / self._LEAST_S) / self._GROWTH) + 2)

    def add(self, seconds: float) -> None:
        """Count a duration in."""
        self.count += 1
        if seconds > self.largest:
            self.largest = seconds
        if seconds <= self._LEAST_S:
            self._bins[0] += 1
        else:
            index = 1 + int(log(seconds / self._LEAST_S) / self._GROWTH)
            self._bins[min(index, len(self._bins) - 1)] += 1

    def at(self, percent: float) -> float:
        """The duration (s) that so many percent do not exceed, to within 2 %."""
        if self.count == 0:
            return nan
        left = ceil(self.count * percent / 100)
        for index, count in enumerate(self._bins):
            left -= count
            if left <= 0:
                edge = self._LEAST_S * exp(index * self._GROWTH)
                return min(edge, self.largest)
        return self.largest


class Tally:
    """Counts and sums over a run; `theory` holds the run against the paper's inequalities."""

    def __init__(self, start: float) -> None:
        self.slots = 0
        self.slot = 0
        self.position = start
        self.target = start
        self.reward = nan
        self.rewards = 0
        self.reward_sum = 0.0
        self.recent_reward = nan
        """A moving average of the reward, over about a hundred slots; of all of them at first."""
        self.travel = 0.0
        self.switches = 0
        self.transit = 0
        self.displaced = 0
        """How often homing took the antenna away from where the policy had it."""
        self._is_displaced = False
        self.late_arrivals = 0
        self.late_rewards = 0
        self.invalid = 0
        self.late_decisions = 0
        self.missed = 0
        self.refused = 0
        self.stage_faults = 0
        self.probe_faults = 0
        self.longest_step = 0.0
        self.farthest_off = 0.0
        self.largest_shortfall = nan
        self.surface_movement: float | None = None
        self.activity = ""
        """What the slot thread does instead of slots, as "recovering the stage"."""
        self.wake = Percentiles()
        self.actuate = Percentiles()
        self.measure = Percentiles()
        self.decide = Percentiles()

    def stand_at(self, position: float, length: float, origin: float) -> None:
        """Take in where the antenna is in the next slot, and where it was found to come from.

        That is not its last position if the stage was lost sight of, or was late.
        """
        self.travel += abs(position - (origin if self._is_displaced else self.position))
        self._is_displaced = False
        step = abs(position - origin)
        if step > self.longest_step:
            self.longest_step = step
        self.farthest_off = max(self.farthest_off, -position, position - length)
        self.position = position

    def displace(self) -> None:
        """Take in that the stage was homed: how it got to where it is now is not our travel."""
        self.displaced += 1
        self._is_displaced = True

    def see(self, reward: float) -> None:
        """Take in a reward, on time or late."""
        self.reward = reward
        self.rewards += 1
        self.reward_sum += reward
        if isnan(self.recent_reward):
            self.recent_reward = reward
        else:
            self.recent_reward += max(0.01, 1 / self.rewards) * (reward - self.recent_reward)

    def withdraw(self, reward: float) -> None:
        """Take a reward back; the moving average forgets it by itself."""
        self.reward = nan
        self.rewards -= 1
        self.reward_sum -= reward
        self.invalid += 1

    def aim(self, target: float, next_position: float, shortfall: float) -> None:
        """Take in what was decided."""
        if are_apart(target, self.target):
            self.switches += 1
        self.target = target
        if are_apart(target, next_position):
            self.transit += 1
        if not isnan(shortfall) and not self.largest_shortfall >= shortfall:
            self.largest_shortfall = shortfall

    @property
    def late(self) -> int:
        """Slots that were late, or not run at all; a reward may come late, and is used then."""
        return self.late_arrivals + self.late_decisions + self.missed

    @property
    def mean_reward(self) -> float:
        return self.reward_sum / self.rewards if self.rewards else nan

    def theory(self, *, length: float, rho_max: float, margin: float) -> dict[str, Verdict]:
        """Hold the run so far against what the paper proves of every run of MoveUCB."""
        return verdicts(
            longest_step=self.longest_step,
            farthest_off=self.farthest_off,
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
