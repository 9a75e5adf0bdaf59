"""`--record-iq` on the virtual bench: the files as the package sigmf and NumPy read them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sigmf
from numpy.typing import NDArray

from macontrol.controller.recording.runfile import Run, read_run

MACONTROL = [sys.executable, "-m", "macontrol"]
CHOSEN = [3, 6, 7, 8]


@dataclass
class Recorded:
    run: Run
    data: Path
    meta: Path
    summary: dict[str, Any]

    def samples(self, annotation: dict[str, Any]) -> NDArray[np.float64]:
        """I and Q of one annotation, from the bytes of the file."""
        first, count = annotation["core:sample_start"], annotation["core:sample_count"]
        raw = np.fromfile(self.data, np.uint8).reshape(-1, 2)[first : first + count]
        return (raw.astype(float) - 127.5) / 127.5


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("iq")
    port, file = folder / "stage", folder / "a.run.sqlite"
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    command = [*MACONTROL, "virtual-bench", "--link", str(port), "--still", "5"]
    command += ["--rtl-tcp", "127.0.0.1:0", "--seed", "3"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as bench:
        assert bench.stdout is not None
        radio = bench.stdout.readline().split("radio on ")[1].split(";")[0]
        run = [*MACONTROL, "--backend", "serial", "--preset", "lab-2g4-grbl", "--log", "json"]
        run += ["--port", str(port), "--probe", f"rtl_tcp://{radio}", "--cold", "--yes"]
        # More time to move than the preset has, because a busy machine answers late.
        run += ["--set", "physical.actuation_time_s=0.16", "--set", "physical.slot_duration_s=0.3"]
        run += ["--set", "physical.region_length=0.5", "--set", "survey.samples=3"]
        run += ["--run", str(file), "--slots", "12", "--record-iq", "3,6-8,900"]
        done = subprocess.run(
            run, capture_output=True, text=True, env=environment, timeout=100, check=False
        )
        bench.communicate("quit\n", timeout=20)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    return Recorded(
        read_run(file), folder / "a.run.sigmf-data", folder / "a.run.sigmf-meta", summary
    )


def test_the_files_are_valid_sigmf(recorded: Recorded) -> None:
    """Checked against the schema, with the hash of the data."""
    found = sigmf.fromfile(str(recorded.meta))
    found.validate()
    assert found.get_global_info()["core:datatype"] == "cu8"
    assert found.sample_rate == 2.048e6
    assert found.sample_count == recorded.data.stat().st_size / 2
    captures, annotations = found.get_captures(), found.get_annotations()
    # A busy machine can miss a slot, which then has no samples.
    chosen = [slot for slot in recorded.run.slots["slot"].tolist() if slot in CHOSEN]
    assert chosen
    assert [one["macontrol:slot"] for one in annotations] == chosen
    for capture, one in zip(captures, annotations, strict=True):
        assert capture["core:sample_start"] == one["core:sample_start"]
        assert capture["core:frequency"] == 433.67e6
        read = found.read_samples(one["core:sample_start"], one["core:sample_count"])
        ours = recorded.samples(one)
        # The package scales bytes by 1/128 from 128, macontrol by 1/127.5 from 127.5.
        assert np.abs(read - (ours[:, 0] + 1j * ours[:, 1])).max() < 0.02
    assert recorded.summary["iq_slots"] == len(chosen)
    assert recorded.summary["iq_slots_lost"] == 0
    assert recorded.summary["iq_file"] == str(recorded.meta)


def test_the_power_of_the_samples_is_the_measurement_of_the_slot(recorded: Recorded) -> None:
    """The mean square without the mean, per sixteenth of the window, as docs/probes.md has it."""
    meta = json.loads(recorded.meta.read_text("utf-8"))
    run = recorded.run
    floor = next(e.value for e in run.events if e.kind == "noise-floor" and e.detail == "in use")
    assert floor is not None
    rates = (run.slots["reward"] / run.slots["transmission_share"]).tolist()
    rates_of = dict(zip(run.slots["slot"].tolist(), rates, strict=True))
    for one in meta["annotations"]:
        samples = recorded.samples(one)
        length = len(samples) // 16
        parts = samples[: 16 * length].reshape(16, length, 2)
        power = float(parts.var(axis=1).sum(axis=1).mean())
        assert power == pytest.approx(one["macontrol:power"], rel=1e-4)
        snr = power / 10 ** (floor / 10) - 1
        assert rates_of[one["macontrol:slot"]] == pytest.approx(np.log2(1 + snr), rel=1e-3)


def test_a_capture_has_the_time_of_its_first_sample(recorded: Recorded) -> None:
    meta = json.loads(recorded.meta.read_text("utf-8"))
    run = recorded.run
    starts = dict(zip(run.slots["slot"].tolist(), run.slots["start_s"].tolist(), strict=True))
    slot_s = run.header.config.physical.slot_duration_s
    spent_s = slot_s * (1 - run.slots["transmission_share"])
    spent_of = dict(zip(run.slots["slot"].tolist(), spent_s.tolist(), strict=True))
    for capture, one in zip(meta["captures"], meta["annotations"], strict=True):
        begin = starts[one["macontrol:slot"]]
        first, last = one["macontrol:window_start_s"], one["macontrol:window_end_s"]
        assert begin + spent_of[one["macontrol:slot"]] < first < last < begin + slot_s
        assert 0 <= one["macontrol:first_sample_s"] - first < 1e-5
        assert one["core:sample_count"] == pytest.approx((last - first) * 2.048e6, abs=2)
        wall = datetime.fromisoformat(capture["core:datetime"]).timestamp()
        assert wall == pytest.approx(run.header.wall_s(one["macontrol:first_sample_s"]), abs=1e-5)
