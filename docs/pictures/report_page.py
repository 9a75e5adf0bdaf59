"""Draw docs/pictures/report.png and calibration.png: the beginnings of two pages, in Chromium.

Run it with the environment of `make test`, from the root of the repository; the name of a picture
draws that one only.
"""

from __future__ import annotations

import base64
import io
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from macontrol.cli import main

ROOT = Path(__file__).parents[2]
WIDTH = 1080
COLOURS = 64


def report(folder: Path) -> None:
    """Record the paper's horizon, and take a picture of its report."""
    run, page = folder / "paper-horizon.sqlite", folder / "page.html"
    options = ["--slots", "15300", "--run", str(run), "--log", "json"]
    assert main(["--backend", "sim", "--fast", *options]) == 0
    assert main(["report", str(run), "--out", str(page)]) == 0
    take(page, "report", height=1120, scale=0.66)


def calibration(folder: Path) -> None:
    """Calibrate the simulated bench, and take a picture of the page."""
    out = folder / "site.toml"
    assert main(["calibrate", "--backend", "sim", "--minutes", "2", "--out", str(out)]) == 0
    take(out.with_suffix(".html"), "calibration", height=1900, scale=0.6)


def take(page: Path, name: str, *, height: int, scale: float) -> None:
    """Write the picture of the beginning of a page."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.browser import Browser

    with Browser(page.parent / f"profile-{name}") as browser:
        browser.open(page.as_uri(), width=WIDTH)
        part = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": scale}
        shot = browser.call(
            "Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=part
        )
    picture = Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")
    target = ROOT / f"docs/pictures/{name}.png"
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(target, optimize=True)


if __name__ == "__main__":
    with TemporaryDirectory() as there:
        for draw in (report, calibration):
            if draw.__name__ in (sys.argv[1:] or ("report", "calibration")):
                draw(Path(there))
