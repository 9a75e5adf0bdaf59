"""Capture the live view from a pseudo-terminal and write it as a picture.

    .venv/bin/python docs/pictures/live_view.py

The run is that of `make demo`, ended after 5 s. The picture is the last frame that it draws, in the
characters and colours that it sends.
"""

from __future__ import annotations

import os
import pty
import re
import struct
import subprocess
import sys
from contextlib import suppress
from fcntl import ioctl
from pathlib import Path
from tempfile import TemporaryDirectory
from termios import TIOCSWINSZ

from matplotlib import font_manager
from PIL import Image, ImageDraw, ImageFont
from rich.color_triplet import ColorTriplet
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import MONOKAI
from rich.text import Text

COLUMNS, LINES = 96, 32
FONT_SIZE = 15
MARGIN = 10
DIM = 0.6
COMMAND = ("--backend", "sim", "--preset", "demo", "--seed", "2", "--duration", "5")
# One frame: from the upper left corner of the panel to its lower right one.
FRAME = re.compile(r"╭.*?╯", re.DOTALL)


def main() -> None:
    """Run the demo and write its last frame beside this script."""
    frame = FRAME.findall(run_in_terminal())[-1]
    draw(Text.from_ansi(frame), Path(__file__).with_name("live-view.png"))


def run_in_terminal() -> str:
    """Run the demo on a pseudo-terminal and return everything that it writes there."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    written = b""
    with TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "XDG_STATE_HOME": folder,
        }
        command = [sys.executable, "-m", "macontrol", *COMMAND]
        with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment):
            os.close(theirs)
            with suppress(OSError):  # the terminal ends with its last writer
                while part := os.read(ours, 65536):
                    written += part
    os.close(ours)
    return written.decode().replace("\r\n", "\n")


def draw(frame: Text, path: Path) -> None:
    """Draw a frame character by character, in a font that has the graph's blocks."""
    font = ImageFont.truetype(font_manager.findfont("DejaVu Sans Mono"), FONT_SIZE)
    ascent, descent = font.getmetrics()
    width, height = round(font.getlength("█")), ascent + descent
    console = Console(width=COLUMNS, force_terminal=True)
    lines = console.render_lines(frame, pad=False)
    size = (2 * MARGIN + COLUMNS * width, 2 * MARGIN + len(lines) * height)
    image = Image.new("RGB", size, tuple(MONOKAI.background_color))
    canvas = ImageDraw.Draw(image)
    for row, line in enumerate(lines):
        column = 0
        for segment in line:
            colour = _colour(segment.style)
            for character in segment.text:
                place = (MARGIN + column * width, MARGIN + row * height)
                canvas.text(place, character, fill=colour, font=font)
                column += 1
    few = image.quantize(32, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    few.save(path, format="PNG", optimize=True)


def _colour(style: Style | None) -> tuple[int, int, int]:
    colour = MONOKAI.foreground_color
    if style is not None and style.color is not None:
        colour = style.color.get_truecolor(MONOKAI)
    if style is not None and style.dim:
        colour = ColorTriplet(*(round(DIM * value) for value in colour))
    return (colour.red, colour.green, colour.blue)


if __name__ == "__main__":
    main()
