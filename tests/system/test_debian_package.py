"""The Debian package around a small program: its paths and settings, and its scripts.

No script starts a service.

`make deb` and `make deb-try` build and install the whole package; CI has no time for that.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

from macontrol import __version__

ROOT = Path(__file__).parents[2]
DEB = ROOT / "deb"
SETTINGS = ["/etc/macontrol/example.toml", "/etc/macontrol/macontrol.env"]

pytestmark = [
    pytest.mark.any_user,
    pytest.mark.skipif(shutil.which("make") is None, reason="needs make"),
]
needs_dpkg = pytest.mark.skipif(
    shutil.which("dpkg-deb") is None, reason="needs dpkg-deb (Debian: dpkg)"
)


@pytest.fixture(scope="module")
def build() -> dict[str, Any]:
    return run_path(str(DEB / "build.py"))


@pytest.fixture(scope="module")
def package(build: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package with everything but the environment, which is only a link to that of the tests."""
    folder = tmp_path_factory.mktemp("deb")
    tree = folder / "tree"
    (tree / "opt/macontrol/bin").mkdir(parents=True)
    python = tree / "opt/macontrol/bin/python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    words = [f"{name}={path}" for name, path in build["PATHS"].items()]
    subprocess.run(
        ["make", "-C", str(ROOT), "install-service", f"DESTDIR={tree}", *words],
        check=True,
        capture_output=True,
        env={k: v for k, v in os.environ.items() if not k.startswith("MAKE")},
    )
    build["add_documents"](tree)
    written: Path = build["package"](tree, folder / "out", "libc6")
    return written


@pytest.fixture(scope="module")
def unpacked(package: Path) -> Path:
    """The files of the package, and its control files in DEBIAN."""
    folder = package.parent / "unpacked"
    subprocess.run(["dpkg-deb", "--raw-extract", package, folder], check=True)
    return folder


def field(package: Path, name: str) -> str:
    return subprocess.check_output(["dpkg-deb", "--field", package, name], text=True).strip()


@needs_dpkg
def test_the_package_has_the_version_of_the_program_and_needs_the_python_of_its_environment(
    package: Path,
) -> None:
    minor = sys.version_info.minor
    assert field(package, "Version") == f"{__version__}-1+py3{minor}"
    assert f"python3.{minor}" in field(package, "Depends").split(", ")
    machine = subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
    assert field(package, "Architecture") == machine


@needs_dpkg
@pytest.mark.parametrize(
    "place",
    [
        "usr/lib/systemd/system/macontrol.service",
        "usr/lib/systemd/system/macontrol@.service",
        "usr/lib/systemd/system/macontrol-dashboard.service",
        "usr/lib/udev/rules.d/70-macontrol.rules",
        "usr/share/man/man1/macontrol.1.gz",
        "usr/share/bash-completion/completions/macontrol",
        "usr/share/zsh/vendor-completions/_macontrol",
        "usr/share/doc/macontrol/README.md",
        "usr/share/doc/macontrol/docs/operate.md",
        "usr/share/doc/macontrol/systemd/hardware.conf",
        "usr/share/doc/macontrol/examples/README.md",
        "usr/share/doc/macontrol/copyright",
        "usr/share/doc/macontrol/changelog.gz",
        "usr/share/doc/macontrol/changelog.Debian.gz",
    ],
)
def test_the_package_has(unpacked: Path, place: str) -> None:
    assert (unpacked / place).stat().st_size > 100
    assert (unpacked / place).stat().st_mode & 0o777 == 0o644


@needs_dpkg
def test_the_settings_are_conffiles_and_everything_else_has_a_sum(unpacked: Path) -> None:
    assert (unpacked / "DEBIAN/conffiles").read_text().splitlines() == SETTINGS
    sums = [line.split("  ", 1) for line in (unpacked / "DEBIAN/md5sums").read_text().splitlines()]
    files = {
        path.relative_to(unpacked).as_posix()
        for path in unpacked.rglob("*")
        if path.is_file() and not path.is_symlink()
    }
    assert {name for _, name in sums} == {
        name for name in files if not name.startswith(("DEBIAN/", "etc/"))
    }
    for expected, name in sums:
        assert hashlib.md5((unpacked / name).read_bytes()).hexdigest() == expected


@needs_dpkg
def test_no_file_names_the_place_where_the_package_was_put_together(
    package: Path, unpacked: Path
) -> None:
    tree = str(package.parents[1] / "tree").encode()
    assert [
        path for path in unpacked.rglob("*") if path.is_file() and tree in path.read_bytes()
    ] == []


@needs_dpkg
def test_the_guide_names_the_files_of_the_package(unpacked: Path) -> None:
    guide = (unpacked / "usr/share/doc/macontrol/systemd/README.md").read_text()
    assert "/usr/share/doc/macontrol/systemd/hardware.conf" in guide
    assert "/usr/local/share/doc" not in guide


