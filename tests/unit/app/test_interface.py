"""The Python interface: the promised names, maps, replays, simulated runs, run files as arrays."""

from __future__ import annotations

import gc
import inspect
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from math import nan
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import macontrol
from macontrol.cli import main
from macontrol.config.model.errors import (
    CommandRefusedError,
    ConfigError,
    DataError,
    PolicyError,
    UsageError,
)
from macontrol.controller.survey.samples import Survey
from macontrol.sim.research.episode import play
from macontrol.sim.research.oracle import oracle_value

CONFIG = macontrol.load_config()
WORLD = macontrol.simulate_map(CONFIG, seed=3, slots=400)


class BestOfSurvey:
    """Goes to the best position of the survey and stays there."""

    def __init__(self, inputs: macontrol.PolicyInputs) -> None:
        self._config = inputs.config
        self.start_position = inputs.start_position
        self.target = inputs.survey.best_position
        self.observed: list[int] = []

    def observe(self, slot: int, position: float, reward: float) -> None:
        self.observed.append(slot)

    def withdraw(self, slot: int) -> None: ...
    def resume(self, target: float) -> None: ...

    def decide(self, slot: int, position: float) -> macontrol.Decision:
        stroke = self._config.physical.rho_max
        ahead = self._config.grid.advance(position, self.target, stroke)
        return macontrol.Decision(self.target, ahead, slot == 1, ahead != self.target, nan)


class Leaping(BestOfSurvey):
    """Goes where it likes, further than a stroke."""

    destination = 5.9

    def decide(self, slot: int, position: float) -> macontrol.Decision:
        return macontrol.Decision(self.destination, self.destination, True, False, nan)


def own_policy() -> BestOfSurvey:
    survey = Survey(WORLD.survey_position, WORLD.survey_reward)
    return BestOfSurvey(macontrol.PolicyInputs(CONFIG, survey, 1))


@pytest.mark.parametrize("name", macontrol.__all__)
def test_every_promised_name_is_documented_and_typed(name: str) -> None:
    promised = getattr(macontrol, name)
    if name == "__version__":
        return
    assert name in dir(macontrol)
    assert len(inspect.getdoc(promised) or "") > 20
    assert not (promised.__doc__ or "").startswith(f"{name}(")  # made by dataclass
    functions = (
        [promised]
        if inspect.isfunction(promised)
        else [each for key, each in vars(promised).items() if key[0] != "_" and callable(each)]
    )
    for function in filter(inspect.isfunction, functions):
        signature = inspect.signature(function)
        assert signature.return_annotation is not signature.empty, function
        for parameter in signature.parameters.values():
            assert parameter.name == "self" or parameter.annotation is not parameter.empty
        assert inspect.getdoc(function), function


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = macontrol.no_such_name  # type: ignore[attr-defined]


