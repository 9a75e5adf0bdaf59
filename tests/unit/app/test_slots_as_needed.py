"""Actuation as needed, from the run to its file, reports, export, replay and regret.

Every figure is compared with a computation of its own, from positions and channel.
"""

from __future__ import annotations

import base64
import json
import sqlite3
from contextlib import closing
from math import sqrt
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

import macontrol
from macontrol.cli import main
from macontrol.commands.check_theory import theory_constants
from macontrol.config import Config, load_config
from macontrol.control.snapshot import Snapshots
from macontrol.controller.policies.description import PolicyInputs
from macontrol.controller.policies.moveucb.algorithm import MoveUCB, movement_price
from macontrol.controller.policies.policy import HasPosterior
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.recording.runfile.resume import Resume, find_resume
from macontrol.controller.survey.samples import Survey
from macontrol.dashboard.digest import digest
from macontrol.reports.estimate import Estimate, estimate_at
from macontrol.reports.recorded import read_recorded
from macontrol.reports.run_report import reference_of, report
from macontrol.sim.world.channel import Channel
from macontrol.sim.world.rewardmap import load_map

Floats = NDArray[np.float64]

SEED, SLOTS, LATENCY_S = 3, 400, 2e-4
SET = ["physical.actuation=as-needed", f"physical.command_latency_s={LATENCY_S}"]
SET += ["physical.acceleration_m_per_s2=8000", "physical.stroke=0.04", "algorithm.window=120"]
CONFIG = load_config(assignments=[*SET, f"run.seed={SEED}"])


def time_s(distance: float) -> float:
    """Latency and a trapezoid of 8000 m/s² and 0.6 m/s; full speed needs 45 µm."""
    metres = distance * 299_792_458.0 / 30e9
    if metres < 1e-12:
        return 0.0
    if metres <= 0.6**2 / 8000:
        return LATENCY_S + 2 * sqrt(metres / 8000)
    return LATENCY_S + metres / 0.6 + 0.6 / 8000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run") / "run.sqlite"
    macontrol.run_simulated("moveucb", CONFIG, slots=SLOTS, seed=SEED, run_file=path)
    return path


@pytest.fixture(scope="module")
def run(path: Path) -> macontrol.Run:
    return macontrol.open_run(path)


@pytest.fixture(scope="module")
def share(run: macontrol.Run) -> Floats:
    steps = np.abs(np.diff(run["position"], prepend=run["position"][0]))
    return np.array([1 - time_s(step) / 5e-3 for step in steps.tolist()])


def last_s(path: Path) -> float:
    """The time of the last slot (s since 1970)."""
    moment = macontrol.open_run(path).time[-1] - np.datetime64(0, "s")
    return float(moment / np.timedelta64(1, "s")) + 0.01


def holding(config: Config, positions: Floats, *, noise: bool) -> Floats:
    """log2(1 + SNR) of a link that transmits in the whole slot, with the noise of the slot."""
    channel, found = Channel(config, SEED), np.empty(len(positions))
    for row, x in enumerate(positions.tolist()):
        channel.advance()
        h = channel.field(x)
        found[row] = np.log2(1 + config.reward.snr * abs(h) ** 2) + noise * channel.noise
    return found


def test_the_record_has_the_share_and_the_reward_that_it_leaves(
    run: macontrol.Run, share: Floats
) -> None:
    assert 0 < np.count_nonzero(share < 1) < SLOTS
    np.testing.assert_allclose(run["transmission_share"], share, atol=1e-9)
    rate = holding(CONFIG, run["position"], noise=True)
    np.testing.assert_allclose(run["reward"], share * rate, atol=1e-9)
    np.testing.assert_allclose(run["uncertainty"], share * CONFIG.noise_std, atol=1e-9)


def test_replay_and_regret_are_those_of_the_run(run: macontrol.Run, share: Floats) -> None:
    world = macontrol.simulate_map(CONFIG, seed=SEED, slots=SLOTS)
    found = macontrol.replay(world, "moveucb")
    np.testing.assert_allclose(run["position"], found.position, atol=1e-9)
    np.testing.assert_allclose(run["reward"], found.observed, atol=1e-9)
    rate = holding(CONFIG, run["position"], noise=False)
    np.testing.assert_allclose(found.reward, share * rate, atol=1e-9)
    travel = float(np.abs(np.diff(run["position"])).sum())
    net = float((share * rate).sum()) - CONFIG.reward.movement_cost * travel
    best = macontrol.oracle(world)
    assert found.regret_per_slot == pytest.approx(best.net_reward_per_slot - net / SLOTS)
    assert run.regret_per_slot() == pytest.approx(found.regret_per_slot)
    steps = np.abs(np.diff(best.position, prepend=CONFIG.physical.x_0))
    shares = np.array([1 - time_s(step) / 5e-3 for step in steps.tolist()])
    rate = holding(CONFIG, best.position, noise=False)
    np.testing.assert_allclose(best.reward, shares * rate, atol=1e-9)
    paid = float(best.reward.sum()) - CONFIG.reward.movement_cost * float(steps.sum())
    assert best.net_reward_per_slot == pytest.approx(paid / SLOTS)


