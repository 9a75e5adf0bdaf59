"""The gain that `check --gain` proposes is the highest without clipping; the former is restored."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from macontrol.alignment import Reading
from macontrol.cli import main
from macontrol.config import Config, load_config
from macontrol.config.model.errors import ProbeError
from macontrol.controller.runtime.clock import VirtualClock, WallClock
from macontrol.controller.runtime.observation import Observation
from macontrol.doctor.gain import POSITIONS, GainSweep, gains_of
from macontrol.doctor.report import Finding, Report
from macontrol.hal.capabilities import HasGain
from macontrol.hal.probe import Signal
from macontrol.hal.probes.rtl_tcp.stream import GAINS_DB
from macontrol.sim.bench.virtual import VirtualBench

FORMER_DB = 20.0


class Radio:
    """Clips above a level of -3 dBFS; the level at a gain of 0 dB depends on the position."""

    gain_key = "probe.gain_db"

    def __init__(self, gains_db: Sequence[float], strengths_db: Sequence[float]) -> None:
        self.gains_db, self.gain_db = gains_db, FORMER_DB
        self.strengths_db = strengths_db
        self.tried: list[tuple[float, float]] = []
        """Position and gain."""
        self.error: ProbeError | None = None

    def set_gain(self, gain_db: float) -> None:
        self.gain_db = gain_db


class Antenna:
    """An alignment without a bench."""

    reading_s = 0.1

    def __init__(self, config: Config, radio: Radio) -> None:
        self.length, self.radio, self.position = config.physical.region_length, radio, 0.0
        self.above_floor = 100.0

    def go_to(self, position: float, **_: object) -> bool:
        self.position = position
        return True

    def read(self) -> Reading:
        radio = self.radio
        if radio.error is not None:
            return Reading(self.position, 0.0, None, str(radio.error))
        radio.tried.append((self.position, radio.gain_db))
        index = round(self.position / self.length * (len(radio.strengths_db) - 1))
        level = radio.strengths_db[index] + radio.gain_db
        share = 0.2 if level > -3 else 0.0
        signal = Signal(min(level, 0.0), "dBFS", None, None, share, 1000)
        seen = Observation(1, 1.0, share == 0, above_floor=self.above_floor, signal=signal)
        return Reading(self.position, 0.0, seen)


class Sweep:
    def __init__(self, config: Config, gains_db: Sequence[float], peak_db: float) -> None:
        self.strengths = [peak_db - 20.0] * POSITIONS
        self.strengths[9] = peak_db
        self.radio = Radio(gains_db, self.strengths)
        self.antenna = Antenna(config, self.radio)
        self.findings: list[Finding] = []
        self.steps: list[str] = []
        self.keeps_on = True
        self.sweep = GainSweep(
            config,
            self.antenna,  # type: ignore[arg-type]
            self.radio,
            VirtualClock(),
            lambda: self.keeps_on,
            self.steps.append,
        )

    def run(self) -> Finding:
        self.sweep.run(Report(self.findings.append))
        assert self.radio.gain_db == FORMER_DB
        (only,) = self.findings
        return only


def proposed(finding: Finding) -> float:
    found = re.search(r"^gain_db = (.+)$", finding.fix, re.MULTILINE)
    assert found is not None, finding
    return float(found[1])


@pytest.fixture
def config() -> Config:
    return load_config(preset="lab-2g4-grbl")


@pytest.mark.parametrize("peak_db", np.linspace(-46.0, -4.0, 15).tolist())
def test_it_is_the_highest_that_does_not_clip_at_the_strongest_position(
    config: Config, peak_db: float
) -> None:
    sweep = Sweep(config, GAINS_DB[5], peak_db)
    finding = sweep.run()
    expected = max(gain for gain in GAINS_DB[5] if peak_db + gain <= -3)
    assert proposed(finding) == expected
    place = 9 / (POSITIONS - 1) * config.physical.region_length
    assert f"{place:.3f} wavelengths" in finding.detail
    assert {round(position, 9) for position, gain in sweep.radio.tried if gain == expected} >= {
        round(place, 9)
    }


def test_the_highest_gain_is_proposed_if_nothing_clips(config: Config) -> None:
    assert proposed(Sweep(config, [0.0, 10.0, FORMER_DB, 30.0], -60.0).run()) == 30.0


def test_the_gain_in_use_passes(config: Config) -> None:
    finding = Sweep(config, [0.0, 10.0, FORMER_DB, 30.0], -24.0).run()
    assert (finding.verdict, finding.fix) == ("pass", "")


def test_a_signal_that_clips_at_the_lowest_gain_needs_an_attenuator(config: Config) -> None:
    finding = Sweep(config, [5.0, FORMER_DB], 0.0).run()
    assert finding.verdict == "FAIL"
    assert "attenuator" in finding.fix


def test_without_a_signal_nothing_is_proposed(config: Config) -> None:
    sweep = Sweep(config, [0.0, FORMER_DB, 30.0], -60.0)
    sweep.antenna.above_floor = 0.2
    finding = sweep.run()
    assert (finding.verdict, finding.fix) == ("FAIL", "switch the transmitter on")


def test_a_radio_that_fails_is_a_finding(config: Config) -> None:
    sweep = Sweep(config, [0.0, FORMER_DB, 30.0], -60.0)
    sweep.radio.error = ProbeError("radio: the connection was lost")
    finding = sweep.run()
    assert finding.verdict == "FAIL"
    assert "connection was lost" in finding.detail


def test_a_stop_restores_the_gain(config: Config) -> None:
    sweep = Sweep(config, [0.0, FORMER_DB, 30.0], -60.0)
    sweep.keeps_on = False
    assert sweep.run().verdict == "skip"


def test_a_probe_without_a_gain_has_none() -> None:
    assert gains_of(object()) == ()


@pytest.mark.parametrize(
    "words",
    [["--gain"], ["--gain", "--backend", "sim"], ["--backend", "serial", "--yes"]],
)
def test_where_it_makes_no_sense_it_is_refused(words: list[str]) -> None:
    assert main(["check", *words]) == 64


def test_a_probe_without_a_gain_is_refused_before_anything_is_connected(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The port does not exist, so the stage cannot be the reason."""
    words = ["--backend", "serial", "--preset", "lab-2g4-grbl", "--yes", "--port", "/dev/nowhere"]
    assert main(["check", "--gain", *words, "--probe", "line:///dev/nothing"]) == 69
    assert "the probe line has no gain" in " ".join(capsys.readouterr().out.split())