def test_importing_macontrol_loads_nothing_else() -> None:
    code = "import sys, macontrol; print(*[m for m in sys.modules if m.split('.')[0] in %r])"
    watched = ("macontrol", "numpy", "pydantic", "matplotlib", "xarray")
    done = subprocess.run(
        [sys.executable, "-c", code % (watched,)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["macontrol"]


def test_a_replay_by_name_is_the_replay_of_the_command_line() -> None:
    config = CONFIG.replace(algorithm__policy="gp-ucb")
    expected = play(config, WORLD._world, seed=config.run.seed)
    found = macontrol.replay(WORLD, "gp-ucb")
    np.testing.assert_array_equal(found.position, expected.trajectory.position)
    np.testing.assert_array_equal(found.observed, expected.observed)
    optimum = float(oracle_value(WORLD.reward, config)[0])
    net = expected.net_reward(config.reward.movement_cost)
    assert found.regret_per_slot == pytest.approx((optimum - net) / 400, rel=1e-12)


def test_an_own_policy_is_taken_as_class_function_and_object() -> None:
    as_class = macontrol.replay(WORLD, BestOfSurvey)
    as_function = macontrol.replay(WORLD, lambda inputs: BestOfSurvey(inputs))
    policy = own_policy()
    as_object = macontrol.replay(WORLD, policy)
    assert as_class.policy == as_object.policy == "BestOfSurvey"
    assert policy.observed == [*range(1, 401)]
    for other in (as_function, as_object):
        np.testing.assert_array_equal(as_class.position, other.position)
    assert as_class.position[-1] == policy.target


@pytest.mark.parametrize("destination", [5.9, -0.01, nan])
def test_a_replay_refuses_what_the_guard_refuses(destination: float) -> None:
    class Wrong(Leaping):
        pass

    Wrong.destination = destination
    with pytest.raises(CommandRefusedError, match="slot 1"):
        macontrol.replay(WORLD, Wrong)


@pytest.mark.parametrize(
    "error", [ValueError("no idea"), SystemExit(0), ZeroDivisionError(), GeneratorExit()]
)
def test_a_policy_that_raises_ends_a_replay(error: BaseException) -> None:
    class Raising(BestOfSurvey):
        def decide(self, slot: int, position: float) -> macontrol.Decision:
            raise error

    with pytest.raises(PolicyError) as end:
        macontrol.replay(WORLD, Raising)
    assert type(error).__name__ in end.value.detail
    assert end.value.__cause__ is error


@pytest.mark.parametrize("wrong", [5, object(), [], object, int, lambda _: None, Leaping.decide])
def test_what_is_no_policy_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError):
        macontrol.replay(WORLD, wrong)
    with pytest.raises(ConfigError):
        macontrol.run_simulated(wrong, CONFIG, slots=2)


def test_a_policy_that_lacks_members_is_refused_with_their_names() -> None:
    class Half:
        start_position = 0.0

        def __init__(self, inputs: macontrol.PolicyInputs) -> None: ...

        def observe(self, slot: int, position: float, reward: float) -> None: ...

    half = cast("Callable[[macontrol.PolicyInputs], macontrol.Policy]", Half)
    with pytest.raises(ConfigError) as refusal:
        macontrol.replay(WORLD, half)
    assert refusal.value.detail.endswith("without decide, resume, withdraw")
    with pytest.raises(ConfigError):
        macontrol.run_simulated(half, CONFIG, slots=2)


def test_the_oracle_is_above_every_policy_and_within_reach() -> None:
    best = macontrol.oracle(WORLD)
    found = macontrol.replay(WORLD)
    assert best.net_reward_per_slot == pytest.approx(found.oracle_per_slot, rel=1e-12)
    assert best.net_reward_per_slot > found.net_reward_per_slot
    assert np.abs(np.diff(best.position)).max() <= CONFIG.physical.rho_max + 1e-9


@pytest.mark.parametrize("policy", ["moveucb", BestOfSurvey])
def test_the_loop_visits_the_positions_of_the_replay(policy: str) -> None:
    run = macontrol.run_simulated(policy, CONFIG, slots=400, seed=3)
    found = macontrol.replay(WORLD, policy)
    np.testing.assert_allclose(run["position"], found.position, atol=1e-9)
    assert run.policy == found.policy
    assert run.regret_per_slot() == pytest.approx(found.regret_per_slot, abs=1e-9)


def test_the_loop_runs_in_real_time() -> None:
    config = macontrol.load_config(preset="demo")
    run = macontrol.run_simulated("fixed", config, slots=5, fast=False)
    slot_s = config.physical.slot_duration_s
    np.testing.assert_allclose(np.diff(run["start_s"]) / np.diff(run["slot"]), slot_s)
    assert (run.time[-1] - run.time[0]) / np.timedelta64(1, "s") == pytest.approx(
        run["start_s"][-1] - run["start_s"][0], abs=1e-3
    )


def test_a_saved_map_is_the_same_map(tmp_path: Path) -> None:
    WORLD.save(tmp_path / "map.npz")
    found = macontrol.load_map(tmp_path / "map.npz")
    assert found.config == CONFIG
    assert (found.seed, found.slots) == (3, 400)
    for name in ("reward", "noise", "survey_position", "survey_reward", "positions"):
        np.testing.assert_array_equal(getattr(found, name), getattr(WORLD, name))


def test_a_map_is_made_from_rewards() -> None:
    peak = np.exp(-((CONFIG.grid.points - 4.0) ** 2))
    found = macontrol.make_map(np.tile(peak, (300, 1)), config=CONFIG)
    np.testing.assert_allclose(found.survey_reward, np.exp(-((found.survey_position - 4.0) ** 2)))
    assert found.noise.tolist() == [0.0] * 300
    assert macontrol.replay(found, BestOfSurvey).position[-1] == pytest.approx(4.0, abs=0.05)


class TestMapOfASite:
    AVAILABLE = np.ones(WORLD.reward.shape, bool)
    AVAILABLE[100:, 200:400] = False  # around x_0, for the rest

    def site(self) -> macontrol.Map:
        return macontrol.make_map(
            WORLD.reward,
            config=CONFIG,
            noise=WORLD.noise,
            survey_position=WORLD.survey_position,
            survey_reward=WORLD.survey_reward,
            available=self.AVAILABLE,
            unix_s=1.7e9 + 0.005 * np.arange(400),
        )

    def test_a_policy_observes_only_what_is_known(self) -> None:
        policy = own_policy()
        policy.target = policy.start_position
        found = macontrol.replay(self.site(), policy)
        assert policy.observed == [*range(1, 101)]
        assert np.isnan(found.reward).tolist() == [False] * 100 + [True] * 300
        assert (found.measured_share, found.unknown_share) == (0.25, 0.75)
        assert found.reward_per_slot == pytest.approx(WORLD.reward[:100, 300].mean())
        assert np.isnan([found.regret_per_slot, found.oracle_per_slot]).all()

    def test_the_oracle_refuses_it(self) -> None:
        with pytest.raises(macontrol.MacontrolError, match="known in "):
            macontrol.oracle(self.site())

    def test_it_is_saved_with_its_mask_and_its_times(self, tmp_path: Path) -> None:
        site = self.site()
        site.save(tmp_path / "map.npz")
        found = macontrol.load_map(tmp_path / "map.npz")
        np.testing.assert_array_equal(found.reward, site.reward)
        np.testing.assert_array_equal(found.available, self.AVAILABLE)
        np.testing.assert_array_equal(found.unix_s, site.unix_s)

    def test_it_needs_a_survey(self) -> None:
        with pytest.raises(DataError, match="no survey"):
            macontrol.make_map(WORLD.reward, config=CONFIG, available=self.AVAILABLE)

    def test_a_survey_file_gives_it(self, tmp_path: Path) -> None:
        words = ["survey", "--backend", "sim", "--preset", "lab-2g4-grbl", "--repeat", "3"]
        assert main([*words, "--out", str(tmp_path / "site.npz")]) == 0
        found = macontrol.recorded_map(tmp_path / "site.npz")
        assert found.available is not None
        assert found.config == macontrol.load_config(preset="lab-2g4-grbl")
        assert found.origin is not None
        assert found.origin["world"] == "site"
        best = macontrol.oracle(found)
        ours = macontrol.replay(found)
        assert ours.unknown_share == 0.0
        assert best.net_reward_per_slot == pytest.approx(ours.oracle_per_slot)
        assert len(best.position) == len(ours.position) < found.slots


@pytest.mark.parametrize(
    "reward", [np.ones((3, 7)), np.ones(601), np.full((3, 601), nan), np.empty((0, 601))]
)
def test_a_map_that_does_not_fit_is_refused(reward: np.ndarray[tuple[int, ...], np.dtype]) -> None:
    with pytest.raises(DataError, match="array reward "):
        macontrol.make_map(reward, config=CONFIG)


@pytest.mark.parametrize("reward", [[[1.0], [1.0, 2.0]], np.full((3, 601), "x"), "x", {}])
def test_what_are_no_numbers_is_refused(reward: Any) -> None:
    with pytest.raises(DataError):
        macontrol.make_map(reward, config=CONFIG)
    with pytest.raises(DataError):
        macontrol.make_map(WORLD.reward, config=CONFIG, survey_position=reward)


def test_a_damaged_map_is_closed(tmp_path: Path) -> None:
    WORLD.save(tmp_path / "map.npz")
    whole = (tmp_path / "map.npz").read_bytes()
    (tmp_path / "map.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError):
        macontrol.load_map(tmp_path / "map.npz")
    gc.collect()  # pytest reports the warning of a file that is still open


def test_a_map_without_config_needs_one(tmp_path: Path) -> None:
    WORLD._world.save(tmp_path / "map.npz")
    with pytest.raises(DataError, match="no config"):
        macontrol.load_map(tmp_path / "map.npz")
    assert macontrol.load_map(tmp_path / "map.npz", CONFIG).seed is None


def test_a_file_that_is_no_map_is_not_asked_for_its_config(tmp_path: Path) -> None:
    (tmp_path / "run.sqlite").write_text("no map")
    with pytest.raises(DataError, match="not an npz archive"):
        macontrol.load_map(tmp_path / "run.sqlite")


def test_what_a_run_lacks_is_nan_or_masked(tmp_path: Path) -> None:
    path = tmp_path / "run"
    macontrol.run_simulated("fixed", CONFIG, slots=6, run_file=path)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE slots SET on_time = NULL, reward = NULL WHERE slot = 2")
        database.execute("DELETE FROM slots WHERE slot = 4")
    database.close()
    run = macontrol.open_run(path)
    assert run["slot"].tolist() == [1, 2, 3, 5, 6]
    assert np.isnan(run["reward"]).tolist() == [False, True, False, False, False]
    assert run["on_time"].tolist() == [True, None, True, True, True]
    assert run.units["position"] == "wavelengths"
    assert "reported" in run.meanings["position"]

    pytest.importorskip("xarray", reason="the extra `notebook` is not installed")
    found = run.to_xarray()
    assert found.sizes["slot"] == 5
    np.testing.assert_array_equal(found["on_time"], [1.0, nan, 1.0, 1.0, 1.0])
    assert found["switched"].dtype == np.bool_
    assert found["position"].attrs["units"] == "wavelengths"
    assert found["reward"].sel(slot=3) == run["reward"][2]
    assert found.attrs["policy"] == "fixed"


def test_an_earlier_run_file_is_kept(tmp_path: Path) -> None:
    for slots in (2, 3):
        macontrol.run_simulated("fixed", CONFIG, slots=slots, run_file=tmp_path / "run")
    assert len(macontrol.open_run(tmp_path / "run")) == 3
    assert len(list(tmp_path.iterdir())) == 2


def test_wrong_requests_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for slots in (0, -1, 1.5, "3", nan):
        with pytest.raises(UsageError):
            macontrol.run_simulated(slots=slots)  # type: ignore[arg-type]
        with pytest.raises(UsageError):
            macontrol.simulate_map(slots=slots)  # type: ignore[arg-type]
    for seed in (-1, 1.5, "x", 1 << 70):
        with pytest.raises(ConfigError):
            macontrol.run_simulated(slots=2, seed=seed)  # type: ignore[arg-type]
        with pytest.raises(ConfigError):
            macontrol.simulate_map(slots=2, seed=seed)  # type: ignore[arg-type]
        with pytest.raises(ConfigError):
            macontrol.replay(WORLD, "fixed", seed=seed)  # type: ignore[arg-type]
    with pytest.raises(macontrol.MacontrolError):
        macontrol.replay(WORLD, "no-such-policy")
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(UsageError, match="xarray"):
        macontrol.run_simulated("fixed", CONFIG, slots=2).to_xarray()
