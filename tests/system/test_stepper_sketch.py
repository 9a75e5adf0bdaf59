"""The sketch of examples/stage compiles, and the compiled firmware speaks its protocol on simavr.

The dialogues are those that the emulated board of the example passes too.
"""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
import sys
import tty
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.waiting import wait_until

pytestmark = pytest.mark.any_user

EXAMPLE = Path(__file__).parents[2] / "examples/stage"
CORE = Path("/usr/share/arduino/hardware/arduino/avr")
FROM_SWITCH = 400
PULL_OFF = 80
CORE_FILES = ("main", "HardwareSerial", "HardwareSerial0", "Print", "Stream", "WString", "abi")
CHIP = ["-mmcu=atmega328p", "-DF_CPU=16000000L", "-DARDUINO=10819", "-DARDUINO_ARCH_AVR"]
CHIP += ["-DDECIMAL_DIG=__DECIMAL_DIG__", "-Os", "-ffunction-sections", "-fdata-sections"]
CPP = ["-std=gnu++11", "-fno-exceptions", "-fno-threadsafe-statics", "-x", "c++"]


def run(*words: str | Path, cwd: Path) -> None:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.fixture(scope="module")
def firmware(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sketch, compiled and linked with Arduino's core."""
    if shutil.which("avr-g++") is None:
        pytest.skip("no avr-g++ (Debian: arduino-core-avr)")
    if not CORE.exists():
        pytest.skip("no Arduino core (Debian: arduino-core-avr)")
    folder = tmp_path_factory.mktemp("firmware")
    core = CORE / "cores/arduino"
    options = [*CHIP, f"-I{core}", f"-I{CORE / 'variants/standard'}"]
    c_files = [core / f"{name}.c" for name in ("wiring", "wiring_digital", "hooks")]
    run("avr-gcc", *options, "-w", "-c", *c_files, cwd=folder)
    cpp_files = [core / f"{name}.cpp" for name in CORE_FILES]
    run("avr-g++", *options, *CPP, "-w", "-c", *cpp_files, cwd=folder)
    sketch = EXAMPLE / "stepper/stepper.ino"
    words = ["-Wall", "-Wextra", "-include", "Arduino.h", "-c", str(sketch), "-o", "sketch.o"]
    run("avr-g++", *options, *CPP, *words, cwd=folder)
    objects = sorted(folder.glob("*.o"))
    run("avr-g++", CHIP[0], "-Wl,--gc-sections", *objects, "-o", "stepper.elf", cwd=folder)
    return folder / "stepper.elf"


@pytest.fixture(scope="module")
def port(firmware: Path) -> Iterator[tuple[str, mmap.mmap]]:
    """The serial port of the firmware on simavr, and where its carriage is."""
    folder = firmware.parent
    if shutil.which("gcc") is None:
        pytest.skip("no gcc, which builds the board around simavr")
    if not Path("/usr/include/simavr").exists():
        pytest.skip("no simavr library (Debian: libsimavr-dev)")
    source = Path(__file__).with_name("simavr_board.c")
    run("gcc", "-O2", "-Wall", "-Wextra", source, "-o", "board", "-lsimavr", cwd=folder)
    with ExitStack() as closing:
        master, slave = os.openpty()
        closing.callback(os.close, master)
        closing.callback(os.close, slave)
        tty.setraw(slave)
        carriage = folder / "carriage"
        carriage.write_bytes(bytes(4))
        words = [str(folder / "board"), str(firmware), str(carriage), str(FROM_SWITCH)]
        board = subprocess.Popen(words, stdin=master, stdout=subprocess.DEVNULL)
        closing.callback(board.wait)
        closing.callback(board.kill)
        with carriage.open("r+b") as file:
            place = closing.enter_context(mmap.mmap(file.fileno(), 4))
        wait_until(lambda: steps(place) == FROM_SWITCH)
        yield os.ttyname(slave), place


def steps(place: mmap.mmap) -> int:
    """How far the carriage is from its switch."""
    found: int = struct.unpack("<i", place[:])[0]
    return found


def test_the_sketch_compiles_without_a_warning(firmware: Path) -> None:
    assert firmware.read_bytes().startswith(b"\x7fELF")


def test_the_firmware_passes_the_dialogues_of_the_example(port: tuple[str, mmap.mmap]) -> None:
    terminal, place = port
    words = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "test_dialogue.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=EXAMPLE,
        env={**os.environ, "STEPPER_PORT": terminal, "PYTHONPATH": str(EXAMPLE)},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout
    # The last dialogue ends at position 0. The switch is debounced, which may cost a step.
    assert PULL_OFF <= steps(place) <= PULL_OFF + 1
