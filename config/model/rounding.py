"""Numbers in messages, rounded so that a suggested value is accepted as a setting.

A float is converted to its shortest decimal text, which is rounded to a few significant digits.
Reading a decimal text as a float preserves the order, so the float is on the same side of a limit.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context

_DIGITS = 6
# Enough digits for the spacing of any grid.
_CLOSE_DIGITS = 13


def at_most(value: float, digits: int = _DIGITS) -> str:
    """The largest number with `digits` significant digits that does not exceed a value."""
    return _rounded(value, digits, ROUND_FLOOR)


def at_least(value: float, digits: int = _DIGITS) -> str:
    """The smallest number with `digits` significant digits that is not below a value."""
    return _rounded(value, digits, ROUND_CEILING)


def close_to(value: float) -> str:
    """A value without its last digits, which are rounding errors."""
    return _rounded(value, _CLOSE_DIGITS, ROUND_HALF_EVEN)


def _rounded(value: float, digits: int, direction: str) -> str:
    cut = Context(prec=digits, rounding=direction).create_decimal(repr(float(value)))
    return f"{float(cut):.{digits}g}"
