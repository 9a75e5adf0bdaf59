"""Fig. kernel: the contribution of the kernel, blocked, continuous drift.

All kernels estimate from the windows that MoveUCB collects. The lengths of SE and Const.+SE are
chosen on separate validation realizations; Physics has no parameter to choose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from macontrol.sim.research.campaign import Results
from macontrol.sim.research.figures.setting import BLOCKED, Setting, canonical
from macontrol.sim.research.outcome import Array, Outcome, Row, closest_lead, estimate
from macontrol.sim.research.tasks import KernelErrors, Task

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
        parameter: tuple[str, float | str] = ("length", length) if name in TUNED else ("", "")
        for panel, columns in (("lengths", errors), ("validation", validation)):
            rmse = estimate(columns[:, number])
            outcome.add([Row(panel, "blocked", LABELS[name], *parameter, "rmse", rmse)])
    for name, number in chosen.items():
        rmse = estimate(errors[:, number])
        outcome.add([Row("b", "blocked", LABELS[name], "", "", "rmse", rmse)])
        outcome.quantities[f"{LABELS[name]} rmse"] = rmse
        if name in TUNED:
            outcome.notes[f"{LABELS[name]} length"] = KERNELS[number][1]
    physics = chosen["physics"]
    ranking = sorted(chosen.values(), key=lambda number: errors[:, number].mean())
    at_paper_length = [KERNELS.index((name, PAPER_LENGTH)) for name in reversed(TUNED)]
    for quantity, order in (("physics lead", ranking), ("paper's lengths", at_paper_length)):
        outcome.quantities[quantity], _ = closest_lead(
            {_label(n): errors[:, n] - errors[:, physics] for n in order if n != physics}
        )
        outcome.notes[quantity] = "; ".join(f"{_label(n)} {errors[:, n].mean():.2f}" for n in order)
    _add_example(setting, results, outcome, chosen)
    return outcome


def _label(number: int) -> str:
    """The name of a kernel, and its length if it has one to choose."""
    name, length = KERNELS[number]
    return f"{LABELS[name]} ({length:g} λ)" if name in TUNED else LABELS[name]


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


def _errors(results: Results, comparisons: Sequence[KernelErrors]) -> Array:
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
