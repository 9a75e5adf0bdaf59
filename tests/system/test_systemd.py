"""The units as `make install` puts them: systemd knows every key, and they expose little."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from macontrol.cli import main

REPOSITORY = Path(__file__).parents[2]
CONTROLLERS = ("macontrol.service", "macontrol@.service")
DASHBOARD = "macontrol-dashboard.service"
UNITS = (*CONTROLLERS, DASHBOARD)
# Where the program of these tests is: the environment that runs them.
ENVIRONMENT = Path(sys.executable).parents[1]

needs_analyze = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="needs systemd-analyze (Debian: systemd)"
)
needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
pytestmark = needs_make


def run_make(target: str, root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "-C", str(REPOSITORY), target, f"DESTDIR={root}", *words],
        capture_output=True,
        text=True,
        check=False,
        env={k: v for k, v in os.environ.items() if not k.startswith("MAKE")},
    )


def make(target: str, root: Path, *words: str) -> str:
    done = run_make(target, root, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The folder the units were installed in.

    verify needs a program that is there, and a unit cannot name one in a folder with a space.
    """
    (tmp_path / "prefix").symlink_to(ENVIRONMENT)
    make("install-service", tmp_path, f"PREFIX={tmp_path}/prefix")
    return tmp_path / "usr/local/lib/systemd/system"


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, check=False
    )


@needs_analyze
@pytest.mark.parametrize("unit", UNITS)
def test_systemd_knows_every_line(units: Path, unit: str) -> None:
    done = analyze("verify", "--recursive-errors=yes", "--man=no", str(units / unit))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@needs_analyze
def test_a_mistyped_key_would_be_found(units: Path) -> None:
    unit = units / UNITS[0]
    unit.write_text(unit.read_text().replace("WatchdogSec=", "WatchDogSec="))
    done = analyze("verify", "--recursive-errors=yes", "--man=no", str(unit))
    assert done.returncode != 0
    assert "WatchDogSec" in done.stderr


@needs_analyze
@pytest.mark.parametrize("unit", UNITS)
def test_little_is_exposed(units: Path, unit: str) -> None:
    done = analyze("security", "--offline=true", "--threshold=25", "--no-pager", str(units / unit))
    assert done.returncode == 0, done.stdout + done.stderr


@needs_analyze
def test_a_stage_on_a_port_verifies_with_its_drop_in(units: Path) -> None:
    folder = units / "macontrol@.service.d"
    folder.mkdir()
    shutil.copy(REPOSITORY / "systemd/hardware.conf", folder)
    # In the port's place a unit that is there on every machine: a device is only where it is.
    text = (folder / "hardware.conf").read_text()
    assert text.count(r"dev-macontrol\x2dstage\x2d%i.device") == 3
    (folder / "hardware.conf").write_text(
        text.replace(r"dev-macontrol\x2dstage\x2d%i.device", "basic.target")
    )
    done = analyze("verify", "--recursive-errors=yes", "--man=no", str(units / UNITS[1]))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("unit", CONTROLLERS)
def test_a_hang_up_before_the_run_listens_is_no_end(unit: str) -> None:
    """To systemd a process that SIGHUP ends has ended well, which would not be restarted."""
    assert "\nRestartForceExitStatus=SIGHUP\n" in (REPOSITORY / "systemd" / unit).read_text("utf-8")


def test_both_units_are_alike_but_for_the_stage() -> None:
    one, many = ((REPOSITORY / "systemd" / unit).read_text().splitlines() for unit in CONTROLLERS)
    differing = {line.split("=")[0] for line in set(one) ^ set(many) if line[:1] != "#"}
    assert differing == {
        "Description",
        "EnvironmentFile",
        "ExecStart",
    }


def test_the_dashboard_is_hardened_as_the_controllers_are() -> None:
    """The same lines, but for what a controller needs and the dashboard does not."""
    section = "# Access:"
    one, other = (
        set((REPOSITORY / "systemd" / unit).read_text().split(section)[1].splitlines()[1:])
        for unit in (CONTROLLERS[0], DASHBOARD)
    )
    missing = {line.split("=")[0] for line in one - other if line and not line.startswith("#")}
    assert missing == {"DeviceAllow", "TasksMax"}  # TasksMax is further up
    same = ("User", "DynamicUser", "StateDirectory", "RuntimeDirectory")
    texts = [(REPOSITORY / "systemd" / unit).read_text() for unit in (CONTROLLERS[0], DASHBOARD)]
    for key in same:
        values = [re.findall(rf"^{key}=(.*)$", text, re.M) for text in texts]
        assert values[0] == values[1] != []


def test_the_units_run_a_serial_stage_as_the_guide_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command lines of both, with the settings of the guide: only the port is missing."""
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    guide = (REPOSITORY / "systemd/README.md").read_text()
    settings = re.search(r"```\n( +preset = .*?)```", guide, re.DOTALL)
    arguments = re.search(r"`MACONTROL_ARGS=(--backend serial)`", guide)
    assert settings
    assert arguments
    port = str(tmp_path / "left-port")
    text = textwrap.dedent(settings[1]).replace("/dev/macontrol-stage-left", port)
    (tmp_path / "left.toml").write_text(text)
    for unit in CONTROLLERS:
        line = re.search(r"^ExecStart=\S+ (.*)$", (REPOSITORY / "systemd" / unit).read_text(), re.M)
        assert line
        words = line[1].replace("$MACONTROL_ARGS", arguments[1]).replace("%i", "left")
        words = words.replace("/etc/macontrol", str(tmp_path))
        assert main([*words.split(), "--port", port, "--yes"]) == 69
        assert f"{port} does not exist" in capsys.readouterr().err


def test_settings_that_were_changed_are_kept(tmp_path: Path) -> None:
    make("install-service", tmp_path)
    settings = tmp_path / "etc/macontrol/macontrol.env"
    shipped = settings.read_text()
    settings.write_text("MACONTROL_ARGS=--backend sim --seed 7\n")
    output = make("install-service", tmp_path)
    assert settings.read_text() == "MACONTROL_ARGS=--backend sim --seed 7\n"
    assert settings.with_name("macontrol.env.new").read_text() == shipped
    assert "was changed and is kept" in output


def test_uninstalling_leaves_settings_alone(tmp_path: Path) -> None:
    make("install-service", tmp_path)
    make("uninstall", tmp_path)
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"macontrol.env", "example.toml"}


@pytest.mark.fault("modem-manager")
@pytest.mark.skipif(shutil.which("udevadm") is None, reason="needs udevadm (Debian: udev)")
def test_udev_understands_the_rules(units: Path) -> None:
    rules = units.parents[1] / "udev/rules.d/70-macontrol.rules"
    done = subprocess.run(["udevadm", "verify", rules], capture_output=True, text=True, check=False)
    if "Unknown command verb" in done.stderr:
        pytest.skip("udevadm verify came with systemd 254")
    assert done.returncode == 0, done.stdout + done.stderr
