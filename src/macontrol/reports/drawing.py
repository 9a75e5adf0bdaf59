"""Plots as HTML: curves in a stretched SVG, and axes as text beside it.

The SVG fills the width of the page, and lines keep their width; the text has the size of the page's
text. So one plot suits a phone, a wide screen and paper, without a script.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, floor, isfinite, log10

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_WIDTH, _HEIGHT = 4000, 2000  # units of a drawing: coordinates are whole numbers of them
_MOST_TICKS = 5
_COLUMNS = 700
_BLOCKS = 240


@dataclass(frozen=True)
class Axis:
    """One axis of a plot."""

    low: float
    high: float
    label: str = ""
    logarithmic: bool = False

    @classmethod
    def around(cls, label: str, *series: ArrayLike, zero: bool = False) -> Axis:
        """An axis that has room for all finite values; with `zero`, also for 0."""
        values = np.concatenate([np.ravel(np.asarray(one, float)) for one in series])
        values = values[np.isfinite(values)]
        low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
        low = min(low, 0.0) if zero else low
        margin = 0.05 * (high - low) or max(abs(high), 1.0) * 0.05
        return cls(low if zero and low == 0 else low - margin, high + margin, label)

    def share(self, values: ArrayLike) -> Floats:
        """Where values are between the ends of the axis, as shares of it."""
        found = np.asarray(values, float)
        low, high = self.low, self.high
        if self.logarithmic:
            found, low, high = np.log10(np.maximum(found, 1e-300)), log10(low), log10(high)
        return np.asarray((found - low) / ((high - low) or 1.0))

    def ticks(self) -> list[tuple[float, str]]:
        """Round values on the axis, as shares, with their texts."""
        if self.logarithmic:
            powers = range(ceil(log10(self.low) - 1e-9), floor(log10(self.high) + 1e-9) + 1)
            return [(float(self.share(10.0**power)), _time_text(power)) for power in powers]
        values, digits = _round_values(self.low, self.high)
        return [(float(self.share(value)), f"{value:.{digits}f}") for value in values]


def _round_values(low: float, high: float) -> tuple[list[float], int]:
    """At most a few round numbers between two ends, and their digits after the point."""
    span = high - low
    if not (isfinite(span) and span > 0):
        return [], 0
    power = floor(log10(span / _MOST_TICKS))
    step = next(
        factor * 10.0**power
        for factor in (1, 2, 5, 10, 20)
        if span / (factor * 10.0**power) <= _MOST_TICKS
    )
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    digits = max(0, -floor(log10(step) + 1e-9))
    return [number * step + 0.0 for number in range(first, last + 1)], digits


def _time_text(power: int) -> str:
    """10^power seconds in a unit that suits it."""
    for least, unit in ((0, "s"), (-3, "ms"), (-6, "µs"), (-9, "ns")):
        if power >= least:
            return f"{10 ** (power - least)} {unit}"
    return f"1e{power} s"


class Plot:
    """One plot: layers are drawn in the order in which they are added."""

    def __init__(
        self, x: Axis, y: Axis, *, height: int = 220, right: Axis | None = None, label: str = ""
    ) -> None:
        self._x, self._y, self._right = x, y, right
        self._height = height
        self._label = label
        self._layers: list[str] = []
        self._legend: list[str] = []

    def line(self, x: ArrayLike, y: ArrayLike, look: str, name: str = "") -> None:
        """A curve; it is interrupted where a value is missing."""
        self._layers.append(f'<path class="{look}" d="{self._path(x, y)}"/>')
        self._add_name(look, name)

    def outlined(self, x: ArrayLike, y: ArrayLike, look: str, name: str = "") -> None:
        """A curve that is visible on dark and on bright parts of an image."""
        self._layers.append(f'<path class="halo" d="{self._path(x, y)}"/>')
        self.line(x, y, look, name)

    def band(self, x: ArrayLike, low: ArrayLike, high: ArrayLike, look: str, name: str) -> None:
        """The area between two curves without gaps."""
        there = self._points(x, high)
        back = self._points(x, low)[::-1]
        path = "L".join(f"{a} {b}" for a, b in [*there, *back])
        self._layers.append(f'<path class="{look}" d="M{path}Z"/>')
        self._add_name(look, name)

    def bars(self, edges: ArrayLike, counts: ArrayLike, look: str) -> None:
        """A histogram: one bar from edge to edge for each count."""
        at = np.asarray(edges, float)
        path = []
        for left, right, count in zip(at[:-1], at[1:], np.asarray(counts, float), strict=True):
            if count > 0:
                (x, base), (end, top) = self._points([left, right], [self._y.low, count])
                path.append(f"M{x} {base}V{top}H{end}V{base}Z")
        self._layers.append(f'<path class="{look}" d="{"".join(path)}"/>')

    def image(
        self, uri: str, x: tuple[float, float], y: tuple[float, float], *, is_smooth: bool
    ) -> None:
        """An image between two values of each axis."""
        (left, bottom), (right, top) = self._points(x, y)
        look = "" if is_smooth else ' class="sharp"'
        self._layers.append(
            f'<image{look} href="{uri}" x="{left}" y="{top}" width="{right - left}" '
            f'height="{bottom - top}" preserveAspectRatio="none"/>'
        )

    def upright(self, x: float, look: str, name: str = "") -> None:
        """A vertical line."""
        self.line([x, x], [self._y.low, self._y.high], look, name)

    def level(self, y: float, look: str, name: str = "") -> None:
        """A horizontal line."""
        self.line([self._x.low, self._x.high], [y, y], look, name)

    def legend(self) -> str:
        """The named layers with their looks."""
        return f'<div class="legend">{"".join(self._legend)}</div>' if self._legend else ""

    def html(self) -> str:
        """The plot with its axes, without the legend."""
        grid = "".join(
            f'<path class="grid" d="M0 {_HEIGHT - round(share * _HEIGHT)}H{_WIDTH}"/>'
            for share, _ in self._y.ticks()
        )
        right = ""
        if self._right is not None:
            right = (
                f'<div class="y right">{_texts(self._right, "bottom")}'
                f"<i>{escape(self._right.label)}</i></div>"
            )
        return (
            f'<div class="plot" style="--height:{self._height}px">'
            f'<div class="y">{_texts(self._y, "bottom")}<i>{escape(self._y.label)}</i></div>'
            f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
            f'aria-label="{escape(self._label or self._y.label)}">{grid}{"".join(self._layers)}'
            f'</svg>{right}<div class="x">{_texts(self._x, "left")}</div>'
            f'<div class="xlabel">{escape(self._x.label)}</div></div>'
        )

    def _add_name(self, look: str, name: str) -> None:
        if name:
            self._legend.append(
                f'<span><svg viewBox="0 0 24 10" class="key" aria-hidden="true">'
                f'<path class="{look}" d="M0 5H24V6H0Z"/></svg>{escape(name)}</span>'
            )

    def _points(self, x: ArrayLike, y: ArrayLike) -> list[tuple[int, int]]:
        across = np.clip(self._x.share(x), -1.0, 2.0) * _WIDTH
        up = _HEIGHT - np.clip(self._y.share(y), -1.0, 2.0) * _HEIGHT
        return list(
            zip(np.rint(across).astype(int).tolist(), np.rint(up).astype(int).tolist(), strict=True)
        )

    def _path(self, x: ArrayLike, y: ArrayLike) -> str:
        known = np.isfinite(np.asarray(x, float)) & np.isfinite(np.asarray(y, float))
        points = self._points(
            np.nan_to_num(np.asarray(x, float)), np.nan_to_num(np.asarray(y, float))
        )
        path, last = [], ""
        for is_known, (across, up) in zip(known.tolist(), points, strict=True):
            path.append(f"{'L' if last else 'M'}{across} {up}" if is_known else "")
            last = path[-1]
        return "".join(path)


def _texts(axis: Axis, side: str) -> str:
    return "".join(
        f'<span style="{side}:{100 * share:.2f}%">{escape(text)}</span>'
        for share, text in axis.ticks()
        if -0.001 <= share <= 1.001
    )


def extremes(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """A curve with fewer points that looks the same: the lowest and highest of each column."""
    if len(x) <= 2 * _COLUMNS:
        return x, y
    chosen: list[int] = [0, len(x) - 1]
    for begin, end in _ranges(len(x), _COLUMNS):
        part = y[begin:end]
        if np.isfinite(part).any():
            chosen += [begin + int(np.nanargmin(part)), begin + int(np.nanargmax(part))]
        else:
            chosen.append(begin)
    rows = np.unique(chosen)
    return x[rows], y[rows]


def block_means(series: Sequence[Floats] | Iterable[Floats]) -> list[Floats]:
    """Series of equal length as means over blocks of neighbours; NaN where nothing is known."""
    found = []
    for values in series:
        known = np.isfinite(values)
        edges = np.array([begin for begin, _ in _ranges(len(values), _BLOCKS)])
        counts = np.add.reduceat(known.astype(float), edges)
        sums = np.add.reduceat(np.where(known, values, 0.0), edges)
        with np.errstate(invalid="ignore"):
            found.append(sums / np.where(counts > 0, counts, np.nan))
    return found


def block_slots(length: int) -> int:
    """How many neighbours a block of `block_means` has."""
    return max(1, ceil(length / _BLOCKS))


def _ranges(length: int, most: int) -> list[tuple[int, int]]:
    """Parts of a series: at most this number, of nearly equal length."""
    edges = np.unique(np.linspace(0, length, min(length, most) + 1).astype(int)).tolist()
    return list(pairwise(edges))
