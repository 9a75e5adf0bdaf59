"""`macontrol survey`: a rail walked once, kept as a file, a plot and a table."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest

from macontrol.cli import main
from macontrol.config import Config, load_config
from macontrol.config.model.errors import StageLostError
from macontrol.controller.runtime.clock import WallClock
from macontrol.controller.survey.file import fresh_survey, keep_survey
from macontrol.controller.survey.samples import Survey
from macontrol.sim.bench.simulated import SimulatedStage
from macontrol.sim.bench.virtual import VirtualBench
from macontrol.sim.world.channel import Channel
from support.figure_checks import assert_legends_cover_no_data

LAB = ["--preset", "lab-2g4-grbl", "--set", "survey.samples=13"]
SIM = ["survey", "--backend", "sim", *LAB]


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "locks").mkdir()
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "locks"))


def test_what_is_written_is_what_the_daemon_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rail.npz"
    assert main([*SIM, "--seed", "5", "--out", str(path)]) == 0
    config = load_config(preset="lab-2g4-grbl", assignments=["survey.samples=13", "run.seed=5"])
    kept = fresh_survey(path, config, {"bench": "simulated"})
    assert isinstance(kept, Survey)
    assert kept.noise_variance == pytest.approx(config.noise_std**2)
    assert kept.position == pytest.approx(config.survey_positions, abs=1e-3)
    exact = Channel(config, 5).rewards(kept.position)
    assert np.abs(kept.reward - exact).max() < 5 * config.noise_std
    told = capsys.readouterr().out
    assert "13 of 13" in told
    assert f"{kept.best_position:.3f} wavelengths" in told


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_it_is_drawn(tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    plot = tmp_path / f"rail.{ending}"
    assert main([*SIM, "--out", str(tmp_path / "rail.npz"), "--plot", str(plot)]) == 0
    assert plot.read_bytes()[:5] in (b"\x89PNG\r", b"<?xml")
    assert f"Written: {plot}" in capsys.readouterr().out


def test_its_picture_shows_the_best_place_and_that_of_a_fixed_antenna() -> None:
    pytest.importorskip("matplotlib")
    from macontrol.sim.research.plots.style import paper_style
    from macontrol.sim.research.plots.survey import survey_figure

    config = load_config()
    survey = Survey(np.array([0.0, 1.5, 4.5, 6.0]), np.array([1.0, 3.0, 2.0, 0.5]))
    with paper_style():
        figure = survey_figure(config, survey)
        assert_legends_cover_no_data(figure)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "best: 3.00 at 1.500 λ, 15.0 mm" in labels
    assert "fixed at $x_0$: 2.50 at 3.000 λ, 30.0 mm" in labels


class TestRefusals:
    def test_options_of_the_bench_need_it(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main([*SIM, "--out", str(tmp_path / "rail.npz"), "--yes"]) == 64
        assert "--yes goes with --backend serial" in capsys.readouterr().err

    def test_a_folder_is_no_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([*SIM, "--out", str(tmp_path)]) == 74
        assert "is a folder" in capsys.readouterr().err

    def test_a_plot_of_no_known_kind(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        words = ["--out", str(tmp_path / "rail.npz"), "--plot", str(tmp_path / "rail.xyz")]
        with pytest.raises(SystemExit) as stopped:
            main([*SIM, *words])
        assert stopped.value.code == 64
        assert "does not end with .png" in capsys.readouterr().err
        assert not (tmp_path / "rail.npz").exists(), "nothing is walked for a plot that cannot be"

    def test_a_port_that_is_not_there(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        words = ["survey", "--backend", "serial", *LAB, "--port", str(tmp_path / "none")]
        assert main([*words, "--yes", "--out", str(tmp_path / "rail.npz")]) == 69
        assert "does not exist" in capsys.readouterr().err


def test_a_signal_ends_it_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    moves: list[float] = []
    move_to = SimulatedStage.move_to

    def watched(stage: SimulatedStage, position_mm: float, deadline_s: float) -> object:
        moves.append(position_mm)
        if len(moves) == 20:
            signal.raise_signal(signal.SIGTERM)
        return move_to(stage, position_mm, deadline_s)

    monkeypatch.setattr(SimulatedStage, "move_to", watched)
    assert main([*SIM, "--out", str(tmp_path / "rail.npz")]) == 128 + signal.SIGTERM
    assert "nothing was written" in capsys.readouterr().err
    assert not (tmp_path / "rail.npz").exists()
    assert len(moves) <= 21


@pytest.mark.fault("stage-lost-after-survey")
def test_a_stage_that_is_lost_when_all_is_done_does_not_cost_the_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(_: SimulatedStage) -> None:
        raise StageLostError("unplugged")

    monkeypatch.setattr(SimulatedStage, "stop", lost)
    assert main([*SIM, "--out", str(tmp_path / "rail.npz")]) == 0
    assert (tmp_path / "rail.npz").exists()


class TestOnTheVirtualBench:
    # Slots with room for a busy machine, and few positions: the rail is walked in real time.
    SLOTS = (
        "survey.samples=5",
        "physical.stroke=0.3",
        "physical.slot_duration_s=1.0",
        "physical.actuation_time_s=0.7",
        "physical.command_latency_s=0.2",
    )

    def words(self, bench: VirtualBench, out: Path) -> list[str]:
        sets = [f"--set={assignment}" for assignment in self.SLOTS]
        radio = ["--probe", f"rtl_tcp://{bench.radio.address}", "--port", bench.stage.port]
        preset = ["--preset", "lab-2g4-grbl"]
        return ["survey", "--backend", "serial", *preset, *sets, *radio, "--out", str(out)]

    def test_it_walks_the_rail(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        config, out = load_config(preset="lab-2g4-grbl", assignments=self.SLOTS), tmp_path / "s.npz"
        with VirtualBench(config, WallClock(), seed=3, block_bytes=16384) as bench:
            code = main([*self.words(bench, out), "--yes"])
        captured = capsys.readouterr()
        assert code == 0, captured.err
        assert "homing the stage" in captured.out
        with np.load(out) as kept:
            assert kept["position"] == pytest.approx(config.survey_positions, abs=0.01)
            exact = Channel(config, 3).rewards(kept["position"])
            # The virtual transmitter may still be off, for the noise floor, at the first one.
            assert kept["reward"][1:] == pytest.approx(exact[1:], abs=0.25)

    def test_without_consent_nothing_moves(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        clock = WallClock()
        config = load_config(preset="lab-2g4-grbl", assignments=self.SLOTS)
        with VirtualBench(config, clock, seed=3) as bench:
            before = bench.stage.position_at(clock.now())
            assert main(self.words(bench, tmp_path / "s.npz")) == 78
            assert bench.stage.position_at(clock.now()) == before
        assert "nobody has agreed" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--out", "--plot"])
def test_a_missing_folder_is_refused_before_the_walk(
    option: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("macontrol.commands.survey._survey", None)
    names = {"--out": tmp_path / "s.npz", "--plot": tmp_path / "s.png"}
    names[option] = tmp_path / "nowhere" / names[option].name
    words = [str(word) for pair in names.items() for word in pair]
    assert main(["survey", "--backend", "sim", *words]) == 74
    assert f"there is no folder {tmp_path / 'nowhere'}" in capsys.readouterr().err


def test_a_survey_that_cannot_be_kept_is_not_lost(
    paper: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the file that --out names, or in the window of the run; the next run walks again."""
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    problem = keep_survey(paper, Survey(np.array([0.0, 6.0]), np.ones(2)), {})
    assert problem is not None
    assert problem.startswith("the survey is not stored for the next run: /proc/nowhere")
