"""Plug-ins of other distributions and `module:Name`: found, checked, shown, or refused."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from macontrol.config import Config, load_config, load_with_origins
from macontrol.config.loading import stored_config
from macontrol.config.model.errors import ConfigError

POLICY = """
from math import nan
from threading import Event, Thread
from macontrol.config.sections.section import Section
from macontrol.controller.policies.description import PolicyDescription
from macontrol.controller.policies.policy import Decision

class Still:
    "stay"
    class Settings(Section):
        gain: float = 2.0
        "how much"
    def __init__(self, inputs):
        self.start_position = inputs.start_position
        self.gain = inputs.settings.gain
    def resume(self, target): ...
    def observe(self, slot, position, reward): ...
    def withdraw(self, slot): ...
    def decide(self, slot, position):
        return Decision(position, position, False, False, nan)

class Half:
    def __init__(self, inputs):
        self.start_position = 0.0
    def observe(self, slot, position, reward): ...

class Away(Still):
    def __init__(self, inputs):
        self.start_position = 1e9

class Fails:
    def __init__(self, inputs):
        raise KeyError("no idea")

class Lingers(Still):
    def __init__(self, inputs):
        super().__init__(inputs)
        Thread(target=Event().wait, name="logger of a lab").start()

class Exits(Still):
    margin = 0.0
    @property
    def surface(self):
        raise SystemExit(0)

class Clash(Still):
    class Settings(Section):
        beta: float = 1.0

NAMED = PolicyDescription("fixed", "another", Still)
"""

DRIVERS = """
from dataclasses import replace
from typing import Literal
from macontrol.config.sections.probe import ProbeSettings
from macontrol.config.sections.stage import StageSettings
from macontrol.hal.registry import ProbeDriver, StageDriver

class LabStage(StageSettings):
    driver: Literal["lab-stage"] = "lab-stage"
    gain: float = 2.0
    "how much"

class LabProbe(ProbeSettings):
    driver: Literal["lab-probe"] = "lab-probe"
    gain: float = 2.0
    "how much"

class Half:
    def __init__(self, *arguments, **options): ...

class Raises:
    def __init__(self, *arguments, **options):
        raise KeyError("no idea")

STAGE = StageDriver("lab-stage", "l", LabStage, "lab_drivers:Half", "lab_drivers:Half", "paper")
PROBE = ProbeDriver("lab-probe", "l", LabProbe, "lab_drivers:Half", "x", lambda text: None, "r")
def named(name):
    class Settings(LabProbe):
        driver: Literal[name] = name
    return lambda: replace(PROBE, name=name, settings=Settings)

class Odd(LabProbe):
    model_config = {"arbitrary_types_allowed": True}
    thing: object = object()

class Endless(LabProbe):
    limit: float = float("inf")

MADE = {
    "SPACE": named("my probe"), "QUOTE": named('a"b'), "DOT": named("a.b"), "EMPTY": named(""),
    "LINES": named("a\\nb"), "KEY": named("noise_floor"), "CHOOSER": named("driver"),
    "ODD": lambda: replace(PROBE, settings=Odd),
    "ENDLESS": lambda: replace(PROBE, settings=Endless),
}

def __getattr__(name):
    if name in MADE:
        return MADE[name]()
    raise AttributeError(name)

