"""What tests of several folders share."""

import pytest
from hypothesis import settings

from macontrol.config import Config, load_config

# Examples are drawn alike in every run, so that a run that fails fails again; the machine's load
# is no property of the code, so no example has a deadline.
settings.register_profile("macontrol", deadline=None, derandomize=True)
settings.load_profile("macontrol")


@pytest.fixture(scope="session")
def paper() -> Config:
    """Table 1."""
    return load_config()
