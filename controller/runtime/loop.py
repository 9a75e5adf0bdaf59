"""The slot loop: actuate, measure, decide, at absolute deadlines.

              s_t                    s_t + T_a                               s_t + T_s
    ──────────┬──────────────────────┬──┬─────────────────────────┬──────────┬──────
              │ guard, stage         │  │ probe                   │ decide   │

A short guard interval after T_a covers what it costs to wake up and to command the stage. With
actuation as needed, a slot spends τ_t ≤ T_a on its move, and the measurement begins after that.

Every delay has a fixed outcome: see `actuation` for a late stage and `measurement` for a late
probe. After a late decision or a stall of the process the antenna holds, the slots that have begun
count as missed, and the loop continues at the next boundary.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isnan

from macontrol.config import Config
from macontrol.config.model.errors import SlotGivenUpError
from macontrol.config.model.slot_timing import SlotTiming
from macontrol.controller.policies.policy import Decision, Policy
from macontrol.controller.recording.events import EventKind
from macontrol.controller.recording.records import Event, Recorder, Recorders, SlotRecord
from macontrol.controller.recording.tally import Tally
from macontrol.controller.runtime.actuation import Actuated, ActuationPhase
from macontrol.controller.runtime.decision import DecisionPhase
from macontrol.controller.runtime.guard import Guard
from macontrol.controller.runtime.measurement import Measured, MeasurementPhase
from macontrol.controller.runtime.schedule import Schedule
from macontrol.controller.runtime.steering import (
    Adjust,
    Adopt,
    Hold,
    Release,
    Request,
    Steering,
    Survey,
)
from macontrol.controller.runtime.stop import StopToken
from macontrol.controller.runtime.waiting import Waiting
from macontrol.hal import Clock, Probe

STALL = "the process was stalled"
"""The detail of missed slots that no phase of the loop explains."""


class SlotLoop:
    """Runs a policy on a bench, slot by slot, until its schedule ends or `stop` is requested.

    A stop request ends the run after the current slot, or at once within a long slot. `on_slot` is
    called after every slot and several times in a long wait.
    """

    def __init__(
        self,
        config: Config,
        policy: Policy,
        guard: Guard,
        probe: Probe,
        clock: Clock,
        recorder: Recorder,
        *,
        stop: StopToken | None = None,
        steering: Steering | None = None,
        on_slot: Callable[[Tally, float], None] | None = None,
    ) -> None:
        self._guard = guard
        self._clock = clock
        self._on_slot = on_slot
        self._grid, self._stroke = config.grid, config.physical.rho_max
        self.timing: SlotTiming = config.slot_timing
        self._plan = config.physical.actuation_plan
        self.stop = stop or StopToken()
        self.steering = steering or Steering()
        self.tally = Tally(policy.start_position)
        self._recorder = recorder = Recorders(self.tally, recorder)
        self._waiting = waiting = Waiting(clock, self.stop, self._sign_of_life)
        self._actuation = ActuationPhase(config, guard, clock, recorder, waiting)
        self._actuation.position = policy.start_position
        self.decision = DecisionPhase(config, policy, clock, recorder)
        self._measurement = MeasurementPhase(
            config,
            probe,
            clock,
            recorder,
            waiting,
            self.decision.withdraw,
            self.steering.silence,
        )

    @property
    def activity(self) -> str:
        """What the slot thread does instead of slots, such as "recovering the stage"."""
        return self._actuation.recovery.activity

    @property
    def is_stage_lost(self) -> bool:
        """Whether the stage cannot move before a recovery."""
        return self._actuation.recovery.is_needed

    @property
    def position(self) -> float:
        """Where the antenna is, as far as known (wavelengths)."""
        return self._actuation.position

    def reserve_decision(self, seconds: float) -> None:
        """Reserve this time of each slot for the decision, but at most half of what T_a leaves."""
        self.timing = self.timing.with_decision_of(seconds)

    def halt(self) -> None:
        """Stop the stage where it is."""
        self._guard.stop()

    def approach(self, position: float) -> None:
        """Before slot 1: bring the antenna to a position (wavelengths), stroke by stroke."""
        self._actuation.approach(position)

    def run(
        self, *, first_slot: int = 1, slots: int | None = None, duration_s: float | None = None
    ) -> Tally:
        """Run `slots` slots, or for `duration_s`, or until a stop is requested."""
        slot_s = self.timing.slot_s
        schedule = Schedule(
            slot_s,
            self._clock.now() + slot_s,
            first_slot=first_slot,
            slots=slots,
            duration_s=duration_s,
        )
        wanted: float | None = self._actuation.position
        busy_with = STALL
        while not self.stop.is_set and not schedule.is_over:
            start_s = schedule.start_s
            if not self._waiting.until(start_s) or self.stop.is_set:
                break
            wake_s = self._clock.now() - start_s
            if wake_s >= self.timing.actuation_end_s:
                self._miss(schedule, start_s, wake_s, busy_with)
                continue
            busy_with = STALL
            if self.steering.requests:
                wanted = self._steer(schedule.slot, wanted)
            if self.steering.silence.is_on:
                wanted = None
            try:
                wanted, end_s = self._run_slot(schedule.slot, start_s, wake_s, wanted)
            except SlotGivenUpError:
                break
            schedule.advance()
            self._check_end(schedule, end_s, start_s + slot_s)
            if self._actuation.recovery.is_due:
                busy_with = self._actuation.recover(schedule.slot)
        return self.tally

    def _steer(self, slot: int, wanted: float | None) -> float | None:
        """Apply what operators request; return the position of this slot, None to stay."""
        steering, requests = self.steering, self.steering.requests
        while requests:
            request = requests.popleft()
            if isinstance(request, Hold):
                steering.hold(request.goal)
            elif isinstance(request, Release):
                steering.release()
            elif isinstance(request, Adjust):
                self.decision.adjust(request.key, request.value)
            elif isinstance(request, Survey):
                self.decision.adopt(request.walk)
            else:
                self.decision.adopt(request.policy)
            self._report(slot, *event_of(request))
        position = self._grid.clamp(self._actuation.position)
        held = steering.decision(self._grid, position, self._stroke)
        if held is None:
            return wanted
        return None if steering.stays else held.position

    def _run_slot(
        self, slot: int, start_s: float, wake_s: float, wanted: float | None
    ) -> tuple[float | None, float]:
        """Run one slot; return the next position (None to stay) and when it was decided."""
        now, timing = self._clock.now, self.timing
        actuated = self._actuation.run(slot, start_s, start_s + timing.actuation_end_s, wanted)
        begin_s = start_s + timing.measure_begin_s(actuated.spent_s)
        transmission_s = max(begin_s, actuated.known_s)
        self._waiting.within_slot(transmission_s)
        measured = self._measurement.run(
            slot, transmission_s, start_s + timing.measure_end_s, actuated
        )
        measured_s = now()
        position = self._grid.clamp(actuated.position)
        held = self.steering.decision(self._grid, position, self._stroke)
        decision = self.decision.run(slot, position, measured.arrived, held)
        decided_s, end_s = now(), start_s + timing.slot_s
        self.decision.judge_time(is_late=measured_s < end_s <= decided_s)
        times = (
            wake_s,
            actuated.known_s - start_s,
            measured_s - transmission_s,
            decided_s - measured_s,
        )
        movement = self.decision.surface_movement()
        share = self._plan.share(actuated.spent_s)
        self._recorder.submit(
            _record(slot, start_s, actuated, measured, decision, movement, times, share)
        )
        if self._on_slot is not None:
            self._on_slot(self.tally, start_s + timing.slot_s)
        return None if self.steering.stays else decision.position, decided_s

    def _check_end(self, schedule: Schedule, end_s: float, boundary_s: float) -> None:
        """After a decision beyond the slot's boundary: skip the slots that have begun."""
        late_s = end_s - boundary_s
        if late_s < 0:
            return
        self._report(
            schedule.slot - 1, EventKind.LATE_DECISION, "decided after the slot's end", late_s
        )
        if not self.stop.is_set and not schedule.is_over:
            self._miss(schedule, end_s, late_s, "the previous slot was too long")

    def _miss(self, schedule: Schedule, now_s: float, late_s: float, busy_with: str) -> None:
        """Skip the slots that began without us; the antenna holds meanwhile."""
        slot = schedule.slot
        missed = schedule.skip(late_s)
        self._recorder.submit(Event(slot, now_s, EventKind.MISSED, busy_with, float(missed)))

    def _sign_of_life(self) -> None:
        if self._on_slot is not None:
            self._on_slot(self.tally, self._clock.now())

    def _report(self, slot: int, kind: EventKind, detail: str, value: float | None = None) -> None:
        self._recorder.submit(Event(slot, self._clock.now(), kind, detail, value))


