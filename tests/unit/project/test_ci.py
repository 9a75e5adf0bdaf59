"""What `.ci/run` starts, and as which user, with fake system programs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parents[3] / ".ci/run"
STAND_INS = {
    "git": 'for last; do :; done; [ "$1" != clone ] || mkdir "$last"',
    "useradd": "",
    "userdel": "",
    "pkill": "",
    "chown": "",
    "make": 'echo "make $*" >> "$CALLS"; echo "=== $AS_ROOT in 2.00s ==="; '
    '[ "$1 $AS_ROOT" != "test-as-root bad" ]',
    "runuser": 'echo "user $PWD: $*" >> "$CALLS"; echo "= $AS_USER in 1.00s =="; '
    '[ "$AS_USER" = good ]',
}


class Machine:
    """A machine with a given user id, whose programs only record their calls."""

    def __init__(self, folder: Path, user: int) -> None:
        self._folder, self._calls = folder, folder / "calls"
        for name, code in (STAND_INS | {"id": f"echo {user}"}).items():
            (folder / name).write_text(f"#!/bin/sh\n{code}\n")
            (folder / name).chmod(0o755)

    def run(self, as_user: str = "good", as_root: str = "good") -> tuple[int, list[str], list[str]]:
        """The exit code, the calls, and the last two lines of output."""
        environment = {"AS_USER": as_user, "AS_ROOT": as_root, "CALLS": str(self._calls)}
        environment["PATH"] = f"{self._folder}:{os.environ['PATH']}"
        environment["PIP_INDEX_URL"] = "https://index.example/a b"
        done = subprocess.run(
            ["bash", RUN], capture_output=True, text=True, check=False, env=environment
        )
        return done.returncode, self._calls.read_text().splitlines(), done.stdout.split("\n")[-3:-1]


def test_an_ordinary_user_runs_the_tests(tmp_path: Path) -> None:
    code, calls, _ = Machine(tmp_path, 1000).run()
    assert (code, calls) == (0, ["make test"])


def test_root_runs_them_as_an_ordinary_user_in_a_folder_with_a_space_too(tmp_path: Path) -> None:
    code, calls, shown = Machine(tmp_path, 0).run()
    assert code == 0
    assert [call for call in calls if not call.startswith("user")] == [
        "make apt",
        "make test-as-root",
    ]
    (as_user,) = (call for call in calls if call.startswith("user"))
    folder = as_user.removeprefix("user ").partition(":")[0]
    assert folder.endswith("/my lab")
    assert as_user.endswith("make test")
    assert "PIP_INDEX_URL=https://index.example/a b" in as_user
    assert not Path(folder).parent.exists()
    assert shown == [
        "== as an ordinary user: = good in 1.00s ==",
        "== as root: === good in 2.00s ===",
    ]


@pytest.mark.parametrize("failing", ["as_user", "as_root"])
def test_a_failure_for_either_user_fails(tmp_path: Path, failing: str) -> None:
    code, calls, shown = Machine(tmp_path, 0).run(**{failing: "bad"})
    assert code == 1
    assert "make test-as-root" in calls
    assert ["bad in" in line for line in shown] == [failing == "as_user", failing == "as_root"]