def test_an_exported_map_replays_the_run(path: Path, tmp_path: Path, run: macontrol.Run) -> None:
    out, csv = tmp_path / "map.npz", tmp_path / "rows.csv"
    assert main(["export", str(path), "--format", "map", "--out", str(out)]) == 0
    assert main(["replay", str(out), "--csv", str(csv)]) == 0
    rows = np.genfromtxt(csv, delimiter=",", names=True)
    np.testing.assert_allclose(rows["position"], run["position"], atol=1e-9)
    np.testing.assert_allclose(rows["reward"], run["reward"], atol=1e-9)


def test_the_export_agrees_with_the_world(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(path), "--format", "map", "--out", str(tmp_path / "m.npz")]) == 0
    assert "differ" not in capsys.readouterr().err


def test_a_resumed_run_gets_the_rewards_that_the_policy_learned(
    path: Path, run: macontrol.Run
) -> None:
    found = find_resume(path, run.config, last_s(path), backend="sim")
    assert isinstance(found, Resume)
    learned = holding(CONFIG, run["position"], noise=True)[-120:]
    np.testing.assert_allclose([sample.reward for sample in found.samples], learned, atol=1e-9)


def test_the_posterior_of_a_report_is_that_of_the_run(path: Path) -> None:
    recorded = read_recorded(path)
    learned = holding(CONFIG, recorded.run["position"], noise=True)
    np.testing.assert_allclose(recorded.learned, learned, atol=1e-9)
    for row in (5, 150, SLOTS - 1):
        estimate = estimate_at(recorded, row)
        assert isinstance(estimate, Estimate)
        assert estimate.agrees


def test_the_report_compares_with_an_antenna_that_holds(
    path: Path, run: macontrol.Run, share: Floats
) -> None:
    recorded = read_recorded(path)
    world = reference_of(recorded).world
    assert world is not None
    rate = holding(CONFIG, run["position"], noise=False)
    assert world.mean_earned == pytest.approx(float((share * rate).mean()))
    still = holding(CONFIG, np.full(SLOTS, CONFIG.physical.x_0), noise=False)
    assert world.mean_fixed == pytest.approx(float(still.mean()))
    assert f"the link transmits {share.mean():.0%} of the time" in report(recorded)


def test_the_dashboard_shows_the_posterior_of_the_run(path: Path, share: Floats) -> None:
    found = digest(path)
    assert found["facts"]["actuation_s"] == pytest.approx(5e-3 * (1 - share.mean()))
    world = macontrol.simulate_map(CONFIG, seed=SEED, slots=SLOTS)
    survey = Survey(world.survey_position, world.survey_reward)
    policy = make_policy(CONFIG, survey)
    assert isinstance(policy, HasPosterior)
    run = macontrol.open_run(path)
    for slot, x, reward in zip(
        range(1, SLOTS + 1),
        run["position"],
        holding(CONFIG, run["position"], noise=True),
        strict=True,
    ):
        policy.observe(slot, float(x), float(reward))
    frames = found["frames"]
    points = np.linspace(0, 600, len(frames["points"])).round().astype(int)
    mean = np.frombuffer(base64.b64decode(frames["mean"]), "<i2").reshape(-1, len(points))[-1]
    np.testing.assert_allclose(mean / 1000, policy.posterior.mean[points], atol=6e-4)


def test_the_summary_compares_with_an_antenna_that_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], run: macontrol.Run, share: Floats
) -> None:
    words = ["--backend", "sim", "--fast", "--slots", str(SLOTS), "--seed", str(SEED), "--regret"]
    words += [f"--set={word}" for word in SET]
    assert main([*words, "--run", str(tmp_path / "run.sqlite"), "--log", "json"]) == 0
    out = capsys.readouterr()
    events = [json.loads(line) for line in (out.out + out.err).splitlines() if line[:1] == "{"]
    (summary,) = [event for event in events if event["event"] == "summary"]
    rate = holding(CONFIG, run["position"], noise=False)
    still = holding(CONFIG, np.full(SLOTS, CONFIG.physical.x_0), noise=False)
    gain = float((share * rate).mean() / still.mean()) - 1
    assert summary["gain_over_fixed"] == pytest.approx(gain)
    assert summary["fixed_antenna_reward"] == pytest.approx(float(still.mean()))
    assert summary["regret_per_slot"] == pytest.approx(run.regret_per_slot())
    assert summary["transmission_share"] == pytest.approx(float(share.mean()))


