"""`macontrol calibrate` writes settings that a run takes, and a page."""

from __future__ import annotations

import os
import re
import signal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from macontrol import recorded_map, replay
from macontrol.cli import main
from macontrol.config import load_config
from macontrol.controller.survey.calibration.plan import Plan, plan_for
from macontrol.controller.survey.calibration.walking import CalibrationWalk
from macontrol.controller.survey.file import read_walks
from macontrol.sim.world.channel import reward_rows

SIM = ["calibrate", "--backend", "sim", "--minutes", "2", "--seed", "5"]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site") / "site.toml"
    setting = ["--set", "reward.noise_level=0.08", "--set", "survey.samples=50"]
    assert main([*SIM, *setting, "--out", str(out), "--walks", str(out.with_suffix(".npz"))]) == 0
    return out


def test_a_run_takes_the_settings(written: Path) -> None:
    config = load_config(written)
    assert config.site.measured
    assert config.site.rail_mm == pytest.approx(config.rail_mm, rel=1e-4)
    assert config.site.bench == "bench: simulated"
    assert config.reward.noise_level == pytest.approx(0.08, rel=0.05)
    assert config.reward.offset == "survey"
    for path in ("algorithm.window", "algorithm.margin", "survey.fresh_s"):
        assert f"{path.partition('.')[2]} = " in written.read_text()
    assert "physical.slot_duration_s" in written.read_text()  # recommended in a comment
    assert config.survey.samples == 50  # as it was calibrated with
    assert main(["--backend", "sim", "--fast", "--slots", "20", "--config", str(written)]) == 0


def test_the_walks_are_a_map(written: Path) -> None:
    site = read_walks(written.with_suffix(".npz"))
    assert site.config.survey.samples == 50
    assert all(np.isfinite(sample.unix_s) for walk in site.walks for sample in walk.samples)
    found = replay(recorded_map(written.with_suffix(".npz")), "fixed")
    # Known is what lies between walks that follow each other; between the cycles they are too rare.
    plan = plan_for(site.config, 2)
    walking = 2 * plan.pairs * plan.walk_s / plan.cycle_s
    assert 1 - found.unknown_share == pytest.approx(walking, abs=0.1)


def test_a_stop_keeps_the_walks_and_writes_no_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hop = CalibrationWalk._hop

    def interrupted(self: CalibrationWalk, plan: Plan, cycle: int, place: float) -> None:
        if cycle == 1:
            os.kill(os.getpid(), signal.SIGINT)
        hop(self, plan, cycle, place)

    monkeypatch.setattr(CalibrationWalk, "_hop", interrupted)
    out, walks = tmp_path / "site.toml", tmp_path / "site.npz"
    assert main([*SIM, "--out", str(out), "--walks", str(walks)]) == 128 + signal.SIGINT
    assert [path.name for path in tmp_path.iterdir()] == ["site.npz"]
    assert len(read_walks(walks).walks) == 2 * (2 * plan_for(load_config(), 2).pairs)
    shown = capsys.readouterr()
    assert "no settings were written" in shown.err
    assert "cycle 2 of 12: walking; 1:50 left" in shown.out


def test_every_measured_setting_has_its_reason(written: Path) -> None:
    lines = written.read_text().splitlines()
    sections = {"kernel", "algorithm", "reward", "survey"}
    section, reasoned = "", 0
    for before, line in pairwise(lines):
        section = line[1:-1] if line.startswith("[") else section
        if section in sections and " = " in line and not line.startswith("#"):
            assert before.startswith("# ")
            reasoned += 1
    assert reasoned >= 8


def test_the_page_has_all_figures_and_fetches_nothing(written: Path) -> None:
    page = written.with_suffix(".html").read_text()
    for label in (
        *("the reward along the rail", "autocorrelation in time", "autocorrelation along the rail"),
        *("spectrum of the map", "residuals of the best kernel", "after a move"),
    ):
        assert f'aria-label="{label}"' in page
    assert "<script" not in page
    assert not re.search(r'(src|href)="http', page)


def test_the_intervals_have_what_the_simulator_was_given(written: Path) -> None:
    """One world in seconds; `macontrol bench calibrate` does it for a hundred."""
    config = load_config(assignments=["reward.noise_level=0.08", "run.seed=5"])
    text = written.read_text()
    rewards = reward_rows(config, 5, 24_000)
    for name, truth in (
        ("sigma_eps", config.noise_std),
        ("the mean reward,", float(rewards.mean())),
        ("sigma_f =", float(np.std(rewards))),
    ):
        found = re.search(rf"{name}[^(]*\(([\d.]+)\s*…(?:\n#)?\s*([\d.]+)\)", text)
        assert found is not None, name
        assert float(found[1]) <= truth <= float(found[2])


def test_check_warns_of_a_site_that_was_measured_elsewhere(
    written: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("macontrol.commands.check._check_config", lambda *_: None)  # takes time
    assert main(["check", "--config", str(written)]) == 0
    assert "warning" not in capsys.readouterr().out
    other = ["--set", "physical.carrier_frequency_hz=31e9"]
    assert main(["check", "--config", str(written), *other]) == 0
    assert "measured at 30 GHz" in capsys.readouterr().out


def test_too_short_a_time_is_refused_before_anything_moves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*SIM, "--preset", "lab-2g4-grbl", "--out", str(tmp_path / "site.toml")]
    assert main(words) == 64
    assert "choose --minutes 5" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_page_needs_a_name_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SIM, "--out", str(tmp_path / "site.html")]) == 64
    assert "give --report" in capsys.readouterr().err
