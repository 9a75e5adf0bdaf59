"""The state of a daemon as plain data for clients. docs/control.md explains the fields.

Building it takes about a tenth of a millisecond, of which the slot thread may lose a part. What
takes longer is renewed once per second.
"""

from __future__ import annotations

import os
import time
from math import isfinite
from typing import Any

import macontrol
from macontrol.config.key_help import docs_of
from macontrol.control.live_run import LiveRun
from macontrol.control.messages import API
from macontrol.controller.policies.policy import HasPosterior, HasSettings, Policy
from macontrol.controller.recording.tally import Percentiles, Tally
from macontrol.display.run_state import snr_db
from macontrol.hal.capabilities import HasHealth, HasNoiseFloor

_SLOW_S = 1.0
_PHASES = ("wake", "actuate", "measure", "decide")
_COUNTS = (
    *("slots", "rewards", "switches", "transit", "missed", "late_arrivals", "late_decisions"),
    *("late_rewards", "invalid", "refused", "stage_faults", "probe_faults", "travel"),
)


class Snapshots:
    """Makes snapshots of one run, in one thread."""

    def __init__(self, run: LiveRun) -> None:
        self._run = run
        config, options = run.config, run.options
        physical, timing = config.physical, config.slot_timing
        self._facts: dict[str, Any] = {
            "api": API,
            "version": macontrol.__version__,
            "name": options.name,
            "backend": options.backend,
            "pid": os.getpid(),
            "started_s": run.started_s,
            "rail": {
                "length": physical.region_length,
                "length_mm": physical.rail_mm,
                "stroke": physical.rho_max,
                "stroke_mm": physical.stroke_mm,
                "spacing": config.grid.spacing,
                "points": config.grid.size,
                "wavelength_mm": physical.wavelength_mm,
            },
        }
        self._timing = timing
        self._slow_s = -_SLOW_S
        self._percentiles: dict[str, dict[str, float | None]] = {}
        self._health: dict[str, Any] = {}
        self._policy: Policy | None = None
        self._with_settings: HasSettings | None = None
        self._posterior: Any = None
        algorithm = type(config.algorithm)  # now, since both take milliseconds
        self._schema: dict[str, Any] = algorithm.model_json_schema()["properties"]
        self._meanings = docs_of(algorithm)
        self._limits: dict[str, dict[str, Any]] = {}

    def make(self) -> dict[str, Any]:
        """The state now."""
        run = self._run
        if time.monotonic() - self._slow_s >= _SLOW_S:
            self._slow_s = time.monotonic()
            self._renew()
        loop = run.loop
        tally = None if loop is None else loop.tally
        return {
            **self._facts,
            "policy": run.config.algorithm.policy,
            "trial": None if run.trial is None else run.trial._asdict(),
            "time_s": time.time(),
            "state": str(run.state),
            "activity": loop.activity if loop else "",
            "hold": self._hold(),
            "survey": self._survey(),
            "slot": tally.slot if tally else 0,
            "timing": self._times(),
            **self._positions(),
            "reward": self._reward(tally),
            **self._samples(),
            "counts": self._counts(tally),
            "events": {str(kind): n for kind, n in dict(run.counted.counts).items()},
            "phases": self._phases(),
            "probe": {
                "snr_db": self._snr_db(tally),
                "level": run.last.level_db if run.last else None,
                "level_unit": run.last.level_unit if run.last else None,
                **self._health,
            },
            "stage": self._stage(),
            "recording": self._recording(),
            "settings": self._settings(),
        }

    def _renew(self) -> None:
        """Compute what takes long: percentiles, health of the probe."""
        run = self._run
        if run.loop is not None:
            tally = run.loop.tally
            self._percentiles = {name: _percentiles(getattr(tally, name)) for name in _PHASES}
        probe = run.bench.probe if run.bench else None
        self._health = {"noise_floor": None, "noise_floor_unit": None, "fault": ""}
        self._health["transmitter_by_command"] = run.config.tx.is_switchable
        if isinstance(probe, HasNoiseFloor) and (floor := probe.noise_floor):
            self._health |= {"noise_floor": known(floor.dbfs), "noise_floor_unit": floor.unit}
        if isinstance(probe, HasHealth):
            health = probe.health()
            self._health |= {
                "fault": health.fault,
                "reopened": health.reopened,
                "level_dbfs": known(health.level_dbfs),
                "clipped_share": known(health.clipped_share),
                "lateness_s": known(health.lateness_s),
                "rate_hz": known(health.measured_rate_hz),
            }

    def _mm(self, position: float | None) -> float | None:
        return None if position is None else self._run.config.physical.to_mm(position)

    def _hold(self) -> dict[str, Any]:
        steering = self._run.steering
        is_held = steering.is_hold_requested
        goal = steering.goal if is_held else None
        return {"is_held": is_held, "goal": goal, "goal_mm": self._mm(goal)}

    def _survey(self) -> dict[str, int] | None:
        walk, progress = self._run.walk, self._run.progress
        if walk is not None:
            progress = walk.done, walk.positions
        return None if progress is None else {"done": progress[0], "positions": progress[1]}

    def _times(self) -> dict[str, float]:
        timing = self._run.loop.timing if self._run.loop else self._timing
        return {
            "slot_s": timing.slot_s,
            "actuation_s": self._run.config.physical.actuation_time_s,
            "spent_s": self._spent_s(),
            "measure_s": timing.measure_s,
            "decide_s": timing.decide_s,
        }

    def _spent_s(self) -> float:
        """τ_t of the newest slot; before the first one, that of a slot without a move."""
        plan, last = self._run.config.physical.actuation_plan, self._run.last
        share = last.transmission_share if last else None
        return plan.time_s(0.0) if share is None else plan.slot_s * (1.0 - share)

    def _positions(self) -> dict[str, Any]:
        run, last = self._run, self._run.last
        position = known(run.loop.position) if run.loop else None
        target, following = (last.target, last.next_position) if last else (None, None)
        reach = None
        if position is not None:
            clamp, stroke = run.config.grid.clamp, run.config.physical.rho_max
            here = clamp(position)
            reach = [clamp(here - stroke), clamp(here + stroke)]
        return {
            "position": position,
            "position_mm": self._mm(position),
            "target": target,
            "target_mm": self._mm(target),
            "next": following,
            "next_mm": self._mm(following),
            "reach": reach,
            "reach_mm": None if reach is None else [self._mm(end) for end in reach],
        }

    def _reward(self, tally: Tally | None) -> dict[str, Any]:
        last = self._run.last
        return {
            "latest": last.reward if last else None,
            "invalid": last.invalid if last else None,
            "recent": known(tally.recent_reward) if tally else None,
            "mean": known(tally.mean_reward) if tally else None,
            "fixed": known(self._run.fixed_reward()),
            "largest": self._run.config.g_max,
        }

    def _samples(self) -> dict[str, int | None]:
        posterior = self._capabilities()[1]
        samples = len(posterior) if hasattr(posterior, "__len__") else None
        return {"samples": samples, "window": self._run.config.algorithm.window}

    def _counts(self, tally: Tally | None) -> dict[str, Any] | None:
        if tally is None:
            return None
        counts = {name: getattr(tally, name) for name in _COUNTS}
        return {**counts, "travel_mm": self._mm(tally.travel)}

    def _phases(self) -> dict[str, Any] | None:
        run, last = self._run, self._run.last
        if run.loop is None or not self._percentiles:
            return None
        timing = run.loop.timing
        limits = {
            "wake": timing.actuation_end_s,
            "actuate": timing.actuation_end_s,
            "measure": timing.measure_s,
            "decide": timing.decide_s,
        }
        return {
            name: {
                "last_s": getattr(last, f"{name}_s") if last else None,
                **self._percentiles[name],
                "limit_s": limits[name],
            }
            for name in _PHASES
        }

    def _snr_db(self, tally: Tally | None) -> float | None:
        if tally is None or not isfinite(tally.recent_reward):
            return None
        return known(snr_db(tally, self._run.config.physical.transmission_share))

    def _stage(self) -> dict[str, Any] | None:
        run = self._run
        if run.bench is None:
            return None
        try:
            described = run.bench.stage.description
        except Exception:  # not connected yet, or a driver of another distribution
            return None
        return {
            "name": described.name,
            "is_lost": bool(run.loop and run.loop.is_stage_lost),
            "homings": run.loop.tally.displaced if run.loop else 0,
            "travel_mm": known(described.travel_mm),
            "step_mm": known(described.step_mm),
        }

    def _recording(self) -> dict[str, Any]:
        file = self._run.recording.file
        if file is None:
            return {"run_file": None, "written": 0, "pending": 0, "lost": 0}
        return {
            "run_file": str(file.path.absolute()),
            "written": file.written,
            "pending": file.pending,
            "lost": file.lost,
        }

    def _settings(self) -> dict[str, Any]:
        found = self._capabilities()[0]
        if found is None:
            return {}
        return {
            f"algorithm.{key}": {"value": known(value), **self.limits(key)}
            for key, value in dict(found.settings).items()
        }

    def _capabilities(self) -> tuple[HasSettings | None, Any]:
        """The policy if it has settings, and its posterior; the checks take long."""
        policy = self._run.policy
        if policy is not self._policy:
            self._policy, self._with_settings, self._posterior = policy, None, None
            if isinstance(policy, HasSettings):
                self._with_settings = policy
            if isinstance(policy, HasPosterior):
                self._posterior = policy.posterior
        return self._with_settings, self._posterior

    def limits(self, key: str) -> dict[str, Any]:
        """The smallest and the largest value of a setting of `[algorithm]`, and its meaning."""
        if key not in self._limits:
            described = self._schema.get(key, {})
            numbers = [described, *described.get("anyOf", ())]
            self._limits[key] = {
                "least": _first(numbers, "minimum", "exclusiveMinimum"),
                "most": _first(numbers, "maximum", "exclusiveMaximum"),
                "meaning": self._meanings.get(key, ""),
            }
        return self._limits[key]


def _first(schemas: list[dict[str, Any]], *names: str) -> float | None:
    return next((s[name] for s in schemas for name in names if name in s), None)


def known(value: float | None) -> float | None:
    """A number that JSON has; None for NaN and infinity."""
    return None if value is None or not isfinite(value) else float(value)


def _percentiles(durations: Percentiles) -> dict[str, float | None]:
    return {
        "p50_s": known(durations.at(50)),
        "p99_s": known(durations.at(99)),
        "largest_s": durations.largest,
    }
