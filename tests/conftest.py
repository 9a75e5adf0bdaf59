"""What tests of several folders share."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from macontrol.config import Config, load_config

# Examples are drawn alike in every run, so that a run that fails fails again; the machine's load
# is no property of the code, so no example has a deadline.
settings.register_profile("macontrol", deadline=None, derandomize=True)
settings.load_profile("macontrol")


# Whoever runs the tests in the background may have them ignore these, and all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def _own_locks_and_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests neither meet a daemon of this machine, nor each other's: names of ports come again."""
    folder: Path = tmp_path_factory.mktemp("places")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUNTIME_DIRECTORY", str(folder / "locks"))
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        yield


@pytest.fixture(scope="session")
def paper() -> Config:
    """Table 1."""
    return load_config()
