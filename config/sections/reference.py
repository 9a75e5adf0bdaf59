"""The `[reference]` table while there is no reference receiver.

Otherwise it has the settings of a probe, as `[probe]`.
"""

from __future__ import annotations

from typing import Literal

from macontrol.config.sections.driver import DriverSettings


class NoReference(DriverSettings):
    """There is no second, fixed receiver whose power is recorded beside each slot."""

    driver: Literal["off"] = "off"
    """the driver of the reference receiver, a probe as in [probe]; "off": there is none"""

    @classmethod
    def driver_name(cls) -> str:
        """There is no table of its own."""
        return ""