@pytest.mark.timeout(180)
def test_on_the_virtual_bench_the_proposal_is_accepted_and_does_not_clip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    settings = ["physical.region_length=0.5", "physical.actuation_time_s=0.16"]
    settings += ["physical.slot_duration_s=0.3"]
    config = load_config(None, settings, preset="lab-2g4-grbl")
    with VirtualBench(config, WallClock(), seed=3, link=tmp_path / "stage") as bench:
        words = ["--backend", "serial", "--preset", "lab-2g4-grbl", "--yes"]
        words += ["--port", str(tmp_path / "stage"), "--probe", f"rtl_tcp://{bench.probe.address}"]
        words += [word for setting in settings for word in ("--set", setting)]
        assert main(["check", "--gain", *words]) == 0
        output = capfd.readouterr().out
        file = tmp_path / "bench.toml"
        file.write_text('preset = "lab-2g4-grbl"\n' + output[output.index("[probe]") :])
        gain_db = load_config(file).probe.model_dump()["gain_db"]
        radio, gains = bench.radio, sorted(GAINS_DB[5])
        assert radio.tuning.gain_db == FORMER_DB
        assert gain_db in gains
        shares = []
        for gain in (gain_db, gains[gains.index(gain_db) + 1]):
            radio.tuning.gain_db = gain
            # At the strongest position, where the antenna is now.
            samples = radio.samples(WallClock().now(), 200_000)
            shares.append(float(np.mean((samples == 0) | (samples == 255))))
        assert shares[0] < 1e-3
        assert shares[1] > shares[0]


def test_a_radio_has_a_gain_that_can_be_set(config: Config) -> None:
    from macontrol.hal.registry import PROBES

    probe = PROBES["rtl_tcp"].make(config.probe, WallClock())
    assert isinstance(probe, HasGain)
    assert gains_of(probe) == ()  # before it is open, its tuner is unknown
    probe.close()
