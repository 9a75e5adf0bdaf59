"""`macontrol config show`: every setting, with its origin."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from macontrol.cli import main
from macontrol.config import load_config, preset_names


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["config", "show", *words]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("preset", preset_names())
def test_what_it_prints_is_the_whole_config(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], preset: str
) -> None:
    file = tmp_path / "whole.toml"
    file.write_text(shown(capsys, "--preset", preset))
    assert load_config(file) == load_config(preset=preset)
    tables = load_config(preset=preset).model_dump(mode="json")
    assert tomllib.loads(file.read_text()) == tables


def test_each_value_has_its_origin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bench.toml"
    file.write_text('preset = "lab-2g4-grbl"\n[stage]\nport = "/dev/x"\n[stage.grbl]\naxis = "Y"\n')
    words = ["--config", str(file), "--set", "probe.gain_db=30", "--json"]
    settings = json.loads(shown(capsys, *words))
    origins = {path: each["origin"] for path, each in settings.items()}
    assert origins["stage.port"] == f"{file}, line 3"
    assert origins["stage.grbl.axis"] == f"{file}, line 5"
    assert origins["probe.gain_db"] == "--set probe.gain_db=30"
    assert origins["stage.settling_s"] == "preset lab-2g4-grbl"
    assert origins["algorithm.policy"] == "preset lab-2g4-grbl"
    assert origins["probe.driver"] == "preset paper"
    assert origins["reward.snr_db"] == "default"
    assert origins["stage.baud_rate"] == "default"
    assert settings["stage.grbl.axis"]["value"] == "Y"


def test_a_key_has_its_help_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = (x for x in shown(capsys).splitlines() if x.startswith("address ="))
    assert line.endswith("# default - HOST:PORT of the server")
