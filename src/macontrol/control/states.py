"""What each action does in each state of a daemon: the table that code, page and tests share."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """What a daemon does."""

    STARTING = "starting"
    HOMING = "homing"
    SURVEYING = "surveying"
    RUNNING = "running"
    RECOVERING = "recovering"
    HOLDING = "holding"
    STOPPING = "stopping"


STATE_MEANINGS = {
    State.STARTING: "the bench is opened, or the antenna goes to its start position",
    State.HOMING: "the stage is homed before the first slot",
    State.SURVEYING: "the rail is surveyed, before the first slot or on request",
    State.RUNNING: "the policy decides",
    State.RECOVERING: "the stage is recovered or homed again; slots are missed",
    State.HOLDING: "the antenna is held; slots are measured",
    State.STOPPING: "the run ends",
}


class Action(StrEnum):
    """What an operator can do."""

    HOLD = "hold"
    RESUME = "resume"
    GOTO = "goto"
    SET = "set"
    RESURVEY = "resurvey"
    NOISE_FLOOR = "noise_floor"
    STOP = "stop"
    POSTERIOR = "posterior"


class Outcome(StrEnum):
    ACCEPTED = "accepted"
    DEFERRED = "deferred"
    REFUSED = "refused"


ACCEPTED, DEFERRED, REFUSED = Outcome

_NO_SLOT = "the run has no slot yet"
_NO_POLICY = "no policy decides now"
WALKING = "the rail is being surveyed"
ENDING = "the run ends"
IN_TRIAL = "a trial compares policies that decide on their own"

_BEFORE_SLOTS = {
    Action.HOLD: (DEFERRED, ""),
    Action.RESUME: (DEFERRED, ""),
    Action.GOTO: (DEFERRED, ""),
    Action.SET: (REFUSED, _NO_POLICY),
    Action.RESURVEY: (DEFERRED, ""),
    Action.NOISE_FLOOR: (REFUSED, "the start of a run measures the noise floor by itself"),
    Action.STOP: (ACCEPTED, ""),
    Action.POSTERIOR: (REFUSED, _NO_SLOT),
}

TABLE: dict[State, dict[Action, tuple[Outcome, str]]] = {
    State.STARTING: _BEFORE_SLOTS,
    State.HOMING: _BEFORE_SLOTS,
    State.SURVEYING: {
        Action.HOLD: (ACCEPTED, ""),
        Action.RESUME: (ACCEPTED, ""),
        Action.GOTO: (REFUSED, WALKING),
        Action.SET: (REFUSED, _NO_POLICY),
        Action.RESURVEY: (REFUSED, WALKING),
        Action.NOISE_FLOOR: (REFUSED, WALKING),
        Action.STOP: (ACCEPTED, ""),
        Action.POSTERIOR: (REFUSED, WALKING),
    },
    State.RUNNING: dict.fromkeys(Action, (ACCEPTED, "")),
    State.RECOVERING: {
        **dict.fromkeys(Action, (DEFERRED, "")),
        Action.NOISE_FLOOR: (ACCEPTED, ""),
        Action.STOP: (ACCEPTED, ""),
        Action.POSTERIOR: (ACCEPTED, ""),
    },
    State.HOLDING: {
        **dict.fromkeys(Action, (ACCEPTED, "")),
        Action.RESURVEY: (REFUSED, "the antenna is held, and a survey moves it"),
    },
    State.STOPPING: {
        **dict.fromkeys(Action, (REFUSED, ENDING)),
        Action.STOP: (ACCEPTED, ""),
    },
}
"""The outcome of each action in each state, and why it is refused.

Accepted: effective in the next slot. Deferred: effective in the first slot that runs.
"""

FIXES = {
    _NO_SLOT: "try again when the run has begun",
    _NO_POLICY: "try again when the policy decides",
    WALKING: "wait for its end; `hold` pauses it",
    IN_TRIAL: "`stop` ends the trial",
    ENDING: "start the daemon again",
    "the start of a run measures the noise floor by itself": "try again when the run has begun",
    "the antenna is held, and a survey moves it": "`resume` first",
}
"""What to do about each reason."""


def outcome_rows() -> list[list[str]]:
    """The table as text: one row per action, one column per state."""
    return [[str(action), *(str(TABLE[state][action][0]) for state in State)] for action in Action]


def reason_rows() -> list[tuple[str, str, str]]:
    """Every refusal: actions, states, reason."""
    states: dict[tuple[Action, str], list[State]] = {}
    for state in State:
        for action, (outcome, reason) in TABLE[state].items():
            if outcome is REFUSED:
                states.setdefault((action, reason), []).append(state)
    rows: dict[tuple[str, str], list[Action]] = {}
    for (action, reason), found in states.items():
        rows.setdefault((", ".join(found), reason), []).append(action)
    return [(", ".join(actions), where, reason) for (where, reason), actions in rows.items()]
