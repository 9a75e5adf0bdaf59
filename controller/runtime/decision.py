"""The decision phase: the policy observes the rewards and decides the next position.

A policy that raises an exception or returns no numbers is a fault: the antenna holds in that slot,
and the run ends when faults have lasted for the patience. The same holds for decisions that come
after the slot's end. A position out of reach is refused by the guard.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite, nan
from traceback import format_exception
from types import TracebackType
from typing import Any

from macontrol.config import Config
from macontrol.config.model.errors import PolicyError, described, place_of
from macontrol.controller.policies.policy import Decision, HasSettings, HasSurface, Policy
from macontrol.controller.policies.theory import SurfaceMeter
from macontrol.controller.recording.events import EventKind
from macontrol.controller.recording.records import Recorder
from macontrol.controller.runtime.observation import Observation
from macontrol.controller.runtime.patience import Outage, Patience
from macontrol.controller.survey.resurvey import Resurvey
from macontrol.hal import Clock

_FIX = "correct the policy: the first policy-fault event has the traceback"
_PLAIN = (float, float, bool, bool, float)
_FIX_LATE = "set physical.slot_duration_s higher, or choose a quicker policy"


class DecisionPhase:
    """Runs a policy. Positions in wavelengths."""

    def __init__(self, config: Config, policy: Policy, clock: Clock, recorder: Recorder) -> None:
        self.policy = self.previous = policy
        self.adopt(policy)
        self._meter = SurfaceMeter()
        name, limit_s = f"policy {config.algorithm.policy}", config.timing.fault_patience_s
        self._patience = Patience(name, limit_s, clock, recorder, PolicyError)
        self._lateness = Outage(f"the {name} has been too late for", limit_s, clock, PolicyError)
        self._error: BaseException | None = None
        """The first exception since the last decision."""
        self._traced: set[str] = set()
        """The places in the policy's code whose traceback is reported."""
        self._policy_code = _PolicyCode(self._note)

    @property
    def begun(self) -> int:
        """How many calls into the policy began."""
        return self._policy_code.begun

    @property
    def ended(self) -> int:
        """How many calls into the policy ended."""
        return self._policy_code.ended

    def adopt(self, policy: Policy) -> None:
        """Continue with this policy; `previous` is the one before a survey."""
        if isinstance(policy, Resurvey):
            self.previous = self.policy
        self.policy = policy
        self._surface = policy if isinstance(policy, HasSurface) else None
        self._walk = policy if isinstance(policy, Resurvey) else None

    def adjust(self, key: str, value: float) -> None:
        """Change a setting of the policy, if it has this one; a fault is reported."""
        with self._policy_code:
            if isinstance(self.policy, HasSettings) and key in self.policy.settings:
                self.policy.adjust(key, value)

    def run(
        self,
        slot: int,
        position: float,
        arrived: Sequence[tuple[Observation, float]],
        held: Decision | None = None,
    ) -> Decision:
        """Observe what arrived, then decide; hold after a fault, and if the antenna is `held`."""
        decision = None
        with self._policy_code:
            if self._walk is not None:
                self._walk.take(arrived)
            for seen, where in arrived:
                self.policy.observe(seen.slot, where, seen.reward)
            if self._error is None:
                decision = held or _checked(self.policy.decide(slot, position))
        if self._error is None:
            self._patience.recovered(slot)
        else:
            self._report(slot, self._error)
            self._error = None
        return decision or Decision(position, position, False, False, nan)

    def withdraw(self, slot: int) -> None:
        """Withdraw the reward of a slot; a fault is reported with the next decision."""
        with self._policy_code:
            self.policy.withdraw(slot)

    def surface_movement(self) -> float | None:
        """sup|F_t − F_{t−1}| (Lemma 2), for a policy with a surface; call it once per slot."""
        if self._surface is None:
            return None
        with self._policy_code:
            return self._meter.update(self._surface.surface)
        return None

    def judge_time(self, *, is_late: bool) -> None:
        """Count a decision after the slot's end; raise PolicyError after the patience."""
        if is_late:
            self._lateness.failed(fix=_FIX_LATE)
        else:
            self._lateness.ended()

    def _note(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error

    def _report(self, slot: int, error: BaseException) -> None:
        """Report a fault, with its traceback if its place is new; raise after the patience."""
        fault, trace = PolicyError(described(error), _FIX), ""
        if (place := place_of(error)) not in self._traced:
            self._traced.add(place)
            trace = "\n" + "".join(format_exception(error))
        try:
            self._patience.failed(slot, EventKind.POLICY_FAULT, fault, trace=trace)
        except PolicyError as end:
            raise end from error


class _PolicyCode:
    """In a `with`: what the policy raises goes to `note`, except an interrupt of the run.

    The calls are counted. Another thread sees from the counts that a call hangs, and whether the
    posterior was constant while it was copied.
    """

    def __init__(self, note: Callable[[BaseException], None]) -> None:
        self._note = note
        self.begun = self.ended = 0

    def __enter__(self) -> None:
        self.begun += 1

    def __exit__(self, _: object, error: BaseException | None, __: TracebackType | None) -> bool:
        self.ended += 1
        if error is None or isinstance(error, KeyboardInterrupt):
            return False
        self._note(error)
        return True


def _checked(decision: Any) -> Decision:
    """The decision as plain numbers, if it is one."""
    if not isinstance(decision, Decision):
        raise TypeError(f"the policy returned {type(decision).__name__}, not a Decision")
    plain = decision
    if tuple(map(type, decision)) != _PLAIN:
        target, position, switched, transit, shortfall = decision
        plain = Decision(
            float(target), float(position), bool(switched), bool(transit), float(shortfall)
        )
    if not (isfinite(plain.target) and isfinite(plain.position)):
        raise ValueError(f"the policy decided {plain}")
    return plain
