"""Every action in every state of a real daemon: the outcomes are those of the table."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from macontrol.config.model.errors import ActionRefusedError
from macontrol.control.states import TABLE, Action, Outcome, State
from macontrol.controller.recording.events import EventKind
from support.operated import Operated, operated, simulated, virtual_bench

pytestmark = pytest.mark.timeout(300)

PARAMETERS: dict[Action, dict[str, Any]] = {
    Action.GOTO: {"position": 0.5},
    Action.SET: {"key": "algorithm.beta", "value": 2.0},
}
ORDER = (
    Action.POSTERIOR,
    Action.SET,
    Action.NOISE_FLOOR,
    Action.HOLD,
    Action.RESUME,
    Action.GOTO,
    Action.RESUME,
    Action.RESURVEY,
    Action.STOP,
)
HELD = (Action.POSTERIOR, Action.SET, Action.NOISE_FLOOR, Action.RESURVEY, Action.HOLD, Action.GOTO)
SMALL = ("--set=physical.region_length=1", "--set=survey.samples=3")


@contextmanager
def starting(folder: Path) -> Iterator[Operated]:
    """Until the transmitter is switched on, a start waits for it."""
    with virtual_bench(folder) as bench:
        bench.do("mute")
        with operated(folder / "run", *bench.arguments) as daemon:
            daemon.await_state(State.HOMING)
            daemon.await_state(State.STARTING)
            yield daemon


@contextmanager
def homing(folder: Path) -> Iterator[Operated]:
    with virtual_bench(folder) as bench, operated(folder / "run", *bench.arguments) as daemon:
        daemon.await_state(State.HOMING)
        yield daemon


@contextmanager
def first_survey(folder: Path) -> Iterator[Operated]:
    with virtual_bench(folder) as bench, operated(folder / "run", *bench.arguments) as daemon:
        daemon.await_state(State.SURVEYING)
        yield daemon


@contextmanager
def later_survey(folder: Path) -> Iterator[Operated]:
    with simulated(folder) as daemon:
        daemon.client.call("resurvey")
        daemon.await_state(State.SURVEYING)
        yield daemon


@contextmanager
def running(folder: Path) -> Iterator[Operated]:
    with simulated(folder, *SMALL) as daemon:
        yield daemon


@contextmanager
def recovering(folder: Path) -> Iterator[Operated]:
    with virtual_bench(folder) as bench:
        small = ("--set=physical.region_length=0.5", "--set=survey.samples=3")
        with operated(folder / "run", *bench.arguments, *small) as daemon:
            daemon.await_state(State.RUNNING)
            bench.do("unplug")
            daemon.await_state(State.RECOVERING)
            yield daemon


@contextmanager
def holding(folder: Path) -> Iterator[Operated]:
    with simulated(folder, *SMALL) as daemon:
        daemon.client.call("hold")
        daemon.await_state(State.HOLDING)
        yield daemon


@contextmanager
def stopping(folder: Path) -> Iterator[Operated]:
    long = ("--set=physical.slot_duration_s=1.9", "--set=physical.actuation_time_s=0.1")
    with operated(folder, "--backend", "sim", *long) as daemon:
        slot = daemon.await_status(lambda status: status["slot"] > 0)["slot"]
        daemon.await_status(lambda status: status["slot"] > slot)  # a slot has just begun
        daemon.client.call("stop")
        yield daemon


PLACES = {
    "starting": (State.STARTING, starting, ORDER),
    "homing": (State.HOMING, homing, ORDER),
    "first-survey": (State.SURVEYING, first_survey, ORDER),
    "later-survey": (State.SURVEYING, later_survey, ORDER),
    "running": (State.RUNNING, running, ORDER),
    "recovering": (State.RECOVERING, recovering, ORDER),
    "holding": (State.HOLDING, holding, (*HELD, Action.RESUME)),
    "holding-stop": (State.HOLDING, holding, (Action.STOP,)),
    "stopping": (State.STOPPING, stopping, ORDER),
}


def test_the_table_is_complete() -> None:
    assert list(TABLE) == list(State)
    assert all(set(row) == set(Action) for row in TABLE.values())
    for place in State:
        tried = {a for state, _, actions in PLACES.values() if state is place for a in actions}
        assert tried == set(Action), place


@pytest.mark.parametrize("place", PLACES)
def test_each_action_has_the_outcome_of_the_table(place: str, tmp_path: Path) -> None:
    state, bring, actions = PLACES[place]
    with bring(tmp_path) as daemon:
        begun = time.monotonic()
        for action in actions:
            wait_for_state(daemon, state, action)
            outcome = perform(daemon, action)
            lasted = f"{time.monotonic() - begun:.1f} s after the first action"
            assert outcome is TABLE[state][action][0], f"{action}, {lasted}"
        if Action.STOP not in actions:
            return
        run = daemon.end()
        if run is None:
            assert state in (State.STARTING, State.HOMING, State.SURVEYING)
        else:
            recorded = [e.detail.split()[0] for e in run.events if e.kind is EventKind.ACTION]
            assert set(recorded) <= {action.replace("_", "-") for action in Action}
            assert "stop" in recorded


def test_a_hold_pauses_the_first_survey(tmp_path: Path) -> None:
    with first_survey(tmp_path) as daemon:
        assert daemon.client.call("hold")["outcome"] == "accepted"
        status = daemon.await_status(lambda status: status["hold"]["is_held"])
        time.sleep(2)  # several positions
        now = daemon.status()
        assert now["state"] == State.SURVEYING
        assert now["survey"]["done"] <= status["survey"]["done"] + 1
        daemon.client.call("resume")
        daemon.await_status(lambda status: status["survey"]["done"] > now["survey"]["done"])


def wait_for_state(daemon: Operated, state: State, action: Action) -> None:
    """A state that another action has ended comes back by itself or on resume."""
    if state is State.STOPPING or daemon.status()["state"] == state:
        return
    if action is not Action.RESUME:
        daemon.await_state(state)


def perform(daemon: Operated, action: Action) -> Outcome:
    try:
        result = daemon.client.call(action, **PARAMETERS.get(action, {}))
    except ActionRefusedError:
        return Outcome.REFUSED
    return Outcome(result.get("outcome", "accepted"))
