"""Probes that break one rule each; `test_wrong_drivers.py` runs the suite on every one of them.

All are variants of one probe that keeps every rule and has every capability, on a virtual clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import nan
from typing import Any, ClassVar

from macontrol.config.model.errors import ProbeError
from macontrol.config.model.reward import Snr
from macontrol.controller.runtime.clock import VirtualClock
from macontrol.hal import Measurement, Probe
from macontrol.hal.capabilities import ProbeHealth
from macontrol.hal.noise_floor import NoiseFloor, known_floor
from macontrol.testing import ProbeContract

CLOCK = VirtualClock(100.0)


class RightProbe:
    """A probe that keeps every rule."""

    name = "model"

    def __init__(self) -> None:
        self.is_open = False
        self.noise_floor: NoiseFloor | None = None
        self.requested: list[tuple[int, float, float]] = []
        self.counts = {"valid": 0, "too-few-samples": 0}

    def open(self) -> None:
        self.is_open = True

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        if not self.is_open:
            raise ProbeError("it is not open")
        self.requested.append((slot, start_s, end_s))

    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        if self.requested:
            CLOCK.sleep_until(min(self.requested[-1][2], deadline_s))
        due = [each for each in self.requested if each[2] <= CLOCK.now()]
        self.requested = [each for each in self.requested if each not in due]
        return [self.measured(*each) for each in due]

    def measured(self, slot: int, start_s: float, end_s: float) -> Measurement:
        is_valid = end_s > start_s
        self.counts["valid" if is_valid else "too-few-samples"] += 1
        if is_valid:
            return Measurement(slot, Snr(10.0, 0.1), "", 5.0)
        return Measurement(slot, None, "too-few-samples")

    def close(self) -> None:
        self.is_open = False

    def measure_noise_floor(self) -> NoiseFloor:
        self.noise_floor = NoiseFloor(1e-3, 0.1, CLOCK.now())
        return self.noise_floor

    def use_noise_floor(self, floor: NoiseFloor) -> None:
        self.noise_floor = floor

    def health(self) -> ProbeHealth:
        invalid = {"too-few-samples": self.counts["too-few-samples"]}
        fault = "" if self.is_open else "it is closed"
        return ProbeHealth(fault, valid=self.counts["valid"], invalid=invalid)


class WrongProbe(ProbeContract):
    """The suite for a probe of this module."""

    clock = CLOCK
    deadline_s = 5.0
    slack_s = 0.5
    limit_s = 20.0
    probe_class: ClassVar[type[Any]] = RightProbe
    breaks: ClassVar[tuple[str, ...]] = ()

    def make(self) -> Probe:
        probe: Probe = self.probe_class()
        return probe


def breaks(*rules: str) -> Callable[[type[RightProbe]], type[RightProbe]]:
    """Register a probe that breaks these rules."""

    def register(probe: type[RightProbe]) -> type[RightProbe]:
        title = f"Test{probe.__name__}"
        body = {"probe_class": probe, "breaks": rules, "__module__": __name__}
        globals()[title] = type(title, (WrongProbe,), body)
        return probe

    return register


breaks()(RightProbe)


@breaks(
    "test_it_has_the_members_of_the_protocol",
    # These call it.
    "test_a_closed_probe_refuses_requests",
    "test_a_refused_request_has_no_measurement",
    "test_a_second_close_has_no_effect",
    "test_close_ends_open",
    "test_the_health_has_a_fault_only_if_the_probe_cannot_measure",
)
class HasNoClose(RightProbe):
    close = None  # type: ignore[assignment]


# -- Measurements -------------------------------------------------------------------------


@breaks("test_every_request_has_exactly_one_measurement")
class RepeatsAMeasurement(RightProbe):
    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        found = list(super().collect(deadline_s))
        return [*found, *(each for each in found if each.slot == 100 and each.valid)]


@breaks("test_a_late_measurement_has_the_number_of_its_slot")
class NumbersByTheLatestRequest(RightProbe):
    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        latest = self.requested[-1][0] if self.requested else 0
        return [
            replace(each, slot=latest) if each.slot == 1 else each
            for each in super().collect(deadline_s)
        ]


class Changed(RightProbe):
    """Its valid measurements differ in these fields."""

    changes: ClassVar[dict[str, Any]] = {}

    def measured(self, slot: int, start_s: float, end_s: float) -> Measurement:
        found = super().measured(slot, start_s, end_s)
        return replace(found, **self.changes) if found.valid else found


@breaks("test_some_measurements_are_valid")
class IsNeverValid(Changed):
    changes: ClassVar[dict[str, Any]] = {"value": None, "reason": "stale"}


@breaks("test_an_invalid_measurement_has_a_reason")
class GivesNoReason(RightProbe):
    def measured(self, slot: int, start_s: float, end_s: float) -> Measurement:
        found = super().measured(slot, start_s, end_s)
        return found if found.valid else replace(found, reason="")


@breaks("test_an_invalid_measurement_has_a_reason")
class GivesASentenceAsReason(Changed):
    changes: ClassVar[dict[str, Any]] = {"reason": "the tone is weak"}


@breaks("test_a_value_has_a_finite_reward")
class MeasuresNaN(Changed):
    changes: ClassVar[dict[str, Any]] = {"value": Snr(nan, 0.1)}


@breaks("test_a_value_has_a_finite_reward")
class HasANegativeUncertainty(Changed):
    changes: ClassVar[dict[str, Any]] = {"value": Snr(10.0, -0.1)}


@breaks("test_the_distance_from_the_floor_is_a_number")
class HasNoDistanceFromTheFloor(Changed):
    changes: ClassVar[dict[str, Any]] = {"above_floor": nan}


@breaks("test_the_distance_from_the_floor_is_a_number")
class GivesNoReasonAtTheFloor(Changed):
    changes: ClassVar[dict[str, Any]] = {"above_floor": 0.5}


# -- Deadlines ----------------------------------------------------------------------------


@breaks("test_a_request_does_not_wait")
class WaitsInRequest(RightProbe):
    def request(self, slot: int, start_s: float, end_s: float) -> None:
        super().request(slot, start_s, end_s)
        CLOCK.sleep_until(min(start_s, CLOCK.now() + 1.0))


@breaks("test_collect_waits_for_the_latest_request")
class DoesNotWait(RightProbe):
    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        return super().collect(CLOCK.now())


@breaks("test_a_measurement_is_not_finished_before_its_interval")
class MeasuresAtOnce(RightProbe):
    def request(self, slot: int, start_s: float, end_s: float) -> None:
        length = min(end_s - start_s, 0.05)
        super().request(slot, CLOCK.now(), CLOCK.now() + length)


@breaks("test_collect_returns_at_its_deadline")
class IgnoresTheDeadline(RightProbe):
    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        found = super().collect(deadline_s)
        if self.requested:
            CLOCK.sleep_until(CLOCK.now() + 1.0)
        return found


# -- Opening and closing ------------------------------------------------------------------


@breaks("test_an_openable_probe_has_a_name")
class HasNoName(RightProbe):
    name = ""


@breaks("test_an_openable_probe_refuses_requests_before_it_is_open")
class AcceptsRequestsBeforeItIsOpen(RightProbe):
    def __init__(self) -> None:
        super().__init__()
        self.is_open = True


class OpensSlowly(RightProbe):
    """`open` in another thread takes long, and fails in its own way."""

    def open(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            self.wait()
        super().open()

    def wait(self) -> None:
        threading.Event().wait(2.0)


@breaks("test_close_ends_open")
class IgnoresCloseWhileItOpens(OpensSlowly):
    pass


@breaks("test_close_ends_open")
class RaisesAnotherErrorFromOpen(OpensSlowly):
    def wait(self) -> None:
        raise OSError("no device")


@breaks("test_a_closed_probe_refuses_requests")
class AcceptsRequestsAfterClose(RightProbe):
    was_open = False

    def open(self) -> None:
        super().open()
        self.was_open = True

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        if self.was_open:
            self.requested.append((slot, start_s, end_s))
        else:
            super().request(slot, start_s, end_s)


@breaks("test_a_refused_request_has_no_measurement")
class MeasuresARefusedRequest(RightProbe):
    def request(self, slot: int, start_s: float, end_s: float) -> None:
        self.requested.append((slot, start_s, end_s))
        if not self.is_open:
            raise ProbeError("it is not open")


class ClosesOnce(RightProbe):
    """Its second close fails."""

    is_closed = False

    def close(self) -> None:
        if self.is_closed:
            raise OSError("it is closed")
        super().close()
        self.is_closed = True


class TestClosesOnce(WrongProbe):
    breaks = ("test_a_second_close_has_no_effect",)
    probe_class = ClosesOnce


# -- Capabilities -------------------------------------------------------------------------


@breaks("test_a_noise_floor_can_be_replaced")
class KeepsItsFloor(RightProbe):
    def use_noise_floor(self, floor: NoiseFloor) -> None:
        """The floor in use stays."""


@breaks("test_a_measured_noise_floor_is_in_use")
class DoesNotUseItsFloor(RightProbe):
    def measure_noise_floor(self) -> NoiseFloor:
        return NoiseFloor(1e-3, 0.1, CLOCK.now())


@breaks("test_a_measured_noise_floor_is_in_use")
class LosesItsFloor(RightProbe):
    def measure_noise_floor(self) -> NoiseFloor:
        self.noise_floor = known_floor(-99.0)
        raise ProbeError("there is a signal")


@breaks("test_the_health_counts_every_measurement")
class CountsNothing(RightProbe):
    def health(self) -> ProbeHealth:
        return replace(super().health(), valid=0)


@breaks("test_the_health_has_a_fault_only_if_the_probe_cannot_measure")
class HidesItsFault(RightProbe):
    def health(self) -> ProbeHealth:
        return replace(super().health(), fault="")
