"""Reward with an offset, beyond the paper: MoveUCB with and without it over the SNR, blocked.

With the paper's prior mean of 0 a place that left the window seems bad, the more so the stronger
the link is. `reward.offset = "survey"` makes it average. (a) has the continuous drift, (b) the
piecewise-stationary one. The gap is that between Fixed and the oracle, net of movement cost.
"""

from __future__ import annotations

from collections.abc import Iterator

from macontrol.sim.research.campaign import Results
from macontrol.sim.research.figures.setting import Runs, Setting, World
from macontrol.sim.research.outcome import Array, Estimate, Outcome, Row, of_means
from macontrol.sim.research.tasks import Task

SNRS_DB = (0.0, 10.0, 20.0, 30.0, 40.0)
CHANGE_POINTS = 10
REALIZATIONS = 16
"""The largest number of realizations."""
WORLDS = {
    "a": World(),
    "b": World(drift="piecewise", change_points=CHANGE_POINTS),
}
OFFSETS = ("none", "survey")


def tasks(setting: Setting) -> Iterator[Task]:
    for world in WORLDS.values():
        for snr_db in SNRS_DB:
            for runs in (_fixed(setting, world, snr_db), *_moveucb(setting, world, snr_db)):
                yield from runs.tasks()


def measure(setting: Setting, results: Results) -> Outcome:
    outcome = Outcome()
    for panel, world in WORLDS.items():
        for snr_db in SNRS_DB:
            fixed = _fixed(setting, world, snr_db).measure(results, "regret")
            regrets: list[Array] = []
            for offset, runs in zip(OFFSETS, _moveucb(setting, world, snr_db), strict=True):
                label = (panel, world.scenario, offset, "snr_db", snr_db)
                outcome.add(runs.rows(results, ("regret", "travel", "switches"), label))
                regret = runs.measure(results, "regret")
                regrets.append(regret)
                outcome.add([Row(*label, "gap_closed", of_means(_gap_closed, regret, fixed))])
            without, with_offset = regrets
            gain = _gain(without, with_offset, fixed)
            outcome.quantities[f"gain {world.drift} {snr_db:g}"] = gain
    return outcome


def _gap_closed(regret: float, fixed: float) -> float:
    """The share of the gap between Fixed and the oracle, whose regret is 0."""
    return 1.0 - regret / fixed


def _gain(without: Array, with_offset: Array, fixed: Array) -> Estimate:
    """How much more of the gap is closed with the offset."""
    return of_means(
        lambda none, survey, still: (none - survey) / still, without, with_offset, fixed
    )


def _moveucb(setting: Setting, world: World, snr_db: float) -> list[Runs]:
    """MoveUCB for each of OFFSETS."""
    return [
        _at(snr_db, setting).runs(
            world, "MoveUCB", seeds=setting.seeds(REALIZATIONS), reward__offset=offset
        )
        for offset in OFFSETS
    ]


def _fixed(setting: Setting, world: World, snr_db: float) -> Runs:
    return _at(snr_db, setting).runs(world, "Fixed", seeds=setting.seeds(REALIZATIONS))


def _at(snr_db: float, setting: Setting) -> Setting:
    """The same setting at another SNR, for the oracles too."""
    base = setting.base.replace(reward__snr_db=snr_db)
    return Setting(base, setting.realizations, setting.slots, setting.first_seed)
