"""`macontrol survey` writes a file, a plot and a table."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from macontrol.cli import main
from macontrol.config import Config, load_config
from macontrol.config.model.errors import StageError, StageLostError
from macontrol.controller.runtime.clock import WallClock
from macontrol.controller.survey.file import fresh_survey, keep_survey, read_walks
from macontrol.controller.survey.samples import Survey
from macontrol.hal import Arrival
from macontrol.sim.bench.simulated import SimulatedProbe, SimulatedStage
from macontrol.sim.bench.virtual import VirtualBench
from macontrol.sim.world.channel import Channel, reward_rows
from support.figure_checks import assert_legends_cover_no_data

LAB = ["--preset", "lab-2g4-grbl", "--set", "survey.samples=13"]
SIM = ["survey", "--backend", "sim", *LAB]


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "locks").mkdir()
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "locks"))


def test_the_daemon_reads_what_it_writes(
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
    output = capsys.readouterr().out
    assert "13 of 13" in output
    assert f"{kept.best_position:.3f} wavelengths" in output


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_plot_has_its_format(
    tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    plot = tmp_path / f"rail.{ending}"
    assert main([*SIM, "--out", str(tmp_path / "rail.npz"), "--plot", str(plot)]) == 0
    assert plot.read_bytes()[:5] in (b"\x89PNG\r", b"<?xml")
    assert f"Written: {plot}" in capsys.readouterr().out


def test_the_plot_shows_the_best_position_and_the_fixed_antenna() -> None:
    pytest.importorskip("matplotlib")
    from macontrol.sim.research.plots.rail import survey_figure
    from macontrol.sim.research.plots.style import paper_style

    config = load_config()
    survey = Survey(np.array([0.0, 1.5, 4.5, 6.0]), np.array([1.0, 3.0, 2.0, 0.5]))
    with paper_style():
        figure = survey_figure(config, survey)
        assert_legends_cover_no_data(figure)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "best: 3.00 at 1.500 λ, 15.0 mm" in labels
    assert "fixed at $x_0$: 2.50 at 3.000 λ, 30.0 mm" in labels


def test_the_plot_of_several_walks_shows_them_all() -> None:
    pytest.importorskip("matplotlib")
    from macontrol.sim.research.plots.rail import survey_figure
    from macontrol.sim.research.plots.style import paper_style

    walks = [Survey(np.array([0.0, 3.0, 6.0]), np.array([1.0, 3.0, 2.0]) - n) for n in range(3)]
    with paper_style():
        figure = survey_figure(load_config(), walks[-1], walks[:-1])
        assert_legends_cover_no_data(figure)
    lines = [np.asarray(line.get_ydata()).tolist() for line in figure.axes[0].get_lines()]
    assert all(walk.reward.tolist() in lines for walk in walks)
    assert figure.axes[0].get_ylim()[0] == -1.0


class TestRefusals:
    def test_options_of_the_serial_bench_need_it(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main([*SIM, "--out", str(tmp_path / "rail.npz"), "--yes"]) == 64
        assert "--yes needs --backend serial" in capsys.readouterr().err

    def test_a_folder_as_output(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([*SIM, "--out", str(tmp_path)]) == 74
        assert "is a folder" in capsys.readouterr().err

    def test_a_plot_of_an_unknown_format(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        words = ["--out", str(tmp_path / "rail.npz"), "--plot", str(tmp_path / "rail.xyz")]
        with pytest.raises(SystemExit) as stopped:
            main([*SIM, *words])
        assert stopped.value.code == 64
        assert "does not end with .png" in capsys.readouterr().err
        assert not (tmp_path / "rail.npz").exists(), "refused before the survey"

    def test_a_missing_port(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


class TestRepeated:
    WORDS = (*SIM, "--set", "survey.samples=61", "--repeat")

    def test_it_walks_there_and_back_with_the_time_of_each_sample(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "site.npz"
        assert main([*self.WORDS, "3", "--seed", "5", "--out", str(path)]) == 0
        assert "walk 2 of 3: 61 of 61 positions; " in capsys.readouterr().out
        config, walks = read_walks(path)
        assert config.run.seed == 5
        times = np.array([[sample.unix_s for sample in walk.samples] for walk in walks])
        assert times.shape == (3, 61)
        direction = np.diff(times, axis=1)
        assert (direction[::2] > 0).all()
        assert (direction[1] < 0).all()
        assert times[0].max() < times[1].min()
        assert times[1].max() < times[2].min()

    def test_the_simulated_channel_drifts_with_the_time_of_the_walk(self, tmp_path: Path) -> None:
        path = tmp_path / "site.npz"
        assert main([*self.WORDS, "2", "--seed", "5", "--out", str(path)]) == 0
        config, walks = read_walks(path)
        times, place, reward = np.array(
            [(each.unix_s, each.position, each.reward) for walk in walks for each in walk.samples]
        ).T
        slot = 1 + ((times - times.min()) / config.physical.slot_duration_s + 1e-6).astype(int)
        exact = reward_rows(config, 5, int(slot.max()))
        expected = [
            config.grid.interpolate(exact[t - 1], x) for t, x in zip(slot, place, strict=True)
        ]
        assert np.std(reward - expected) == pytest.approx(config.noise_std, rel=0.25)

    def test_a_signal_keeps_the_finished_walks(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        path = tmp_path / "site.npz"
        after(2.5, monkeypatch, lambda: signal.raise_signal(signal.SIGINT))
        assert main([*self.WORDS, "5", "--out", str(path)]) == 128 + signal.SIGINT
        assert "before the end of walk 3 of 5; the file has the 2 before" in capsys.readouterr().err
        assert [len(walk.reward) for walk in read_walks(path).walks] == [61, 61]

    @pytest.mark.fault("stage-lost-in-repeated-survey")
    def test_a_lost_stage_keeps_the_finished_walks(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        def fail() -> None:
            raise StageError("unplugged")

        path = tmp_path / "site.npz"
        after(1.5, monkeypatch, fail)
        assert main([*self.WORDS, "5", "--out", str(path)]) == 69
        message = capsys.readouterr().err
        assert "unplugged" in message
        assert "before the end of walk 2 of 5; the file has the 1 before" in message
        assert len(read_walks(path).walks) == 1


def after(walks: float, monkeypatch: pytest.MonkeyPatch, then: Callable[[], None]) -> None:
    """Do something before each move after so many walks of 61 positions."""
    measured, move_to = [0], SimulatedStage.move_to
    request = SimulatedProbe.request

    def count(probe: SimulatedProbe, slot: int, start_s: float, end_s: float) -> None:
        measured[0] += 1
        request(probe, slot, start_s, end_s)

    def watched(stage: SimulatedStage, position_mm: float, deadline_s: float) -> Arrival:
        if measured[0] == int(walks * 61):
            then()
        return move_to(stage, position_mm, deadline_s)

    monkeypatch.setattr(SimulatedProbe, "request", count)
    monkeypatch.setattr(SimulatedStage, "move_to", watched)


@pytest.mark.fault("stage-lost-after-survey")
def test_a_stage_lost_after_the_last_position_does_not_lose_the_survey(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(_: SimulatedStage) -> None:
        raise StageLostError("unplugged")

    monkeypatch.setattr(SimulatedStage, "stop", lost)
    assert main([*SIM, "--out", str(tmp_path / "rail.npz")]) == 0
    assert (tmp_path / "rail.npz").exists()


class TestOnTheVirtualBench:
    # Long slots for a busy machine, and few positions: the survey runs in real time.
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

    def test_it_measures_the_rail_and_its_walks_become_a_map(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        config, out = load_config(preset="lab-2g4-grbl", assignments=self.SLOTS), tmp_path / "s.npz"
        with VirtualBench(config, WallClock(), seed=3, block_bytes=16384) as bench:
            code = main([*self.words(bench, out), "--yes", "--repeat", "3"])
        captured = capsys.readouterr()
        assert code == 0, captured.err
        assert "homing the stage" in captured.out
        with np.load(out) as kept:
            there = config.survey_positions
            assert kept["position"] == pytest.approx([*there, *there, *there], abs=0.01)
            exact = Channel(config, 3).rewards(kept["position"])
            # At the first position the virtual transmitter may still be off, for the noise floor.
            assert kept["reward"][1:] == pytest.approx(exact[1:], abs=2 * config.noise_std)
            assert (np.abs(kept["unix_s"] - time.time()) < 300).all()
            assert set(kept["level_unit"]) == {"dBFS"}
            above = 10 ** ((kept["level_db"] - kept["noise_floor_db"]) / 10)
            assert 10 ** (kept["snr_db"] / 10) == pytest.approx(above - 1, rel=0.05)
        world = tmp_path / "map.npz"
        assert main(["export", str(out), "--format", "map", "--out", str(world)]) == 0
        shares = {}
        for policy in ("fixed", "moveucb"):
            outcome = tmp_path / f"{policy}.json"
            words = ["--policy", policy, "--json", str(outcome)]
            assert main(["replay", str(world), *words]) == 0
            shares[policy] = json.loads(outcome.read_text())["unknown_share"]
        # x_0 is one of the five positions; between them it is too far to interpolate.
        assert shares["fixed"] == 0.0 < shares["moveucb"]

    def test_without_consent_nothing_moves(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        clock = WallClock()
        config = load_config(preset="lab-2g4-grbl", assignments=self.SLOTS)
        with VirtualBench(config, clock, seed=3) as bench:
            before = bench.stage.position_at(clock.now())
            assert main(self.words(bench, tmp_path / "s.npz")) == 78
            assert bench.stage.position_at(clock.now()) == before
        assert "stage.homing: " in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--out", "--plot"])
def test_a_missing_folder_is_refused_before_the_survey(
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


def test_a_survey_that_cannot_be_kept_is_reported(
    paper: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is still in the file of --out, or in the window of the run."""
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    problem = keep_survey(paper, Survey(np.array([0.0, 6.0]), np.ones(2)), {})
    assert problem is not None
    assert "/proc/nowhere" in problem
