"""The axis of the emulated GRBL board: its planned motions and its homing switch.

The axis knows neither the state of the board nor the clock: callers pass the time.
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
"""The delay from planning a motion to its first step."""


@dataclass(slots=True)
class _Block:
    """One planned motion."""

    target_mm: float
    speed_mm_per_s: float
    ends_s: float = 0.0


class PlannedAxis(CountedAxis):
    """One axis and its planned motions, with the current settings of the board."""

    def __init__(self, settings: Mapping[int, float], distance_mm: float) -> None:
        """The carriage starts at `distance_mm` from its home position."""
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
        """The number of planned motions that are not finished."""
        return len(self._blocks)

    def distance_at(self, moment: float) -> float:
        """The true distance of the carriage from its home position (mm)."""
        return (self.true.position_at(moment) - self.home_mm) * self._away + 0.0

    def machine_mm(self, distance_mm: float) -> float:
        """The machine coordinate at a distance from the home position."""
        return self.home_mm + self._away * distance_mm

    def lose_steps(self, by_mm: float, now: float) -> None:
        """Shift the carriage, positive away from the switch."""
        self.true.shift(by_mm * self._away, now)

    def switch_is_closed(self, now: float) -> bool:
        return (self.true.position_at(now) - self._switch_mm) * self._away <= 1e-9

    # -- The count ----------------------------------------------------------------------------

    def position_at(self, now: float) -> float:
        """The position that the board reports (mm), in whole steps."""
        return self._in_steps(self.counted.position_at(now))

    def count_from(self, position_mm: float, now: float) -> None:
        """Set the count to a position."""
        self.counted.put(position_mm, now)
        self.round_to_steps(now)

    def round_to_steps(self, now: float) -> None:
        """Move the count to the nearest step: a motor stops on a step."""
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
        """The end of the last planned motion (mm)."""
        return self._blocks[-1].target_mm if self._blocks else self.position_at(now)

    def first_end_s(self) -> float:
        """The time at which the first planned motion ends."""
        return self._blocks[0].ends_s if self._blocks else inf

    def ends_plan_at(self, target_mm: float, now: float) -> bool:
        """Whether the last planned motion ends at this position, to the step."""
        return abs(self._in_steps(target_mm) - self.end_of_plan(now)) < 0.5 / self._settings[100]

    def plan(self, target_mm: float, speed_mm_per_s: float, now: float) -> None:
        """Append a motion."""
        self._append(_Block(self._in_steps(target_mm), speed_mm_per_s), now)

    def resume_plan(self, now: float) -> None:
        """Continue, from standstill, with the motions that were planned before a hold."""
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
        """Start towards the switch; the longest duration (s), which is long if stuck."""
        seek = self._settings[25] / 60
        if self.is_stuck:
            return 1.5 * self._settings[130] / seek
        distance = abs(self.true.position_at(now) - self._switch_mm)
        return self._move_uncounted(self._switch_mm, distance / seek, now)

    def leave_switch(self, now: float) -> float:
        """Start towards the home position; the duration (s)."""
        pull_off, seek = self._settings[27], self._settings[25] / 60
        return self._move_uncounted(self._switch_mm + self._away * pull_off, pull_off / seek, now)

    def touch_switch(self, now: float) -> float:
        """Start towards the switch again, slowly; the duration (s)."""
        pull_off, feed = self._settings[27], self._settings[24] / 60
        return self._move_uncounted(self._switch_mm, pull_off / feed, now)

    def _move_uncounted(self, target_mm: float, time_s: float, now: float) -> float:
        """Move the carriage at a constant speed, without counting."""
        distance = abs(target_mm - self.true.position_at(now))
        if distance > 0 and time_s > 0 and not self.is_stuck:
            self.true.move(target_mm, now, Trapezoid(distance / time_s))
        return time_s
