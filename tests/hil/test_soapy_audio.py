"""The Soapy probe on a real SoapySDR: its audio module on a PulseAudio null sink.

What is played into the sink, left and right as I and Q, comes out of its monitor as the samples of
a radio. SoapySDR's Python module belongs to the system's Python; it is lent to the interpreter of
the tests through a folder of links, if the two fit, in a process of its own.
"""

from __future__ import annotations

import importlib.machinery
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sdr import wait_until

SYSTEM_PACKAGES = Path("/usr/lib/python3/dist-packages")
EXTENSION = next(
    (
        path
        for suffix in importlib.machinery.EXTENSION_SUFFIXES
        if (path := SYSTEM_PACKAGES / f"_SoapySDR{suffix}").exists()
    ),
    None,
)
AUDIO_MODULES = list(Path("/usr/lib").glob("*/SoapySDR/modules*/libaudioSupport.so"))

pytestmark = [
    pytest.mark.skipif(
        not (shutil.which("pulseaudio") and shutil.which("pacat")),
        reason="needs pulseaudio and pacat (Debian: pulseaudio, pulseaudio-utils)",
    ),
    pytest.mark.skipif(
        EXTENSION is None,
        reason="needs SoapySDR for this version of Python (Debian: python3-soapysdr)",
    ),
    pytest.mark.skipif(
        not AUDIO_MODULES, reason="needs SoapySDR's audio module (Debian: soapysdr-module-audio)"
    ),
]

RATE = 48_000
NOISE = 1e-4


class Player:
    """Plays noise, and a tone of an amplitude that can be changed, into the sink."""

    def __init__(self, environment: dict[str, str]) -> None:
        format_ = ["--raw", "--format=float32le", "--channels=2", f"--rate={RATE}"]
        self.process = subprocess.Popen(
            ["pacat", "--playback", *format_, "--latency-msec=40"],
            stdin=subprocess.PIPE,
            env=environment,
        )
        self.amplitude = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._play)
        self._thread.start()

    def _play(self) -> None:
        assert self.process.stdin is not None
        rng, count = np.random.default_rng(0), RATE // 50
        tone = np.exp(2j * np.pi * 6_000 / RATE * np.arange(count))
        with suppress(BrokenPipeError):
            while not self._stop.is_set():
                noise = rng.standard_normal((count, 2)) * (NOISE / 2) ** 0.5
                signal = np.column_stack([tone.real, tone.imag]) * self.amplitude
                self.process.stdin.write((noise + signal).astype("<f4").tobytes())
                self.process.stdin.flush()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(10.0)
        self.process.kill()
        self.process.wait(10.0)
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """What a process needs to find a sound server of its own."""
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    server = runtime / "native"
    environment = os.environ | {
        "HOME": str(tmp_path),
        "XDG_RUNTIME_DIR": str(runtime),
        "PULSE_SERVER": f"unix:{server}",
        "ALSA_CONFIG_PATH": "/dev/null",
    }
    command = ["pulseaudio", "-n", "--daemonize=no", "--exit-idle-time=-1", "--use-pid-file=no"]
    modules = [
        f"module-native-protocol-unix socket={server} auth-anonymous=1",
        f"module-null-sink sink_name=radio rate={RATE} channels=2 format=float32le",
    ]
    with (tmp_path / "pulseaudio.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--disable-shm=yes", *(part for m in modules for part in ("-L", m))],
            env={k: v for k, v in environment.items() if k != "PULSE_SERVER"},
            stdout=log,
            stderr=log,
        )
        wait_until(lambda: server.exists() or process.poll() is not None, 20.0)
        assert process.poll() is None, (tmp_path / "pulseaudio.log").read_text()
        yield environment
        process.terminate()
        process.wait(10.0)


class Child:
    """The process that measures."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        assert EXTENSION is not None
        links = folder / "soapy"
        links.mkdir()
        for path in (SYSTEM_PACKAGES / "SoapySDR.py", EXTENSION):
            (links / path.name).symlink_to(path)
        tests = Path(__file__).parents[1]
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("soapy_child.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment | {"PYTHONPATH": f"{links}:{tests}"},
            text=True,
        )

    def ask(self, command: str) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("{"):  # the libraries print, too
                return json.loads(line)
        raise AssertionError(f"no answer to {command!r}: it ended with {self.process.wait(10.0)}")

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(10.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10.0)
        self.process.stdout.close()


def test_levels_noise_floor_and_overflow_through_a_real_soapysdr(
    environment: dict[str, str], tmp_path: Path
) -> None:
    player, child = Player(environment), Child(tmp_path, environment)
    try:
        opened = child.ask("open")
        assert opened == {}, opened
        floor = child.ask("floor 1.0")
        print("noise floor", floor)
        for amplitude in (0.1, 0.02):
            player.amplitude = amplitude
            child.ask("measure 5")  # what was under way
            answer = child.ask("measure 5")
            print(amplitude, answer)
            valid = [m for m in answer["rewards"] if m["valid"]]
            assert len(valid) >= 2
            for measurement in valid:
                expected = log2((amplitude**2 + NOISE) / NOISE)
                assert measurement["reward"] == pytest.approx(expected, abs=0.3)
        held = child.ask("hold 3.0")
        print(held)
        assert "overflow" in held["breaks"]
        child.ask("measure 5")
        assert any(m["valid"] for m in child.ask("measure 5")["rewards"])
        child.ask("close")
    finally:
        child.close()
        player.close()


def test_without_a_sound_server_the_radio_is_told_to_be_missing(tmp_path: Path) -> None:
    nowhere = os.environ | {"PULSE_SERVER": f"unix:{tmp_path}/none", "HOME": str(tmp_path)}
    child = Child(tmp_path, nowhere | {"XDG_RUNTIME_DIR": str(tmp_path)})
    try:
        error = child.ask("open")["error"]
        assert error.startswith("cannot be opened")
        assert "SoapySDR finds no device" in error
    finally:
        child.close()
