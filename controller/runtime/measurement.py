"""The measurement phase: request the slot's reward and collect what the probe has ready.

A measurement that is not ready gives no observation now. It is used for its own slot if it
arrives later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from macontrol.config import Config
from macontrol.config.model.errors import PROBE_CODE, ProbeError
from macontrol.controller.host.realtime import collect_garbage
from macontrol.controller.recording.events import EventKind, InvalidReason
from macontrol.controller.recording.records import Recorder
from macontrol.controller.runtime.actuation import Actuated
from macontrol.controller.runtime.observation import Observation, Rewarding
from macontrol.controller.runtime.patience import Patience
from macontrol.controller.runtime.rewards import Rewards
from macontrol.controller.runtime.silence import Silence
from macontrol.controller.runtime.waiting import LONG_WAIT_S, Waiting
from macontrol.hal import Clock, Probe
from macontrol.hal.probe import UNKNOWN_SIGNAL, Signal

# Young garbage is collected while the probe measures, once per this many slots, if there is time.
_COLLECT_EVERY_SLOTS = 1000
_COLLECT_NEEDS_S = 1e-3


@dataclass(slots=True)
class Measured:
    """The result of the phase."""

    arrived: Sequence[tuple[Observation, float]]
    """The rewards of this and earlier slots, with their positions."""
    reward: float | None
    """r_t, if it is ready."""
    uncertainty: float | None
    invalid: str | None
    """Why there is no reward."""
    signal: Signal = UNKNOWN_SIGNAL


class MeasurementPhase:
    """Measures through the probe; `withdraw` gets the slots whose reward is withdrawn."""

    def __init__(
        self,
        config: Config,
        probe: Probe,
        clock: Clock,
        recorder: Recorder,
        waiting: Waiting,
        withdraw: Callable[[int], None],
        silence: Silence | None = None,
    ) -> None:
        self._probe = probe
        self._clock = clock
        self._waiting = waiting
        self._patience = Patience("probe", config.timing.fault_patience_s, clock, recorder)
        self._plan = config.physical.actuation_plan
        self._rewarding = Rewarding(config)
        self._rewards = Rewards(config, clock, recorder, withdraw, silence or Silence())
        self._slots = 0

    def run(self, slot: int, start_s: float, end_s: float, actuated: Actuated) -> Measured:
        """Measure from `start_s` to `end_s`, if the antenna is in position."""
        fault, collected = self._collect(slot, start_s, end_s, actuated)
        own, usable = self._rewards.sort(slot, collected)
        if fault is None:
            self._patience.recovered(slot)
        else:
            self._patience.failed(slot, EventKind.PROBE_FAULT, fault)
        self._waiting.within_slot(end_s)
        self._rewards.forget_stale(slot)
        self._slots += 1
        if fault is not None or own is None:
            return Measured(usable, None, None, actuated.invalid or _reason(fault))
        if own.valid:
            return Measured(usable, own.earned, own.earned_sigma, None, own.signal)
        reason = own.reason or InvalidReason.INVALID
        return Measured(usable, None, own.earned_sigma, reason, own.signal)

    def _collect(
        self, slot: int, start_s: float, end_s: float, actuated: Actuated
    ) -> tuple[ProbeError | None, Sequence[Observation]]:
        """Request this slot's measurement and collect what is ready, of any slot."""
        fault: ProbeError | None = None
        if actuated.invalid is None:
            try:
                with PROBE_CODE:
                    self._probe.request(slot, start_s, end_s)
                weight = self._plan.earned(actuated.spent_s)
                self._rewards.expect(slot, actuated.position, start_s, end_s, weight)
            except ProbeError as refusal:
                fault = refusal  # earlier requests can still give a result
        self._collect_garbage(end_s)
        if end_s - self._clock.now() > LONG_WAIT_S:  # nothing is ready before the end
            self._waiting.within_slot(end_s - LONG_WAIT_S)
        try:
            with PROBE_CODE:
                found = self._probe.collect(end_s)
                return fault, [self._rewarding.observe(one) for one in found]
        except ProbeError as failure:
            self._rewards.note_fault(slot)
            return fault or failure, ()

    def _collect_garbage(self, end_s: float) -> None:
        if (
            self._slots % _COLLECT_EVERY_SLOTS == _COLLECT_EVERY_SLOTS - 1
            and end_s - self._clock.now() > _COLLECT_NEEDS_S
        ):
            collect_garbage()


def _reason(fault: ProbeError | None) -> InvalidReason:
    return InvalidReason.NOT_READY if fault is None else InvalidReason.PROBE_FAULT
