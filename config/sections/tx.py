"""The `[tx]` table: commands that switch the transmitter, so that no person is needed for that."""

from __future__ import annotations

import shlex
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from macontrol.config.sections.section import Section, Words
from macontrol.config.sections.stage import Off


def _refuse_unquoted(text: str) -> str:
    try:
        shlex.split(text)
    except ValueError as error:
        raise ValueError(f"it cannot be split into words: {error}") from None
    return text


Command: TypeAlias = Annotated[Words, AfterValidator(_refuse_unquoted)]
"""A program and its arguments, quoted as in a shell, which does not run it."""


class Tx(Section):
    """The commands that switch the transmitter on and off; empty: a person does it."""

    on_command: Command = ""
    """a program with arguments that switches the transmitter on; no shell runs it"""
    off_command: Command = ""
    """... and one that switches it off, while the noise floor is measured"""
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 5.0
    """a command that takes longer is ended, and has failed"""
    settling_s: Annotated[float, Field(ge=0, le=60)] = 0.5
    """from the end of a command until the transmitter's power is steady"""
    floor_every_s: Annotated[float, Field(ge=5, le=1e9)] | Off = "off"
    """measure the noise floor again within a run after this time; or "off\""""

    @property
    def is_switchable(self) -> bool:
        """Whether the transmitter can be switched by command."""
        return bool(self.on_command and self.off_command)
