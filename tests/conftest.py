"""Settings and fixtures of all tests."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from macontrol.config import Config, load_config

# By default every run draws the same examples, so that a failure repeats; `make test-random` draws
# others. The machine's load is no property of the code, so no example has a deadline.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("random", deadline=None, derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


# A shell that runs the tests in the background makes them, and their children, ignore these.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def _own_locks_and_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep tests apart from each other and from a daemon of this machine."""
    folder: Path = tmp_path_factory.mktemp("places")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUNTIME_DIRECTORY", str(folder / "locks"))
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        yield


@pytest.fixture(scope="session")
def paper() -> Config:
    """Table 1."""
    return load_config()
