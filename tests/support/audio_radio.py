"""A radio for SoapySDR made of sound: its audio module on a PulseAudio null sink.

The sound played into the sink, left and right as I and Q, is available at its monitor as the
samples of a radio. The Python module of SoapySDR belongs to the system's Python. The tests run
their own interpreter with it in separate processes, through a folder of links, if the versions
match.
"""

from __future__ import annotations

import importlib.machinery
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from support.probe_settings import wait_until

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

needs_sound = [
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
TONE_HZ = 6_000
NOISE = 1e-4


class Player:
    """Play noise and a tone with a variable amplitude into the sink.

    On a busy machine it can be silent for a moment. The measured level is then too low, but never
    too high.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        format_ = ["--raw", "--format=float32le", "--channels=2", f"--rate={RATE}"]
        self.process = subprocess.Popen(
            ["pacat", "--playback", *format_, "--latency-msec=80"],
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
        tone = np.exp(2j * np.pi * TONE_HZ / RATE * np.arange(count))
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


@contextmanager
def sound_server(folder: Path) -> Iterator[dict[str, str]]:
    """Run a separate sound server; yield the environment of processes that use it."""
    runtime = folder / "run"
    runtime.mkdir(mode=0o700, exist_ok=True)
    server = runtime / "native"
    server.unlink(missing_ok=True)
    environment = os.environ | {
        "HOME": str(folder),
        "XDG_RUNTIME_DIR": str(runtime),
        "PULSE_SERVER": f"unix:{server}",
        "ALSA_CONFIG_PATH": "/dev/null",
    }
    command = ["pulseaudio", "-n", "--daemonize=no", "--exit-idle-time=-1", "--use-pid-file=no"]
    modules = [
        f"module-native-protocol-unix socket={server} auth-anonymous=1",
        f"module-null-sink sink_name=radio rate={RATE} channels=2 format=float32le",
    ]
    log_file = folder / "pulseaudio.log"
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [*command, "--disable-shm=yes", *(part for m in modules for part in ("-L", m))],
            env={k: v for k, v in environment.items() if k != "PULSE_SERVER"},
            stdout=log,
            stderr=log,
        )
        try:
            wait_until(lambda: server.exists() or process.poll() is not None, 20.0)
            if process.poll() is not None:
                pytest.skip(f"pulseaudio does not run here: {log_file.read_text()[-500:]}")
            yield environment
        finally:
            process.terminate()
            process.wait(10.0)


def lend_soapy(environment: Mapping[str, str], folder: Path, *more: Path) -> dict[str, str]:
    """Return an environment whose Python finds the system's SoapySDR, and more folders."""
    assert EXTENSION is not None
    links = folder / "soapy"
    links.mkdir()
    for file in (SYSTEM_PACKAGES / "SoapySDR.py", EXTENSION):
        (links / file.name).symlink_to(file)
    path = [str(links), *map(str, more), *filter(None, [environment.get("PYTHONPATH")])]
    return {**environment, "PYTHONPATH": os.pathsep.join(path)}
