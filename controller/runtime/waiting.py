"""Waits of the slot thread: long ones give signs of life and end early when the run is stopped."""

from __future__ import annotations

from collections.abc import Callable

from macontrol.config.model.errors import SlotGivenUpError
from macontrol.controller.runtime.stop import StopToken
from macontrol.hal import Clock

LONG_WAIT_S = 1.0
"""A longer wait is split into parts, with signs of life between them."""


class Waiting:
    """Waits on the clock; `sign_of_life` is called several times in a long wait."""

    def __init__(self, clock: Clock, stop: StopToken, sign_of_life: Callable[[], None]) -> None:
        self._clock = clock
        self._stop = stop
        self._sign_of_life = sign_of_life

    def keep_on(self) -> bool:
        """In a long wait: give a sign of life, and return whether to continue."""
        self._sign_of_life()
        return not self._stop.is_set

    def until(self, time_s: float) -> bool:
        """Wait; return whether the wait was complete.

        Only a long wait ends early when the run is stopped. A short one is never interrupted.
        """
        clock = self._clock
        while time_s - clock.now() > LONG_WAIT_S:
            if not self.keep_on():
                return False
            clock.sleep_until(min(clock.now() + LONG_WAIT_S / 2, time_s))
        clock.sleep_until(time_s)
        return True

    def within_slot(self, time_s: float) -> None:
        """Wait within a slot; drop the slot if the run is stopped and much of the wait is left."""
        if not self.until(time_s):
            raise SlotGivenUpError
