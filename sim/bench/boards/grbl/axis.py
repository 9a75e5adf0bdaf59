"""How a GRBL board moves its axis: planned motions, one after another, and a switch to home to.

It has no part in what the board's state is or what is said about it; it is told the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from macontrol.config.model.motion import Trapezoid
from macontrol.sim.bench.boards.axis import CountedAxis

LONGEST_QUEUE = 15
_FIRST_STEP_S = 0.002
"""From when a motion is planned to its first step."""


@dataclass(slots=True)
class _Block:
    """One planned motion."""

    target_mm: float
    speed_mm_per_s: float
    ends_s: float = 0.0


class PlannedAxis(CountedAxis):
    """One axis and the motions planned for it, by the board's settings of the moment."""

    def __init__(self, settings: Mapping[int, float], distance_mm: float) -> None:
        """`distance_mm` is how far the carriage stands from where homing will take it."""
        self._settings = settings
        travel, pull_off = settings[130], settings[27]
        homes_positive = not int(settings[23]) & 1
        self.home_mm = -pull_off if homes_positive else pull_off - travel
        self._switch_mm = 0.0 if homes_positive else -travel
        self._away = -1.0 if homes_positive else 1.0
        self._blocks: deque[_Block] = deque()
        super().__init__(self.home_mm + self._away * distance_mm)

    @property
    def planned(self) -> int:
        """How many motions are planned and not over."""
        return len(self._blocks)

    def distance_at(self, moment: float) -> float:
        """Where the carriage truly is (mm): its distance from where homing takes it."""
        return (self.true.position_at(moment) - self.home_mm) * self._away + 0.0

    def machine_mm(self, distance_mm: float) -> float:
        """What the board would call a place so far from where homing takes the carriage."""
        return self.home_mm + self._away * distance_mm

    def lose_steps(self, by_mm: float, now: float) -> None:
        """Shift the carriage, positive away from its switch."""
        self.true.shift(by_mm * self._away, now)

    def switch_is_closed(self, now: float) -> bool:
        return (self.true.position_at(now) - self._switch_mm) * self._away <= 1e-9

    # -- The count ----------------------------------------------------------------------------

    def position_at(self, now: float) -> float:
        """What the board would report (mm), in whole steps."""
        return self._in_steps(self.counted.position_at(now))

    def count_from(self, position_mm: float, now: float) -> None:
        """Take this for the position from now on."""
        self.counted.put(position_mm, now)
        self.round_to_steps(now)

    def round_to_steps(self, now: float) -> None:
        """A motor ends on a step, wherever the braking is over."""
        self.counted.put(self.position_at(now), now)

    def halt(self, now: float) -> None:
        """Cut the step pulses."""
        self.brake(now)
        self.round_to_steps(now)
        self._blocks.clear()

    def _in_steps(self, position_mm: float) -> float:
        steps = self._settings[100]
        return round(position_mm * steps) / steps

    def is_standing(self, now: float) -> bool:
        return self.counted.still_at <= now

    # -- Planned motions ----------------------------------------------------------------------

    def end_of_plan(self, now: float) -> float:
        """Where the last planned motion ends (mm)."""
        return self._blocks[-1].target_mm if self._blocks else self.position_at(now)

    def first_end_s(self) -> float:
        """When the first planned motion is over."""
        return self._blocks[0].ends_s if self._blocks else inf

    def leads_nowhere(self, target_mm: float, now: float) -> bool:
        """Whether there is no step to a position from where the last planned motion ends."""
        return abs(self._in_steps(target_mm) - self.end_of_plan(now)) < 0.5 / self._settings[100]

    def plan(self, target_mm: float, speed_mm_per_s: float, now: float) -> None:
        """Append a motion."""
        self._append(_Block(self._in_steps(target_mm), speed_mm_per_s), now)

    def plan_anew(self, now: float) -> None:
        """Go on, from a stand, with what was planned before a hold."""
        blocks, self._blocks = self._blocks, deque()
        for block in blocks:
            self._append(block, now)

    def drop_finished(self, now: float) -> None:
        while self._blocks and self._blocks[0].ends_s <= now:
            self._blocks.popleft()

    def drop_plan(self) -> None:
        self._blocks.clear()

    def _append(self, block: _Block, now: float) -> None:
        begin = max(now + _FIRST_STEP_S, self.counted.still_at)
        motion = Trapezoid(block.speed_mm_per_s, self._settings[120])
        self.move(block.target_mm, begin, motion, (-self._settings[130], 0.0))
        block.ends_s = self.counted.still_at
        self._blocks.append(block)

    # -- Homing -------------------------------------------------------------------------------

    def seek_switch(self, now: float) -> float:
        """Set out for the switch; how long (s) it may take, which is long if nothing moves."""
        seek = self._settings[25] / 60
        if self.is_stuck:
            return 1.5 * self._settings[130] / seek
        way = abs(self.true.position_at(now) - self._switch_mm)
        return self._ride(self._switch_mm, way / seek, now)

    def leave_switch(self, now: float) -> float:
        """Set out for where homing ends; how long (s) it takes."""
        pull_off, seek = self._settings[27], self._settings[25] / 60
        return self._ride(self._switch_mm + self._away * pull_off, pull_off / seek, now)

    def touch_switch(self, now: float) -> float:
        """Set out for the switch again, slowly; how long (s) it takes."""
        pull_off, feed = self._settings[27], self._settings[24] / 60
        return self._ride(self._switch_mm, pull_off / feed, now)

    def _ride(self, target_mm: float, time_s: float, now: float) -> float:
        """Move the carriage, at one speed and uncounted."""
        way = abs(target_mm - self.true.position_at(now))
        if way > 0 and time_s > 0 and not self.is_stuck:
            self.true.move(target_mm, now, Trapezoid(way / time_s, inf))
        return time_s
