"""The installed command and `python -m macontrol` are the same program."""

import os
import signal
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
def test_blas_uses_one_thread_by_default(preset: str | None, expected: str) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in THREAD_VARIABLES}
    if preset is not None:
        environment |= dict.fromkeys(THREAD_VARIABLES, preset)
    code = f"import os, macontrol; print(*(os.environ[v] for v in {THREAD_VARIABLES!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [expected] * len(THREAD_VARIABLES)


@pytest.mark.parametrize(
    ("option", "unused"),
    [
        ("--version", {"pydantic", "scipy", "structlog", "numpy", "macontrol.hal.registry"}),
        (
            "--help",
            {"scipy", "structlog", "asyncio", "numpy", "macontrol.hal.serial"},
        ),
    ],
)
def test_a_command_loads_only_what_it_uses(option: str, unused: set[str]) -> None:
    code = (
        "import sys\n"
        "from macontrol.cli import main\n"
        f"try: main([{option!r}])\n"
        "except SystemExit: pass\n"
        "print(*sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "macontrol.cli" in loaded
    assert not loaded & unused


@pytest.mark.fault("sighup")
@pytest.mark.parametrize("signal_name", ["SIGUSR1", "SIGHUP"])
def test_a_service_survives_its_signals_while_it_loads(signal_name: str) -> None:
    """Loading takes seconds on a small computer; a service ended by SIGHUP is not restarted."""
    code = (
        "import os, signal, sys\n"
        "from macontrol import __main__, cli\n"
        f"cli.main = lambda: os.kill(os.getpid(), signal.{signal_name})\n"
        "sys.exit(__main__.entry())\n"
    )
    environment = {**os.environ, "NOTIFY_SOCKET": "/nowhere"}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0


def test_sighup_of_a_terminal_ends_a_program_that_loads() -> None:
    code = (
        "import os, signal, sys\n"
        "from macontrol import __main__, cli\n"
        "cli.main = lambda: os.kill(os.getpid(), signal.SIGHUP)\n"
        "sys.exit(__main__.entry())\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "NOTIFY_SOCKET"}
    done = subprocess.run([sys.executable, "-c", code], env=environment)
    assert done.returncode == -signal.SIGHUP
