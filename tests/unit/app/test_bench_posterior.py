"""The benchmark of a decision. Its times depend on the machine and are not tested."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from macontrol.cli import main
from macontrol.commands.bench import posterior
from macontrol.commands.bench.decisions import (
    Player,
    PosteriorType,
    Times,
    Took,
    World,
    growth,
    side_by_side,
)
from macontrol.commands.bench.direct import DirectPosterior
from macontrol.commands.bench.memory import soak
from macontrol.commands.bench.peers import ScipyPosterior
from macontrol.commands.bench.posterior import GRIDS, WINDOWS, Effort, Outcome, measure
from macontrol.config import Config
from macontrol.config.model.suggestion import pip_install
from macontrol.controller.host.blas import loaded_blas

SHORT_RAILS = (6, 12)
TINY = Effort(64, rounds=1, block=4, scipy=2, sklearn=1, growth_rounds=1, rails=SHORT_RAILS)


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def no_progress(title: str, steps: int) -> Any:
    return lambda: None


@pytest.fixture(scope="module")
def world(paper: Config) -> World:
    return World(paper, seed=1, slots=64)


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return measure(TINY, soak_slots=1000, part=no_progress)


def set_measured(monkeypatch: pytest.MonkeyPatch, outcome: Outcome) -> None:
    monkeypatch.setattr(posterior, "measure", lambda *_, **__: outcome)


class TestTimes:
    def test_are_percentiles_in_microseconds(self) -> None:
        times = Times.of([Took(1000 * n, 500 * n) for n in range(1, 1002)])
        assert (times.count, times.median, times.p99) == (1001, 501.0, 991.0)
        assert times.p99_9 == pytest.approx(1000.0)
        assert times.processor_median == 250.5

    def test_have_no_p99_9_of_a_few(self) -> None:
        assert Times.of([Took(1000, 1000)] * 999).p99_9 is None


class TestPeers:
    def test_make_the_same_decisions(self, paper: Config, world: World) -> None:
        peers: dict[str, tuple[PosteriorType, int]] = {
            "table": (ScipyPosterior, 5),
            "evaluated": (DirectPosterior, 3),
        }
        ours, results = side_by_side(paper, world, peers, rounds=3, block=20)
        assert ours.count == 60
        for name, decisions in (("table", 15), ("evaluated", 9)):
            result = results[name]
            assert result.times.count == decisions
            assert result.other_decisions == 0
            assert result.mean_difference <= 1e-9
            assert result.variance_difference <= 1e-9

    def test_include_scikit_learn(self, paper: Config, world: World) -> None:
        pytest.importorskip("sklearn")
        from macontrol.commands.bench.sklearn_peer import SklearnPosterior

        _, results = side_by_side(
            paper, world, {"sklearn": (SklearnPosterior, 2)}, rounds=1, block=5
        )
        assert results["sklearn"].other_decisions == 0
        assert results["sklearn"].mean_difference <= 1e-9
        assert results["sklearn"].variance_difference <= 1e-9

    def test_that_differ_are_detected(self, paper: Config, world: World) -> None:
        class Wrong(ScipyPosterior):
            def _solution(self, samples: Any) -> Any:
                mean, variance = super()._solution(samples)
                return np.roll(mean, 300), variance

        _, results = side_by_side(paper, world, {"wrong": (Wrong, 5)}, rounds=2, block=5)
        assert results["wrong"].other_decisions > 0
        assert results["wrong"].mean_difference > 0.1

    def test_use_the_same_map_on_every_grid(self, paper: Config, world: World) -> None:
        """On a finer grid the rewards are interpolated."""
        fine = paper.replace(algorithm__grid_spacing=paper.algorithm.grid_spacing / 2)
        turns = list(Player(fine, world).play(50))
        assert [turn.slot for turn in turns] == list(range(1, 51))
        assert all(np.isfinite(turn.reward) for turn in turns)
        assert growth({601: paper, 1201: fine}, world, rounds=1, block=3).keys() == {601, 1201}

    def test_leave_the_garbage_collector_as_it_was(self, paper: Config, world: World) -> None:
        assert gc.isenabled()
        growth({300: paper}, world, rounds=1, block=2)
        assert gc.isenabled()
        assert gc.get_freeze_count() == 0


def test_a_soak_detects_growing_memory(
    paper: Config, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = soak(paper, world, 4000)
    assert quiet.slots == 4000
    assert quiet.blocks_growth <= posterior.BLOCKS_GROWTH
    assert quiet.mean_error <= 1e-9
    assert quiet.variance_error <= 1e-9

    kept: list[tuple[int, float]] = []
    observe = World.observe

    def observe_and_keep(self: World, slot: int, position: float) -> float:
        kept.append((slot, position + 0.1))
        return observe(self, slot, position)

    monkeypatch.setattr(World, "observe", observe_and_keep)
    assert soak(paper, world, 4000).blocks_growth > posterior.BLOCKS_GROWTH


def test_every_blas_uses_one_thread() -> None:
    """Even if the user has set another number."""
    script = (
        "from macontrol.controller.host.blas import loaded_blas\n"
        "import scipy.linalg\n"
        "print([blas.threads for blas in loaded_blas(use_one_thread=True)])"
    )
    threads = subprocess.run(
        [sys.executable, "-c", script],
        env={"OPENBLAS_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert set(json.loads(threads)) == {1}
    assert {blas.threads for blas in loaded_blas(use_one_thread=True)} == {1}


class TestOutcome:
    def test_covers_the_sizes_asked_for(self, outcome: Outcome) -> None:
        assert tuple(outcome.by_window) == WINDOWS == (100, 300, 1000, 3000)
        assert tuple(outcome.by_grid) == GRIDS == (601, 1201, 3001, 6001)
        assert tuple(outcome.by_rail) == SHORT_RAILS
        assert outcome.config.algorithm.window == 300
        assert outcome.config.grid_size == 601

    def test_as_json_is_strict_and_complete(self, outcome: Outcome) -> None:
        text = json.dumps(outcome.as_json(), allow_nan=False)
        found = json.loads(text, parse_constant=refuse)
        assert found["window"] == 300
        assert found["grid"] == 601
        assert found["macontrol"]["count"] == 4
        assert found["macontrol"]["p99_9"] is None
        assert found["peers"]["scipy"]["slower"] > 0
        assert [row["size"] for row in found["by_window"]] == list(WINDOWS)
        assert [row["ratio"] for row in found["by_window"] if row["size"] == 300] == [1.0]
        assert [row["ratio"] for row in found["by_grid"] if row["size"] == 601] == [1.0]
        assert [row["ratio"] for row in found["by_rail"] if row["size"] == 6] == [1.0]
        assert found["memory"]["slots"] == 1000
        assert len(found["verdicts"]) == 5

    def test_ratios_are_of_processor_time(self, outcome: Outcome) -> None:
        slow = Times(10, 5000.0, 9000.0, None, processor_median=500.0)
        fast = Times(10, 10.0, 20.0, None, processor_median=10.0)
        peer = next(iter(outcome.peers.values()))
        given = Outcome(
            outcome.machine,
            outcome.blas,
            outcome.config,
            fast,
            {posterior.SCIPY: type(peer)(slow, 0, 0.0, 0.0)},
            {100: fast, 300: fast, 1000: fast, 3000: slow},
            {601: fast},
            {6: fast},
            None,
        )
        _, scipy, sklearn, window = given.bars()
        assert (scipy.measured, scipy.holds) == ("50 times", True)
        assert (sklearn.measured, sklearn.holds) == ("not installed", None)
        assert (window.measured, window.holds) == ("50.00", False)


class TestCommand:
    def test_prints_tables_and_bars(
        self,
        outcome: Outcome,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        set_measured(monkeypatch, outcome)
        assert main(["bench", "posterior"]) == 0
        printed = capsys.readouterr().out
        for part in ("w = 300, G = 601", "Growth with w", "Growth with G", "one BLAS thread"):
            assert part in printed
        assert "6001" in printed

    def test_prints_json_and_nothing_else(self, capfd: pytest.CaptureFixture[str]) -> None:
        assert main(["bench", "posterior", "--quick", "--json"]) == 0
        printed = capfd.readouterr()
        found = json.loads(printed.out, parse_constant=refuse)
        assert found["memory"] is None
        assert printed.err == ""

    def test_does_without_scikit_learn(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.delitem(sys.modules, "macontrol.commands.bench.sklearn_peer", raising=False)
        monkeypatch.setitem(sys.modules, "sklearn.gaussian_process", None)
        monkeypatch.setattr(posterior, "QUICK", TINY)
        assert main(["bench", "posterior", "--quick"]) == 0
        assert pip_install("scikit-learn") in capsys.readouterr().out

    @pytest.mark.parametrize(("options", "code"), [([], 0), (["--strict"], 1)])
    def test_a_missed_bar_fails_only_a_strict_run(
        self,
        outcome: Outcome,
        options: list[str],
        code: int,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setattr(posterior, "WINDOW_COST", 0.0)
        set_measured(monkeypatch, outcome)
        assert main(["bench", "posterior", *options]) == code
        assert "MISSED" in capsys.readouterr().out

    @pytest.mark.parametrize("words", [[], ["nothing"], ["posterior", "--slots", "0"]])
    def test_refuses_unknown_words(
        self, words: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as left:
            main(["bench", *words])
        assert left.value.code == 64
        assert capsys.readouterr().err.startswith("usage: macontrol bench")


def test_a_run_imports_no_benchmark() -> None:
    script = (
        "import sys\n"
        "from macontrol.cli import main\n"
        "main(['--backend', 'sim', '--fast', '--slots', '3', '--log', 'json'])\n"
        "print(*(name for name in sys.modules if 'benchmarks' in name or 'sklearn' in name))"
    )
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert output.splitlines()[-1] == ""
