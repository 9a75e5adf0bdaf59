"""What every table of a config has in common, and the types of values that tables share."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from macontrol.config.model.address import split_address

_LONGEST_TEXT = 1000
# Far beyond anything physical, and low enough that no product of a few of them overflows.
_LARGEST = 1e15


class Section(BaseModel):
    """A table of the config: no unknown keys, no silent conversions, no NaN, no later change."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        defer_build=True,  # `--help` needs no validator, and building them all takes a while
    )


def _refuse_unprintable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it holds a character that cannot be printed; remove it")
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"it has {len(text)} characters; at most {_LONGEST_TEXT} make sense")
    return text


def _refuse_other_than_address(text: str) -> str:
    split_address(text)
    return text


Words: TypeAlias = Annotated[str, AfterValidator(_refuse_unprintable)]
"""The name of a device, an address, arguments: one printable line."""
Address: TypeAlias = Annotated[Words, AfterValidator(_refuse_other_than_address)]
"""HOST:PORT of a server."""
Auto: TypeAlias = Literal["auto"]
Ideal: TypeAlias = Literal["ideal"]
Positive: TypeAlias = Annotated[float, Field(gt=0, le=_LARGEST)]
NonNegative: TypeAlias = Annotated[float, Field(ge=0, le=_LARGEST)]
Fraction: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Sector: TypeAlias = Annotated[tuple[float, float], Field(strict=False)]
