"""The slot loop: actuate, measure, decide, in step with absolute deadlines.

              s_t                    s_t + T_a                               s_t + T_s
    ──────────┬──────────────────────┬──┬─────────────────────────┬──────────┬──────
              │ guard, stage         │  │ probe                   │ decide   │

A short guard interval after T_a takes up what waking and commanding cost. What is late has a
fixed outcome. The stage arrives after T_a and that interval: the slot has no measurement, and the
antenna is where the stage says it is. The measurement is not ready: no observation now, and
it is used for its own slot if it comes. The decision is late, or the process was stalled: the
antenna holds, the slots that have begun are counted as missed, and the loop goes on at the next
boundary. Slots are numbered by time, so a missed one leaves a gap in the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf, isnan, nan

from macontrol.config import Config
from macontrol.config.model.errors import (
    CommandRefusedError,
    HardwareError,
    ProbeError,
    StageError,
    StillMovingError,
)
from macontrol.controller.host.realtime import collect_garbage
from macontrol.controller.policies.moveucb import MoveUCB
from macontrol.controller.policies.policy import Decision, Policy
from macontrol.controller.policies.theory import SurfaceMeter
from macontrol.controller.recording.records import Event, EventKind, Recorder, SlotRecord
from macontrol.controller.recording.tally import Tally
from macontrol.controller.runtime.approach import Approach
from macontrol.controller.runtime.guard import Guard
from macontrol.controller.runtime.patience import Outage, Patience
from macontrol.controller.runtime.recovery import Recovery
from macontrol.controller.runtime.rewards import Rewards
from macontrol.hal import Clock, Measurement, Probe

# Young garbage is collected while the probe measures, once per this many slots, if there is time.
_COLLECT_EVERY_SLOTS = 1000
_COLLECT_NEEDS_S = 1e-3
# Outside a slot a stroke may take a slot and this much: no longer, so that a stop is noticed.
_APPROACH_EXTRA_S = 0.2
# How often a stage that gets no command is asked where it is: a board may lose its position, or its
# cable, while the antenna holds.
_POLL_INTERVAL_S = 1.0
# A wait in a slot that is longer than this is made in parts, with signs of life between them.
_LONG_WAIT_S = 1.0
# How often a stage is asked in a motion that is longer than that.
_MOTION_POLL_S = 0.05
_ROUNDING_SLOTS = 1e-6
_STALLED = "the process was stalled"


@dataclass(slots=True)
class _Actuation:
    """How the first part of a slot went."""

    commanded: float | None = None
    origin: float = nan
    """Where the stage was found at the start of the slot, if it was asked."""
    on_time: bool = True
    arrival_known_s: float = 0.0
    reason: str | None = None
    """Why there can be no measurement."""


@dataclass(frozen=True)
class Phases:
    """How the time of a slot is divided (s)."""

    actuate_s: float
    """T_a and the guard interval."""
    measure_s: float
    decide_s: float


class _SlotGivenUpError(Exception):
    """The run was stopped in the middle of a long slot, which is dropped."""


class SlotLoop:
    """Runs a policy on a bench, slot by slot."""

    def __init__(
        self,
        config: Config,
        policy: Policy,
        guard: Guard,
        probe: Probe,
        clock: Clock,
        recorder: Recorder,
        *,
        on_slot: Callable[[Tally, float], None] | None = None,
    ) -> None:
        self._config = config
        self._policy = policy
        self._guard = guard
        self._probe = probe
        self._clock = clock
        self._recorder = recorder
        self._on_slot = on_slot
        self._grid = config.grid
        self._wavelength_mm = config.physical.wavelength_mm
        self._slot_s = config.physical.slot_duration_s
        self._actuation_s = (
            config.physical.actuation_time_s + config.timing.guard_share * self._slot_s
        )
        self._measure_end_s = self._slot_s * (1.0 - config.timing.decision_share)
        self._rho_max = config.physical.rho_max
        self._meter = SurfaceMeter() if isinstance(policy, MoveUCB) else None
        patience_s = config.timing.fault_patience_s
        self._stage_patience = Patience("stage", patience_s, clock, recorder)
        self._probe_patience = Patience("probe", patience_s, clock, recorder)
        self._heard_s = -inf
        """When the stage last said where it is."""
        self._lateness = Outage(clock)
        """For how long no command has had the stage in place on time."""
        self._stop = False
        self.tally = Tally(policy.start_position)
        self._rewards = Rewards(config, policy, clock, recorder, self.tally)
        self._recovery = Recovery(
            guard, self._stage_patience, clock, recorder, self.tally, self._keep_on
        )
        self._approach = Approach(
            guard,
            clock,
            self._stage_patience,
            self._recovery,
            self.tally,
            stroke_s=self._slot_s + _APPROACH_EXTRA_S,
        )

    @property
    def phases(self) -> Phases:
        """How the time of a slot is divided."""
        measure_s = self._measure_end_s - self._actuation_s
        return Phases(self._actuation_s, measure_s, self._slot_s - self._measure_end_s)

    def reserve_decision(self, seconds: float) -> None:
        """Keep this much of each slot to decide in, but at most half of what T_a leaves."""
        most = (self._slot_s - self._actuation_s) / 2
        self._measure_end_s = min(self._measure_end_s, self._slot_s - min(seconds, most))

    def stop(self) -> None:
        """Ask the loop to end after the slot it is in, or at once if that is a long one.

        Safe to call from a signal handler.
        """
        self._stop = True

    def halt(self) -> None:
        """Stop the stage where it is."""
        self._guard.stop()

    def approach(self, position: float) -> None:
        """Before slot 1: bring the antenna to a position (wavelengths), stroke by stroke."""
        self._approach.run(position * self._wavelength_mm, lambda: self._stop)
        reported = self._to_wavelengths(self._guard.reported_mm)
        if not isnan(reported):
            self.tally.position = reported

    def run(
        self, *, first_slot: int = 1, slots: int | None = None, duration_s: float | None = None
    ) -> Tally:
        """Run until `stop`, until `slots` have been run, or until `duration_s` has passed."""
        tally, clock, slot_s = self.tally, self._clock, self._slot_s
        # Counted in slots: the difference of two moments is off by their rounding.
        over = inf if duration_s is None else first_slot + duration_s / slot_s - _ROUNDING_SLOTS
        epoch = self._heard_s = clock.now() + slot_s
        slot, wanted, stalled_by = first_slot, self.tally.position, _STALLED

        def goes_on() -> bool:
            return not self._stop and slot < over and (slots is None or tally.slots < slots)

        while goes_on():
            start = epoch + (slot - first_slot) * slot_s
            if not self._wait_until(start) or self._stop:
                break
            wake = clock.now() - start
            if wake >= self._actuation_s:
                slot += self._miss(slot, start, wake, over, stalled_by)
                continue
            stalled_by = _STALLED
            try:
                decision, ended = self._run_slot(slot, start, wake, wanted)
            except _SlotGivenUpError:
                break
            wanted = decision.position
            slot += 1
            late = ended - (start + slot_s)
            if late >= 0:
                tally.late_decisions += 1
                self._report(
                    slot - 1, EventKind.LATE_DECISION, "decided after the slot's end", late
                )
                if goes_on():
                    slot += self._miss(slot, ended, late, over, "the slot before overran")
            if self._recovery.is_due:
                stalled_by = self._recovery.run(slot)
                self._go_back()
        return tally

    def _go_back(self) -> None:
        """After homing: bring the antenna back to where it was, without a slot for each stroke."""
        if not self._recovery.is_needed:
            position = min(max(self.tally.position, 0.0), self._grid.length)
            self._approach.run(position * self._wavelength_mm, lambda: not self._keep_on())

    def _keep_on(self) -> bool:
        """In a long wait: give a sign of life, and say whether to go on."""
        if self._on_slot is not None:
            self._on_slot(self.tally, self._clock.now())
        return not self._stop

    def _be_in_slot_until(self, moment: float) -> None:
        """Wait within a slot; drop the slot if the run is stopped and much of the wait is left."""
        if not self._wait_until(moment):
            raise _SlotGivenUpError

    def _wait_until(self, moment: float) -> bool:
        """Wait, with signs of life if it is long; whether it was waited to the end.

        Only a long wait ends early when the run is stopped: a short one is never interrupted.
        """
        clock = self._clock
        while moment - clock.now() > _LONG_WAIT_S:
            if not self._keep_on():
                return False
            clock.sleep_until(min(clock.now() + _LONG_WAIT_S / 2, moment))
        clock.sleep_until(moment)
        return True

    def _run_slot(
        self, slot: int, start: float, wake: float, wanted: float
    ) -> tuple[Decision, float]:
        tally, clock = self.tally, self._clock
        actuation = self._actuate(slot, start, wanted)
        x = self._to_wavelengths(self._guard.reported_mm)
        x = tally.position if isnan(x) else x
        origin = tally.position if isnan(actuation.origin) else actuation.origin
        tally.stand_at(x, self._grid.length, origin)
        on_rail = min(max(x, 0.0), self._grid.length)
        if on_rail != x and actuation.reason is None:
            actuation.reason = "off the rail"
        transmission = start + self._actuation_s
        self._be_in_slot_until(transmission)
        measure_end = start + self._measure_end_s
        own, arrived = self._measure(slot, x, transmission, measure_end, actuation)
        measured = clock.now()
        decision = self._decide(slot, on_rail, arrived)
        ended = clock.now()
        movement = self._movement_of_surface()
        tally.slot = slot
        tally.slots += 1
        tally.wake.add(wake)
        tally.actuate.add(actuation.arrival_known_s - start)
        tally.measure.add(measured - transmission)
        tally.decide.add(ended - measured)
        reward = own.reward if own is not None and own.valid else None
        invalid = actuation.reason or ("not ready" if own is None else own.reason or "invalid")
        uncertain = own is None or isnan(own.uncertainty)
        self._recorder.submit(
            SlotRecord(
                slot=slot,
                start_s=start,
                position=x,
                commanded=actuation.commanded,
                on_time=actuation.on_time,
                reward=reward,
                uncertainty=None if uncertain or own is None else own.uncertainty,
                invalid=invalid if reward is None else None,
                target=decision.target,
                next_position=decision.position,
                switched=decision.switched,
                transit=decision.transit,
                shortfall=None if isnan(decision.shortfall) else decision.shortfall,
                surface_movement=movement,
                wake_s=wake,
                actuate_s=actuation.arrival_known_s - start,
                measure_s=measured - transmission,
                decide_s=ended - measured,
            )
        )
        if self._on_slot is not None:
            self._on_slot(tally, start + self._slot_s)
        return decision, ended

    def _actuate(self, slot: int, start: float, wanted: float) -> _Actuation:
        """Send the antenna to its position and see it arrive, all before s_t + T_a."""
        guard, tally, outcome = self._guard, self.tally, _Actuation()
        deadline = start + self._actuation_s
        try:
            if not guard.is_standing:
                wanted = self._locate_again(wanted, deadline, outcome)
            command = guard.command_for(wanted * self._wavelength_mm)
            if not guard.is_at(command):
                outcome.commanded = self._to_wavelengths(command)
                self._see_arrival(slot, command, deadline, outcome)
                self._heard_s = start
            elif start >= self._heard_s + _POLL_INTERVAL_S:
                self._see_standing(command, deadline)
                self._heard_s = start
        except CommandRefusedError as refusal:
            guard.doubt()  # if the policy is right, the stage is not where it was said to be
            tally.refused += 1
            self._report(slot, EventKind.REFUSED, str(refusal), wanted)
        except StillMovingError as late:
            tally.late_arrivals += 1
            outcome.on_time, outcome.reason = False, "still moving"
            self._stage_patience.failed(slot, EventKind.LATE_ARRIVAL, late)
        except StageError as fault:
            outcome.on_time, outcome.reason = False, "stage fault"
            self._recovery.failed(slot, fault, commanded=outcome.commanded is not None)
        outcome.arrival_known_s = self._clock.now()
        moved = outcome.commanded is not None
        if moved and outcome.on_time and outcome.arrival_known_s > deadline:
            self._late(slot, outcome, outcome.arrival_known_s - deadline)
        if outcome.on_time and moved:
            self._lateness.ended()
            self._stage_patience.recovered(slot)
        elif outcome.on_time:  # nothing was commanded: that does not show that commands work
            self._lateness.paused()
            self._stage_patience.answered(slot)
        return outcome

    def _locate_again(self, wanted: float, deadline: float, outcome: _Actuation) -> float:
        """After a late arrival or a fault: where is it, does it stand, what is in reach now?"""
        arrival = self._guard.locate(deadline)
        if not arrival.arrived:
            raise StillMovingError("the stage is still moving from an earlier slot")
        outcome.origin = found = self._to_wavelengths(arrival.position_mm)
        if not self._guard.is_within_reach:
            raise StageError(f"the stage says it is at {arrival.position_mm:.3f} mm, off its rail")
        if not 0 <= wanted <= self._grid.length:
            return wanted  # for the guard to refuse
        return self._grid.advance(found, wanted, self._rho_max)

    def _see_arrival(self, slot: int, command: float, deadline: float, outcome: _Actuation) -> None:
        arrival = self._guard.move(command, min(deadline, self._clock.now() + _LONG_WAIT_S))
        while not arrival.arrived and self._clock.now() < deadline:  # a long motion: look after it
            self._be_in_slot_until(min(deadline, self._clock.now() + _MOTION_POLL_S))
            if not self._keep_on():
                raise _SlotGivenUpError
            arrival = self._guard.locate(deadline)
        if not arrival.arrived or arrival.time_s > deadline:
            self._late(slot, outcome, max(arrival.time_s - deadline, 0.0))
        elif not self._guard.is_close(command):
            raise StageError(
                f"sent to {command:.4f} mm, the stage arrived at {arrival.position_mm:.4f} mm"
            )

    def _see_standing(self, command: float, deadline: float) -> None:
        """Ask a stage that got no command whether it is still there."""
        arrival = self._guard.locate(deadline)
        if not arrival.arrived:
            raise StillMovingError("the stage moves though it was not sent anywhere")
        if not self._guard.is_close(command):
            raise StageError(
                f"left at {command:.4f} mm, the stage says it is at {arrival.position_mm:.4f} mm"
            )

    def _late(self, slot: int, outcome: _Actuation, by_s: float) -> None:
        outcome.on_time, outcome.reason = False, "late arrival"
        self.tally.late_arrivals += 1
        self._report(slot, EventKind.LATE_ARRIVAL, "the stage was not there by T_a", by_s)
        lasted, patience_s = self._lateness.failed(), self._config.timing.fault_patience_s
        if lasted > patience_s:
            raise HardwareError(
                f"the stage was late after every command for {lasted:.0f} s of slots "
                f"(timing.fault_patience_s = {patience_s:g}); lengthen physical.actuation_time_s, "
                "or look for what blocks the carriage"
            )

    def _measure(
        self, slot: int, x: float, start: float, end: float, actuation: _Actuation
    ) -> tuple[Measurement | None, Sequence[tuple[Measurement, float]]]:
        """This slot's measurement, if it is in, and all valid ones with their positions."""
        fault, collected = self._ask(slot, x, start, end, actuation)
        own, usable = self._rewards.sort(slot, collected)
        if fault is None:
            self._probe_patience.recovered(slot)
        else:
            self.tally.probe_faults += 1
            self._probe_patience.failed(slot, EventKind.PROBE_FAULT, fault)
            own = Measurement(slot, nan, False, reason="probe fault")
        self._be_in_slot_until(end)
        self._rewards.forget_stale(slot)
        return own, usable

    def _ask(
        self, slot: int, x: float, start: float, end: float, actuation: _Actuation
    ) -> tuple[ProbeError | None, Sequence[Measurement]]:
        """Ask for this slot's measurement and collect what is ready, of whatever slot."""
        fault: ProbeError | None = None
        collected: Sequence[Measurement] = ()
        try:
            if actuation.reason is None:
                self._probe.request(slot, start, end)
                self._rewards.expect(slot, x)
        except ProbeError as refusal:
            fault = refusal  # what was asked for before may still come
        self._collect_garbage(end)
        if end - self._clock.now() > _LONG_WAIT_S:  # nothing is ready before the end
            self._be_in_slot_until(end - _LONG_WAIT_S)
        try:
            collected = self._probe.collect(end)
        except ProbeError as failure:
            fault = fault or failure
            self._rewards.account_for(slot)
        return fault, collected

    def _collect_garbage(self, end: float) -> None:
        if (
            self.tally.slots % _COLLECT_EVERY_SLOTS == _COLLECT_EVERY_SLOTS - 1
            and end - self._clock.now() > _COLLECT_NEEDS_S
        ):
            collect_garbage()

    def _decide(
        self, slot: int, x: float, arrived: Sequence[tuple[Measurement, float]]
    ) -> Decision:
        for measurement, position in arrived:
            self._policy.observe(measurement.slot, position, measurement.reward)
            self.tally.see(measurement.reward)
        decision = self._policy.decide(slot, x)
        self.tally.aim(decision.target, decision.position, decision.shortfall)
        return decision

    def _movement_of_surface(self) -> float | None:
        """Measure sup|F_t − F_{t−1}| (Lemma 2), where the policy has a surface."""
        if self._meter is None or not isinstance(self._policy, MoveUCB):
            return None
        before = self._meter.movement
        self._meter.update(self._policy.surface)
        self.tally.surface_movement = self._meter.movement
        return self._meter.movement - before

    def _miss(self, slot: int, now: float, late_s: float, over: float, why: str) -> int:
        """Count slots before the run's end that began without us; the antenna holds meanwhile."""
        count = 1 + int(late_s / self._slot_s)
        if slot + count > over:
            count = ceil(over - slot)
        self.tally.missed += count
        self._recorder.submit(Event(slot, now, EventKind.MISSED, why, float(count)))
        return count

    def _report(self, slot: int, kind: EventKind, detail: str, value: float | None = None) -> None:
        self._recorder.submit(Event(slot, self._clock.now(), kind, detail, value))

    def _to_wavelengths(self, position_mm: float) -> float:
        """Where the stage is, in wavelengths, freed from rounding if it is on the grid."""
        if isnan(position_mm):
            return nan
        return self._grid.snap(position_mm / self._wavelength_mm)
