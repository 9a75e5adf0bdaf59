"""The cells of the panel: a kind of world at a speed, by groups.

All policies run in the same realizations of a cell. A cell of the groups `robust` and `cost` has
the map of another cell where only the policies see a difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from macontrol.config import Config
from macontrol.sim.research.panel.plays import UNDISTURBED, Disturbance
from macontrol.sim.world.worlds import PAPER, World

PAPER_SLOTS, IEEE_SLOTS = 15300, 4000
PAPER_REALIZATIONS, IEEE_REALIZATIONS = 48, 24
VARIATIONS = (0.005, 0.015, 0.05, 0.1, 0.2)
"""The values of V_T/T that the speeds aim at; the panel reports what it finds."""
PAPER_SPEEDS = (0.0025, 0.02, 0.2, 1.0, 4.0)
"""Steps of the paper's drift per slot, for each of VARIATIONS."""
IEEE_VARIATION = {
    "ieee-a": 13.5,
    "ieee-b": 27.0,
    "ieee-c": 26.5,
    "ieee-d": 27.0,
    "ieee-e": 30.0,
    "ieee-f": 32.0,
}
"""V_T/T at a motion of the environment of one wavelength per slot, as far as it is linear."""
PUBLISHED_CHANGE_POINTS = (5, 124)
CHANGE_POINTS = (5, 15, 50, 100, 124, 300)
MOVEMENT_COSTS = (0.3, 1.0, 3.0, 10.0, 30.0, 66.0)
QUICK_IEEE = ("ieee-b", "ieee-d", "ieee-f")
QUICK_VARIATIONS = (0.015, 0.1)
AVERAGED = ("paper", "ieee")
"""The groups whose cells count in the average over the panel."""
_AS_PUBLISHED = World()


@dataclass(frozen=True)
class Cell:
    """One kind of world, and what the policies in it do not know."""

    group: str
    name: str
    slots: int
    realizations: int
    world: World = _AS_PUBLISHED
    variation: float = 0.0
    """The V_T/T that its speed aims at; 0 where none is meant."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Settings of the world, which the policies know, as for `Config.replace`."""
    beliefs: dict[str, Any] = field(default_factory=dict)
    """Settings of the policies alone."""
    disturbance: Disturbance = UNDISTURBED

    def config(self, base: Config, seed: int) -> Config:
        """The config of one realization of the world."""
        changed = base.replace(**self.changes, run__horizon=self.slots, run__seed=seed)
        return self.world.config_of(changed)


def _continuous() -> Iterator[Cell]:
    for scenario in ("blocked", "dense"):
        for phases in ("aligned", "random"):
            for speed, variation in zip(PAPER_SPEEDS, VARIATIONS, strict=True):
                changes = {"channel__scenario": scenario, "channel__sub_ray_phases": phases}
                name = f"{scenario}, {phases}, {variation:g}"
                yield _paper(name, changes, World(PAPER, speed), variation)


def _piecewise(group: str, counts: Iterable[int]) -> Iterator[Cell]:
    for count in counts:
        changes = {"drift__model": "piecewise", "drift__change_points": count}
        yield replace(_paper(f"piecewise, S = {count}", changes), group=group)


def _paper(
    name: str, changes: dict[str, Any], world: World = _AS_PUBLISHED, variation: float = 0.0
) -> Cell:
    return Cell("paper", name, PAPER_SLOTS, PAPER_REALIZATIONS, world, variation, changes)


def _ieee() -> Iterator[Cell]:
    for name, slope in IEEE_VARIATION.items():
        for variation in VARIATIONS:
            world = World(name, variation / slope)
            title = f"{name}, {variation:g}"
            yield Cell("ieee", title, IEEE_SLOTS, IEEE_REALIZATIONS, world, variation)


def _cost() -> Iterator[Cell]:
    for cost in MOVEMENT_COSTS:
        cell = _paper(f"blocked, c_e = {cost:g}", {"reward__movement_cost": cost})
        yield replace(cell, group="cost")


def _robust() -> Iterator[Cell]:
    """One difference at a time, in the paper's world and in an IEEE world of about its speed."""
    blocked = _paper("blocked", {})
    world = World("ieee-d", 0.1 / IEEE_VARIATION["ieee-d"])
    for base in (blocked, Cell("ieee", "ieee-d", IEEE_SLOTS, IEEE_REALIZATIONS, world)):
        for what, difference in _DIFFERENCES.items():
            yield replace(base, group="robust", name=f"{base.name}: {what}", **difference)


_DIFFERENCES: dict[str, dict[str, Any]] = {
    "half the noise": {"disturbance": Disturbance(noise=0.5)},
    "twice the noise": {"disturbance": Disturbance(noise=2.0)},
    "SE kernel": {"beliefs": {"kernel__name": "se"}},
    "wrong periods": {"beliefs": {"kernel__fringe_periods": (6.2, 2.7, 1.56)}},
    "rail of 3 λ": {"changes": {"physical__region_length": 3.0}},
    "rail of 12 λ": {"changes": {"physical__region_length": 12.0}},
    "30 survey samples": {"changes": {"survey__samples": 30}},
    "20 % of rewards missing": {"disturbance": Disturbance(missing=0.2)},
    "20 % of rewards late": {"disturbance": Disturbance(late=0.2)},
}
"""Wrong periods are 1.5 times as long as those of the paper. Late rewards arrive one slot late."""

CELLS: tuple[Cell, ...] = (
    *_continuous(),
    *_piecewise("paper", PUBLISHED_CHANGE_POINTS),
    *_ieee(),
    *_robust(),
    *_piecewise("piecewise", CHANGE_POINTS),
    *_cost(),
)
GROUPS: tuple[str, ...] = tuple(dict.fromkeys(cell.group for cell in CELLS))


def quick_cells() -> list[Cell]:
    """Twelve cells: the paper's world at its own speed, and three IEEE worlds at two speeds."""
    return [
        cell
        for cell in CELLS
        if (cell.group == "paper" and cell.variation in (0.0, 0.1))
        or (cell.world.name in QUICK_IEEE and cell.variation in QUICK_VARIATIONS)
    ]
