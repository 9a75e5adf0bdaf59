"""Capture the dashboard in Chromium and write it as pictures.

    .venv/bin/python docs/pictures/dashboard.py

The first picture is a live run on the simulated bench after half a minute, which needs permission
for real-time scheduling. The second one is a finished run of the paper's 15300 slots, in dark
colours.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from selenium.webdriver.chrome.webdriver import WebDriver

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from support.driven_browser import open_browser
from support.waiting import wait_until

FOLDER = Path(__file__).parent
MACONTROL = [sys.executable, "-m", "macontrol"]
COLOURS, FREQUENT, RARE = 256, 24, 90


def main() -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        runs = folder / "state" / "macontrol"
        runs.mkdir(parents=True)
        environment = os.environ | {
            "XDG_STATE_HOME": str(folder / "state"),
            "RUNTIME_DIRECTORY": str(folder),
        }
        words = [*MACONTROL, "--backend", "sim", "--log", "text"]
        paper = ["--fast", "--slots", "15300", "--run", str(runs / "paper.sqlite")]
        subprocess.run([*words, *paper], env=environment, stdout=subprocess.DEVNULL, check=True)
        live = [*words, "--seed", "2"]
        daemon = subprocess.Popen(live, env=environment, stdout=subprocess.DEVNULL)
        server = subprocess.Popen(
            [*MACONTROL, "dashboard", "--listen", "127.0.0.1:0"],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[-1]
            with open_browser(folder / "profile") as driver:
                take(driver, address)
        finally:
            daemon.terminate()
            server.terminate()
            daemon.wait()
            server.wait()


def take(driver: WebDriver, address: str) -> None:
    show(driver, 1720, 1000, "light")
    driver.get(address)
    wait_until(lambda: slot(driver) > 6000, 180)
    save(driver, "dashboard.png")
    show(driver, 1280, 960, "dark")
    driver.get(re.sub(r"/\?.*", "/#/runs", address))
    link = "return [...document.querySelectorAll('.run')].at(-1)?.querySelector('a')?.hash"
    wait_until(lambda: driver.execute_script(link) is not None)
    driver.get(re.sub(r"/\?.*", f"/{driver.execute_script(link)}", address))
    ready = "return document.querySelector('[data-part=cursor]')?.max === '1199'"
    wait_until(lambda: bool(driver.execute_script(ready)))
    driver.execute_script(
        "const c = document.querySelector('[data-part=cursor]'); c.value = 560;"
        "c.dispatchEvent(new Event('input'))"
    )
    wait_until(lambda: True)
    save(driver, "dashboard-run.png")


def slot(driver: WebDriver) -> int:
    text = "return window.macontrol?.board?.snapshot?.slot ?? 0"
    return int(driver.execute_script(text))


def show(driver: WebDriver, width: int, height: int, scheme: str) -> None:
    """Set the size of the screen and the colours of the system."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def save(driver: WebDriver, name: str) -> None:
    """Write what is shown, with few colours, which makes it small."""
    driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    picture = Image.open(BytesIO(driver.get_screenshot_as_png())).convert("RGB")
    picture = picture.resize(
        (picture.width * 3 // 4, picture.height * 3 // 4), Image.Resampling.LANCZOS
    )
    small = picture.quantize(palette=palette_of(picture), dither=Image.Dither.NONE)
    small.save(FOLDER / name, optimize=True)
    print(name, (FOLDER / name).stat().st_size)


def palette_of(picture: Image.Image) -> Image.Image:
    """The most frequent colours as they are, and colours for the others, also for rare ones."""
    counts = sorted(picture.getcolors(1 << 24), reverse=True)  # type: ignore[arg-type]
    colours: list[int] = []
    for _, colour in counts[:FREQUENT]:
        colours += colour  # type: ignore[arg-type]
    for method, number in (
        (Image.Quantize.MEDIANCUT, COLOURS - FREQUENT - RARE),
        (Image.Quantize.MAXCOVERAGE, RARE),
    ):
        colours += picture.quantize(number, method).getpalette()[: 3 * number]  # type: ignore[index]
    palette = Image.new("P", (1, 1))
    palette.putpalette(colours)
    return palette


if __name__ == "__main__":
    main()
