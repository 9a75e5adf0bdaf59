"""Reward maps: simulated reproducibly, written completely, and read only if they fit."""

import json
import re
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from macontrol.config import Config, load_config
from macontrol.config.model.errors import DataError, InputOutputError, NoInputError
from macontrol.controller.survey.file import save_survey
from macontrol.controller.survey.samples import Survey
from macontrol.sim.world.rewardmap import (
    RewardMap,
    cumulative_variation,
    load_map,
    simulate_map,
    variation_budget,
)

ARRAYS = ("reward", "noise", "survey_position", "survey_reward")


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config().replace(algorithm__grid_spacing=0.06, survey__samples=10)


@pytest.fixture(scope="module")
def rewards(config: Config) -> RewardMap:
    return simulate_map(config, seed=5, slots=40)


def arrays_of(rewards: RewardMap) -> dict[str, NDArray[np.generic]]:
    return {name: getattr(rewards, name) for name in ARRAYS}


def assert_same_bits(a: RewardMap, b: RewardMap) -> None:
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def test_a_seed_makes_one_map(config: Config, rewards: RewardMap) -> None:
    assert_same_bits(rewards, simulate_map(config, seed=5, slots=40))
    other = simulate_map(config, seed=6, slots=40)
    for name in ("reward", "noise", "survey_reward"):
        assert not np.isclose(getattr(rewards, name), getattr(other, name)).all()


def test_a_map_has_the_shape_of_the_run(config: Config, rewards: RewardMap) -> None:
    assert rewards.reward.shape == (40, config.grid_size)
    assert rewards.noise.shape == (40,)
    assert rewards.slots == 40
    assert rewards.survey_position.shape == rewards.survey_reward.shape == (10,)
    with pytest.raises(ValueError, match="at least one slot"):
        simulate_map(config, seed=5, slots=0)


def test_noise_has_the_level_of_the_config(config: Config) -> None:
    noise = simulate_map(config, seed=5, slots=4000).noise
    assert noise.std() == pytest.approx(0.05 * config.g_max, rel=0.05)


