"""What every table of a config has in common."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict

_LONGEST_WORDS = 1000


class Section(BaseModel):
    """A table of the config: no unknown keys, no silent conversions, no NaN, no later change."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def _refuse_odd_words(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it holds a character that cannot be printed; remove it")
    if len(text) > _LONGEST_WORDS:
        raise ValueError(f"it has {len(text)} characters; at most {_LONGEST_WORDS} make sense")
    return text


Words: TypeAlias = Annotated[str, AfterValidator(_refuse_odd_words)]
"""The name of a device, an address, arguments: one printable line."""
