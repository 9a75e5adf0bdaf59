"""Carrier, converter and tuner must agree; what is suggested where they do not is accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from macontrol.config import load_config, preset_names
from macontrol.config.checks.rf_plan import describe_plan, plan_contradictions, received_hz
from macontrol.config.model.errors import ConfigError, Problem
from macontrol.config.schema import driver_settings
from macontrol.config.sections.sdr import SdrSettings
from macontrol.controller.runtime.clock import WallClock
from macontrol.sim.bench.virtual import VirtualBench
from support.probe_settings import probe_settings
from support.suggestions import suggestions

LABS = ["lab-2g4-grbl", "lab-5g8-zaber"]


@pytest.mark.parametrize("preset", LABS)
def test_the_lab_presets_bring_their_carrier_into_the_tone_s_band(preset: str) -> None:
    config = load_config(preset=preset, assignments=["probe.mode=tone"])
    probe = lab_probe(preset=preset)
    received = received_hz(config.physical.carrier_frequency_hz, config.probe)
    assert received == probe.tuner_frequency_hz + probe.tone_offset_hz


def test_the_paper_states_no_plan_and_is_not_checked() -> None:
    assert lab_probe().converter_lo_hz == "unknown"
    assert received_hz(30e9, lab_probe()) is None


def lab_probe(*arguments: Any, **options: Any) -> SdrSettings:
    """The probe of a config, which is a radio."""
    probe = load_config(*arguments, **options).probe
    assert isinstance(probe, SdrSettings)
    return probe


def problems(preset: str, values: dict[str, Any]) -> list[Problem]:
    """What is wrong with a preset's plan after some changes of the carrier and the probe."""
    config = load_config(preset=preset)
    carrier_hz = values.get("carrier_frequency_hz", config.physical.carrier_frequency_hz)
    changes = {key: value for key, value in values.items() if key != "carrier_frequency_hz"}
    probe = driver_settings("probe", config.probe.model_dump() | changes)
    assert isinstance(probe, SdrSettings)
    return list(plan_contradictions(carrier_hz, probe))


@pytest.mark.parametrize(
    "values",
    [
        {"converter_lo_hz": 2833.92e6},  # above the carrier
        {"converter_lo_hz": 1966.7e6},  # off by less than half the band
        {"carrier_frequency_hz": 433.92e6, "converter_lo_hz": "none"},
        {"tuner_frequency_hz": 900e6, "converter_lo_hz": 1500e6},
        {"tuner_frequency_hz": 900e6, "converter_lo_hz": "unknown"},
        {"mode": "tone", "converter_lo_hz": 1966.089e6},
        {"mode": "tone", "tone_offset_hz": 310e3},  # after a drift by 25 ppm of the carrier
    ],
    ids=str,
)
def test_what_agrees_is_accepted(values: dict[str, Any]) -> None:
    assert problems("lab-2g4-grbl", values) == []


REFUSED: list[dict[str, Any]] = [
    {"tuner_frequency_hz": 900e6},
    {"carrier_frequency_hz": 2.45e9},
    {"carrier_frequency_hz": 868.3e6},
    {"carrier_frequency_hz": 433.92e6},
    {"carrier_frequency_hz": 300e6},
    {"converter_lo_hz": "none"},
    {"converter_lo_hz": "none", "carrier_frequency_hz": 28e9},
    {"converter_lo_hz": 2.4e9},
    {"sample_rate_hz": 300e3},
    {"mode": "tone", "converter_lo_hz": 1968e6},
    {"mode": "tone", "tone_offset_hz": -333333.3, "tuner_frequency_hz": 436e6},
    {"mode": "tone", "tone_offset_hz": 100e3, "tone_bandwidth_hz": 460.0, "converter_lo_hz": 1e9},
]


@pytest.mark.fault("rf-plan-contradiction")
@pytest.mark.parametrize("values", REFUSED, ids=str)
@pytest.mark.parametrize("preset", LABS)
def test_what_does_not_agree_is_refused_and_every_fix_is_accepted(
    preset: str, values: dict[str, Any]
) -> None:
    (refusal,) = problems(preset, values)
    fixes = suggestions(refusal.fix)
    assert fixes or '"none"' in refusal.fix
    for (fix,) in fixes:
        key, value = fix.removeprefix("probe.").split("=")
        assert problems(preset, values | {key: float(value)}) == []


