"""The measured part of a slot, whether it is long enough, and the suggested fixes."""

from __future__ import annotations

import re
from typing import Any

import pytest

from macontrol.cli import main
from macontrol.config import Config, load_config
from macontrol.config.checks.measuring import lead_fix, measured_s, shortcoming, too_slow
from macontrol.config.model.errors import Problem
from support.suggestions import suggestions

LAB = load_config(preset="lab-2g4-grbl")


def lab(**changes: Any) -> Config:
    return LAB.replace(**changes)


def test_the_guards_and_the_lead_are_not_measured() -> None:
    config = load_config(
        preset="paper",
        assignments=["physical.slot_duration_s=0.25", "physical.actuation_time_s=0.11"],
    )
    assert config.slot_timing.measure_s == pytest.approx(0.25 * (1 - 0.1 - 0.02) - 0.11)
    assert measured_s(config) == pytest.approx(config.slot_timing.measure_s - 2 * 0.005)
    assert measured_s(lab(physical__slot_duration_s=100.0)) == 1.0
    assert measured_s(load_config()) < 0, "the paper's slots are not for a radio"


@pytest.mark.parametrize("preset", ["lab-2g4-grbl", "lab-5g8-zaber"])
def test_the_lab_presets_measure_enough(preset: str) -> None:
    assert shortcoming(load_config(preset=preset)) is None


@pytest.mark.fault("slot-too-few-samples", "tone-band-too-narrow")
@pytest.mark.parametrize(
    "changes",
    [
        {"physical__slot_duration_s": 0.2},
        {"physical__slot_duration_s": 0.15},
        {"probe__lead_s": 0.3},
        {"probe__least_samples": 71_681},
        {"probe__guard_s": 0.1, "probe__sample_rate_hz": 1.024e6},
        {"probe__mode": "tone", "probe__tone_bandwidth_hz": 100.0},
        {"probe__mode": "tone", "probe__tone_bandwidth_hz": 457.0},
        {"probe__mode": "tone", "probe__tone_bandwidth_hz": 3.0},
        {"probe__mode": "tone", "probe__noise_floor_s": 0.05, "probe__tone_bandwidth_hz": 200.0},
        {
            "probe__mode": "tone",
            "probe__tone_bandwidth_hz": 200.0,
            "probe__tone_offset_hz": 1.0239e6,
            "probe__tuner_frequency_hz": 432.8961e6,
        },
    ],
)
def test_every_fix_of_too_short_a_slot_is_accepted(changes: dict[str, Any]) -> None:
    """Each alternative alone; it may need another fix, but none twice."""
    refusal = shortcoming(lab(**changes))
    assert refusal is not None
    alternatives = suggestions(refusal.fix)
    assert alternatives
    for first in alternatives:
        typed: list[list[str]] = [first]
        problem: Problem | None = None
        for _ in range(3):
            values = dict(pair.replace(".", "__", 1).split("=") for fix in typed for pair in fix)
            config = lab(**(changes | {key: float(value) for key, value in values.items()}))
            problem = shortcoming(config)
            if problem is None:
                break
            typed.append(suggestions(problem.fix)[0])
            assert typed[-1] not in typed[:-1], problem
        assert problem is None


@pytest.mark.parametrize("delay_s", [0.0811, 0.119, 0.13, 0.3333, 0.98])
@pytest.mark.parametrize("mode", ["wideband", "tone"])
def test_a_suggested_lead_is_accepted_with_its_slot(delay_s: float, mode: str) -> None:
    config = lab(probe__mode=mode, probe__tone_bandwidth_hz=700.0)
    (fix,) = suggestions(lead_fix(config, delay_s))
    values = {
        key.replace(".", "__"): float(value) for key, value in (pair.split("=") for pair in fix)
    }
    assert shortcoming(config.replace(**values)) is None
    assert values["probe__lead_s"] + config.probe.guard_s >= delay_s


def test_no_lead_is_suggested_that_the_config_refuses() -> None:
    assert suggestions(lead_fix(LAB, 1.5)) == []


def test_the_fix_for_a_tone_outside_the_received_band_is_accepted() -> None:
    for offset, rate in ((1.02e6, 2.048e6), (-1.02e6, 2.048e6), (250e3, 300e3), (1e3, 9e3)):
        words = ["probe.mode=tone", f"probe.tone_offset_hz={offset}"]
        words += [f"probe.sample_rate_hz={rate}", "probe.tone_bandwidth_hz=20e3"]
        for _ in range(4):
            try:
                load_config(assignments=words)
                break
            except Exception as error:
                words += suggestions(str(error))[0]
        else:
            pytest.fail(f"still refused: {words}")


class TestCheckCommand:
    def check(self, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
        code = main(["check", *words])
        out, err = capsys.readouterr()
        return code, " ".join(out.replace("│", " ").split()), err

    def test_the_measured_part_of_the_interval_is_reported(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        code, out, _ = self.check(capsys, "--preset", "lab-2g4-grbl")
        assert code == 0
        assert "250 ms: 110 to move, 35 of 120 measured, 15 to decide" in out
        assert "2400 MHz less an LO of 1966.08 MHz is 433.92 MHz, tuner at 433.67 MHz" in out

    def test_without_a_radio_the_whole_interval_is_measured(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        code, out, _ = self.check(capsys)
        assert code == 0
        assert "3.4 to measure" in out
        assert "tuner" not in out

    @pytest.mark.fault("slot-too-few-samples")
    def test_too_few_samples_are_refused_without_a_bench_too(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        words = ["--preset", "lab-2g4-grbl", "--set", "physical.slot_duration_s=0.2"]
        code, _, err = self.check(capsys, *words)
        assert code == 78
        ((fix,),) = suggestions(err.strip())
        assert self.check(capsys, *words, "--set", fix)[0] == 0


def test_a_slow_measurement_is_refused_with_a_slot_that_it_fits_into() -> None:
    config = load_config(None, ["probe.driver=scpi"], preset="lab-2g4-grbl")
    assert too_slow(config, 0.001) is None
    problem = too_slow(config, 2.0)
    assert problem is not None
    (least,) = re.findall(r"to at least ([0-9.]+)", problem.fix)
    longer = config.replace(physical__slot_duration_s=float(least))
    assert too_slow(longer, 2.0) is None
    assert measured_s(longer) == pytest.approx(2.4, rel=0.01)
