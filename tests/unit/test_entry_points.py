"""The installed command and `python -m macontrol` are the same program."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from macontrol import __version__

SCRIPT = [str(Path(sys.executable).parent / "macontrol")]
MODULE = [sys.executable, "-m", "macontrol"]
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@pytest.mark.parametrize("command", [SCRIPT, MODULE], ids=["script", "module"])
def test_version_is_printed(command: list[str]) -> None:
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"macontrol {__version__}"


@pytest.mark.parametrize(("preset", "expected"), [(None, "1"), ("3", "3")])
def test_blas_runs_on_one_thread_unless_the_user_says_otherwise(
    preset: str | None, expected: str
) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in THREAD_VARIABLES}
    if preset is not None:
        environment |= dict.fromkeys(THREAD_VARIABLES, preset)
    code = f"import os, macontrol; print(*(os.environ[v] for v in {THREAD_VARIABLES!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [expected] * len(THREAD_VARIABLES)
