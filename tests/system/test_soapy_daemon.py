"""The daemon with a radio behind SoapySDR: whole processes, a pseudo-terminal and a sound server.

The stage is emulated and has no effect on the level. The played level changes during the run, so
that the rewards before and after differ.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from math import log2, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from macontrol.controller.recording.runfile.reader import read_run
from macontrol.controller.runtime.clock import WallClock
from macontrol.sim.bench.boards.grbl.board import VirtualGrbl
from support.audio_radio import NOISE, RATE, Player, lend_soapy, needs_sound, sound_server
from support.waiting import wait_until

pytestmark = [pytest.mark.any_user, pytest.mark.timeout(300), *needs_sound]

SLOT_S, ACTUATION_S = 0.25, 0.13
LOUD, FAINT = 0.1, 0.02
# The number of slots with a reward at each level.
ENOUGH = 14
# Buffers delay the played level; around a change both levels are in a slot.
CHANGE_S = (-0.5, 2.0)
BENCH = ["--backend", "serial", "--preset", "lab-2g4-grbl", "--probe", "soapy:driver=audio"]
SETTINGS = {
    "physical.slot_duration_s": SLOT_S,
    "physical.actuation_time_s": ACTUATION_S,
    "physical.actuation": "fixed",
    "physical.region_length": 0.1,
    "survey.samples": 3,
    "probe.soapy_stream": '"chan=stereo_iq"',
    "probe.sample_rate_hz": RATE,
    "probe.converter_lo_hz": "unknown",  # a sound card has no frequencies
    "probe.guard_s": 0.025,
    "probe.lead_s": 0,
    "probe.silence_s": 8,
}


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    # A separate lock folder, because other tests use the same names of pseudo-terminals.
    places = {"XDG_STATE_HOME": str(tmp_path / "state"), "RUNTIME_DIRECTORY": str(tmp_path)}
    with sound_server(tmp_path) as server:
        yield lend_soapy(server | places, tmp_path)


def macontrol(*words: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    changes = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    return subprocess.Popen(
        [sys.executable, "-m", "macontrol", *words, *BENCH, *changes],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def follow(process: subprocess.Popen[str], player: Player, file: Path) -> tuple[float, float]:
    """Switch the transmitter on when requested, and to faint in the middle of the run.

    Return the measured noise floor, and when the transmitter became faint.
    """
    assert process.stdout is not None
    floor, faint_at_s = nan, [nan]

    def become_faint() -> None:
        try:
            await_rewards(file, lambda start_s: start_s > 0)
            time.sleep(-CHANGE_S[0])
            player.amplitude, faint_at_s[0] = FAINT, time.monotonic()
            await_rewards(file, lambda start_s: start_s > faint_at_s[0] + CHANGE_S[1])
        finally:
            process.terminate()

    changing = threading.Thread(target=become_faint)
    for line in process.stdout:
        event = json.loads(line)
        if found := re.search(r"noise floor (\S+) dBFS", event.get("detail", "")):
            floor = 10 ** (float(found[1]) / 10)
        if "switch the transmitter on" in event.get("detail", ""):
            player.amplitude = LOUD
        if event["event"] == "start":
            changing.start()
    if changing.ident is not None:
        changing.join()
    return floor, faint_at_s[0]


def await_rewards(file: Path, is_selected: Callable[[Any], Any]) -> None:
    """Wait until enough of the slots with a selected start time have a reward."""

    def are_complete() -> bool:
        slots = read_run(file).slots
        return int(np.isfinite(slots["reward"][is_selected(slots["start_s"])]).sum()) >= ENOUGH

    wait_until(are_complete, every_s=0.2)


@pytest.mark.fault("soapy-level")
def test_a_run_with_a_soapy_radio_records_the_played_rewards(
    environment: dict[str, str], tmp_path: Path
) -> None:
    player, file = Player(environment), tmp_path / "run.sqlite"
    rail = {110: 12000.0, 120: 2000.0, 130: 320.0}
    try:
        with VirtualGrbl(WallClock(), settings=rail) as stage:
            options = ["--port", stage.port, "--yes", "--run", str(file)]
            with macontrol("--log", "json", *options, environment=environment) as process:
                assert process.stderr is not None
                try:
                    floor, faint_at_s = follow(process, player, file)
                    errors = process.stderr.read()
                    process.wait(60.0)
                finally:
                    process.kill()
            assert process.returncode == 0, errors
    finally:
        player.close()
    slots = read_run(file).slots
    valid = np.isfinite(slots["reward"])
    print(f"{np.count_nonzero(valid)} of {len(valid)} valid; not: {set(slots['invalid'][~valid])}")
    since = slots["start_s"] - faint_at_s
    for amplitude, selected in ((LOUD, since < CHANGE_S[0]), (FAINT, since > CHANGE_S[1])):
        rewards, sigma = slots["reward"][valid & selected], slots["uncertainty"][valid & selected]
        expected = (1 - ACTUATION_S / SLOT_S) * log2((amplitude**2 + NOISE) / floor)
        print(
            f"{amplitude}: {len(rewards)} of {np.count_nonzero(selected)}, {expected:.3f}:", rewards
        )
        assert len(rewards) >= 5
        assert rewards.max() < expected + 0.1
        right = np.abs(rewards - expected) < 0.1
        assert np.count_nonzero(right) >= 0.7 * len(rewards), "the played level was not measured"
        assert sigma.min() > 0
        # It includes the spread of the noise floor, and the player can be silent for a moment.
        assert sigma[right].max() < 0.2


def test_the_doctor_examines_a_soapy_radio(environment: dict[str, str]) -> None:
    output = ""
    for _ in range(3):  # on a busy machine the sound server may play silence for a while
        player = Player(environment)
        try:
            with macontrol("check", "--port", "/dev/no-such", environment=environment) as process:
                output, errors = process.communicate(timeout=60)
        finally:
            player.close()
        assert process.returncode == 69, errors  # there is no stage
        if "FAIL  noise floor" not in output:
            break
    assert "pass  radio        soapy:driver=audio works" in output
    # A sound server on a busy machine loses some or many samples, and the doctor reports it.
    outcome = r"48,000 samples/s|samples were lost|[\d,]+ samples/s arrive, 48,000 were requested"
    assert re.search(rf"sample rate  ({outcome})", output), output
    assert re.search(r"pass  noise floor  -(39|4[01])\.\d dBFS", output), output
