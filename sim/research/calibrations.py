"""Calibrations of simulated worlds: do the intervals hold what the simulator was given, and do the
settings help?

The true values are computed from the rewards of the world at every position in every slot, without
the estimators: only the definitions are shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, log, sqrt
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config, load_config
from macontrol.config.presets import DEFAULT_PRESET
from macontrol.controller.recording.records import Recorder
from macontrol.controller.runtime.clock import VirtualClock
from macontrol.controller.runtime.stop import StopToken
from macontrol.controller.survey.calibration.estimate import Estimate, root
from macontrol.controller.survey.calibration.explained import sector_of, spread_of
from macontrol.controller.survey.calibration.findings import DRIFT_SLOTS
from macontrol.controller.survey.calibration.plan import plan_for
from macontrol.controller.survey.calibration.result import Calibration, evaluate
from macontrol.controller.survey.calibration.walking import CalibrationWalk
from macontrol.hal import Arrival, Clock
from macontrol.sim.bench.simulated import SimulatedProbe, SimulatedStage, describe
from macontrol.sim.research.episode import play
from macontrol.sim.research.map_bench import MapBench
from macontrol.sim.research.oracle import oracle_value
from macontrol.sim.world.channel import Channel, reward_rows, survey_noise
from macontrol.sim.world.rewardmap import RewardMap
from macontrol.sim.world.worlds import World

Floats = NDArray[np.float64]

NOISE = 0.5, 2.0
SECTOR_DEG = 40.0, 180.0
SPREAD_DEG = 1.0, 15.0
DRIFT = 0.25, 4.0
"""The ranges of random worlds: noise and drift relative to the preset, sector and spread."""
_PLAY = 0.05
"""The largest backlash of a random world (wavelengths)."""
_LARGEST_LAG_SHARE = 0.25
_LAGS, _COLUMNS = 80, 7

CALIBRATED_SLOTS, REPLAYED_SLOTS = 6000, 4000
"""Of a world in a comparison: what is calibrated, and what is replayed after it."""


@dataclass(frozen=True)
class GivenWorld:
    """What a random world was given."""

    config: Config
    sector_deg: float
    spread_deg: float
    backlash: float


def random_world(seed: int, preset: str) -> GivenWorld:
    """A world of the paper's channel, with noise, sector, spread, drift and backlash at random."""
    start = load_config(preset=preset)
    random = np.random.default_rng([seed, 12])
    noise, drift = (exp(random.uniform(log(low), log(high))) for low, high in (NOISE, DRIFT))
    sector = random.uniform(*SECTOR_DEG)
    spread = random.uniform(*SPREAD_DEG)
    config = World.named("paper", drift).config_of(start)
    config = config.replace(
        reward__noise_level=noise * start.reward.noise_level,
        channel__sector_deg=(90 - sector / 2, 90 + sector / 2),
        channel__angular_spread_deg=spread,
    )
    return GivenWorld(config, sector, spread, random.uniform(-_PLAY, _PLAY))


class LooseStage(SimulatedStage):
    """A stage with backlash: the antenna stays behind by half of it."""

    play_mm = 0.0
    _side = 1.0

    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        here_mm = self._carriage.position_at(self._clock.now())
        if position_mm != here_mm:
            self._side = 1.0 if position_mm > here_mm else -1.0
        return super().move_to(position_mm, deadline_s)

    def position_now(self) -> float:
        return super().position_now() + self._side * self.play_mm / 2


class LooseBench:
    """The simulated bench with a loose stage."""

    identity: Mapping[str, str] = MappingProxyType({"bench": "simulated"})

    def __init__(self, given: GivenWorld, clock: Clock, seed: int) -> None:
        physical = given.config.physical
        self.channel = Channel(given.config, seed)
        self.stage = LooseStage(describe(physical, "loose"), clock, physical.to_mm(physical.x_0))
        self.stage.play_mm = physical.to_mm(given.backlash)
        self.probe = SimulatedProbe(given.config, self.channel, self.stage, clock)

    def prior_survey(self, positions_mm: Sequence[float]) -> None:
        """The rail is walked."""


@dataclass(frozen=True)
class Recovered:
    """An estimate, and the true value."""

    estimate: Estimate
    truth: float

    @property
    def holds(self) -> bool:
        return self.estimate.holds(self.truth)


