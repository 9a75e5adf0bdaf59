"""Files and decisions from before the rooms became packages: they load and stay the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from macontrol.cli import main
from macontrol.config import Config, layers, load_config
from macontrol.controller.recording.runfile.reader import read_run
from macontrol.controller.recording.runfile.schema import FORMAT
from macontrol.controller.survey.file import NoSurvey, fresh_survey
from macontrol.sim.research.episode import play
from macontrol.sim.world.rewardmap import load_map, map_config

BEFORE = Path(__file__).parents[2] / "fixtures" / "before-packages"
FORMAT_4 = Path(__file__).parents[2] / "fixtures" / "run-file-4" / "lab-run.sqlite"
DECISIONS = np.load(BEFORE / "decisions.npz")
CASES: dict[str, dict[str, Any]] = json.loads(str(DECISIONS["cases"]))


@pytest.mark.parametrize("case", CASES)
def test_decisions_on_a_map_from_before_are_the_same(case: str) -> None:
    config = map_config(BEFORE / "map.npz")
    assert config is not None
    changed = config.replace(algorithm__policy=case.split()[0], **CASES[case])
    episode = play(changed, load_map(BEFORE / "map.npz", changed), seed=3)
    for name, found in (
        ("position", episode.trajectory.position),
        ("target", episode.trajectory.target),
        ("observed", episode.observed),
    ):
        np.testing.assert_array_equal(found, DECISIONS[f"{case}/{name}"])


@pytest.mark.parametrize(("name", "slots"), [("run", 300), ("lab-run", 200)])
def test_a_run_from_before_is_run_again_the_same(tmp_path: Path, name: str, slots: int) -> None:
    before = read_run(BEFORE / f"{name}.sqlite")
    options = {
        "run": ["--set", "run.seed=5"],
        "lab-run": [
            *("--preset", "lab-2g4-grbl", "--set", "algorithm.policy=gp-ucb"),
            *("--set", "reward.offset=none", "--set", "physical.actuation=fixed"),
        ],
    }[name]
    file = tmp_path / "run.sqlite"
    run = ["--backend", "sim", "--fast", "--slots", str(slots), "--run", str(file), *options]
    assert main([*run, "--log", "json"]) == 0
    after = read_run(file)
    assert len(after.slots["slot"]) == slots
    for column in ("slot", "position", "target", "next_position", "switched", "transit"):
        np.testing.assert_array_equal(after.slots[column], before.slots[column])
    # The channel is computed again: its last digits depend on the processor.
    np.testing.assert_allclose(after.slots["reward"], before.slots["reward"], rtol=1e-9)


def test_a_run_file_of_the_fourth_format_is_read_like_one_of_today(tmp_path: Path) -> None:
    """Today the usual values of the same run take no space."""
    run = ["--backend", "sim", "--preset", "lab-2g4-grbl", "--fast", "--slots", "60"]
    assert main([*run, "--run", str(tmp_path / "run.sqlite"), "--log", "json"]) == 0
    before, after = read_run(FORMAT_4), read_run(tmp_path / "run.sqlite")
    assert (before.format, after.format) == (4, FORMAT)
    assert FORMAT > 4
    assert before.slots.keys() == after.slots.keys()
    for name, values in before.slots.items():
        if values.dtype == np.float64:
            np.testing.assert_allclose(after.slots[name], values, rtol=1e-9, err_msg=name)
        else:
            np.testing.assert_array_equal(after.slots[name], values, err_msg=name)


def differences(config: Config, stored: dict[str, dict[str, Any]]) -> list[str]:
    """The settings whose value has changed, without the keys of other drivers."""
    found = []
    for section, table in stored.items():
        for key, value in table.items():
            now = getattr(getattr(config, section), key, None)
            as_json = list(now) if isinstance(now, tuple) else now
            is_gone = now is None and section in ("stage", "probe")
            if as_json != value and not is_gone:
                found.append(f"{section}.{key}: {value!r} is now {as_json!r}")
    return found


@pytest.mark.parametrize("name", ["lab", "zaber"])
def test_a_config_file_from_before_means_the_same(name: str) -> None:
    stored = json.loads((BEFORE / f"{name}.json").read_text())
    assert differences(load_config(BEFORE / f"{name}.toml"), stored) == []


@pytest.mark.parametrize("preset", ["lab-2g4-grbl", "lab-5g8-zaber", "paper"])
def test_a_preset_means_the_same(preset: str) -> None:
    stored = json.loads((BEFORE / f"preset-{preset}.json").read_text())
    assert differences(load_config(preset=preset), stored) == []


def test_the_config_of_a_run_file_from_before_means_the_same() -> None:
    stored = json.loads((BEFORE / "preset-lab-2g4-grbl.json").read_text())
    stored["algorithm"]["policy"] = "gp-ucb"
    config = read_run(BEFORE / "lab-run.sqlite").header.config
    assert differences(config, stored) == []


@pytest.fixture
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """No notice was printed before."""
    monkeypatch.setattr(layers, "_shown", set())


@pytest.mark.usefixtures("new_process")
def test_a_config_file_from_before_is_read_with_a_notice_of_the_new_spelling(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for _ in range(2):
        load_config(BEFORE / "zaber.toml")
    notices = capsys.readouterr().err.splitlines()
    file = BEFORE / "zaber.toml"
    assert notices == [
        f"macontrol: note: stage.device_address ({file}, line 4) is now stage.zaber.device_address",
        f"macontrol: note: stage.microstep_mm ({file}, line 5) is now stage.zaber.microstep_mm",
        f"macontrol: note: probe.soapy_arguments ({file}, line 9) is now probe.soapy.arguments",
    ]


@pytest.mark.usefixtures("new_process")
def test_a_run_file_and_a_map_from_before_are_read_with_one_notice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for _ in range(2):
        assert read_run(BEFORE / "lab-run.sqlite").header.config.algorithm.policy == "gp-ucb"
        assert map_config(BEFORE / "map.npz")
    (notice,) = capsys.readouterr().err.splitlines()
    assert "an earlier version" in notice


@pytest.mark.usefixtures("new_process")
def test_settings_in_the_present_spelling_are_read_without_a_notice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    load_config(preset="lab-5g8-zaber", assignments=["stage.zaber.axis=Y", "probe.gain_db=3"])
    Config.model_validate(load_config().model_dump())
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("spelling", ["stage.axis=Y", "stage.grbl.axis=Y"])
def test_a_setting_may_be_given_in_the_old_and_the_new_spelling(spelling: str) -> None:
    assert load_config(assignments=[spelling]) == load_config().replace(stage__axis="Y")


def test_a_survey_from_before_is_used_with_the_same_settings_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept, identity = BEFORE / "survey.npz", {"bench": "simulated"}
    walked_s = float(np.load(kept)["time"])
    monkeypatch.setattr("macontrol.controller.survey.file.time.time", lambda: walked_s + 60.0)
    assert not isinstance(fresh_survey(kept, load_config(), identity), NoSurvey)
    other = load_config(assignments=["stage.grbl.axis=Y"])
    assert isinstance(fresh_survey(kept, other, identity), NoSurvey)
