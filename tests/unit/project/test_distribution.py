"""The source package is complete, the wheel of it works, and half a checkout is not packed."""

from __future__ import annotations

import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from email.parser import HeaderParser
from pathlib import Path

import pytest

from macontrol import __version__

ROOT = Path(__file__).parents[3]
ROOMS = ("config", "controller", "hal", "sim")
PACKED = ("tests", "docs", "systemd", "examples", "deb", "notebooks", ".ci")
MADE_HERE = ("build", "dist", "site", "__pycache__")
LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)]*)\)")

if importlib.util.find_spec("setuptools") is None:
    pytest.skip("setuptools builds the packages, and is missing", allow_module_level=True)


def copy_checkout(folder: Path) -> Path:
    """Copy the checkout, with its links, without what was made in it."""
    folder.mkdir()
    for path in ROOT.iterdir():
        if path.name == ".ci" or not path.name.startswith((".", *MADE_HERE)):
            if path.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
                shutil.copytree(path, folder / path.name, symlinks=True, ignore=ignored)
            else:
                shutil.copy(path, folder)
    return folder


def build(source: Path, kind: str) -> Path:
    """Build the source package or the wheel of a folder, as pip does without isolation."""
    code = f"from setuptools import build_meta; build_meta.build_{kind}('dist')"
    done = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (found,) = (source / "dist").glob("*.tar.gz" if kind == "sdist" else "*.whl")
    return found


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_checkout(tmp_path_factory.mktemp("distribution") / "checkout")


@pytest.fixture(scope="module")
def source_package(checkout: Path) -> Path:
    """The source package, unpacked."""
    # By tar: whether Python's extractall takes or needs a filter depends on the version.
    command = ["tar", "-xf", str(build(checkout, "sdist")), "-C", str(checkout.parent)]
    subprocess.run(command, check=True)
    return checkout.parent / f"macontrol-{__version__}"


@pytest.fixture(scope="module")
def wheel(source_package: Path) -> Path:
    """The wheel of the source package, unpacked."""
    folder = source_package.parent / "wheel"
    with zipfile.ZipFile(build(source_package, "wheel")) as archive:
        archive.extractall(folder)
    return folder


def files_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_the_source_package_has_tests_documents_service_and_changelog(
    checkout: Path, source_package: Path
) -> None:
    for folder in PACKED:
        assert files_in(checkout / folder)
        assert files_in(checkout / folder) <= files_in(source_package / folder), folder
    alone = {path.name for path in checkout.iterdir() if path.is_file()}
    assert alone - {".gitignore"} <= {path.name for path in source_package.iterdir()}


def test_the_source_package_has_the_rooms_as_folders(checkout: Path, source_package: Path) -> None:
    for room in ROOMS:
        packed = source_package / "src/macontrol" / room
        assert not packed.is_symlink()
        assert files_in(packed) == files_in(checkout / room)


def test_the_wheel_of_the_source_package_has_the_whole_program(
    source_package: Path, wheel: Path
) -> None:
    assert files_in(wheel / "macontrol") == files_in(source_package / "src/macontrol")


def test_the_wheel_of_the_source_package_runs(wheel: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{wheel}:{sysconfig.get_path('purelib')}"}
    code = (
        "import sys, macontrol, macontrol.cli as c; print(macontrol.__file__); sys.exit(c.main())"
    )
    for words in (["--version"], ["config", "show", "--preset", "lab-5g8-zaber"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            capture_output=True,
            text=True,
            env=environment,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"{wheel}/macontrol/__init__.py\n")


@pytest.fixture
def without_symlinks(checkout: Path, tmp_path: Path) -> Path:
    """A checkout by a git that does not make symlinks."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    folder = tmp_path / "no-links"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "core.symlinks=false", "checkout-index", "-a", f"--prefix={folder}/"],
    ):
        git = ["git", f"--git-dir={tmp_path}/git", f"--work-tree={checkout}", *words]
        subprocess.run(git, check=True, env=environment, cwd=checkout, capture_output=True)
    assert (folder / "src/macontrol/config").read_text() == "../../config"
    return folder


@pytest.mark.parametrize("words", [["wheel"], ["install", "--target=here"], ["install", "-e"]])
def test_a_checkout_without_symlinks_is_not_packed_and_the_message_says_why(
    without_symlinks: Path, words: list[str]
) -> None:
    pytest.importorskip("pip", reason="pip builds the package, and is missing")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", words[0], "--no-index"]
    pip += ["--no-deps", "--no-build-isolation", *words[1:], "."]
    done = subprocess.run(pip, cwd=without_symlinks, capture_output=True, text=True)
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert all(f"src/macontrol/{room}" in said for room in ROOMS)
    assert "git config core.symlinks true" in said
    assert "Traceback" not in said


def test_make_demo_refuses_a_checkout_without_symlinks(without_symlinks: Path) -> None:
    if shutil.which("make") is None:
        pytest.skip("needs make")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    done = subprocess.run(
        ["make", "demo"], cwd=without_symlinks, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 2
    assert "git config core.symlinks true" in done.stderr
    assert not (without_symlinks / ".venv").exists()


@pytest.fixture(scope="module")
def index_readme() -> Callable[[str, str, str], str]:
    setup: Callable[[str, str, str], str] = runpy.run_path(str(ROOT / "setup.py"))["index_readme"]
    return setup


def test_the_readme_of_an_index_has_no_link_that_leads_nowhere(wheel: Path) -> None:
    (file,) = wheel.glob("*.dist-info/METADATA")
    metadata = HeaderParser().parsestr(file.read_text("utf-8"))
    assert metadata["Description-Content-Type"] == "text/markdown"
    text = str(metadata.get_payload())
    assert "# macontrol" in text
    assert [link for _, link in LINK.findall(text) if "://" not in link] == []


def test_with_a_repository_links_and_pictures_have_its_address(
    index_readme: Callable[[str, str, str], str],
) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    before = LINK.findall(readme)
    after = LINK.findall(index_readme(readme, "https://forge.example/lab/macontrol", "v1.2"))
    assert len(after) == len(before)
    assert "!" in {mark for mark, _ in before}
    for (mark, link), (_, absolute) in zip(before, after, strict=True):
        view = "raw" if mark else "blob"
        assert absolute == f"https://forge.example/lab/macontrol/{view}/v1.2/{link}"


def test_with_a_repository_the_project_has_addresses(tmp_path: Path) -> None:
    source = copy_checkout(tmp_path / "checkout")
    settings = (source / "pyproject.toml").read_text("utf-8")
    assert settings.count('\nrepository = ""\n') == 1
    settings = settings.replace('repository = ""', 'repository = "https://forge.example/lab/m/"')
    (source / "pyproject.toml").write_text(settings, "utf-8")
    with zipfile.ZipFile(build(source, "wheel")) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("METADATA"))
        metadata = HeaderParser().parsestr(archive.read(name).decode())
    urls = dict(url.split(", ") for url in metadata.get_all("Project-URL") or [])
    assert urls["Source"] == "https://forge.example/lab/m"
    assert urls["Changelog"] == f"https://forge.example/lab/m/blob/v{__version__}/CHANGELOG.md"