def recover(seed: int, minutes: float, preset: str = DEFAULT_PRESET) -> dict[str, Recovered]:
    """Calibrate a random world of a preset's bench; each quantity with its true value."""
    given, clock = random_world(seed, preset), VirtualClock()
    bench = LooseBench(given, clock, seed)
    plan = plan_for(given.config, minutes)
    walk = CalibrationWalk(given.config, bench, clock, Recorder(), stop=StopToken())
    samples = walk.run(plan)
    # The calibration starts from the preset's settings, not from those of the world.
    found = evaluate(load_config(preset=preset), plan, samples)
    true = true_values(given.config, seed, bench.channel.slot)
    fringes, findings = found.fit("physics"), found.findings
    pairs = {
        "noise": (findings.noise, given.config.noise_std),
        "mean": (findings.mean, true["mean"]),
        "sigma_f": (findings.sigma_f, true["sigma_f"]),
        "drift": (findings.drift, true["drift"]),
        "coherence time": (findings.coherence_s, true["coherence time"]),
        "coherence length": (findings.coherence_length, true["coherence length"]),
        "backlash": (findings.backlash, given.backlash),
        "settling": (findings.settling.mapped(root), 0.0),
        "sector": (sector_of(fringes), given.sector_deg),
        "spread": (spread_of(fringes), given.spread_deg),
    }
    return {name: Recovered(*pair) for name, pair in pairs.items()}


def true_values(config: Config, seed: int, slots: int) -> dict[str, float]:
    """Mean, sigma_f, drift and coherence of the rewards in slots 1 … n, from all of them."""
    rows = reward_rows(config, seed, slots)
    variance = float(rows.var())
    some = np.ascontiguousarray(rows[:, ::_COLUMNS])

    def in_time(lag: int) -> float:
        return float(np.mean((some[lag:] - some[:-lag]) ** 2))

    def in_space(steps: int) -> float:
        return float(np.mean((rows[::_COLUMNS, steps:] - rows[::_COLUMNS, :-steps]) ** 2))

    slot_s = config.physical.slot_duration_s
    longest = int(_LARGEST_LAG_SHARE * slots)
    lags = np.unique(np.geomspace(1, longest, _LAGS).astype(int)).tolist()
    spacing = config.grid.spacing
    half = rows.shape[1] // 2
    return {
        "mean": float(rows.mean()),
        "sigma_f": sqrt(variance),
        "drift": float(np.sqrt(np.mean((rows[DRIFT_SLOTS:] - rows[:-DRIFT_SLOTS]) ** 2))),
        "coherence time": slot_s * _first_above(lags, [in_time(lag) for lag in lags], variance),
        "coherence length": spacing
        * _first_above(list(range(1, half)), [in_space(step) for step in range(1, half)], variance),
    }


def _first_above(lags: list[int], values: list[float], level: float) -> float:
    """The first lag at which a value reaches a level, between lags by a straight line; or inf."""
    for number, value in enumerate(values):
        if value >= level:
            if number == 0:
                return float(lags[0])
            share = (level - values[number - 1]) / (value - values[number - 1])
            return lags[number - 1] + share * (lags[number] - lags[number - 1])
    return inf


@dataclass(frozen=True)
class Compared:
    """Regret per slot in one world, with the paper's settings and with calibrated ones."""

    world: World
    seed: int
    paper: float
    offset: float
    """With the paper's settings and reward.offset = "survey" alone."""
    calibrated: float
    calibration: Calibration


def compare(world: World, seed: int) -> Compared:
    """Calibrate the first part of a world, and replay MoveUCB on the rest."""
    config = load_config()
    whole = world.simulate(config, seed, CALIBRATED_SLOTS + REPLAYED_SLOTS)
    minutes = CALIBRATED_SLOTS * config.physical.slot_duration_s / 60
    plan, clock = plan_for(config, minutes), VirtualClock()
    bench = MapBench(config, clock, whole)
    walk = CalibrationWalk(config, bench, clock, Recorder(), stop=StopToken())
    found = evaluate(config, plan, walk.run(plan))
    rest = _rest(config, seed, whole)
    settings = {setting.path: setting.value for setting in found.advice.settings}
    optimum = float(oracle_value(rest.reward, config)[0])

    def regret(changes: dict[str, object]) -> float:
        changed = config.replace(**{path.replace(".", "__"): v for path, v in changes.items()})
        net = play(changed, rest, seed=seed).net_reward(config.reward.movement_cost)
        return (optimum - net) / rest.slots

    offset = regret({"reward.offset": "survey"})
    return Compared(world, seed, regret({}), offset, regret(settings), found)


def _rest(config: Config, seed: int, whole: RewardMap) -> RewardMap:
    """What follows the calibration: its last slot is the survey."""
    position = whole.survey_position
    before = whole.reward[CALIBRATED_SLOTS - 1]
    survey = np.array([config.grid.interpolate(before, x) for x in position.tolist()])
    return RewardMap(
        whole.reward[CALIBRATED_SLOTS:],
        whole.noise[CALIBRATED_SLOTS:],
        position,
        survey + survey_noise(config, seed, len(position)),
    )
