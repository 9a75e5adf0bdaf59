"""A running daemon as other threads see it: its state, its latest slot, its posterior."""

from __future__ import annotations

import base64
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.config.model.errors import RequestError
from macontrol.control.messages import NO_ANSWER
from macontrol.control.states import State
from macontrol.controller.policies.policy import HasPosterior, HasSurface, Policy
from macontrol.controller.recording.records import Event, Item, Recorder, SlotRecord
from macontrol.controller.recording.tally import EventCounter
from macontrol.controller.runtime.loop import SlotLoop
from macontrol.controller.runtime.steering import Steering
from macontrol.controller.runtime.stop import StopToken
from macontrol.controller.survey.resurvey import Resurvey
from macontrol.floor_request import FloorRequest
from macontrol.hal import Backend
from macontrol.recording import Recording
from macontrol.run_options import RunOptions

Array = NDArray[np.float64]

_MOST_EVENTS = 500
"""Events that wait for the control thread; others are counted."""
_HELD_S = 0.05
_QUIET_ATTEMPTS = 3
_LONGEST_WAIT_S = 0.05
_ATTEMPTS = 100
_PAUSE_S = 0.001
_MOST_POINTS = 1201


@dataclass(frozen=True)
class Estimate:
    """A copy of the posterior, and of the surface if the policy has one."""

    slot: int
    position: Array
    mean: Array
    deviation: Array
    acquisition: Array | None


class TrialBlock(NamedTuple):
    """A block of a trial, numbered from 1."""

    block: int
    blocks: int
    round: int
    rounds: int


@dataclass
class LiveRun(Recorder):
    """The parts of a run, as far as they exist. Only `submit` is for the slot thread."""

    config: Config
    options: RunOptions
    stop: StopToken
    steering: Steering
    counted: EventCounter
    recording: Recording
    phase: State | None = State.STARTING
    """What the daemon does outside the slots; None in the slots."""
    loop: SlotLoop | None = None
    bench: Backend | None = None
    walk: Resurvey | None = None
    """The survey that was requested, until a policy follows it."""
    floor: FloorRequest | None = None
    fixed_reward: Callable[[], float | None] = lambda: None
    """The mean reward of a fixed antenna, on a simulated bench."""
    progress: tuple[int, int] | None = None
    """Of the survey before slot 1: positions done, and all."""
    last: SlotRecord | None = None
    wants_events: bool = False
    events: deque[Event] = field(default_factory=deque)
    dropped: int = 0
    started_s: float = field(default_factory=time.time)
    trial: TrialBlock | None = None
    """The present block, if this is no run but a trial of several policies."""

    def submit(self, item: Item) -> None:
        if type(item) is SlotRecord:
            self.last = item
        elif self.wants_events and type(item) is Event:
            if len(self.events) < _MOST_EVENTS:
                self.events.append(item)
            else:
                self.dropped += 1

    def set_homing(self, is_homing: bool) -> None:
        """Note that the stage is homed before the first slot, or that this is over."""
        self.phase = State.HOMING if is_homing else State.STARTING

    def may_move(self) -> bool:
        """In the survey before slot 1: wait while the antenna is held; False after a stop."""
        while self.steering.is_hold_requested and not self.stop.is_set:
            time.sleep(_HELD_S)
        return not self.stop.is_set

    @property
    def state(self) -> State:
        """What the daemon does now."""
        loop = self.loop
        if self.stop.is_set or self.phase is State.STOPPING:
            return State.STOPPING
        if self.phase is not None or loop is None:
            return self.phase or State.STARTING
        if loop.activity:
            return State.RECOVERING
        if self.steering.is_hold_requested:
            return State.HOLDING
        is_walking = self.walk is not None or isinstance(self.policy, Resurvey)
        return State.SURVEYING if is_walking else State.RUNNING

    def await_quiet(self) -> None:
        """Wait until the slot thread sleeps for the longest time, while the probe measures.

        Work in Python then delays neither its wake-up nor the decision. A busy computer may wake
        this thread too late; it tries a few times.
        """
        loop, last = self.loop, self.last
        if loop is None or last is None or self.phase is not None:
            return
        timing = loop.timing
        spare_s = timing.measure_s / 4
        begin_s, end_s = timing.actuation_end_s + spare_s / 4, timing.measure_end_s - spare_s
        for _ in range(_QUIET_ATTEMPTS):
            within_s = (time.monotonic() - last.start_s) % timing.slot_s
            if begin_s <= within_s <= end_s:
                return
            time.sleep(min((begin_s - within_s) % timing.slot_s, _LONGEST_WAIT_S))

    @property
    def policy(self) -> Policy | None:
        return None if self.loop is None else self.loop.decision.policy

    def estimate(self) -> Estimate:
        """The posterior between two decisions; RequestError if the policy never rests."""
        loop, policy = self.loop, self.policy
        if loop is None or not isinstance(policy, HasPosterior):
            raise RequestError(
                NO_ANSWER, f"the policy {self.config.algorithm.policy} has no posterior"
            )
        posterior, decision = policy.posterior, loop.decision
        step = -(-posterior.grid.size // _MOST_POINTS)
        for _ in range(_ATTEMPTS):
            begun = decision.begun
            if decision.ended == begun:
                copied = (
                    loop.tally.slot,
                    posterior.mean[::step].copy(),
                    posterior.variance[::step].copy(),
                    policy.surface[::step].copy() if isinstance(policy, HasSurface) else None,
                )
                if decision.begun == begun:
                    slot, mean, variance, surface = copied
                    deviation = np.sqrt(np.maximum(variance, 0.0))
                    return Estimate(slot, posterior.grid.points[::step], mean, deviation, surface)
            time.sleep(_PAUSE_S)
        raise RequestError(NO_ANSWER, "the policy decides all the time", "try again")


def pack(numbers: Array | None) -> str | None:
    """Numbers as text that is quick to write; `lines.unpack` reads it in the server."""
    if numbers is None:
        return None
    return base64.b64encode(numbers.astype(np.float32).tobytes()).decode()
