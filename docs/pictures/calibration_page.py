"""Draw docs/pictures/calibration.png: the beginning of a calibration's page, in Debian's Chromium.

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
WIDTH, HEIGHT, SCALE = 1080, 1900, 0.6
COLOURS = 64


def draw() -> None:
    """Calibrate the simulated bench, and take a picture of the page."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.browser import Browser

    with TemporaryDirectory() as folder:
        out = Path(folder) / "site.toml"
        assert main(["calibrate", "--backend", "sim", "--minutes", "2", "--out", str(out)]) == 0
        with Browser(Path(folder) / "profile") as browser:
            browser.open(out.with_suffix(".html").as_uri(), width=WIDTH)
            part = {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT, "scale": SCALE}
            shot = browser.call(
                "Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=part
            )
    picture = Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")
    target = ROOT / "docs/pictures/calibration.png"
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(target, optimize=True)


if __name__ == "__main__":
    draw()
