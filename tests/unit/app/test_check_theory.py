"""`check --theory` prints the constants that the paper's formulas give."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest

from macontrol.cli import main
from macontrol.commands.check_theory import theory_constants
from macontrol.config import Config
from macontrol.controller.survey.samples import Survey
from macontrol.sim.world.rewardmap import simulate_map
from support.paper_reference import covariance, grid_points, log_det_gain, posterior, survey_scale


@pytest.fixture(scope="module")
def config(paper: Config) -> Config:
    return paper.replace(
        physical__region_length=3.0,
        algorithm__grid_spacing=0.06,
        algorithm__window=12,
        survey__samples=20,
        run__horizon=300,
    )


def test_the_constants_are_those_of_the_paper(config: Config) -> None:
    world = simulate_map(config, config.run.seed, 300)
    x, r = world.survey_position, world.survey_reward
    found = theory_constants(config, Survey(x, r))

    k, points, ridge = covariance(config.kernel), grid_points(config), 0.1
    sigma_f2 = survey_scale(config, r)
    gram = sigma_f2 * k(x[:, None] - x[None, :])
    alpha = np.linalg.inv(gram + ridge * np.eye(20)) @ r
    norm = sqrt(alpha @ gram @ alpha)
    chosen: list[float] = []
    for _ in range(12):
        seen = np.array(chosen)
        _, variance = posterior(k, seen, 0 * seen, points, sigma_f2=sigma_f2, ridge=ridge)
        # Of equal variances the lowest position.
        chosen.append(float(points[np.argmax(variance >= (1 - 1e-10) * variance.max())]))
    gamma = log_det_gain(k, np.array(chosen), sigma_f2=sigma_f2, ridge=ridge)
    noise = 0.05 * 0.8 * np.log2(31)
    beta = norm + noise / sqrt(ridge) * sqrt(2 * (gamma + 1 + log(2 * 300 / 0.05)))
    c_0 = 3.0 * (0.3 + 2 * 0.8 * np.log2(31) / 0.06)
    variation = float(np.abs(world.reward[1:] - world.reward[:-1]).max(axis=1).sum())
    a = sqrt(sigma_f2) * ((beta * sqrt(sigma_f2) + noise) / ridge + beta / sqrt(ridge))
    movement = a * 300 * sqrt(gamma / 12) + (sigma_f2 / ridge * 12) ** 1.5 * variation

    assert found.norm_bound == pytest.approx(norm, rel=1e-6)
    assert found.noise_bound == pytest.approx(noise)
    assert found.gamma_w == pytest.approx(gamma, rel=1e-6)
    assert found.beta == pytest.approx(beta, rel=1e-6)
    assert found.c_0 == pytest.approx(c_0)
    assert found.variation == pytest.approx(variation)
    assert found.surface_movement == pytest.approx(movement, rel=1e-6)
    assert found.margin == pytest.approx(sqrt(c_0 * movement / 300), rel=1e-6)


def test_the_norm_of_a_kernel_function(paper: Config) -> None:
    """Without noise, and with many samples, ‖c·k(·, y)‖ = c·√k(y, y)."""
    x = np.linspace(0.0, 6.0, 400)
    reward = 2.0 * covariance(paper.kernel)(x - 3.0)
    config = paper.replace(algorithm__window=5, algorithm__ridge=1e-3)
    found = theory_constants(config, Survey(x, reward, 0.0))
    scale = float(np.var(reward, ddof=1))
    assert found.norm_bound == pytest.approx(2.0 / sqrt(scale), rel=0.02)


def test_the_command_prints_each_constant_with_its_meaning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", "--theory", "--set", "algorithm.window=20"]) == 0
    printed = capsys.readouterr().out
    for symbol in ("γ_w", "β", "C_0", "V_T", "S_T", "Δ", "Assumption 1", "Assumption 2"):
        assert symbol in printed
    assert "794.5" in printed  # C_0 at Table 1


def test_without_the_option_no_constant_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"]) == 0
    assert "γ_w" not in capsys.readouterr().out
