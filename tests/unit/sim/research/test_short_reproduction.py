"""A short reproduction gives the values of the algorithm, and a wrong algorithm gives others.

The bands are around the values of four realizations of 3000 slots. A wrong margin, price,
confidence or window moves some value out of its band.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from macontrol.config import load_config
from macontrol.sim.research.campaign import Results, complete
from macontrol.sim.research.executor import ProcessPool
from macontrol.sim.research.figures.parameters import LADDER
from macontrol.sim.research.figures.setting import BLOCKED, Setting

Measure = Callable[[str, str], float]

VARIANTS: dict[str, dict[str, Any]] = {
    "MoveUCB": {},
    "(ii)": LADDER["(ii)"],
    "(iii)": LADDER["(iii)"],
    "wide margin": {"algorithm__margin": 0.5},
    "no weight": {"algorithm__eta": 0.0},
    "dear": {"reward__movement_cost": 66.0},
    "bold": {"algorithm__beta": 5.0},
}
BASELINES = ("GP-UCB", "Sweep-and-hold", "ε-greedy", "Fixed")
BANDS = [
    ("MoveUCB", "switches", 47, 70),
    ("MoveUCB", "travel", 12, 22),
    ("MoveUCB", "transit_share", 0.06, 0.12),
    ("MoveUCB", "regret", 0.25, 0.42),
    ("(ii)", "switches", 800, 1020),
    ("(iii)", "switches", 415, 545),
    ("wide margin", "switches", 1, 8),
    ("no weight", "travel", 28, 45),
    ("dear", "travel", 5, 11.5),
    ("bold", "transit_share", 0.45, 0.60),
    ("GP-UCB", "travel", 24, 36),
    ("Fixed", "travel", 0, 0),
]


@pytest.fixture(scope="module")
def measure(tmp_path_factory: pytest.TempPathFactory) -> Measure:
    setting = Setting(load_config(), 4, 3000)
    runs = {name: setting.runs(BLOCKED, "MoveUCB", **changes) for name, changes in VARIANTS.items()}
    for policy in BASELINES:
        runs[policy] = setting.runs(BLOCKED, policy)
    results = Results(tmp_path_factory.mktemp("short"))
    complete(
        [task for each in runs.values() for task in each.tasks()],
        results,
        lambda: ProcessPool(2),
        workers=2,
        console=Console(file=io.StringIO()),
    )
    return lambda name, quantity: runs[name].estimate(results, quantity).mean


def test_a_short_reproduction_gives_the_values_of_the_algorithm(measure: Measure) -> None:
    # One test, so that parallel tests do not run the reproduction several times.
    found = {(name, quantity): measure(name, quantity) for name, quantity, _, _ in BANDS}
    off = {
        (name, quantity): found[name, quantity]
        for name, quantity, low, high in BANDS
        if not low <= found[name, quantity] <= high
    }
    assert not off

    ours = measure("MoveUCB", "regret")
    for rival in BASELINES:
        assert 0 < ours < 0.9 * measure(rival, "regret"), rival

    travel = [measure(name, "travel") for name in ("(ii)", "(iii)", "MoveUCB")]
    assert travel[0] > 1.3 * travel[1] > 1.3 * 1.2 * travel[2]

    for name in (*VARIANTS, *BASELINES):
        assert measure(name, "violations") == 0, f"{name} violates what the paper proves"
