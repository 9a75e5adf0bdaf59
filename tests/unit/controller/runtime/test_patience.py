"""How long attempts may fail in a row."""

from __future__ import annotations

import pytest

from macontrol.config.model.errors import HardwareError, StageError
from macontrol.controller.recording.events import EventKind
from macontrol.controller.runtime.patience import Outage, Patience
from support.scripted_bench import Kept, ScriptedClock


@pytest.fixture
def clock() -> ScriptedClock:
    return ScriptedClock()


def test_an_outage_is_the_time_between_attempts(clock: ScriptedClock) -> None:
    outage = Outage("nothing works for", 2.0, clock)
    outage.failed()
    clock.lose(1.5)
    outage.failed()
    clock.lose(5.0)
    outage.paused()
    clock.lose(0.25)
    assert outage.ended() == pytest.approx(1.75)
    assert outage.ended() is None


def test_beyond_the_limit_it_raises_with_the_last_cause_and_fix(clock: ScriptedClock) -> None:
    outage = Outage("nothing works for", 2.0, clock)
    outage.failed("dust", "clean it")
    clock.lose(2.5)
    with pytest.raises(HardwareError) as raised:
        outage.failed("rust", "oil it")
    assert raised.value.detail.startswith("nothing works for 2 s")
    assert raised.value.detail.endswith("rust")
    assert raised.value.fix == "oil it"


def test_the_time_of_an_attempt_can_be_given(clock: ScriptedClock) -> None:
    """Slots that measure count as slots, however much time is between them."""
    outage = Outage("no measurement was valid for", 1.0, clock)
    for _ in range(5):
        clock.lose(100.0)
        outage.failed(spent_s=0.25)
    with pytest.raises(HardwareError):
        outage.failed(spent_s=0.25)


def test_a_success_starts_the_time_again(clock: ScriptedClock) -> None:
    outage = Outage("nothing works for", 2.0, clock)
    for _ in range(10):
        outage.failed()
        clock.lose(1.5)
        outage.ended()


def test_a_device_reports_its_faults_and_its_recovery(clock: ScriptedClock) -> None:
    kept = Kept()
    patience = Patience("stage", 10.0, clock, kept)
    patience.recovered(1)
    patience.failed(2, EventKind.STAGE_FAULT, StageError("no answer", "check the cable"))
    clock.lose(3.0)
    patience.recovered(3)
    fault, recovery = kept.events()
    assert (fault.kind, fault.slot) == (EventKind.STAGE_FAULT, 2)
    assert (recovery.kind, recovery.slot, recovery.value) == (EventKind.RECOVERY, 3, 3.0)


def test_an_answer_does_not_end_an_outage_of_commands(clock: ScriptedClock) -> None:
    kept = Kept()
    patience = Patience("stage", 10.0, clock, kept)
    patience.failed(1, EventKind.STAGE_FAULT, StageError("no answer"), commanded=True)
    patience.answered(2)
    assert not kept.events(EventKind.RECOVERY)
    patience.recovered(3)
    patience.failed(4, EventKind.STAGE_FAULT, StageError("no answer"))
    patience.answered(5)
    assert [event.slot for event in kept.events(EventKind.RECOVERY)] == [3, 5]
