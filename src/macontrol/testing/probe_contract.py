"""The contract of a probe: one test per rule of `macontrol.hal.Probe`.

The suite opens a probe that is `Openable`, and closes every probe.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import isfinite, isnan

import pytest

from macontrol.config.model.errors import ConfigError, ProbeError
from macontrol.config.model.registry import require_members
from macontrol.hal import Measurement, Probe
from macontrol.hal.capabilities import HasHealth, HasNoiseFloor, Openable
from macontrol.hal.noise_floor import known_floor
from macontrol.testing.contract import Contract

_SHARE = 0.75
"""1 − T_a/T_s of the slots here."""


class ProbeContract(Contract):
    """The rules of any probe: a subclass `Test...` overrides `make`, and inherits them."""

    slot_s: float = 0.12
    """The interval of a measurement."""
    deadline_s: float = 60.0
    """How long after its interval a measurement is finished at the latest."""
    slack_s: float = 5.0
    """How much later than its deadline a call can return on a busy computer."""

    def make(self) -> Probe:
        """A new probe that receives a signal; not open yet."""
        raise NotImplementedError("override make: return a new probe that receives a signal")

    @pytest.fixture
    def probe(self) -> Iterator[Probe]:
        """The probe of one rule."""
        probe = self.make()
        yield probe
        with suppress(Exception):  # a rule of its own
            probe.close()

    @pytest.fixture
    def ready(self, probe: Probe) -> Probe:
        """The probe, open."""
        if isinstance(probe, Openable):
            probe.open()
        return probe

    def set_signal(self, probe: Probe, on: bool) -> bool:
        """Switch the transmitter; whether that is possible. The noise floor needs it off."""
        return False

    def measure(self, probe: Probe, slots: Sequence[int]) -> list[Measurement]:
        """Request consecutive intervals; collect until all are answered."""
        found: list[Measurement] = []
        for slot in slots:
            start_s = self.clock.now()
            probe.request(slot, start_s, start_s + self.slot_s)
            self.clock.sleep_until(start_s + self.slot_s)
            found += probe.collect(start_s + self.slot_s)
        limit_s = self.clock.now() + self.deadline_s
        while len(found) < len(slots):
            if self.clock.now() >= limit_s:
                numbers = [measurement.slot for measurement in found]
                pytest.fail(f"every request must have a measurement: of {slots}, only {numbers}")
            found += probe.collect(self.clock.now() + self.slot_s)
            self.clock.sleep_until(self.clock.now() + 0.01)
        return found

    def require_in_time(self, deadline_s: float, what: str) -> None:
        late_s = self.clock.now() - deadline_s
        assert late_s <= self.slack_s, f"{what} returned {late_s:.3g} s late"

    def require_refused(self, probe: Probe, when: str) -> None:
        try:
            probe.request(9, self.clock.now(), self.clock.now() + self.slot_s)
        except ProbeError:
            return
        except Exception as error:
            pytest.fail(f"a probe must raise ProbeError {when}, not {error!r}")
        pytest.fail(f"a probe must refuse a request with ProbeError {when}")

    def test_it_has_the_members_of_the_protocol(self, ready: Probe) -> None:
        require_members(ready, Probe, "the probe")

    # -- Measurements -------------------------------------------------------------------------

    def test_every_request_has_exactly_one_measurement(self, ready: Probe) -> None:
        found = [measurement.slot for measurement in self.measure(ready, (5, 6, 7, 100))]
        found += [measurement.slot for measurement in ready.collect(self.clock.now())]
        assert sorted(found) == [5, 6, 7, 100], "every request must have exactly one measurement"

    def test_a_late_measurement_has_the_number_of_its_slot(self, ready: Probe) -> None:
        start_s = self.clock.now()
        for slot in (1, 2):
            ready.request(slot, start_s, start_s + self.slot_s)
        self.clock.sleep_until(start_s + self.slot_s)
        found: list[int] = []
        limit_s = self.clock.now() + self.deadline_s
        while len(found) < 2 and self.clock.now() < limit_s:
            found += [each.slot for each in ready.collect(self.clock.now() + self.slot_s)]
            self.clock.sleep_until(self.clock.now() + 0.01)
        assert sorted(found) == [1, 2], "a late measurement must keep the number of its own slot"

    def test_some_measurements_are_valid(self, ready: Probe) -> None:
        limit_s, slot = self.clock.now() + self.deadline_s, 0
        while not any(each.valid for each in self.measure(ready, range(slot, slot + 3))):
            slot += 3
            assert self.clock.now() < limit_s, "with a signal some measurements must be valid"

    def test_an_invalid_measurement_has_a_reason(self, ready: Probe) -> None:
        now_s = self.clock.now()
        ready.request(100, now_s, now_s)  # too short for most probes
        found = [*self.measure(ready, range(4)), *ready.collect(self.clock.now())]
        for measurement in found:
            assert measurement.valid or measurement.reason, (
                f"an invalid measurement must have a reason: slot {measurement.slot} has none"
            )
            assert len(measurement.reason.split()) <= 1, (
                f"a reason must be one short noun, not {measurement.reason!r}"
            )

    def test_a_value_has_a_finite_reward(self, ready: Probe) -> None:
        for measurement in self.measure(ready, range(4)):
            if measurement.value is not None:
                reward, sigma = measurement.value.reward(_SHARE)
                assert isfinite(reward), f"a value must have a finite reward: {measurement}"
                assert isnan(sigma) or sigma >= 0, f"an uncertainty is not negative: {measurement}"

    def test_the_distance_from_the_floor_is_a_number(self, ready: Probe) -> None:
        for measurement in self.measure(ready, range(4)):
            assert measurement.above_floor >= 0, (
                f"above_floor must be a number, or inf: it is {measurement.above_floor}"
            )
            if measurement.valid and measurement.above_floor < 1:
                assert measurement.reason, "a measurement at the noise floor must have a reason"

    # -- Deadlines ----------------------------------------------------------------------------

    def test_a_request_does_not_wait(self, ready: Probe) -> None:
        start_s = self.clock.now()
        ready.request(1, start_s + 30.0, start_s + 30.1)
        self.require_in_time(start_s, "request")

    def test_collect_waits_for_the_latest_request(self, ready: Probe) -> None:
        start_s = self.clock.now()
        ready.request(3, start_s, start_s + self.slot_s)
        found = [each.slot for each in ready.collect(start_s + self.slot_s + self.deadline_s)]
        assert found == [3], "collect must wait for the latest request until its deadline"

    def test_a_measurement_is_not_finished_before_its_interval(self, ready: Probe) -> None:
        start_s = self.clock.now()
        ready.request(1, start_s + 30.0, start_s + 30.1)
        found = list(ready.collect(start_s + 0.1))
        assert not found, f"an interval must be measured when it has passed: {found}"

    def test_collect_returns_at_its_deadline(self, ready: Probe) -> None:
        for wait_s in (0.1, -1.0):
            start_s = self.clock.now()
            ready.request(1, start_s + 30.0, start_s + 30.1)
            start_s = self.clock.now()
            ready.collect(start_s + wait_s)
            self.require_in_time(start_s + max(wait_s, 0.0), "collect")

    # -- Opening and closing ------------------------------------------------------------------

    def test_an_openable_probe_has_a_name(self, probe: Probe) -> None:
        if isinstance(probe, Openable):
            assert probe.name, "an openable probe must have a name"

    def test_an_openable_probe_refuses_requests_before_it_is_open(self, probe: Probe) -> None:
        if isinstance(probe, Openable):
            self.require_refused(probe, "before it is open")

    def test_close_ends_open(self, probe: Probe) -> None:
        if not isinstance(probe, Openable):
            return
        errors: list[Exception] = []

        def run() -> None:
            try:
                probe.open()
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(0.02)
        probe.close()
        thread.join(self.slack_s)
        assert not thread.is_alive(), "close must end open from another thread"
        assert all(isinstance(error, ProbeError | ConfigError) for error in errors), (
            f"open must raise ProbeError or ConfigError only: {errors}"
        )

    def test_a_closed_probe_refuses_requests(self, ready: Probe) -> None:
        ready.close()
        self.require_refused(ready, "after it is closed")

    def test_a_refused_request_has_no_measurement(self, ready: Probe) -> None:
        self.measure(ready, range(1))
        ready.close()
        with suppress(ProbeError):
            ready.request(9, self.clock.now(), self.clock.now() + self.slot_s)
            return  # it is accepted, which another rule forbids
        with suppress(ProbeError):
            found = [each.slot for each in ready.collect(self.clock.now() + 2 * self.slot_s)]
            assert 9 not in found, "a refused request must have no measurement"

    def test_a_second_close_has_no_effect(self, ready: Probe) -> None:
        ready.close()
        try:
            ready.close()
        except Exception as error:
            pytest.fail(f"a second close must have no effect: {error!r}")

    # -- Capabilities -------------------------------------------------------------------------

    def test_a_noise_floor_can_be_replaced(self, ready: Probe) -> None:
        if isinstance(ready, HasNoiseFloor):
            floor = known_floor(-20.0)
            ready.use_noise_floor(floor)
            assert ready.noise_floor == floor, "use_noise_floor must replace the floor in use"

    def test_a_measured_noise_floor_is_in_use(self, ready: Probe) -> None:
        if isinstance(ready, HasNoiseFloor):
            self.set_signal(ready, False)
            expected = ready.noise_floor
            try:
                expected, what = ready.measure_noise_floor(), "the measured floor must be in use"
            except ProbeError:
                what = "after ProbeError the previous floor must stay in use"
            assert ready.noise_floor == expected, what

    def test_the_health_counts_every_measurement(self, ready: Probe) -> None:
        if isinstance(ready, HasHealth):
            self.measure(ready, range(3))
            health = ready.health()
            count = health.valid + sum(health.invalid.values())
            assert count == 3, f"the health must count every measurement: 3, not {count}"

    def test_the_health_has_a_fault_only_if_the_probe_cannot_measure(self, ready: Probe) -> None:
        if isinstance(ready, HasHealth):
            fault = ready.health().fault
            assert not fault, f"the health of a working probe must have no fault: {fault}"
            ready.close()
            assert ready.health().fault, "the health of a closed probe must have a fault"
