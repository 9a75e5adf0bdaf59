"""Numbers in messages, rounded to the safe side: what a message suggests is accepted when typed in.

The number is the shortest text of a float, cut to a few significant digits. Reading a decimal text
as a float keeps the order, so the float that comes back is on the same side of the limit.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context

_DIGITS = 6
# Enough to divide a rail into any number of steps that a grid may have.
_CLOSE_DIGITS = 13


def at_most(value: float, digits: int = _DIGITS) -> str:
    """The largest number with `digits` significant digits that does not exceed a value."""
    return _rounded(value, digits, ROUND_FLOOR)


def at_least(value: float, digits: int = _DIGITS) -> str:
    """The smallest number with `digits` significant digits that is not below a value."""
    return _rounded(value, digits, ROUND_CEILING)


def close_to(value: float) -> str:
    """A value without the last digits, which are the rounding of a computation."""
    return _rounded(value, _CLOSE_DIGITS, ROUND_HALF_EVEN)


def _rounded(value: float, digits: int, direction: str) -> str:
    cut = Context(prec=digits, rounding=direction).create_decimal(repr(float(value)))
    return f"{float(cut):.{digits}g}"