def test_a_version_without_a_release_in_the_changelog_is_refused(build: dict[str, Any]) -> None:
    assert build["released"](__version__).year >= 2026
    with pytest.raises(SystemExit):
        build["released"]("99.0")


class Machine:
    """A folder in place of the root of a machine, with systemd programs that note their calls."""

    def __init__(self, folder: Path, *, running: str = "") -> None:
        self.root, self._calls, self._programs = folder / "root", folder / "calls", folder / "bin"
        (self.root / "run/systemd/system").mkdir(parents=True)
        (self.root / "opt/macontrol/bin").mkdir(parents=True)
        self._programs.mkdir()
        self._calls.touch()
        lines = "".join(
            f"echo '{unit} loaded active running Antenna'\n" for unit in running.split()
        )
        self._fake(self._programs / "systemctl", f'[ "$1" != list-units ] || {{ :\n{lines}}}')
        self._fake(self._programs / "udevadm", "")
        self._fake(self.root / "opt/macontrol/bin/python", "")

    def _fake(self, program: Path, code: str) -> None:
        note = f'echo "{program.name} $*" >> "{self._calls}"'
        program.write_text(f"#!/bin/sh\n{note}\n{code}\n")
        program.chmod(0o755)

    def run(self, script: str, *words: str, code: int = 0) -> str:
        """Run a script of the package as dpkg does; return what it prints."""
        environment = {
            "DPKG_ROOT": str(self.root),
            "PATH": f"{self._programs}:{os.environ['PATH']}",
        }
        done = subprocess.run(
            ["sh", str(DEB / script), *words], capture_output=True, text=True, env=environment
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    def calls(self, program: str) -> list[str]:
        """The first word of each call of a program, but for options and questions."""
        lines = [line.split() for line in self._calls.read_text().splitlines()]
        verbs = [[word for word in line if word[0] != "-"] for line in lines]
        return [" ".join(v[1:]) for v in verbs if v[0] == program and v[1] != "list-units"]


@pytest.mark.parametrize("before", [(), ("0.0.9-1",)])
def test_an_installation_starts_nothing(tmp_path: Path, before: tuple[str, ...]) -> None:
    machine = Machine(tmp_path)
    machine.run("preinst", "upgrade" if before else "install", *before)
    machine.run("postinst", "configure", *before)
    assert machine.calls("systemctl") == ["daemon-reload"]


def test_an_upgrade_stops_what_runs_and_names_the_command_that_starts_it(tmp_path: Path) -> None:
    machine = Machine(tmp_path, running="macontrol.service macontrol@left.service")
    said = machine.run("prerm", "upgrade", "0.2.0-1")
    assert machine.calls("systemctl") == ["stop macontrol.service macontrol@left.service"]
    assert "systemctl start macontrol.service macontrol@left.service" in said


def test_an_upgrade_without_a_running_service_stops_nothing(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert machine.run("prerm", "upgrade", "0.2.0-1") == ""
    assert machine.calls("systemctl") == []


def test_a_removal_stops_and_disables_so_that_a_second_installation_starts_nothing(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path, running="macontrol.service")
    machine.run("prerm", "remove")
    assert machine.calls("systemctl") == [
        "stop macontrol.service",
        "disable macontrol.service macontrol@.service macontrol-dashboard.service",
    ]


@pytest.mark.parametrize(
    "file", ["usr/local/bin/macontrol", "usr/local/lib/systemd/system/macontrol.service"]
)
@pytest.mark.parametrize("is_link", [True, False])
def test_it_is_not_installed_beside_make_install(tmp_path: Path, file: str, is_link: bool) -> None:
    machine = Machine(tmp_path)
    place = machine.root / file
    place.parent.mkdir(parents=True)
    if is_link:
        place.symlink_to("/nowhere")
    else:
        place.touch()
    assert "make uninstall" in machine.run("preinst", "install", code=1)


def test_a_removal_takes_plug_ins_and_bytecode_with_it(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    folder = machine.root / "opt/macontrol/lib/plug_in/__pycache__"
    folder.mkdir(parents=True)
    machine.run("prerm", "upgrade", "0.2.0-1")
    assert not folder.exists()
    assert folder.parent.exists()
    machine.run("postrm", "upgrade", "0.2.0-1")
    assert folder.parent.exists()
    machine.run("postrm", "remove")
    assert not (machine.root / "opt/macontrol").exists()


@pytest.mark.parametrize("runs", [["run.sqlite"], []])
def test_a_purge_keeps_recorded_runs_and_nothing_else(tmp_path: Path, runs: list[str]) -> None:
    machine = Machine(tmp_path)
    state = machine.root / "var/lib/private/macontrol"
    state.mkdir(parents=True)
    (machine.root / "var/lib/macontrol").symlink_to("private/macontrol")
    for name in runs:
        (state / name).touch()
    machine.run("postrm", "remove")
    assert state.exists()
    machine.run("postrm", "purge")
    assert state.exists() == bool(runs)
    assert os.path.lexists(machine.root / "var/lib/macontrol") == bool(runs)
