"""Make a virtual environment that can run macontrol from this checkout, quickly, with progress.

`make demo` starts this with a bare Python. It installs what a run needs and nothing else: no
plots, no test tools, no build of a package. `make test` completes the same environment.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
LOCK = ROOT / "requirements.lock"
# The largest packages by far: one pip unpacks them, another does the rest.
LARGE = ("scipy", "numpy")
# What only builds a package, which this does not.
BUILD = ("setuptools",)
_BEGUN_S = time.monotonic()
# What pip says on its way, and how much of it is worth a line.
_FETCHING = re.compile(r"\s*(Downloading|Using cached) (?:\S*/)?([^\s-]+)-\S+ (\(.+\))")
_INSTALLING = re.compile(r"Installing collected packages: (.+)")


def main(folder: Path) -> int:
    """Make the environment; the exit code of a pip that failed, or 0."""
    say(f"creating {folder.name}")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    has_pip = any(folder.glob("lib/python3*/site-packages/pip"))
    wheel = pip_wheel()
    if wheel is None and not has_pip:
        say("installing pip")
        subprocess.run([python, "-m", "ensurepip"], check=True, stdout=subprocess.DEVNULL)
    # Run from its wheel, as ensurepip would first unpack and compile it.
    pip = [str(python), "-m", "pip"] if wheel is None else [str(python), f"{wheel}/pip"]
    with tempfile.TemporaryDirectory() as place:
        groups = [["-r", str(file)] for file in split_lock(Path(place))]
        code = install(pip, groups)
    if code == 0 and wheel is not None and not has_pip:
        code = install(pip, [[str(wheel)]], "--no-index")
    if code == 0:
        link_source(python)
        say("ready")
    return code


def say(text: str) -> None:
    """Print a line with the time that has passed."""
    # In one piece: two threads print.
    print(f"[{time.monotonic() - _BEGUN_S:4.1f} s] {text}\n", end="", flush=True)


def split_lock(folder: Path) -> list[Path]:
    """Write the lock as two files, the large packages and the others, without the build tool."""
    texts = {"large": "", "others": ""}
    for entry in re.findall(r"^[^\s#].*(?:\n +.*)*\n", LOCK.read_text("utf-8"), re.MULTILINE):
        name = re.split(r"[=\s;]", entry, maxsplit=1)[0]
        if name not in BUILD:
            texts["large" if name in LARGE else "others"] += entry
    for group, text in texts.items():
        (folder / group).write_text(text, encoding="utf-8")
    return [folder / group for group in texts]


def pip_wheel() -> Path | None:
    """The wheel of pip that ensurepip would install: Debian has it in a folder of its own."""
    places = [Path(venv.__file__).parents[1] / "ensurepip" / "_bundled"]
    if configured := sysconfig.get_config_var("WHEEL_PKG_DIR"):
        places.insert(0, Path(configured))
    places.append(Path("/usr/share/python-wheels"))
    wheels = [wheel for place in places for wheel in sorted(place.glob("pip-*.whl"))]
    return wheels[0] if wheels else None


def install(pip: list[str], groups: list[list[str]], check: str = "--require-hashes") -> int:
    """Install each group with a pip of its own, all at once; the first failure's exit code."""
    command = [*pip, "install", "--no-compile", "--no-warn-script-location", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar", "off", "--no-deps", check]
    running = [
        subprocess.Popen([*command, *group], stdout=subprocess.PIPE, text=True) for group in groups
    ]
    followers = [threading.Thread(target=follow, args=(process,)) for process in running]
    for follower in followers:
        follower.start()
    for follower in followers:
        follower.join()
    codes = [process.wait() for process in running]
    return next((code for code in codes if code), 0)


def follow(pip: subprocess.Popen[str]) -> None:
    """Print the steps of a pip as it takes them."""
    assert pip.stdout is not None
    with pip.stdout as lines:
        for line in lines:
            if step := _FETCHING.match(line):
                say(f"{step[1].lower()} {step[2]} {step[3]}")
            elif step := _INSTALLING.match(line):
                say(f"installing {step[1]}")


def link_source(python: Path) -> None:
    """Have the environment import macontrol from this checkout, and give it the command."""
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    answer = subprocess.run([python, "-c", ask], check=True, stdout=subprocess.PIPE, text=True)
    site = Path(answer.stdout.strip())
    (site / "macontrol-checkout.pth").write_text(f"{ROOT / 'src'}\n", encoding="utf-8")
    command = python.with_name("macontrol")
    # Not `#!python`: a path with a space in it does not work there.
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(str(python))} -P -m macontrol "$@"\n')
    command.chmod(0o755)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
