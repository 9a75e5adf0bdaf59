"""What an operator asks of the slot loop: hold, go to a position, other settings, a new survey.

Other threads submit requests. The slot thread looks once per slot whether there is one, and never
waits. Without a request, nothing that the loop decides depends on this module.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import nan
from threading import Lock
from typing import TypeAlias

from macontrol.config.model.grid import Grid, are_apart
from macontrol.controller.policies.policy import Decision, Policy
from macontrol.controller.runtime.silence import Silence
from macontrol.controller.survey.resurvey import Resurvey

MOST_WAITING = 64
"""Requests that wait for the slot thread; more are not accepted."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep the antenna where it is, or bring it to `goal` (wavelengths) and keep it there."""

    origin: str
    goal: float | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """Let the policy decide again."""

    origin: str


@dataclass(frozen=True, slots=True)
class Adjust:
    """Change a setting of the policy."""

    origin: str
    key: str
    value: float


@dataclass(frozen=True, slots=True)
class Survey:
    """Walk the rail instead of deciding, until a policy is adopted."""

    origin: str
    walk: Resurvey


@dataclass(frozen=True, slots=True)
class Adopt:
    """Continue with a policy; `detail` and `value` are for the event."""

    policy: Policy
    detail: str
    value: float | None = None


Request: TypeAlias = Hold | Release | Adjust | Survey | Adopt


class Steering:
    """The requests, and whether the antenna is held. Positions in wavelengths."""

    def __init__(self) -> None:
        self.requests: deque[Request] = deque()
        self._submitting = Lock()
        self._is_over = False
        self.is_held = False
        self.goal: float | None = None
        """Where a held antenna goes; None to stay."""
        self.is_hold_requested = False
        """Whether the last of these requests was to hold. The survey before slot 1 pauses then."""
        self.silence = Silence()
        """While the transmitter is off, the antenna stays."""

    def submit(self, request: Request) -> bool:
        """Submit a request from any thread; return whether it is accepted."""
        with self._submitting:
            if self._is_over or len(self.requests) >= MOST_WAITING:
                return False
            if isinstance(request, Hold | Release):
                self.is_hold_requested = isinstance(request, Hold)
            self.requests.append(request)
            return True

    def end(self) -> list[Request]:
        """After the last slot: accept no more; return the requests that found no slot."""
        with self._submitting:
            self._is_over = True
            left = list(self.requests)
            self.requests.clear()
            return left

    @property
    def stays(self) -> bool:
        """Whether the antenna stays wherever it is."""
        return self.silence.is_on or (self.is_held and self.goal is None)

    def hold(self, goal: float | None) -> None:
        self.is_held, self.goal = True, goal

    def release(self) -> None:
        self.is_held, self.goal = False, None

    def decision(self, grid: Grid, position: float, stroke: float) -> Decision | None:
        """The decision for a held antenna; None if the policy decides."""
        if self.stays:
            return Decision(position, position, False, False, nan)
        if self.goal is None:
            return None
        step = grid.advance(position, self.goal, stroke)
        return Decision(self.goal, step, False, are_apart(self.goal, step), nan)
