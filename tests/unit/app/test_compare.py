"""`macontrol compare`: paired differences, and standard errors that respect autocorrelation."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import macontrol
from macontrol.cli import main
from macontrol.config import load_config
from macontrol.reports.batches import BATCHES, Mean, batch_mean
from macontrol.reports.comparison import RULE, Difference, differences, entries_of
from macontrol.reports.recorded import read_recorded

CONFIG = load_config().replace(
    algorithm__grid_spacing=0.06, algorithm__window=60, survey__samples=20
)
SLOTS = 600


def autoregressive(
    rng: np.random.Generator, memory: float, size: tuple[int, int]
) -> NDArray[np.float64]:
    """Series of unit variance, each value `memory` times the one before it, and noise."""
    found = rng.standard_normal(size)
    for t in range(1, size[1]):
        found[:, t] = memory * found[:, t - 1] + np.sqrt(1 - memory**2) * found[:, t]
    return found


@pytest.mark.parametrize("memory", [0.0, 0.9, 0.98])
def test_the_error_is_the_scatter_of_the_mean(memory: float) -> None:
    """Compared with the means of many series, and with Var = (1 + a)/(1 − a)/n."""
    slots = 8000
    series = autoregressive(np.random.default_rng(1), memory, (400, slots))
    found = [batch_mean(one) for one in series]
    typical = np.sqrt(np.mean([(one.error or np.nan) ** 2 for one in found]))
    assert typical == pytest.approx(series.mean(axis=1).std(), rel=0.12)
    assert typical == pytest.approx(np.sqrt((1 + memory) / (1 - memory) / slots), rel=0.12)
    level = np.mean([one.is_level for one in found])
    assert 0.88 < level < 0.98  # the true mean is 0; with 19 degrees of freedom 94 %
    naive = series[0].std() / np.sqrt(slots)
    assert typical / naive == pytest.approx(np.sqrt((1 + memory) / (1 - memory)), rel=0.2)


def test_batches_that_are_alike_are_noticed() -> None:
    slow = np.sin(np.linspace(0, 6, 5000))
    assert batch_mean(slow).correlated
    rng = np.random.default_rng(2)
    assert not batch_mean(rng.standard_normal(5000)).correlated


def test_the_mean_of_batches_by_hand() -> None:
    series = np.repeat(np.arange(BATCHES), 10) + np.tile([1.0, -1.0], 100)
    expected = np.arange(BATCHES).std(ddof=1) / np.sqrt(BATCHES)
    found = batch_mean(series)
    assert found.value == pytest.approx(9.5)
    assert found.count == 200
    assert found.error == pytest.approx(expected)
    assert batch_mean(series[:199]).error is None
    assert batch_mean(np.full(300, 2.0)).error == 0.0


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    found = {}
    for name, policy, seed in (
        ("moveucb", "moveucb", 3),
        ("fixed", "fixed", 3),
        ("again", "moveucb", 3),
        ("elsewhere", "moveucb", 4),
    ):
        found[name] = folder / f"{name}.sqlite"
        macontrol.run_simulated(policy, CONFIG, slots=SLOTS, seed=seed, run_file=found[name])
    return found


def compared(*paths: Path) -> list[Difference]:
    return differences(entries_of([read_recorded(path) for path in paths]))


def sql(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


def copied(source: Path, target: Path, *statements: str) -> Path:
    target.write_bytes(source.read_bytes())
    return sql(target, *statements)


def test_runs_in_one_world_are_paired_slot_by_slot(runs: dict[str, Path]) -> None:
    (one,) = compared(runs["fixed"], runs["moveucb"])
    with closing(sqlite3.connect(runs["fixed"])) as connection:
        connection.execute("ATTACH ? AS other", (str(runs["moveucb"]),))
        pairs = connection.execute(
            "SELECT b.reward - a.reward FROM main.slots a JOIN other.slots b USING (slot) "
            "WHERE a.reward IS NOT NULL AND b.reward IS NOT NULL ORDER BY slot"
        ).fetchall()
    series = np.array(pairs).ravel()
    assert one.paired
    assert one.mean.count == len(series) == SLOTS
    assert one.mean.value == pytest.approx(series.mean())
    batches = [part.mean() for part in np.array_split(series, 20)]
    assert one.mean.error == pytest.approx(np.std(batches, ddof=1) / np.sqrt(20))
    assert one.settings["algorithm.policy"] == ("fixed", "moveucb")
    # The noise of a slot is the same in both runs, so it is not in the difference.
    world = macontrol.simulate_map(CONFIG, seed=3, slots=SLOTS)
    run = macontrol.open_run(runs["moveucb"])
    rows = zip(world.reward, run["position"], strict=True)
    earned = np.array([np.interp(x, world.positions, row) for row, x in rows])
    fixed = [np.interp(CONFIG.physical.x_0, world.positions, row) for row in world.reward]
    np.testing.assert_allclose(one.series, earned - fixed, atol=1e-9)


def test_slots_without_a_reward_are_left_out_of_the_pairs(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    holes = copied(
        runs["fixed"],
        tmp_path / "holes.sqlite",
        "DELETE FROM slots WHERE slot BETWEEN 100 AND 149",
        "UPDATE slots SET reward = NULL, invalid = 'gap' WHERE slot > 580",
    )
    (one,) = compared(runs["moveucb"], holes)
    assert one.paired
    assert one.slots.tolist() == [*range(1, 100), *range(150, 581)]


def test_two_equal_runs_are_level(runs: dict[str, Path]) -> None:
    (one,) = compared(runs["moveucb"], runs["again"])
    assert (one.paired, one.mean.value, one.mean.error) == (True, 0.0, 0.0)
    assert one.verdict.startswith("level")
    assert RULE in one.verdict


@pytest.mark.parametrize(
    ("value", "error", "word"),
    [
        (0.199, 0.1, "level"),
        (-0.199, 0.1, "level"),
        (0.201, 0.1, "higher"),
        (-0.201, 0.1, "lower"),
        (0.5, None, "unknown"),
    ],
)
def test_the_words_follow_from_two_standard_errors(
    value: float, error: float | None, word: str
) -> None:
    none = np.empty(0)
    one = Difference("b", "a", True, "", Mean(value, error, 900), none.astype(int), none, {})
    assert one.verdict.startswith(word)
    assert (RULE in one.verdict) == (word == "level")
    assert one.mean.is_level == {"level": True, "unknown": None}.get(word, False)


def test_another_actuation_is_not_another_world(runs: dict[str, Path], tmp_path: Path) -> None:
    needed = tmp_path / "needed.sqlite"
    config = CONFIG.replace(physical__actuation="as-needed")
    macontrol.run_simulated("fixed", config, slots=SLOTS, seed=3, run_file=needed)
    (one,) = compared(runs["fixed"], needed)
    assert one.paired
    # A fixed antenna holds, so it transmits in the whole slot.
    gain = CONFIG.physical.slot_duration_s / (
        CONFIG.physical.slot_duration_s - CONFIG.physical.actuation_time_s
    )
    mean = batch_mean(macontrol.open_run(runs["fixed"])["reward"]).value
    assert one.mean.value == pytest.approx((gain - 1) * mean, rel=0.1)


def test_runs_in_other_worlds_are_not_paired(runs: dict[str, Path], tmp_path: Path) -> None:
    hardware = copied(
        runs["moveucb"],
        tmp_path / "hardware.sqlite",
        "UPDATE header SET value = '\"serial\"' WHERE key = 'backend'",
    )
    louder = tmp_path / "louder.sqlite"
    config = CONFIG.replace(reward__snr_db=CONFIG.reward.snr_db + 1)
    macontrol.run_simulated("moveucb", config, slots=SLOTS, seed=3, run_file=louder)
    found = compared(runs["moveucb"], runs["elsewhere"], hardware, louder)
    assert [one.paired for one in found] == [False, False, False]
    assert "different simulated worlds" in found[0].basis
    assert "on hardware" in found[1].basis
    assert "different simulated worlds" in found[2].basis
    a, b = (
        batch_mean(macontrol.open_run(runs[name])["reward"]) for name in ("moveucb", "elsewhere")
    )
    assert a.error is not None
    assert b.error is not None
    assert found[0].mean.value == pytest.approx(b.value - a.value)
    assert found[0].mean.error == pytest.approx(np.hypot(a.error, b.error))


def test_the_policy_is_not_part_of_the_world(runs: dict[str, Path], tmp_path: Path) -> None:
    config = load_config(assignments=["algorithm.window=80", "algorithm.beta=0.5"], base=CONFIG)
    other = tmp_path / "other.sqlite"
    macontrol.run_simulated("moveucb", config, slots=SLOTS, seed=3, run_file=other)
    (one,) = compared(runs["moveucb"], other)
    assert one.paired
    assert set(one.settings) == {"algorithm.window", "algorithm.beta"}


def test_json_and_text_have_the_method_and_the_verdict(
    runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["compare", str(runs["fixed"]), str(runs["moveucb"]), str(runs["elsewhere"])]
    assert main([*words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    (one, other) = compared(*map(Path, words[1:]))
    assert "batch means" in found["method"]
    assert RULE in found["method"]
    assert [run["slots"] for run in found["runs"]] == [SLOTS] * 3
    assert found["runs"][1]["gain_over_fixed"] is not None
    for item, expected in zip(found["differences"], (one, other), strict=True):
        assert item["difference"] == expected.mean.value
        assert item["standard_error"] == expected.mean.error
        assert (item["paired"], item["verdict"]) == (expected.paired, expected.verdict)
    assert main(words) == 0
    text = capsys.readouterr().out
    assert one.verdict in text
    assert RULE in text
    assert "batch means" in text


def test_the_page_has_the_difference(runs: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    words = ["compare", str(runs["fixed"]), str(runs["moveucb"]), "--out", str(out)]
    assert main(words) == 0
    (one,) = compared(runs["fixed"], runs["moveucb"])
    text = out.read_text()
    assert one.verdict in text
    assert RULE in text
    assert "<script" not in text


def test_runs_with_one_name_are_told_apart(runs: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    other = copied(runs["moveucb"], tmp_path / "b" / "fixed.sqlite")
    (one,) = compared(runs["fixed"], other)
    assert (one.first, one.run) == (str(runs["fixed"]), str(other))


def test_wrong_usage_and_unusable_files(runs: dict[str, Path], tmp_path: Path) -> None:
    good = str(runs["fixed"])
    empty = copied(runs["fixed"], tmp_path / "empty.sqlite", "DELETE FROM slots")
    before = runs["fixed"].read_bytes()
    assert main(["compare", good]) == 64
    assert main(["compare", good, str(empty)]) == 65
    assert main(["compare", good, str(tmp_path / "nothing")]) == 66
    assert main(["compare", good, good, "--out", good]) == 64
    assert main(["compare", good, good, "--out", str(tmp_path / "no" / "page")]) == 74
    assert runs["fixed"].read_bytes() == before