STAGE_RAISES = replace(STAGE, stage="lab_drivers:Raises")
PROBE_RAISES = replace(PROBE, probe="lab_drivers:Raises")
STAGE_EMULATOR = replace(STAGE, emulator="no_such_module:X")
PROBE_EMULATOR = replace(PROBE, emulator="lab_drivers:Raises")
"""


def distribution(site: Path, name: str, entries: str, version: str = "1.0") -> None:
    facts = site / f"{name}-{version}.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (facts / "entry_points.txt").write_text(entries)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("site")
    (site / "lab_policy.py").write_text(POLICY)
    (site / "lab_drivers.py").write_text(DRIVERS)
    (site / "exits.py").write_text("raise SystemExit(3)\n")
    distribution(
        site,
        "lab-policies",
        "[macontrol.policies]\nstill = lab_policy:Still\nfixed = lab_policy:Still\n"
        "twice = lab_policy:Still\nexits = exits:X\nwrong = math:pi\n"
        "[macontrol.stages]\nwrong-stage = lab_policy:Still\n"
        "[macontrol.probes]\nmissing = no_such_module:X\n",
    )
    distribution(site, "other-lab", "[macontrol.policies]\ntwice = lab_policy:Half\n", "2.0")
    return site


def macontrol(
    site: Path, *words: str, path: Path | None = None, code: int = 0, cwd: Path | None = None
) -> tuple[str, str]:
    done = subprocess.run(
        # As the console script does: the current folder is not at the start of the path.
        [
            sys.executable,
            "-c",
            "import sys; sys.path.pop(0)\nfrom macontrol.cli import main\nsys.exit(main())",
            *words,
        ],
        cwd=cwd or site,
        env={**os.environ, "PYTHONPATH": str(path or "")},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


class TestReference:
    @pytest.fixture(autouse=True)
    def _module(self, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "path", [*sys.path, str(site)])

    def test_a_class_is_a_policy_with_its_settings(self) -> None:
        words = ["algorithm.policy=lab_policy:Still", "algorithm.Still.gain=3.5"]
        loaded = load_with_origins(assignments=words)
        tables = loaded.config.model_dump()
        assert tables["algorithm"]["policy"] == "lab_policy:Still"
        assert tables["algorithm"]["Still"] == {"gain": 3.5}
        assert loaded.origin("algorithm.Still.gain") == "--set algorithm.Still.gain=3.5"
        assert loaded.without_effect() == {}

    def test_it_survives_files_workers_and_another_choice(self) -> None:
        config = load_config(assignments=["algorithm.policy=lab_policy:Still"])
        assert stored_config(json.dumps(config.model_dump())) == config
        assert pickle.loads(pickle.dumps(config)) == config
        assert config.replace(algorithm__policy="fixed").algorithm.policy == "fixed"
        changed = load_config(assignments=["algorithm.policy=moveucb"], base=config)
        assert "Still" not in changed.model_dump()["algorithm"]

    @pytest.mark.parametrize(
        ("words", "path"),
        [
            (["algorithm.Still.gian=1.0"], "algorithm.Still.gian"),
            (['algorithm.Still.gain="x"'], "algorithm.Still.gain"),
            (["algorithm.Still=3"], "algorithm.Still"),
        ],
    )
    def test_an_error_has_the_path_of_the_key(self, words: list[str], path: str) -> None:
        with pytest.raises(ConfigError) as refusal:
            load_config(assignments=["algorithm.policy=lab_policy:Still", *words])
        assert refusal.value.detail.startswith(path)

    @pytest.mark.parametrize("section", ["stage", "probe"])
    def test_a_driver_has_its_settings_also_in_files(self, section: str, tmp_path: Path) -> None:
        name, file = f"lab_drivers:{section.upper()}", tmp_path / "lab.toml"
        file.write_text(f'[{section}]\ndriver = "{name}"\n[{section}.lab-{section}]\ngain = 3.5\n')
        config = load_config(file)
        table = config.model_dump()[section]
        assert table["driver"] == name
        assert table[f"lab-{section}"] == {"gain": 3.5}
        assert stored_config(json.dumps(config.model_dump())) == config
        assert pickle.loads(pickle.dumps(config)) == config

    @pytest.mark.parametrize(
        "name", ["lab_policy:None_", "no_such:X", "exits:X", "lab_policy:NAMED", "lab_policy:Clash"]
    )
    def test_a_broken_one_is_refused(self, name: str) -> None:
        with pytest.raises(ConfigError) as refusal:
            load_config(assignments=[f"algorithm.policy={name}"])
        assert "algorithm.policy" in refusal.value.detail
        assert "\n" not in str(refusal.value)

    @pytest.mark.parametrize(
        ("name", "part"),
        [
            ("Half", "decide, resume, withdraw"),
            ("Away", "off the rail"),
            ("Fails", "KeyError"),
            ("Exits", "SystemExit"),
        ],
    )
    def test_one_that_is_no_policy_is_refused_when_it_is_built(
        self, name: str, part: str, paper: Config
    ) -> None:
        import numpy as np

        from macontrol.controller.policies.registry import make_policy
        from macontrol.controller.survey.samples import Survey

        config = paper.replace(algorithm__policy=f"lab_policy:{name}")
        with pytest.raises(ConfigError) as refusal:
            make_policy(config, Survey(np.array([0.0, 1.0]), np.array([0.0, 1.0])))
        assert part in refusal.value.detail


@pytest.mark.parametrize(
    "name", ["SPACE", "QUOTE", "DOT", "EMPTY", "LINES", "KEY", "CHOOSER", "ODD", "ENDLESS"]
)
def test_settings_that_no_file_can_hold_are_refused(
    name: str, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    with pytest.raises(ConfigError) as refusal:
        load_config(assignments=[f"probe.driver=lab_drivers:{name}"])
    assert "ValueError" in refusal.value.detail
    assert "\n" not in str(refusal.value)


def test_the_current_folder_is_searched_last(tmp_path: Path) -> None:
    (tmp_path / "lab_policy.py").write_text(f"import random, statistics\n{POLICY}")
    (tmp_path / "statistics.py").write_text("raise RuntimeError('not the one of Python')\n")
    words = ["config", "show", "--json", "--policy", "lab_policy:Still"]
    output, _ = macontrol(tmp_path, *words)
    assert json.loads(output)["algorithm.Still.gain"] == {"value": 2.0, "origin": "default"}


def test_an_entry_point_is_a_choice_and_has_a_table(site: Path, tmp_path: Path) -> None:
    usage, _ = macontrol(site, "check", "--help", path=site, cwd=tmp_path)
    assert "still" in usage
    words = ["config", "show", "--json", "--policy", "still", "--set", "algorithm.still.gain=1.5"]
    output, _ = macontrol(site, *words, path=site, cwd=tmp_path)
    assert json.loads(output)["algorithm.still.gain"]["value"] == 1.5


@pytest.mark.parametrize(
    ("setting", "part"),
    [
        ("algorithm.policy=exits", "SystemExit"),
        ("algorithm.policy=wrong", "float"),
        ("algorithm.policy=twice", "other-lab 2.0"),
        ("stage.driver=wrong-stage", "not StageDriver"),
        ("probe.driver=missing", "no_such_module"),
    ],
)
def test_a_broken_one_is_one_message_where_it_is_named(
    site: Path, tmp_path: Path, setting: str, part: str
) -> None:
    words = ["config", "show", "--set", setting]
    output, error = macontrol(site, *words, path=site, cwd=tmp_path, code=78)
    assert output == ""
    assert len(error.splitlines()) == 1
    assert part in error


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("--stage lab_drivers:STAGE", "without answer_times"),
        ("--stage lab_drivers:STAGE_RAISES", "KeyError"),
        ("--stage no_such_module:X", "no_such_module"),
        ("--stage lab_drivers:PROBE", "not StageDriver"),
        ("--probe lab_drivers:PROBE", "without close, collect, request"),
        ("--probe lab_drivers:PROBE_RAISES", "KeyError"),
        ("--probe no_such_module:X", "no_such_module"),
        ("--probe lab_drivers:STAGE", "not ProbeDriver"),
    ],
)
def test_a_driver_that_cannot_be_used_is_one_message(site: Path, words: str, part: str) -> None:
    options = ["--backend", "serial", "--preset", "lab-2g4-grbl", "--port", "/dev/null", "--yes"]
    output, error = macontrol(site, *options, *words.split(), code=78)
    assert output == ""
    assert len(error.splitlines()) == 1
    assert part in error


@pytest.mark.parametrize(
    ("words", "part", "code"),
    [
        ("--stage lab_drivers:STAGE", "no emulator", 64),
        ("--radio 127.0.0.1:0 --stage lab_drivers:STAGE_EMULATOR", "no_such_module", 78),
        ("--probe lab_drivers:PROBE_EMULATOR", "KeyError", 78),
    ],
)
def test_an_emulator_that_cannot_be_used_is_one_message(
    site: Path, words: str, part: str, code: int
) -> None:
    output, error = macontrol(site, "virtual-bench", *words.split(), code=code)
    assert output == ""
    assert len(error.splitlines()) == 1
    assert part in error


def test_the_command_lists_all_and_what_is_broken(site: Path, tmp_path: Path) -> None:
    output, _ = macontrol(site, "plugins", "--json", path=site, cwd=tmp_path)
    found = {(each["name"], each["distribution"]): each for each in json.loads(output)}
    assert found["still", "lab-policies 1.0"]["settings"] == ["gain"]
    assert found["still", "lab-policies 1.0"]["state"] == "ok"
    broken = [
        ("exits", "lab-policies 1.0"),
        ("fixed", "lab-policies 1.0"),
        ("twice", "lab-policies 1.0"),
        ("twice", "other-lab 2.0"),
        ("wrong", "lab-policies 1.0"),
        ("wrong-stage", "lab-policies 1.0"),
        ("missing", "lab-policies 1.0"),
    ]
    assert {key for key, each in found.items() if each["state"] == "broken"} >= set(broken)
    assert all(found[key]["reason"] for key in broken)
    text, _ = macontrol(site, "plugins", path=site, cwd=tmp_path)
    assert len(text.splitlines()) == len(found)


def test_a_thread_that_does_not_end_is_not_waited_for(site: Path, tmp_path: Path) -> None:
    words = ["--backend", "sim", "--fast", "--slots", "5", "--policy", "lab_policy:Lingers"]
    done = subprocess.run(
        [sys.executable, "-m", "macontrol", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0
    assert "logger of a lab" in done.stderr
    assert done.stdout.rstrip().endswith("┘")  # the summary is complete


def test_broken_ones_do_not_disturb_a_run(site: Path, tmp_path: Path) -> None:
    words = ["--backend", "sim", "--fast", "--slots", "5", "--log", "json"]
    output, error = macontrol(site, *words, path=site, cwd=tmp_path)
    assert json.loads(output.splitlines()[-1])["slots"] == 5
    assert error == ""