@pytest.mark.parametrize(
    ("values", "fixed"),
    [
        ({"converter_lo_hz": "none"}, "converter_lo_hz"),
        ({"converter_lo_hz": 100e6}, "converter_lo_hz"),
        ({"tuner_frequency_hz": 2.3e9}, "tuner_frequency_hz"),
    ],
)
def test_no_fix_tunes_an_rtl_sdr_to_what_it_cannot_receive(
    values: dict[str, Any], fixed: str
) -> None:
    (refusal,) = problems("lab-2g4-grbl", values)
    ((fix,),) = suggestions(refusal.fix)
    assert fix.startswith(f"probe.{fixed}=")
    (refusal,) = problems("lab-2g4-grbl", values | {"driver": "soapy"})
    assert len(suggestions(refusal.fix)) == 2, "another radio may receive it"


@pytest.mark.fault("rf-plan-contradiction")
def test_a_config_that_does_not_agree_ends_with_78_and_the_numbers() -> None:
    with pytest.raises(ConfigError, match=r"2400 MHz.*1966\.08 MHz.*900 MHz") as refusal:
        load_config(preset="lab-2g4-grbl", assignments=["probe.tuner_frequency_hz=900e6"])
    assert refusal.value.exit_code == 78


def test_direct_reception_is_suggested_where_it_would_do() -> None:
    (refusal,) = problems("lab-2g4-grbl", {"carrier_frequency_hz": 433.92e6})
    assert 'probe.converter_lo_hz to "none"' in refusal.fix
    values = {"carrier_frequency_hz": 433.92e6, "converter_lo_hz": "none"}
    assert problems("lab-2g4-grbl", values) == []


@pytest.mark.parametrize(
    "text",
    [
        "[physical]\ncarrier_frequency_hz = 2.45e9",
        "[probe]\ntuner_frequency_hz = 1.2e9",
        "[probe]\nsample_rate_hz = 250e3",
    ],
)
def test_a_file_with_frequencies_of_its_own_from_before_the_key_still_loads(
    tmp_path: Path, text: str
) -> None:
    file = tmp_path / "bench.toml"
    file.write_text(f'preset = "lab-2g4-grbl"\n{text}\n')
    assert lab_probe(file).converter_lo_hz == "unknown"
    with pytest.raises(ConfigError):
        load_config(file, ["probe.converter_lo_hz=1966.08e6"])


def test_a_file_without_keeps_the_preset_s_plan(tmp_path: Path) -> None:
    file = tmp_path / "bench.toml"
    file.write_text('preset = "lab-2g4-grbl"\n[probe]\ngain_db = 30.0\n')
    assert lab_probe(file).converter_lo_hz == 1966.08e6


def test_a_plan_is_described_from_whichever_side_the_converter_is() -> None:
    def described(carrier_hz: float, lo_hz: float | str) -> str:
        return describe_plan(carrier_hz, probe_settings(converter_lo_hz=lo_hz))

    below, above = described(2.4e9, 1966.08e6), described(2.4e9, 2833.92e6)
    assert below.startswith("2400 MHz less an LO of 1966.08 MHz is 433.92 MHz")
    assert above.startswith("an LO of 2833.92 MHz less 2400 MHz is 433.92 MHz")
    direct = described(433.92e6, "none")
    assert direct == "433.92 MHz without a converter, tuner at 433.67 MHz"


@pytest.mark.parametrize("preset", LABS)
def test_the_virtual_radio_hears_the_carrier_where_the_converter_brings_it(preset: str) -> None:
    config = load_config(preset=preset)
    bench = VirtualBench(config, WallClock(), seed=1)
    try:
        radio = bench.radio
        radio.tuning.frequency_hz = lab_probe(preset=preset).tuner_frequency_hz
        assert abs(radio._tone(0, 64)).max() == pytest.approx(1.0)
        radio.tuning.frequency_hz = 900e6
        assert abs(radio._tone(0, 64)).max() == 0.0
    finally:
        bench.radio.close()
        bench.stage.close()


def test_every_preset_of_a_lab_is_covered() -> None:
    assert [name for name in preset_names() if name.startswith("lab-")] == LABS
