"""What `make` refuses and reports before it starts to work."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[3]
APT_LIST = REPOSITORY / "tests/apt-packages.txt"
CHECK_PATHS = REPOSITORY / "systemd/check_paths.py"

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


def make(*words: str, programs: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run make; programs in the folder replace those of the system."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    if programs is not None:
        environment["PATH"] = f"{programs}:{environment['PATH']}"
    return subprocess.run(
        ["make", "-C", str(REPOSITORY), *words],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


def fake(folder: Path, name: str, code: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{code}\n")
    (folder / name).chmod(0o755)


class TestMissingPackages:
    @pytest.fixture
    def programs(self, tmp_path: Path) -> Path:
        """A machine where nothing is installed, with an ordinary user."""
        fake(tmp_path, "id", "echo 1000")
        fake(tmp_path, "dpkg-query", "exit 1")
        fake(tmp_path, "apt-get", f"touch '{tmp_path}/installed'")
        return tmp_path

    def test_an_ordinary_user_sees_which_tests_are_skipped(self, programs: Path) -> None:
        done = make("apt", programs=programs)
        assert done.returncode == 0
        assert not (programs / "installed").exists()
        packages = [
            line.split() for line in APT_LIST.read_text().splitlines() if not line.startswith("#")
        ]
        for package, _, tests, *_ in packages:
            assert list(REPOSITORY.glob(tests.rstrip(":")))
            assert f"  no {package}: {tests}" in done.stdout
        assert f"apt-get install {' '.join(line[0] for line in packages)}\n" in done.stdout
        assert "Not root: tests that need its rights are skipped" in done.stdout

    def test_installed_packages_are_not_listed(self, programs: Path) -> None:
        fake(programs, "dpkg-query", '[ "$4" != gcc ] && echo installed')
        done = make("apt", programs=programs)
        assert "  no gcc: " in done.stdout
        assert "apt-get install gcc\n" in done.stdout

    def test_root_installs_them(self, programs: Path) -> None:
        fake(programs, "id", "echo 0")
        done = make("apt", programs=programs)
        assert (programs / "installed").exists()
        assert "Installing Debian packages that tests use: rt-tests" in done.stdout
        assert "skipped" not in done.stdout


class TestInstall:
    @pytest.fixture
    def check_paths(self) -> dict[str, Any]:
        return runpy.run_path(str(CHECK_PATHS))

    def test_an_interpreter_that_the_service_cannot_reach_is_refused(self, tmp_path: Path) -> None:
        folder = Path(subprocess.check_output(["mktemp", "-d", "-p", "/tmp"], text=True).strip())
        try:
            (folder / "python3").symlink_to(Path(sys.executable).resolve())
            done = make("install", f"DESTDIR={tmp_path}", f"PYTHON={folder}/python3")
        finally:
            shutil.rmtree(folder)
        assert done.returncode == 2
        assert f"could not run {folder}/python3: " in done.stderr
        assert "make install PYTHON=/usr/bin/python3" in done.stderr
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_without_permission_there_is_a_fix(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o555)
        done = make("install", f"DESTDIR={tmp_path}")
        assert done.returncode == 2
        assert f"no permission to write {tmp_path}: run sudo make install" in done.stderr

    @pytest.mark.skipif(
        not shutil.which("python3", path="/usr/bin"), reason="needs an interpreter for all users"
    )
    @pytest.mark.parametrize("same", [True, False])
    def test_an_environment_of_another_interpreter_is_recreated(
        self, tmp_path: Path, same: bool
    ) -> None:
        fake(tmp_path, "python3", '[ "$2" != venv ] && exec /usr/bin/python3 "$@"')
        environment = tmp_path / "root/opt/macontrol"
        (environment / "bin").mkdir(parents=True)
        (environment / "pyvenv.cfg").write_text("")
        (environment / "bin/python").symlink_to("/usr/bin/python3" if same else "/usr/bin/env")
        done = make("install", f"DESTDIR={tmp_path}/root", f"PYTHON={tmp_path}/python3")
        assert "python3 -m venv" in done.stdout, done.stderr
        assert environment.exists() == same

    def test_the_base_interpreter_of_a_virtual_environment_is_checked(
        self,
        check_paths: dict[str, Any],
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setattr(sys, "_base_executable", "/home/me/bin/python3")
        assert check_paths["main"]("/opt/macontrol", "/etc/macontrol") == 1
        assert "could not run /home/me/bin/python3" in capsys.readouterr().err

    def test_a_program_folder_that_the_service_cannot_reach_is_refused(
        self,
        check_paths: dict[str, Any],
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setattr(sys, "_base_executable", "/usr/bin/env")
        monkeypatch.setattr(os, "__file__", "/usr/bin/env")
        assert check_paths["main"]("/opt/macontrol", "/etc/macontrol") == 0
        assert check_paths["main"]("/home/me/macontrol", "/etc/macontrol") == 1
        assert "make install PREFIX=/opt/macontrol" in capsys.readouterr().err

    @pytest.mark.parametrize("folder", ["root", "home/me", "tmp"])
    def test_folders_that_the_unit_hides_are_refused(
        self, check_paths: dict[str, Any], folder: str
    ) -> None:
        assert check_paths["obstacle"](f"/{folder}/bin/python3")
        assert not check_paths["obstacle"]("/usr/bin/env")
        assert not check_paths["obstacle"]("/opt/no-such/homestead")

    def test_links_are_followed(self, check_paths: dict[str, Any], tmp_path: Path) -> None:
        tmp_path.chmod(0o755)
        home, link = tmp_path / "home", tmp_path / "python3"
        home.mkdir()
        (home / "python3").write_text("")
        link.symlink_to(home / "python3")
        assert "which the unit hides" in check_paths["obstacle"](str(link), [str(home)])

    def test_a_folder_that_only_its_owner_may_enter_is_refused(
        self, check_paths: dict[str, Any], tmp_path: Path
    ) -> None:
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o700)
        why = check_paths["obstacle"](str(closed / "python3"), [])
        assert why == f"other users may not enter {closed}"

    @pytest.mark.parametrize("words", [("/opt/my lab", "/etc/x"), ("/opt/x", "/etc/my lab")])
    def test_a_space_in_a_path_of_the_unit_is_refused(
        self,
        check_paths: dict[str, Any],
        words: tuple[str, str],
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        main = check_paths["main"]
        monkeypatch.setitem(main.__globals__, "obstacle", lambda *_: None)
        assert main("/opt/x", "/etc/x") == 0
        assert main(*words) == 1
        assert "my lab has a space" in capsys.readouterr().err