@pytest.mark.parametrize("name", ["map.npz", "map", "map.dat"])
def test_a_saved_map_is_read_again_under_its_name(
    config: Config, rewards: RewardMap, tmp_path: Path, name: str
) -> None:
    rewards.save(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert_same_bits(load_map(tmp_path / name, config), rewards)


def test_saved_map_keeps_its_origin(config: Config, rewards: RewardMap, tmp_path: Path) -> None:
    rewards.save(tmp_path / "map.npz", seed=5, config=config)
    with np.load(tmp_path / "map.npz", allow_pickle=False) as archive:
        assert int(archive["seed"]) == 5
        assert Config.model_validate(json.loads(str(archive["config"]))) == config
    assert_same_bits(load_map(tmp_path / "map.npz", config), rewards)


def test_saving_replaces_a_map_and_leaves_the_usual_permissions(
    rewards: RewardMap, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    (tmp_path / "map.npz").write_text("something older")
    rewards.save(tmp_path / "map.npz")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["map.npz", "plain"]
    assert stat.S_IMODE((tmp_path / "map.npz").stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_failed_save_leaves_the_older_map_and_no_debris(
    rewards: RewardMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "map.npz"
    target.write_text("something older")

    def disk_full(file: object, **_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", disk_full)
    with pytest.raises(InputOutputError, match="No space left"):
        rewards.save(target)
    assert target.read_text() == "something older"
    assert list(tmp_path.iterdir()) == [target]


def test_interrupted_save_leaves_no_debris(
    rewards: RewardMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(file: object, **_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", interrupt)
    with pytest.raises(KeyboardInterrupt):
        rewards.save(tmp_path / "map.npz")
    assert list(tmp_path.iterdir()) == []


def test_saving_to_an_impossible_path_is_refused(rewards: RewardMap, tmp_path: Path) -> None:
    with pytest.raises(InputOutputError, match=r"there is no folder .*nowhere"):
        rewards.save(tmp_path / "nowhere" / "map.npz")
    (tmp_path / "file").touch()
    with pytest.raises(InputOutputError, match="Not a directory"):
        rewards.save(tmp_path / "file" / "map.npz")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputOutputError, match=r"folder: the reward map was not written"):
        rewards.save(tmp_path / "folder")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_a_recorded_map_may_have_other_number_types(
    config: Config, rewards: RewardMap, tmp_path: Path
) -> None:
    arrays = arrays_of(rewards) | {"noise": np.zeros(40, dtype=np.int32)}
    arrays["reward"] = rewards.reward.astype(np.float32)
    np.savez_compressed(tmp_path / "map.npz", allow_pickle=False, **arrays)
    loaded = load_map(tmp_path / "map.npz", config)
    assert {getattr(loaded, name).dtype for name in ARRAYS} == {np.dtype(np.float64)}


def test_survey_positions_may_miss_the_ends_by_rounding(
    config: Config, rewards: RewardMap, tmp_path: Path
) -> None:
    arrays = arrays_of(rewards) | {"survey_position": np.linspace(-1e-12, 6 + 1e-12, 10)}
    np.savez(tmp_path / "map.npz", allow_pickle=False, **arrays)
    position = load_map(tmp_path / "map.npz", config).survey_position
    assert (position.min(), position.max()) == (0.0, 6.0)


NOT_FINITE = np.ones((40, 101))
NOT_FINITE[3, 7] = np.nan
INFINITE = np.zeros(40)
INFINITE[12] = np.inf


@pytest.mark.parametrize(
    ("name", "array", "reason"),
    [
        ("reward", np.ones(101), r"has 1 dimensions; it must have 2"),
        ("reward", np.ones((40, 101, 1)), r"has 3 dimensions; it must have 2"),
        ("noise", np.ones((40, 1)), r"has 2 dimensions; it must have 1"),
        ("survey_position", np.array(1.0), r"has 0 dimensions; it must have 1"),
        ("noise", np.ones(39), r"has 39 slots, and reward has 40; .*one value per slot"),
        (
            "reward",
            np.ones((40, 100)),
            r"has 100 positions per slot, .* 101, .*= 0.06; ",
        ),
        ("reward", np.ones((0, 101)), r"is empty.*\(0, 101\).*at least one"),
        ("noise", np.ones(0), r"is empty"),
        ("reward", NOT_FINITE, r"1 values that are not finite, the first at \[3, 7\]; every"),
        ("noise", INFINITE, r"not finite, the first at \[12\]"),
        ("survey_reward", np.full(10, np.nan), r"10 values that are not finite"),
        ("reward", np.full((40, 101), "x"), r"has the type <U1; store it as float64"),
        ("noise", np.ones(40, dtype=complex), r"has the type complex128"),
        ("noise", np.ones(40, dtype=bool), r"has the type bool"),
        ("survey_reward", np.ones(9), r"has 9 samples, and survey_position has 10"),
        ("survey_position", np.ones(1), r"has 1 sample; .*at least 2"),
        ("survey_position", np.linspace(0, 6.1, 10), r"has 6.1 at \[9\], which is off .*\[0, 6\]"),
        ("survey_position", np.linspace(-1, 6, 10), r"has -1 at \[0\], which is off the rail"),
    ],
)
def test_unfit_array_is_refused_by_name(
    config: Config,
    rewards: RewardMap,
    tmp_path: Path,
    name: str,
    array: NDArray[np.generic],
    reason: str,
) -> None:
    path = tmp_path / "map.npz"
    np.savez(path, allow_pickle=False, **(arrays_of(rewards) | {name: array}))
    with pytest.raises(DataError, match=f"{re.escape(str(path))}: array {name} .*{reason}"):
        load_map(path, config)


@pytest.mark.parametrize("name", ARRAYS)
def test_missing_array_is_refused_by_name(
    config: Config, rewards: RewardMap, tmp_path: Path, name: str
) -> None:
    path = tmp_path / "map.npz"
    arrays = arrays_of(rewards)
    del arrays[name]
    np.savez(path, allow_pickle=False, **arrays)
    with pytest.raises(DataError, match=rf"map\.npz: has no array {name}; .*npz archive with"):
        load_map(path, config)


def test_pickled_objects_are_refused_unread(
    config: Config, rewards: RewardMap, tmp_path: Path
) -> None:
    path = tmp_path / "map.npz"
    bomb = np.array([Detonator()], dtype=object)
    np.savez(path, allow_pickle=True, **(arrays_of(rewards) | {"noise": bomb}))
    with pytest.raises(DataError, match="array noise cannot be read as plain numbers"):
        load_map(path, config)


class Detonator:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return pytest.fail, ("a pickle was executed",)


def test_a_damaged_archive_is_refused(config: Config, rewards: RewardMap, tmp_path: Path) -> None:
    whole = tmp_path / "whole.npz"
    rewards.save(whole)
    content = whole.read_bytes()
    scratched = bytearray(content)
    scratched[len(content) // 4] ^= 0xFF
    cases = {
        "text": b"not an archive at all",
        "empty": b"",
        "cut": content[: len(content) // 2],
        "headless": content[20:],
        "scratched": bytes(scratched),
    }
    for name, damaged in cases.items():
        path = tmp_path / name
        path.write_bytes(damaged)
        with pytest.raises(
            DataError, match=rf"{name}: .*(cannot be read|is not an npz).*npz archive with"
        ) as refusal:
            load_map(path, config)
        assert "pickle" not in str(refusal.value), "numpy's advice is not for our users"


class TestKnownInPart:
    @pytest.fixture
    def site(self, rewards: RewardMap) -> RewardMap:
        available = np.zeros(rewards.reward.shape, bool)
        available[:, 3:60] = True
        return replace(
            rewards,
            reward=np.where(available, rewards.reward, np.nan),
            available=available,
            unix_s=np.linspace(1.7e9, 1.7e9 + 10, 40),
            span=(5, 30),
        )

    def test_a_saved_map_is_read_again(
        self, config: Config, site: RewardMap, tmp_path: Path
    ) -> None:
        site.save(tmp_path / "map.npz")
        found = load_map(tmp_path / "map.npz", config)
        assert_same_bits(found, site)
        np.testing.assert_array_equal(found.available, site.available)
        np.testing.assert_array_equal(found.unix_s, site.unix_s)
        assert found.span == (5, 30)

    def test_what_the_mask_hides_does_not_count(
        self, config: Config, site: RewardMap, rewards: RewardMap, tmp_path: Path
    ) -> None:
        replace(site, reward=rewards.reward).save(tmp_path / "map.npz")
        assert_same_bits(load_map(tmp_path / "map.npz", config), site)

    def test_a_mask_that_hides_nothing_is_none(
        self, config: Config, rewards: RewardMap, tmp_path: Path
    ) -> None:
        replace(rewards, available=np.ones(rewards.reward.shape, bool)).save(tmp_path / "map.npz")
        assert load_map(tmp_path / "map.npz", config).available is None

    @pytest.mark.parametrize(
        ("name", "array"),
        [
            ("available", np.ones((40, 101))),
            ("available", np.ones((40, 7), bool)),
            ("available", np.zeros((40, 101), bool)),
            ("reward", np.full((40, 101), np.nan)),
            ("unix_s", np.arange(39.0)),
            ("unix_s", np.zeros(40)),
            ("unix_s", np.full(40, np.nan)),
            ("unix_s", np.arange(40.0)[::-1]),
            ("span", np.array([0.0, 3.0])),
            ("span", np.array([3, 3])),
            ("span", np.array([-1, 3])),
            ("span", np.array([0, 41])),
            ("span", np.array(3)),
        ],
    )
    def test_a_damaged_array_is_named(
        self,
        config: Config,
        site: RewardMap,
        tmp_path: Path,
        name: str,
        array: NDArray[np.generic],
    ) -> None:
        site.save(tmp_path / "good.npz")
        with np.load(tmp_path / "good.npz") as good:
            np.savez(tmp_path / "map.npz", **{**good, name: array})
        with pytest.raises(DataError, match=f"array {name} "):
            load_map(tmp_path / "map.npz", config)


def test_a_survey_is_refused_as_a_map(config: Config, tmp_path: Path) -> None:
    walked = Survey(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    save_survey(tmp_path / "rail.npz", config, walked, {})
    with pytest.raises(DataError, match=r"rail\.npz: is a survey"):
        load_map(tmp_path / "rail.npz", config)


def test_a_missing_file_is_refused(config: Config, tmp_path: Path) -> None:
    with pytest.raises(NoInputError):
        load_map(tmp_path / "absent.npz", config)
    with pytest.raises(DataError, match="is a folder"):
        load_map(tmp_path, config)


def test_a_single_array_is_refused(config: Config, rewards: RewardMap, tmp_path: Path) -> None:
    np.save(tmp_path / "map.npy", rewards.reward)
    with pytest.raises(DataError, match="is a single array"):
        load_map(tmp_path / "map.npy", config)


@pytest.mark.parametrize("slots", [1, 2, 512, 513, 514, 1300])
def test_variation_is_the_sum_of_the_largest_changes(slots: int) -> None:
    reward = np.random.default_rng(slots).random((slots, 4))
    expected = [0.0]
    for t in range(1, slots):
        expected.append(expected[-1] + max(abs(reward[t, i] - reward[t - 1, i]) for i in range(4)))
    np.testing.assert_allclose(cumulative_variation(reward), expected, rtol=1e-12)
    assert variation_budget(reward) == pytest.approx(expected[-1])


def test_variation_rate_of_the_paper() -> None:
    paper = load_config()
    rates = [variation_budget(simulate_map(paper, seed, 3000).reward) / 3000 for seed in range(6)]
    assert 0.08 < np.mean(rates) < 0.13
