"""Recorded samples: which slots, how much, and what a full disk or a slow one does."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import sigmf

from macontrol.cli import main
from macontrol.config import load_config
from macontrol.config.files.free_space import FreeSpace
from macontrol.config.model.errors import ConfigError, InputOutputError, UsageError
from macontrol.controller.recording.runfile import set_aside
from macontrol.controller.recording.runfile.retention import remove_run
from macontrol.controller.runtime.clock import WallClock
from macontrol.hal.capabilities import HasSamples, SlotSamples
from macontrol.hal.registry import PROBES
from macontrol.iq_recording import MOST_BYTES, IQRecording, samples_of
from macontrol.sim.bench.simulated import SimulatedBench
from macontrol.slot_choice import SlotChoice


@dataclass
class Radio:
    """A probe with samples that a test gives out."""

    dtype: npt.DTypeLike = np.uint8
    name: str = "radio"
    sample_rate_hz: float = 1e6
    frequency_hz: float = 4.3e8
    wants: Callable[[int], bool] = field(default=lambda slot: False)
    take: Callable[[SlotSamples], None] = field(default=lambda samples: None)

    def keep_samples(
        self, wants: Callable[[int], bool], take: Callable[[SlotSamples], None]
    ) -> None:
        self.wants, self.take = wants, take

    def measure(self, slot: int, samples: npt.NDArray[np.generic]) -> None:
        """What the thread of a probe does for one slot."""
        if self.wants(slot):
            self.take(
                SlotSamples(slot, samples, 10.0 * slot, 10.0 * slot, 10.0 * slot + 1, 0.5, "")
            )


def iq(slot: int, count: int = 1000, dtype: npt.DTypeLike = np.uint8) -> npt.NDArray[np.generic]:
    rng = np.random.default_rng(slot)
    return rng.integers(0, 255, (count, 2)).astype(dtype)


def recording(
    folder: Path, radio: Radio, problems: list[str], shortage: str | None = None
) -> IQRecording:
    room = FreeSpace(folder, 0.0)
    if shortage:
        room = FreeSpace(folder, 100.0, measure=lambda path: 1.0)
    return IQRecording(
        folder / "run.sqlite", radio, SlotChoice.parse("2-4,9"),
        wall_s=lambda clock_s: 1.8e9 + clock_s, room=room, on_problem=problems.append,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "slots"), [("100", [100]), ("3,1", [1, 3]), ("100,200-202", [100, 200, 201, 202])]
)
def test_a_choice_of_slots(text: str, slots: list[int]) -> None:
    choice = SlotChoice.parse(text)
    assert [slot for slot in range(300) if slot in choice] == slots
    assert choice.count == len(slots)


@pytest.mark.parametrize("text", ["", "a", "0", "5-3", "1,,2", "-4", "1-2-3", "1.5"])
def test_what_is_no_choice_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        SlotChoice.parse(text)
    with pytest.raises(SystemExit) as refused:
        main(["--backend", "serial", f"--record-iq={text}"])
    assert refused.value.code == 64


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_the_chosen_slots_are_in_the_files(tmp_path: Path, dtype: npt.DTypeLike) -> None:
    problems: list[str] = []
    radio = Radio(dtype)
    written = recording(tmp_path, radio, problems)
    written.start()
    for slot in range(1, 12):
        radio.measure(slot, iq(slot, 500 + slot, dtype))
    written.close()
    expected = np.concatenate([iq(slot, 500 + slot, dtype) for slot in (2, 3, 4, 9)])
    assert written.data.read_bytes() == expected.tobytes()
    meta = json.loads(written.meta.read_text("utf-8"))
    assert meta["global"]["core:sha512"] == hashlib.sha512(expected.tobytes()).hexdigest()
    assert [one["macontrol:slot"] for one in meta["annotations"]] == [2, 3, 4, 9]
    assert meta["captures"][3]["core:sample_start"] == 502 + 503 + 504
    assert meta["captures"][3]["core:datetime"] == "2027-01-15T08:01:30.000000Z"
    sigmf.fromfile(str(written.meta)).validate()
    assert (written.written, written.lost, problems) == (4, 0, [])


def test_no_chosen_slot_leaves_no_file(tmp_path: Path) -> None:
    written = recording(tmp_path, Radio(), [])
    written.start()
    written.close()
    assert list(tmp_path.iterdir()) == []


def test_an_earlier_recording_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "run.sigmf-data").write_bytes(b"precious")
    with pytest.raises(InputOutputError):
        recording(tmp_path, Radio(), []).start()
    assert (tmp_path / "run.sigmf-data").read_bytes() == b"precious"


def test_samples_belong_to_their_run_file(tmp_path: Path) -> None:
    """They are renamed and removed with it."""
    run, radio = tmp_path / "run.sqlite", Radio()
    assert main(["--backend", "sim", "--fast", "--slots", "5", "--run", str(run)]) == 0
    written = recording(tmp_path, radio, [])
    written.start()
    radio.measure(2, iq(2))
    written.close()
    content = written.data.read_bytes()
    renamed = set_aside(run)
    assert renamed is not None
    assert renamed.with_suffix(".sigmf-data").read_bytes() == content
    assert not written.data.exists()
    assert remove_run(renamed)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_loses_samples_and_reports_once(tmp_path: Path) -> None:
    problems: list[str] = []
    radio = Radio()
    written = recording(tmp_path, radio, problems, shortage="full")
    written.start()
    for slot in (2, 3, 4):
        radio.measure(slot, iq(slot))
    written.close()
    assert (written.written, written.lost, len(problems)) == (0, 3, 1)


def test_a_disk_that_hangs_delays_no_measurement_and_bounds_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("macontrol.iq_recording._QUEUED_BYTES", 5000)
    radio, hangs = Radio(), threading.Event()
    written = recording(tmp_path, radio, [])
    monkeypatch.setattr(written._room, "shortage", lambda: hangs.wait() and None)
    written.start()
    for slot in (2, 3, 4):  # 2000 bytes each; returns although nothing is written
        radio.measure(slot, iq(slot))
    assert written.lost == 1
    hangs.set()
    written.close()
    assert (written.written, written.lost) == (2, 1)


def test_a_probe_without_samples_and_too_many_samples_are_refused() -> None:
    config = load_config(preset="lab-2g4-grbl")
    bench = SimulatedBench(config, WallClock(), seed=1)
    with pytest.raises(ConfigError):
        samples_of(bench.probe, SlotChoice.parse("1"), config)
    radio = PROBES["rtl_tcp"].make(config.probe, WallClock())
    assert isinstance(radio, HasSamples)
    longest_s = 0.25 - 0.06 * 0.25 - 0.02 * 0.25  # of a slot in which the antenna holds
    per_slot = 2 * longest_s * radio.sample_rate_hz
    fits = int(MOST_BYTES / per_slot)
    assert samples_of(radio, SlotChoice.parse(f"1-{fits}"), config) is radio
    with pytest.raises(UsageError):
        samples_of(radio, SlotChoice.parse(f"1-{fits + 1}"), config)


def test_the_simulated_bench_has_no_samples() -> None:
    assert main(["--backend", "sim", "--fast", "--slots", "1", "--record-iq", "1"]) == 64
