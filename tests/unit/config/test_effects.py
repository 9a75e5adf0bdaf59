"""Settings that change nothing are refused, or reported by `check`; and they change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from macontrol.cli import main
from macontrol.config import Config, load_config, load_with_origins, preset_names
from macontrol.config.checks.effects import without_effect
from macontrol.config.model.errors import ConfigError
from macontrol.controller.policies.kernel import kernel_from_config
from macontrol.sim.research.episode import play
from macontrol.sim.world.rewardmap import simulate_map

SECTOR, SPREAD = "kernel.sector_deg=[20, 140]", "kernel.angular_spread_deg=3"
AUTO = ["kernel.fringe_periods=auto", "kernel.fringe_damping=auto"]


class TestSite:
    """What describes the site must not be ignored."""

    @pytest.mark.parametrize(
        ("assignments", "key", "fix"),
        [
            ([SECTOR], "kernel.sector_deg", 'kernel.fringe_periods = "auto"'),
            ([SPREAD], "kernel.angular_spread_deg", 'kernel.fringe_damping = "auto"'),
            ([SECTOR, AUTO[1]], "kernel.sector_deg", 'kernel.fringe_periods = "auto"'),
            ([SPREAD, AUTO[0]], "kernel.angular_spread_deg", 'kernel.fringe_damping = "auto"'),
        ],
    )
    def test_it_is_refused_beside_the_periods_or_the_damping(
        self, assignments: list[str], key: str, fix: str
    ) -> None:
        with pytest.raises(ConfigError) as refusal:
            load_config(assignments=assignments)
        assert str(refusal.value).startswith(f"{key} = ")
        assert fix in str(refusal.value)
        assert refusal.value.exit_code == 78

    def test_a_file_is_refused_with_its_line(self, tmp_path: Path) -> None:
        path = tmp_path / "site.toml"
        path.write_text('preset = "paper"\n[kernel]\nsector_deg = [20.0, 140.0]\n')
        with pytest.raises(ConfigError, match=r"site\.toml, line 3"):
            load_config(path)

    @pytest.mark.parametrize("preset", preset_names())
    def test_the_values_of_a_preset_are_valid(self, preset: str) -> None:
        kernel = load_config(preset=preset).kernel
        low, high = kernel.sector_deg
        again = [f"kernel.sector_deg=[{low}, {high}]"]
        again += [f"kernel.angular_spread_deg={kernel.angular_spread_deg}"]
        assert load_config(preset=preset, assignments=again).kernel == kernel

    def test_it_is_taken_where_the_fringes_follow_from_it(self) -> None:
        paper = load_config()
        config = load_config(assignments=[*AUTO, SECTOR, SPREAD])
        assert kernel_from_config(config.kernel) != kernel_from_config(paper.kernel)

    @pytest.mark.parametrize("preset", [name for name in preset_names() if "lab" in name])
    def test_a_lab_preset_derives_its_fringes(self, preset: str) -> None:
        config = load_config(preset=preset)
        for assignment in (SECTOR, SPREAD):
            changed = load_config(preset=preset, assignments=[assignment])
            assert kernel_from_config(changed.kernel) != kernel_from_config(config.kernel)


OTHER: dict[str, Any] = {
    "kernel.name": "se",
    "kernel.components": 2,
    "kernel.fringe_periods": "auto",
    "kernel.fringe_damping": 3.0,
    "kernel.residual_length": 3.0,
    "kernel.se_length": 0.7,
    "kernel.sector_deg": (20.0, 150.0),
    "kernel.angular_spread_deg": 3.0,
    "kernel.constant_weight": 0.3,
    "kernel.residual_weight": 0.1,
    "algorithm.beta": 0.3,
    "algorithm.eta": 7.0,
    "algorithm.margin": 0.7,
    "algorithm.ridge": 0.3,
    "algorithm.search": "local",
    "algorithm.use_movement_cost": False,
    "algorithm.use_persistence": False,
    "algorithm.epsilon": 0.6,
    "algorithm.sweep_period": 60,
    "channel.blockage_db": 20.0,
    "channel.shadow_extent": 1.0,
    "channel.shadow_edge": 0.6,
    "drift.shadow_reversion": 0.1,
    "drift.shadow_step": 0.2,
    "drift.change_points": 3,
    "drift.change_angle_deg": 9.0,
    "drift.change_gain_retention": 0.1,
    "drift.angle_correlation": 0.9,
    "drift.angle_step_deg": 2.0,
    "drift.gain_correlation": 0.9,
}
"""Another value of each setting of policy, kernel and world that may have no effect."""
SMALL = {
    "physical__region_length": 1.2,
    "algorithm__grid_spacing": 0.06,
    "algorithm__sweep_period": 50,
    "algorithm__window": 30,
    "survey__samples": 15,
    "kernel__fringe_periods": "auto",
}
CHOICES: list[dict[str, Any]] = [
    {},
    {"algorithm__policy": "gp-ucb"},
    {"algorithm__policy": "epsilon-greedy"},
    {"algorithm__policy": "sweep-and-hold"},
    {"algorithm__policy": "fixed"},
    {"algorithm__policy": "tv-gp-ucb"},
    {"algorithm__policy": "wgp-ucb"},
    {"algorithm__policy": "et-gp-ucb"},
    {"algorithm__policy": "two-point"},
    {"algorithm__use_movement_cost": False},
    {"algorithm__use_persistence": False},
    {"kernel__name": "se"},
    {"kernel__name": "const-se"},
    {"kernel__name": "nonoscillatory"},
    {"kernel__fringe_periods": (4.0, 2.0, 1.0)},
    {"kernel__fringe_damping": "auto"},
    {"channel__scenario": "dense"},
    {"drift__model": "piecewise"},
]


def outcome(config: Config) -> list[float]:
    """A short run: where it stood, and what there was."""
    world = simulate_map(config, 3, 130)
    path = play(config, world).trajectory
    return [*path.position, *path.target, float(np.sum(world.reward))]


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_what_is_said_to_have_no_effect_has_none(paper: Config, choice: dict[str, Any]) -> None:
    config = paper.replace(**{**SMALL, **choice})
    before = outcome(config)
    idle = [key for key in without_effect(config) if key in OTHER]
    for key in idle:
        section, _, name = key.partition(".")
        if getattr(getattr(config, section), name) != OTHER[key]:
            changed = config.replace(**{f"{section}__{name}": OTHER[key]})
            assert outcome(changed) == before, key


def test_each_setting_has_an_effect_under_some_choice(paper: Config) -> None:
    always = set.intersection(
        *(set(without_effect(paper.replace(**{**SMALL, **choice}))) for choice in CHOICES)
    )
    assert not always & set(OTHER)


class TestCheck:
    def test_it_reports_what_was_set_to_no_effect(self, capsys: pytest.CaptureFixture[str]) -> None:
        words = ["--set", "algorithm.epsilon=0.3", "--set", "kernel.se_length=0.5"]
        assert main(["check", *words]) == 0
        printed = capsys.readouterr().out
        assert "algorithm.epsilon has no effect: algorithm.policy is moveucb" in printed
        assert "se_length" not in printed  # as in the preset

    def test_it_prints_fringes_damping_and_rank(self, capsys: pytest.CaptureFixture[str]) -> None:
        words = ["--preset", "lab-2g4-grbl", "--set", "kernel.angular_spread_deg=4"]
        assert main(["check", *words]) == 0
        printed = capsys.readouterr().out
        assert "4.159, 1.817, 1.045 wavelengths (from the sector)" in printed
        assert "1 wavelengths (from the angular spread)" in printed
        assert "numerical rank" in printed

    def test_the_preset_that_a_file_names_is_the_one_it_is_compared_with(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "bench.toml"
        path.write_text('preset = "lab-5g8-zaber"\n[stage]\nhoming_command = "all"\n')
        assert list(load_with_origins(path).without_effect()) == ["stage.homing_command"]
