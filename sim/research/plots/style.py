"""The style of all figures: serif type, column width, colours for colour-blind readers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from PIL import Image

from macontrol.config import Config
from macontrol.config.files.atomic_file import atomic_file
from macontrol.sim.research.outcome import CHANGED_SETTINGS, Outcome

matplotlib.use("Agg")
import matplotlib.pyplot as plt

DPI = 200
RATE = "bit/s/Hz"
"""The unit of a reward, which is a spectral efficiency (eq. reward)."""
WIDTH = 4.6
"""In inches; type of 8 pt becomes 6 pt in a column of 3.5 inches."""

# The palette of Okabe and Ito; each line also has its own marker and dashes.
LOOKS: dict[str, dict[str, Any]] = {
    "MoveUCB": {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    "GP-UCB": {"color": "#D55E00", "marker": "s", "linestyle": "--"},
    "Sweep-and-hold": {"color": "#009E73", "marker": "^", "linestyle": "-."},
    "ε-greedy": {"color": "#CC79A7", "marker": "D", "linestyle": ":"},
    "Fixed": {"color": "#7F7F7F", "marker": "v", "linestyle": (0, (4, 1, 1, 1))},
    "continuous": {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    "piecewise": {"color": "#D55E00", "marker": "s", "linestyle": "--"},
    "Physics": {"color": "#0072B2", "marker": "", "linestyle": "-"},
    "Const.+SE": {"color": "#009E73", "marker": "", "linestyle": "--"},
    "Nonosc.": {"color": "#CC79A7", "marker": "", "linestyle": "-."},
    "SE": {"color": "#D55E00", "marker": "", "linestyle": ":"},
    "regret": {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    "travel": {"color": "#D55E00", "marker": "s", "linestyle": "--"},
    "switches": {"color": "#009E73", "marker": "^", "linestyle": "-."},
}

# Of type Any, because matplotlib types every key.
_STYLE: Any = {
    "font.family": "serif",
    "font.serif": ["STIXGeneral", "Times New Roman", "DejaVu Serif"],
    "mathtext.fontset": "stix",
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.35,
    "grid.color": "#d0d0d0",
    "legend.fontsize": 6.8,
    "legend.frameon": True,
    "legend.framealpha": 0.9,
    "legend.edgecolor": "#b0b0b0",
    "legend.fancybox": False,
    "legend.borderpad": 0.3,
    "legend.handlelength": 2.2,
    "legend.labelspacing": 0.25,
    "patch.linewidth": 0.6,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.direction": "in",
    "ytick.direction": "in",
    "xtick.top": True,
    "ytick.right": True,
    "xtick.major.width": 0.5,
    "ytick.major.width": 0.5,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.4,
    "lines.markeredgewidth": 0.6,
    "errorbar.capsize": 1.6,
    "hatch.linewidth": 0.5,
    "svg.fonttype": "path",
    "svg.hashsalt": "macontrol",  # the same numbers give the same file
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.wspace": 0.06,
}


@contextmanager
def paper_style() -> Iterator[None]:
    """Draw in this style, and close all figures at the end."""
    with matplotlib.rc_context(_STYLE):
        try:
            yield
        finally:
            plt.close("all")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the path's suffix."""
    ending = path.suffix.lower().removeprefix(".")
    # Without a date the same numbers give the same file.
    metadata = {"Date": None} if ending == "svg" else None
    with atomic_file(path, "the plot was not written") as file:
        if ending == "png":
            _write_png(figure, file)
        else:
            figure.savefig(file, format=ending, dpi=DPI, metadata=metadata)


def _write_png(figure: Figure, file: IO[bytes]) -> None:
    """Write a PNG of 256 colours, which has a quarter of the size."""
    drawn = BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI)
    image = Image.open(drawn).convert("RGB")
    few = image.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE)
    few.save(file, format="PNG", optimize=True)


def panels(rows: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure of two columns of panels."""
    figure, axes = plt.subplots(rows, 2, figsize=(WIDTH, 2.3 * rows), squeeze=False)
    return figure, list(axes.flat)


def millimetre_axis(axes: Axes, config: Config, side: Literal["top", "right"]) -> None:
    """Add a second scale in millimetres."""
    functions: Any = (config.physical.to_mm, config.physical.to_wavelengths)
    if side == "top":
        axes.tick_params(top=False)
        axes.secondary_xaxis("top", functions=functions).set_xlabel("Position (mm)")
    else:
        axes.tick_params(right=False)
        axes.secondary_yaxis("right", functions=functions).set_ylabel("Position (mm)")


def note_errors(figure: Figure, outcome: Outcome, *drawn: str, what: str = "Error bars") -> None:
    """Add a line below the panels: the meaning of the error bars, the number of realizations."""
    counts = {
        name: max(row.estimate.realizations for row in outcome.rows if row.panel == name)
        for name in drawn
    }
    over = ", ".join(f"{count} ({name})" for name, count in counts.items())
    if len(set(counts.values())) == 1:
        over = f"{counts[drawn[0]]}"
    text = f"{what}: ± one standard error of the mean over {over} realizations"
    changed = outcome.notes.get(CHANGED_SETTINGS)
    figure.supxlabel(text if changed is None else f"{text}\n{changed}", fontsize=6.5)


def letter(axes: Axes, name: str, x: str = "", y: str = "", *, from_zero: bool = False) -> None:
    """Set the labels of the axes, with the letter of the panel below the x-axis."""
    axes.set_xlabel(f"{x}\n({name})" if x else f"({name})", linespacing=1.35)
    if y:
        axes.set_ylabel(y)
    if from_zero:
        axes.set_ylim(bottom=0)


def legend_above(
    figure: Figure | SubFigure,
    handles: Sequence[Any],
    labels: Sequence[str],
    columns: int | None = None,
) -> None:
    """Add one legend for all panels above them, in one row or in this many columns."""
    figure.legend(
        list(handles),
        list(labels),
        loc="outside upper center",
        ncols=columns or len(labels),
        columnspacing=1.2,
        handletextpad=0.5,
        frameon=False,
    )


def legend_over(axes: Axes, **options: Any) -> None:
    """Add a legend of one panel above it."""
    axes.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        frameon=False,
        columnspacing=1.0,
        handletextpad=0.5,
        **options,
    )


def line(
    axes: Axes,
    outcome: Outcome,
    panel: str,
    series: str,
    quantity: str,
    look: Mapping[str, Any] | None = None,
    *,
    scale: float = 1.0,
) -> None:
    """Draw one series of a panel with error bars; `look` overrides its style."""
    x, mean, error = outcome.select(panel, series, quantity)
    marked = {"markerfacecolor": "white", **LOOKS.get(series, {}), "label": series, **(look or {})}
    axes.errorbar(
        [float(value) for value in x],
        scale * mean,
        yerr=scale * error,
        elinewidth=0.7,
        zorder=4 if series == "MoveUCB" else 3,
        **marked,
    )
