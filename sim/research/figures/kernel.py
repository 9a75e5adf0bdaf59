"""Fig. kernel: the contribution of the kernel, blocked, continuous drift.

All kernels estimate from the windows that MoveUCB collects. The lengths of SE and Const.+SE are
chosen on separate validation realizations; Physics has no parameter to choose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from macontrol.sim.research.figures.outcome import Outcome, Row
from macontrol.sim.research.figures.setting import BLOCKED, Setting, canonical
from macontrol.sim.research.statistics import estimate
from macontrol.sim.research.store import Results
from macontrol.sim.research.tasks import KernelErrors, Task

TITLE = "kernel comparison"
REALIZATIONS = 12
VALIDATION_REALIZATIONS = 8
VALIDATION_OFFSET = 1_000_000
"""Validation seeds are far from the others, so that they never overlap."""
EVERY = 50
LENGTHS = (0.2, 0.5, 1.0, 2.0, 3.0, 4.0)
PAPER_LENGTH = 0.5
"""The length that the paper chose for both kernels."""
TUNED = ("se", "const-se")
KERNELS: tuple[tuple[str, float], ...] = (
    ("physics", 0.5),  # the first two do not use the length
    ("nonoscillatory", 0.5),
    *(("se", length) for length in LENGTHS),
    *(("const-se", length) for length in LENGTHS),
)
LABELS = {
    "physics": "Physics",
    "se": "SE",
    "const-se": "Const.+SE",
    "nonoscillatory": "Nonosc.",
}


def tasks(setting: Setting) -> Iterator[Task]:
    yield from _comparisons(setting)
    yield from _validations(setting)


def measure(setting: Setting, results: Results) -> Outcome:
    outcome = Outcome()
    errors = _errors(results, _comparisons(setting))
    validation = _errors(results, _validations(setting))
    chosen: dict[str, int] = {}
    for name in LABELS:
        candidates = [number for number, kernel in enumerate(KERNELS) if kernel[0] == name]
        chosen[name] = min(candidates, key=lambda number: validation[:, number].mean())
    for number, (name, length) in enumerate(KERNELS):
        tuned = name in TUNED
        outcome.add(
            Row(panel, "blocked", LABELS[name], "length" if tuned else "", value, "rmse", measured)
            for panel, columns in (("lengths", errors), ("validation", validation))
            for value in [length if tuned else ""]
            for measured in [estimate(columns[:, number])]
        )
    for name, number in chosen.items():
        length = KERNELS[number][1]
        label = LABELS[name]
        rmse = estimate(errors[:, number])
        outcome.add([Row("b", "blocked", label, "", "", "rmse", rmse)])
        outcome.quantities[f"{label} rmse"] = rmse
        if name in TUNED:
            outcome.notes[f"{label} length"] = length
    rival = min(
        (name for name in chosen if name != "physics"),
        key=lambda name: errors[:, chosen[name]].mean(),
    )
    outcome.quantities["physics lead"] = estimate(
        errors[:, chosen[rival]] - errors[:, chosen["physics"]]
    )
    outcome.notes["physics lead"] = "; ".join(
        f"{LABELS[name]}{_length(number)} {errors[:, number].mean():.2f}"
        for name, number in sorted(chosen.items(), key=lambda item: errors[:, item[1]].mean())
    )
    outcome.notes["paper's lengths"] = "; ".join(
        f"{LABELS[name]}{_length(number)} {errors[:, number].mean():.2f}"
        for name in ("const-se", "se")
        for number in [KERNELS.index((name, PAPER_LENGTH))]
    )
    at_paper_length = [errors[:, KERNELS.index((name, PAPER_LENGTH))] for name in TUNED]
    closest = min(at_paper_length, key=lambda column: column.mean())
    outcome.quantities["paper's lengths"] = estimate(closest - errors[:, chosen["physics"]])
    _add_example(setting, results, outcome, chosen)
    return outcome


def _length(number: int) -> str:
    """The length as a label, if the kernel has one to choose."""
    name, length = KERNELS[number]
    return f" ({length:g} λ)" if name in TUNED else ""


def _add_example(
    setting: Setting, results: Results, outcome: Outcome, chosen: dict[str, int]
) -> None:
    example = results[_comparisons(setting)[0]]
    arrays = {
        "truth": example["example_truth"],
        "sample_position": example["example_position"],
        "sample_reward": example["example_reward"],
        **{LABELS[name]: example[f"example_mean_{number}"] for name, number in chosen.items()},
    }
    outcome.arrays = {name: list(values) for name, values in arrays.items()}
    outcome.arrays["position"] = setting.base.grid.points.tolist()
    outcome.notes["example_slot"] = float(example["example_slot"])
    outcome.notes["example_seed"] = float(setting.first_seed)
    outcome.notes["example_positions"] = float(len(set(outcome.arrays["sample_position"])))


def _errors(results: Results, comparisons: Sequence[KernelErrors]) -> NDArray[np.float64]:
    """RMSE: realizations × kernels."""
    return np.array([results[task]["rmse"] for task in comparisons])


def _comparisons(setting: Setting) -> list[KernelErrors]:
    seeds = setting.seeds(REALIZATIONS)
    return [_comparison(setting, seed, example=seed == seeds[0]) for seed in seeds]


def _validations(setting: Setting) -> list[KernelErrors]:
    first = setting.first_seed + VALIDATION_OFFSET
    count = min(VALIDATION_REALIZATIONS, setting.realizations)
    return [_comparison(setting, seed, example=False) for seed in range(first, first + count)]


def _comparison(setting: Setting, seed: int, *, example: bool) -> KernelErrors:
    config = canonical(setting.world(BLOCKED, seed))
    return KernelErrors(config, KERNELS, min(EVERY, setting.slots), example)
