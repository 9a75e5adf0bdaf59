"""Draw docs/pictures/report.png: the beginning of a report, in Debian's Chromium.

Run it with the environment of `make test`, from the root of the repository.
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
WIDTH, HEIGHT, SCALE = 1080, 1120, 0.66
COLOURS = 64


def draw() -> None:
    """Record the paper's horizon, and take a picture of its report."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.browser import Browser

    with TemporaryDirectory() as folder:
        run, page = Path(folder) / "paper-horizon.sqlite", Path(folder) / "page.html"
        options = ["--slots", "15300", "--run", str(run), "--log", "json"]
        assert main(["--backend", "sim", "--fast", *options]) == 0
        assert main(["report", str(run), "--out", str(page)]) == 0
        with Browser(Path(folder) / "profile") as browser:
            browser.open(page.as_uri(), width=WIDTH)
            part = {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT, "scale": SCALE}
            shot = browser.call(
                "Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=part
            )
    picture = Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")
    target = ROOT / "docs/pictures/report.png"
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(target, optimize=True)


if __name__ == "__main__":
    draw()
