"""What operators may do: checks a request against the state table, and passes it to the run.

All of it runs in the control thread. The slot thread takes what is submitted to the steering.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from macontrol.config.model.errors import MacontrolError, RequestError
from macontrol.config.model.grid import ON_GRID
from macontrol.control.live_run import LiveRun, pack
from macontrol.control.messages import (
    BUSY,
    REFUSED,
    WRONG_PARAMETERS,
    Parameters,
)
from macontrol.control.snapshot import Snapshots
from macontrol.control.states import ENDING, FIXES, IN_TRIAL, TABLE, WALKING, Action, Outcome, State
from macontrol.controller.policies.policy import HasPosterior, HasSettings, Policy
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.recording.events import EventKind
from macontrol.controller.runtime.steering import Adjust, Adopt, Hold, Release, Request, Survey
from macontrol.controller.survey.file import keep_survey
from macontrol.controller.survey.resurvey import Resurvey
from macontrol.controller.survey.samples import Survey as Samples

Report = Callable[[EventKind, str, float | None], None]
_SECTION = "algorithm."


class Actions:
    """Performs the actions of operators."""

    def __init__(self, run: LiveRun, snapshots: Snapshots, report: Report) -> None:
        self._run = run
        self._snapshots = snapshots
        self._report = report
        self._methods: dict[Action, Callable[[Parameters, str], None]] = {
            Action.HOLD: lambda _, origin: self._submit(Hold(origin)),
            Action.RESUME: lambda _, origin: self._submit(Release(origin)),
            Action.GOTO: self._go_to,
            Action.SET: self._set,
            Action.RESURVEY: self._resurvey,
            Action.NOISE_FLOOR: self._request_floor,
            Action.STOP: self._stop,
        }

    def perform(self, method: str, parameters: Parameters, origin: str) -> dict[str, Any]:
        """Do what a request asks; RequestError if it is refused."""
        action, state = Action(method), self._run.state
        outcome, reason = TABLE[state][action]
        if outcome is Outcome.REFUSED:
            raise self._refusal(action, reason)
        if self._run.trial is not None and action not in (Action.POSTERIOR, Action.STOP):
            raise self._refusal(action, IN_TRIAL)
        if action in (Action.POSTERIOR, Action.SET) and isinstance(self._run.policy, Resurvey):
            raise self._refusal(action, WALKING)  # a survey that is held
        if action is Action.POSTERIOR:
            return self._posterior()
        self._methods[action](parameters, origin)
        return {"outcome": str(outcome), "state": str(state)}

    def look_after_survey(self) -> None:
        """At the end of a requested survey: build a policy from it, and continue with that."""
        run, walk = self._run, self._run.walk
        if walk is None or not walk.is_done or run.loop is None:
            return
        previous = run.loop.decision.previous
        try:
            survey = walk.survey()
            policy = make_policy(run.config, survey)
            self._keep_settings(previous, policy)
        except MacontrolError as error:
            self._submit(Adopt(previous, f"{error}; the previous policy continues"))
        else:
            self._keep_survey(survey, run.loop.tally.slot)
            sigma_f = survey.sigma_f2(run.config) ** 0.5
            self._submit(Adopt(policy, f"{len(survey.reward)} samples, sigma_f", sigma_f))
        run.walk = None

    def _keep_survey(self, survey: Samples, slot: int) -> None:
        """Store the survey for a run that continues this one, and for the next one on this port."""
        run = self._run
        if run.recording.file is not None:
            run.recording.file.add_resurvey(slot, survey)
        if run.bench is None or run.options.backend != "serial":
            return
        if problem := keep_survey(run.config, survey, run.bench.identity):
            self._report(EventKind.WARNING, problem, None)

    @staticmethod
    def _keep_settings(previous: Policy, policy: Policy) -> None:
        if isinstance(previous, HasSettings) and isinstance(policy, HasSettings):
            for key, value in previous.settings.items():
                policy.adjust(key, value)

    def _refusal(self, action: Action, reason: str, fix: str = "") -> RequestError:
        message = f"{action.replace('_', '-')} is refused: {reason}"
        return RequestError(
            REFUSED, message, fix or FIXES[reason], state=str(self._run.state), action=str(action)
        )

    def _submit(self, request: Request) -> None:
        if not self._run.steering.submit(request):
            if self._run.state is State.STOPPING:
                raise RequestError(REFUSED, f"the request is refused: {ENDING}", FIXES[ENDING])
            raise RequestError(BUSY, "too many actions wait for a slot", "try again later")

    def _go_to(self, parameters: Parameters, origin: str) -> None:
        physical = self._run.config.physical
        if len(parameters) != 1:
            raise RequestError(
                WRONG_PARAMETERS, "no position, or two", "give `position` or `position_mm`"
            )
        position = parameters.get("position")
        if position is None:
            position = physical.to_wavelengths(parameters["position_mm"])
        grid = self._run.config.grid
        if not -ON_GRID <= position <= grid.length + ON_GRID:
            raise RequestError(
                WRONG_PARAMETERS,
                f"{position:g} wavelengths are off the rail",
                f"give 0 to {physical.region_length:g} wavelengths, or to {physical.rail_mm:g} mm",
            )
        self._submit(Hold(origin, grid.clamp(grid.snap(position))))

    def _set(self, parameters: Parameters, origin: str) -> None:
        if set(parameters) != {"key", "value"}:
            raise RequestError(WRONG_PARAMETERS, "no key, or no value", "give `key` and `value`")
        key, value = str(parameters["key"]).removeprefix(_SECTION), parameters["value"]
        policy = self._run.policy
        known: Collection[str] = ()
        if isinstance(policy, HasSettings):
            known = policy.settings
        if key not in known:
            listed = ", ".join(f"{_SECTION}{name}" for name in known)
            raise RequestError(
                WRONG_PARAMETERS,
                f"{key[:40]!r} cannot be changed within a run",
                f"one of {listed}" if listed else "this policy has no such setting",
            )
        limits = self._snapshots.limits(key)
        least, most = limits["least"], limits["most"]
        if not (least is None or least <= value) or not (most is None or value <= most):
            raise RequestError(
                WRONG_PARAMETERS,
                f"{_SECTION}{key}: {value:g} is out of range",
                f"{least:g} to {most:g}",
            )
        self._submit(Adjust(origin, key, value))

    def _resurvey(self, _: Parameters, origin: str) -> None:
        if self._run.walk is not None:  # it waits for its first slot
            raise self._refusal(Action.RESURVEY, WALKING)
        walk = Resurvey(self._run.config)
        self._submit(Survey(origin, walk))
        self._run.walk = walk

    def _request_floor(self, _: Parameters, origin: str) -> None:
        self._report(EventKind.ACTION, f"noise-floor by {origin}", None)
        if self._run.floor is not None:
            self._run.floor.request()

    def _stop(self, _: Parameters, origin: str) -> None:
        if not self._run.stop.is_set:
            self._report(EventKind.ACTION, f"stop by {origin}", None)
        self._run.stop.request(origin)

    def _posterior(self) -> dict[str, Any]:
        run = self._run
        if not isinstance(run.policy, HasPosterior):
            name = run.config.algorithm.policy
            reason = f"the policy {name} has no posterior"
            raise self._refusal(Action.POSTERIOR, reason, "run a policy that has one")
        estimate, last = run.estimate(), run.last
        return {
            "slot": estimate.slot,
            "position_now": run.loop.position if run.loop else None,
            "target": last.target if last else None,
            "arrays": {
                name: pack(numbers)
                for name, numbers in (
                    ("position", estimate.position),
                    ("mean", estimate.mean),
                    ("deviation", estimate.deviation),
                    ("acquisition", estimate.acquisition),
                )
            },
        }
