"""The reference receiver: its power beside each slot, whatever it does and however it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from macontrol import reference
from macontrol.cli import main
from macontrol.config import Config, load_config
from macontrol.config.model.errors import ConfigError, ProbeError
from macontrol.config.model.reward import Power
from macontrol.config.model.units import to_db
from macontrol.controller.recording.records import Item, Recorder, ReferenceReading, SlotRecord
from macontrol.controller.recording.runfile import RunFileRecorder, RunHeader, read_run
from macontrol.controller.runtime.clock import WallClock
from macontrol.hal import Measurement
from macontrol.hal.probe import Signal
from macontrol.hal.registry import PROBES
from macontrol.reference import ReferenceReceiver, beside
from macontrol.reports.recorded import read_recorded
from macontrol.sim.world.channel import Channel
from support.sample_run import slot_record
from support.waiting import wait_until

OTHER = ["reference.driver=rtl_tcp", "reference.rtl_tcp.address=127.0.0.1:1"]


class Kept(Recorder):
    def __init__(self) -> None:
        self.readings: list[ReferenceReading] = []

    def submit(self, item: Item) -> None:
        assert isinstance(item, ReferenceReading)
        self.readings.append(item)

    @property
    def slots(self) -> list[int]:
        return [reading.slot for reading in self.readings]


class Receiver:
    """A probe that measures 20 dB over its floor at once, or does what the script says."""

    name = "receiver"

    def __init__(self) -> None:
        self.faults: list[BaseException] = []
        self.opened = 0
        self.closed = False
        self.refusals: list[ProbeError] = []
        self._ready: list[Measurement] = []
        self.wait: Callable[[], None] = lambda: None

    def open(self) -> None:
        self.opened += 1
        if self.refusals:
            raise self.refusals.pop()

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        self.wait()
        if self.faults:
            raise self.faults.pop()
        signal = Signal(-30.0, "dBFS", -50.0)
        self._ready.append(Measurement(slot, Power(1e-3, 1e-5, 0.1, 0.1), signal=signal))

    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        ready, self._ready = self._ready, []
        return ready

    def close(self) -> None:
        self.closed = True


class Setting:
    """A receiver of a run whose slots are recorded at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.probe, self.kept, self.clock = Receiver(), Kept(), WallClock()
        self.reported: list[tuple[str, float | None]] = []
        self.recorded = 10**6
        config = load_config(None, OTHER, preset="lab-2g4-grbl")
        assert config.reference_probe is not None
        description = PROBES["rtl_tcp"]
        monkeypatch.setattr(type(description), "make", lambda *_: self.probe)
        self.receiver = ReferenceReceiver(
            config,
            config.reference_probe,
            self.clock,
            lambda text, value: self.reported.append((text, value)),
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        self.receiver.open()
        self.receiver.start(self.kept, lambda: self.recorded)
        try:
            yield
        finally:
            self.receiver.close()

    def slot(self, number: int) -> None:
        now = self.clock.now()
        self.receiver.request(number, now, now + 30.0)


@pytest.fixture
def setting(monkeypatch: pytest.MonkeyPatch) -> Setting:
    return Setting(monkeypatch)


def test_each_slot_gets_level_unit_and_snr(setting: Setting) -> None:
    with setting.running():
        for slot in (1, 2, 3):
            setting.slot(slot)
        wait_until(lambda: len(setting.kept.readings) == 3)
    assert setting.kept.slots == [1, 2, 3]
    _, level, unit, snr = setting.kept.readings[0]
    assert (level, unit) == (-30.0, "dBFS")
    assert snr == pytest.approx(to_db(1e-3 / 1e-5 - 1))
    assert setting.probe.closed
    assert setting.reported == []


def test_a_reading_waits_for_the_record_of_its_slot(setting: Setting) -> None:
    setting.recorded = 1
    with setting.running():
        setting.slot(1)
        setting.slot(2)
        wait_until(lambda: setting.kept.slots == [1])
        setting.recorded = 2
        wait_until(lambda: setting.kept.slots == [1, 2])


@pytest.mark.fault("reference-fails")
@pytest.mark.parametrize("error", [ProbeError("radio: gone"), KeyError("gone")])
def test_a_fault_is_reported_once_and_ends_by_itself(
    setting: Setting, error: BaseException
) -> None:
    setting.probe.faults = [error, error]
    with setting.running():
        for slot in range(1, 5):
            setting.slot(slot)
        wait_until(lambda: len(setting.kept.readings) == 2)
    assert setting.kept.slots == [3, 4]
    (failure, nothing), (back, outage_s) = setting.reported
    assert "gone" in failure
    assert "the run continues" in failure
    assert nothing is None
    assert outage_s is not None
    assert "works again" in back


@pytest.mark.fault("reference-fails")
def test_a_receiver_that_cannot_be_opened_is_tried_again(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "RETRY_S", 0.05)
    setting.probe.refusals = [ProbeError("no server")] * 3
    with setting.running():
        wait_until(lambda: setting.probe.opened == 4 and not setting.receiver.problem)
        setting.slot(7)
        wait_until(lambda: setting.kept.slots == [7])
    texts = [text for text, _ in setting.reported]
    assert "no server" in texts[0]
    assert "works again" in texts[-1]


@pytest.mark.fault("reference-fails")
def test_a_receiver_that_hangs_delays_no_slot(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "_MOST_WAITING", 10)
    monkeypatch.setattr(reference, "_JOIN_S", 0.05)
    released = Event()

    def hang() -> None:
        released.wait(60)

    setting.probe.wait = hang
    main_probe = Receiver()
    probe = beside(main_probe, setting.receiver)
    with setting.running():
        begun = setting.clock.now()
        for slot in range(1, 200):
            probe.request(slot, begun, begun + 30.0)
            assert [one.slot for one in probe.collect(begun)] == [slot]
        assert setting.clock.now() - begun < 5.0
        assert setting.receiver._jobs.qsize() == 10
    released.set()


def test_the_slot_is_requested_from_the_receiver_although_the_probe_refuses(
    setting: Setting,
) -> None:
    main_probe = Receiver()
    main_probe.faults = [ProbeError("no device")]
    with setting.running():
        now = setting.clock.now()
        with pytest.raises(ProbeError, match="no device"):
            beside(main_probe, setting.receiver).request(3, now, now + 30.0)
        wait_until(lambda: setting.kept.slots == [3])


class TestSimulated:
    def test_it_is_fixed_in_the_middle_of_the_rail(self, tmp_path: Path) -> None:
        file = tmp_path / "run.sqlite"
        options = [word for text in OTHER for word in ("--set", text)]
        run = ["--backend", "sim", "--fast", "--slots", "50", "--run", str(file), "--log", "json"]
        assert main([*run, *options]) == 0
        recorded = read_recorded(file)
        config, channel, expected = recorded.config, Channel(recorded.config, 1), []
        for _ in range(50):
            channel.advance(1)
            h = channel.field(config.physical.region_length / 2)
            expected.append(to_db(config.reward.snr * abs(h) ** 2))
        np.testing.assert_allclose(recorded.run["reference_snr_db"], expected, rtol=1e-9)
        assert set(recorded.run["reference_unit"]) == {"dB"}
        gain = recorded.gain_over_reference
        assert gain is not None
        assert gain.value == pytest.approx(
            float(np.mean(recorded.run["snr_db"] - np.array(expected)))
        )

    def test_without_one_there_is_nothing(self, tmp_path: Path) -> None:
        file = tmp_path / "run.sqlite"
        run = ["--backend", "sim", "--fast", "--slots", "5", "--run", str(file), "--log", "json"]
        assert main(run) == 0
        recorded = read_recorded(file)
        assert np.isnan(recorded.run["reference_db"]).all()
        assert recorded.gain_over_reference is None


def test_a_reading_that_comes_before_its_slot_is_stored_with_it(
    tmp_path: Path, paper: Config
) -> None:
    header = RunHeader.of(
        paper,
        backend="serial",
        stage="here",
        survey=None,
        sigma_f2=None,
        started_wall_s=1e9,
        started_clock_s=0.0,
    )
    recorder = RunFileRecorder(tmp_path / "run.sqlite", header, flush_s=0.01)
    recorder.start()
    recorder.submit(ReferenceReading(1, -30.0, "dBm", 12.0))
    wait_until(lambda: recorder.pending == 1)
    record: SlotRecord = slot_record(1)
    recorder.submit(record)
    recorder.close()
    slots: Any = read_run(tmp_path / "run.sqlite").slots
    assert slots["reference_db"].tolist() == [-30.0]
    assert slots["reference_unit"].tolist() == ["dBm"]
    assert slots["reference_snr_db"].tolist() == [12.0]


class TestSettings:
    def test_it_has_the_settings_of_a_probe(self) -> None:
        config = load_config(None, ["reference.driver=scpi", "reference.guard_s=0.002"])
        assert config.reference_probe is not None
        assert config.reference_probe.guard_s == 0.002
        assert type(config.reference_probe).__name__ == "ScpiSettings"

    def test_it_is_off_by_default(self) -> None:
        assert load_config().reference_probe is None
        assert load_config(None, ["reference.driver=off"]) == load_config()

    @pytest.mark.parametrize(
        ("assignments", "said"),
        [
            (["reference.driver=rtl_tcp"], "reference.rtl_tcp.address"),
            (["reference.gain_db=3"], "reference.driver"),
            (["reference.driver=none"], "reference.driver"),
            ([*OTHER, "reference.gain=3"], "gain_db"),
        ],
    )
    def test_what_cannot_work_is_refused(self, assignments: list[str], said: str) -> None:
        with pytest.raises(ConfigError) as refused:
            load_config(None, assignments)
        assert said in str(refused.value)
