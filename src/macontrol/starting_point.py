"""What a run starts from: the window of an earlier run, or a survey."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from macontrol.config import Config
from macontrol.config.model.errors import PolicyError, described
from macontrol.control.live_run import LiveRun
from macontrol.control.states import State
from macontrol.controller.policies.policy import Policy
from macontrol.controller.policies.registry import POLICIES
from macontrol.controller.recording.runfile.files import default_run_folder, runs_in, runs_named
from macontrol.controller.recording.runfile.resume import Resume, find_resume_among
from macontrol.controller.runtime.stop import StopToken
from macontrol.controller.survey.file import (
    NoSurvey,
    fresh_survey,
    keep_survey,
    kept_survey_path,
)
from macontrol.controller.survey.samples import Survey
from macontrol.controller.survey.walk import walk_rail
from macontrol.display.survey_progress import survey_progress
from macontrol.hal import Backend, Clock
from macontrol.hal.backend import difference
from macontrol.recorders import FaultReporter
from macontrol.run_options import RunOptions


@dataclass(frozen=True)
class Start:
    """What a run starts from."""

    bench: Backend
    survey: Survey
    resume: Resume | None
    with_samples: bool
    """Whether the survey's samples are young enough for the window."""


class StartingPoint:
    """Finds what a run starts from."""

    def __init__(
        self,
        config: Config,
        options: RunOptions,
        clock: Clock,
        stop: StopToken,
        *,
        note: Callable[[str], None],
        live: LiveRun | None = None,
    ) -> None:
        self._config = config
        self._options = options
        self._clock = clock
        self._live = live
        self._stop = stop
        self._note = note
        self.not_resumed: str | None = None
        """Why no run is continued although that was requested."""
        self.last_slot_began_s = 0.0
        """When the last slot of the earlier run began, on the monotonic clock."""

    def find_resume(self) -> Resume | None:
        """The run to continue, if that is requested and there is a fresh one of the same config.

        `find` checks whether the bench is the same, once that is open.
        """
        options = self._options
        if not options.resume:
            return None
        earlier = (
            runs_in(default_run_folder(), options.name)
            if options.run_file is None
            else runs_named(options.run_file)
        )
        now_s = time.monotonic()
        found = find_resume_among(
            earlier,
            self._config,
            time.time(),
            now_clock_s=now_s,
            stage=options.name,
            backend=options.backend,
        )
        if isinstance(found, Resume):
            self.last_slot_began_s = now_s - found.age_s
            return found
        self._refuse(found.reason if found else "there is no earlier run")
        return None

    def find(self, bench: Backend, resume: Resume | None, *, show_progress: bool) -> Start | None:
        """What the run starts from, with the bench open; None if it is stopped in the survey."""
        resume = self._confirm(resume, bench)
        survey = resume.survey if resume else self.survey(bench, show_progress=show_progress)
        if survey is None:
            return None
        return Start(bench, survey, resume, survey.is_in_window(self._config, time.time()))

    def _confirm(self, resume: Resume | None, bench: Backend) -> Resume | None:
        """The run to continue, unless it was of another bench or is too old by now."""
        if resume is None:
            return None
        if change := difference(resume.header.identity or {}, bench.identity):
            self._refuse(f"{resume.path}: the last run was of another bench: {change}")
            return None
        age_s = time.monotonic() - self.last_slot_began_s
        if age_s >= self._config.window_s:
            self._refuse(
                f"{resume.path}: the last slot is {age_s:.1f} s old now that the bench is ready, "
                f"and the window is {self._config.window_s:g} s (w slots)"
            )
            return None
        self._note(f"resumed from {resume.path}, {age_s:.1f} s after its last slot")
        return resume

    def _refuse(self, reason: str) -> None:
        self.not_resumed = reason
        self._note(f"not resumed: {reason}")

    def survey(self, bench: Backend, *, show_progress: bool) -> Survey | None:
        """What is known before slot 1: from the bench, from a fresh file, or from a new survey.

        None if the run is stopped meanwhile.
        """
        config = self._config
        positions = np.array(config.survey_positions)
        rewards = bench.prior_survey([config.physical.to_mm(float(x)) for x in positions])
        if rewards is not None:
            return Survey(positions, np.asarray(rewards))
        kept = kept_survey_path(config.stage.port_path)
        if not self._options.cold and (survey := self._kept_survey(kept, bench)):
            return survey
        self._note(f"survey: walking the rail, {len(positions)} positions")
        live = self._live
        with survey_progress(len(positions), shown=show_progress) as on_progress:

            def progress(done: int) -> None:
                if live is not None:
                    live.phase, live.progress = State.SURVEYING, (done, len(positions))
                on_progress(done)

            progress(0)
            survey = walk_rail(
                config,
                bench,
                self._clock,
                FaultReporter(self._note),
                stop=self._stop,
                may_move=None if live is None else live.may_move,
                on_progress=progress,
            )
        if live is not None:
            live.phase, live.progress = State.STARTING, None
        if self._stop.is_set:
            return None
        if problem := keep_survey(config, survey, bench.identity):
            self._note(problem)
        return survey

    def _kept_survey(self, path: Path, bench: Backend) -> Survey | None:
        """The survey stored for this bench; the policy uses only sigma_f of an older one."""
        config, now_s = self._config, time.time()
        found = fresh_survey(path, config, bench.identity)
        if isinstance(found, NoSurvey):
            self._note(f"survey: {found.reason}")
            return None
        age = f"{now_s - (found.walked_wall_s or now_s):.0f} s old"
        sigma_f = found.sigma_f2(config) ** 0.5
        if found.is_in_window(config, now_s):
            self._note(f"survey: {len(found.reward)} samples from {path}, {age}")
            return found
        stale = f"{path} is {age}, and the window is {config.window_s:g} s"
        policy = config.algorithm.policy
        if POLICIES[policy].starts_from_samples:
            self._note(f"survey: {stale}; {policy} starts from its samples")
            return None
        self._note(f"survey: {stale}: sigma_f = {sigma_f:.3f} is used, the samples are not")
        return found


def continue_policy(policy: Policy, resume: Resume, name: str) -> None:
    """Give the policy the window and the target of the earlier run."""
    try:
        for sample in resume.samples:
            policy.observe(*sample)
        policy.resume(resume.target)
    except (Exception, SystemExit) as error:
        traceback.print_exception(error)
        raise PolicyError(
            f"the policy {name} cannot continue the run {resume.path}: {described(error)}",
            "correct the policy, or start without --resume",
        ) from error
