"""A stage driver as another distribution: Zaber's package, moved out of macontrol, still works."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
MOVED = {
    "macontrol.hal.stages.zaber": "elsewhere_zaber",
    "macontrol.sim.bench.boards.zaber": "elsewhere_zaber.emulator",
}
CONNECT = """
import sys
from contextlib import ExitStack
from macontrol.config import load_config
from macontrol.controller.runtime.clock import WallClock
from macontrol.hal.registry import STAGES
from macontrol.sim.bench.virtual import VirtualBench

config, clock = load_config(preset="lab-5g8-zaber"), WallClock()
with VirtualBench(config, clock, seed=1) as bench:
    settings = config.replace(stage__port=bench.stage.port, stage__homing="allow").stage
    stage = STAGES["zaber"].make(settings, clock, confirm_homing=lambda: True)
    try:
        stage.connect(clock.now() + 30)
        stage.home(clock.now() + 60, lambda: True)
        arrival = stage.move_to(12.0, clock.now() + 10)
        print(type(stage).__module__, arrival.arrived, round(bench.stage.position_at(clock.now())))
    finally:
        stage.close()
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with macontrol without its Zaber driver, and the driver as a distribution."""
    site = tmp_path_factory.mktemp("site")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "src" / "macontrol", site / "macontrol", ignore=ignored)
    plugin = site / "elsewhere_zaber"
    shutil.move(site / "macontrol" / "hal" / "stages" / "zaber", plugin)
    shutil.move(site / "macontrol/sim/bench/boards/zaber.py", plugin / "emulator.py")
    for module in plugin.glob("*.py"):
        text = module.read_text("utf-8")
        for old, new in MOVED.items():
            text = text.replace(old, new)
        module.write_text(text, "utf-8")
    facts = site / "elsewhere_zaber-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere-zaber\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        "[macontrol.stages]\nzaber = elsewhere_zaber:DESCRIPTION\nbroken = no_such_module:THING\n"
    )
    return site


def python(site: Path, *words: str, code: int = 0) -> str:
    """Run Python with the macontrol of the site; what it prints on standard output."""
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=site,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_nothing_else_in_macontrol_imports_the_driver(site: Path) -> None:
    sources = [path.read_text("utf-8") for path in (site / "macontrol").rglob("*.py")]
    assert sources
    for old in MOVED:
        assert not [text for text in sources if old in text]


def test_its_settings_and_its_preset_are_found(site: Path) -> None:
    shown = python(site, "-m", "macontrol", "config", "show", "--preset", "lab-5g8-zaber", "--json")
    settings = json.loads(shown)
    assert settings["stage.driver"]["value"] == "zaber"
    assert settings["stage.zaber.microstep_mm"] == {
        "value": 0.49609375e-3,
        "origin": "preset lab-5g8-zaber",
    }
    assert settings["stage.zaber.device_address"]["origin"] == "default"


def test_it_is_a_choice_of_the_command_line(site: Path) -> None:
    assert "--stage {grbl,broken,zaber,MODULE:NAME}" in python(
        site, "-m", "macontrol", "check", "--help"
    )


def test_the_config_is_checked_with_it(site: Path) -> None:
    assert "fits the slot" in python(site, "-m", "macontrol", "check", "--preset", "lab-5g8-zaber")


def test_the_doctor_and_the_virtual_bench_work_with_it(site: Path, tmp_path: Path) -> None:
    link = tmp_path / "stage"
    command = [sys.executable, "-m", "macontrol", "virtual-bench", "--stage", "zaber"]
    command += ["--link", str(link), "--rtl-tcp", "127.0.0.1:0", "--duration", "60"]
    environment = {**os.environ, "PYTHONPATH": str(site)}
    with subprocess.Popen(
        command, cwd=site, env=environment, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as bench:
        assert bench.stdout is not None
        try:
            radio = bench.stdout.readline().partition("radio on ")[2].partition(";")[0]
            words = ["check", "--backend", "serial", "--stage", "zaber", "--port", str(link)]
            report = python(site, "-m", "macontrol", *words, "--probe", f"rtl_tcp://{radio}")
        finally:
            bench.terminate()
    assert "Zaber device 50081" in report
    assert "FAIL" not in report


def test_the_stage_is_connected_homed_and_moved(site: Path) -> None:
    assert python(site, "-c", CONNECT).split() == ["elsewhere_zaber.driver", "True", "12"]


def test_a_broken_distribution_fails_only_where_it_is_named(site: Path) -> None:
    output = python(site, "-m", "macontrol", "check", "--set", "stage.driver=broken", code=78)
    assert "no_such_module" in output
    assert "elsewhere-zaber" in output