def event_of(request: Request) -> tuple[EventKind, str, float | None]:
    """The event that records a request: kind, detail and value."""
    if isinstance(request, Adopt):
        return EventKind.SURVEY, request.detail, request.value
    if isinstance(request, Hold):
        action = "hold" if request.goal is None else "goto"
        return EventKind.ACTION, f"{action} by {request.origin}", request.goal
    if isinstance(request, Release):
        return EventKind.ACTION, f"resume by {request.origin}", None
    if isinstance(request, Adjust):
        detail = f"set algorithm.{request.key} by {request.origin}"
        return EventKind.ACTION, detail, request.value
    return EventKind.ACTION, f"resurvey by {request.origin}", None


def _record(
    slot: int,
    start_s: float,
    actuated: Actuated,
    measured: Measured,
    decision: Decision,
    movement: float | None,
    times: tuple[float, float, float, float],
    share: float,
) -> SlotRecord:
    signal = measured.signal
    return SlotRecord(
        slot,
        start_s,
        actuated.position,
        actuated.commanded,
        actuated.on_time,
        measured.reward,
        measured.uncertainty,
        measured.invalid,
        decision.target,
        decision.position,
        decision.switched,
        decision.transit,
        None if isnan(decision.shortfall) else decision.shortfall,
        movement,
        *times,
        signal.level_db,
        signal.level_unit,
        signal.noise_floor_db,
        signal.snr_db,
        signal.clipped_share,
        signal.samples,
        share,
        actuated.origin,
        actuated.homings,
    )
