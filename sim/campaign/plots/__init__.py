"""The figures drawn, as PNG and SVG, from an outcome's numbers and nothing else."""

from pathlib import Path

from macontrol.sim.campaign.figures.outcome import Outcome


def draw(folder: Path, name: str, outcome: Outcome) -> None:
    pass