class TestMaps:
    """A map has the rewards of a holding antenna of its config."""

    def test_a_map_is_converted_to_the_other_setting(self, tmp_path: Path) -> None:
        fixed = CONFIG.replace(physical__actuation="fixed")
        for made, wanted in ((fixed, CONFIG), (CONFIG, fixed)):
            file = tmp_path / f"{made.physical.actuation}.npz"
            macontrol.simulate_map(made, seed=SEED, slots=20).save(file)
            found, direct = (
                load_map(file, wanted),
                macontrol.simulate_map(wanted, seed=SEED, slots=20),
            )
            for name in ("reward", "noise", "survey_position", "survey_reward"):
                np.testing.assert_allclose(getattr(found, name), getattr(direct, name), rtol=1e-12)

    def test_with_its_own_setting_it_is_the_same_to_the_bit(self, tmp_path: Path) -> None:
        file, made = tmp_path / "map.npz", macontrol.simulate_map(CONFIG, seed=SEED, slots=20)
        made.save(file)
        assert (load_map(file, CONFIG).reward == made.reward).all()
        assert (load_map(file, CONFIG).survey_reward == made.survey_reward).all()


def test_the_price_of_a_way_has_the_rate_that_it_loses() -> None:
    world = macontrol.simulate_map(CONFIG, seed=SEED, slots=5)
    survey = Survey(world.survey_position, world.survey_reward)
    stroke = CONFIG.physical.rho_max
    lost = time_s(stroke) / 5e-3 * world.survey_reward.mean() / stroke
    inputs = PolicyInputs(CONFIG, survey, 0)
    assert inputs.movement_cost == pytest.approx(CONFIG.reward.movement_cost + lost)
    policy = make_policy(CONFIG, survey)
    assert isinstance(policy, MoveUCB)
    price = movement_price(
        CONFIG.reward.movement_cost + lost,
        eta=CONFIG.algorithm.eta,
        sigma_f=survey.sigma_f2(CONFIG) ** 0.5,
        rho_max=stroke,
        window=120,
    )
    assert policy._price == pytest.approx(price)
    fixed = PolicyInputs(CONFIG.replace(physical__actuation="fixed"), survey, 0)
    assert fixed.movement_cost == CONFIG.reward.movement_cost


def test_check_prints_what_a_slot_spends(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["check", "--preset", "lab-2g4-grbl", "--set", "physical.actuation="]
    assert main([*words[:-1], words[-1] + "as-needed"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "moves as needed" in text
    assert "hold 0 ms (100% left)" in text
    assert main([*words[:-1], words[-1] + "fixed"]) == 0
    assert "moves as needed" not in capsys.readouterr().out


def test_a_file_of_before_has_no_share(path: Path, tmp_path: Path) -> None:
    """A file of format 2 is of fixed actuation: its rewards are those that the policy learned."""
    old = tmp_path / "old.sqlite"
    config = CONFIG.replace(physical__actuation="fixed")
    macontrol.run_simulated("moveucb", config, slots=50, seed=SEED, run_file=old)
    with closing(sqlite3.connect(old)) as file:
        file.execute("ALTER TABLE slots DROP COLUMN transmission_share")
        file.execute("PRAGMA user_version = 2")
        file.commit()
    recorded = read_recorded(old)
    assert np.isnan(recorded.run["transmission_share"]).all()
    assert (recorded.learned == recorded.run["reward"]).all()
    assert reference_of(recorded).world is not None
    found = find_resume(old, recorded.config, last_s(old), backend="sim")
    assert isinstance(found, Resume)
    assert [sample.reward for sample in found.samples] == recorded.run["reward"].tolist()
    assert digest(old)["frames"] is not None


def test_a_switch_costs_the_slot_of_its_arrival_too() -> None:
    world = macontrol.simulate_map(CONFIG, seed=SEED, slots=5)
    survey = Survey(world.survey_position, world.survey_reward)
    config = CONFIG.replace(run__horizon=50)
    g_max = np.log2(1 + 10 * 3)
    c_0 = 6 * (config.reward.movement_cost + 2 * g_max / 0.04) + time_s(0.04) / 5e-3 * g_max
    assert theory_constants(config, survey).c_0 == pytest.approx(c_0)


def test_the_snapshot_has_the_time_of_the_newest_move(run: macontrol.Run, share: Floats) -> None:
    """`spent_s` of the control socket, for the slot budget of the dashboard."""
    for row in (0, int(np.argmin(share))):
        last = SimpleNamespace(transmission_share=float(run["transmission_share"][row]))
        live = SimpleNamespace(config=CONFIG, last=last)
        spent_s = Snapshots._spent_s(cast(Any, SimpleNamespace(_run=live)))
        assert spent_s == pytest.approx(5e-3 * (1 - share[row]))
    live = SimpleNamespace(config=CONFIG, last=None)
    assert Snapshots._spent_s(cast(Any, SimpleNamespace(_run=live))) == 0.0
