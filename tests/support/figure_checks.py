"""Checks of drawn figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def assert_legends_cover_no_data(figure: Figure) -> None:
    """No legend of the figure overlaps the data area of any of its panels."""
    figure.canvas.draw()
    legends = [legend for part in (figure, *figure.subfigs) for legend in part.legends]
    legends += [legend for axes in figure.axes if (legend := axes.get_legend()) is not None]
    assert legends
    for legend in legends:
        box = legend.get_window_extent()
        for axes in figure.axes:
            panel = axes.get_window_extent()
            apart = (
                box.x0 >= panel.x1 - 1
                or box.x1 <= panel.x0 + 1
                or box.y0 >= panel.y1 - 1
                or box.y1 <= panel.y0 + 1
            )
            assert apart, f"a legend covers the panel {axes.get_ylabel()!r}"
