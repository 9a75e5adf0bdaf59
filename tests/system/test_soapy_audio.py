"""The Soapy probe on a real SoapySDR, with its audio module on a PulseAudio null sink."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from math import log2
from pathlib import Path
from typing import Any

import pytest

from support.audio_radio import NOISE, Player, lend_soapy, needs_sound, sound_server

pytestmark = [pytest.mark.any_user, *needs_sound]


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a process that uses a separate sound server."""
    with sound_server(tmp_path) as environment:
        yield environment


class Child:
    """The process that measures."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        tests = Path(__file__).parents[1]
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("soapy_child.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=lend_soapy(environment, folder, tests),
            text=True,
        )

    def ask(self, command: str) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("{"):  # the libraries print too
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


def noise_floor(child: Child) -> float:
    """Return the noise floor in dBFS; on a busy machine samples can be lost meanwhile."""
    for _ in range(10):
        answer = child.ask("floor")
        print(answer)
        if "dbfs" in answer:
            return float(answer["dbfs"])
    raise AssertionError("no noise floor in ten attempts")


def valid_rewards(child: Child) -> list[float]:
    """Return the valid rewards of five slots; empty while the probe opens its radio again."""
    answer = child.ask("measure 5")
    print(answer)
    return [m["reward"] for m in answer.get("rewards", []) if m["valid"]]


@pytest.mark.fault("overflow")
def test_levels_noise_floor_and_overflow_through_a_real_soapysdr(
    environment: dict[str, str], tmp_path: Path
) -> None:
    player, child = Player(environment), Child(tmp_path, environment)
    try:
        opened = child.ask("open")
        assert opened == {}, opened
        floor = noise_floor(child)
        for amplitude in (0.1, 0.02):
            player.amplitude = amplitude
            expected = log2((amplitude**2 + NOISE) / 10 ** (floor / 10))
            for _ in range(20):
                rewards = valid_rewards(child)
                if sum(abs(reward - expected) < 0.3 for reward in rewards) >= 3:
                    break
            else:
                raise AssertionError(f"a reward of {expected} is played but not measured")
        delayed = child.ask("delay-reader 3.0")
        print(delayed)
        assert "overflow" in delayed["breaks"]
        assert any(valid_rewards(child) for _ in range(20))
        child.ask("close")
    finally:
        child.close()
        player.close()


@pytest.mark.fault("stream-breaks-repeatedly")
def test_a_radio_that_disappears_is_reported_and_opened_again(tmp_path: Path) -> None:
    """Without its sound server the module reports overflows without end."""
    with sound_server(tmp_path) as environment:
        player, child = Player(environment), Child(tmp_path, environment)
        assert child.ask("open") == {}
        noise_floor(child)
    try:
        player.close()
        print(child.ask("await-fault 30"))
        with sound_server(tmp_path) as environment:
            player = Player(environment)
            player.amplitude = 0.02
            assert child.ask("await-samples 30")["reopened"] >= 1
            assert any(valid_rewards(child) for _ in range(20))
            child.ask("close")
    finally:
        child.close()
        player.close()


@pytest.mark.fault("soapy-no-such-radio")
def test_without_a_sound_server_the_radio_is_missing(tmp_path: Path) -> None:
    nowhere = os.environ | {"PULSE_SERVER": f"unix:{tmp_path}/none", "HOME": str(tmp_path)}
    child = Child(tmp_path, nowhere | {"XDG_RUNTIME_DIR": str(tmp_path)})
    try:
        error = child.ask("open")["error"]
        assert error.startswith("soapy:driver=audio: cannot be opened")
        assert "SoapySDR finds no radio" in error
    finally:
        child.close()
