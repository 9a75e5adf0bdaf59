"""The registry of drivers: built-in packages, entry points, and what is wrong with them."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from macontrol.config import Config, load_config, load_with_origins
from macontrol.config.checks.measuring import measured_s, shortcoming
from macontrol.config.checks.rf_plan import is_planned, received_hz
from macontrol.config.drivers import PROBE_DRIVERS, STAGE_DRIVERS
from macontrol.config.model.errors import ConfigError, place_of
from macontrol.config.model.registry import Registry, resolve
from macontrol.config.presets import preset_names
from macontrol.controller.policies.registry import POLICIES
from macontrol.hal.registry import PROBES, STAGES
from support.meter_driver import PowerMeterSettings

LAB = "lab-2g4-grbl"


def test_the_built_in_drivers_are_found() -> None:
    assert STAGES.names()[:2] == ["grbl", "zaber"]
    assert PROBES.names()[:4] == ["line", "rtl_tcp", "scpi", "soapy"]


@pytest.mark.parametrize("driver", [*STAGES.working(), *PROBES.working()], ids=lambda d: d.name)
def test_a_driver_is_described_by_its_package(driver: Any) -> None:
    assert driver.settings.driver_name() == driver.name
    assert driver.label
    assert all(field.default is not None for field in driver.settings.model_fields.values())


@pytest.mark.parametrize("driver", list(STAGES.working()), ids=lambda d: d.name)
def test_the_preset_of_a_stage_is_of_that_stage(driver: Any) -> None:
    assert driver.preset in preset_names()
    assert isinstance(load_config(preset=driver.preset).stage, driver.settings)


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError) as refusal:
        STAGES["grlb"]
    assert refusal.value.fix == "did you mean grbl?"


@pytest.mark.parametrize(
    ("module", "place"), [("no_such_module", ""), ("imports_it", "imports_it.py, line 2")]
)
def test_a_missing_module_is_located_at_the_import_of_it(
    module: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imports_it.py").write_text("import os\nimport no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError) as missing:
        resolve(f"{module}:Name")
    assert place_of(missing.value) == place


def registered(**entries: str) -> Registry[Any]:
    """A registry of stages with some entry points."""
    registry: Registry[Any] = Registry(
        "stage driver", "macontrol.hal.stages", "tests.stages", "macontrol.hal.registry:StageDriver"
    )
    vars(registry)["plug_ins"] = [
        EntryPoint(name, value, "tests.stages") for name, value in entries.items()
    ]
    return registry


class TestEntryPoints:
    def test_one_is_loaded_when_it_is_named(self) -> None:
        registry = registered(**{"power-meter": "support.meter_driver:DESCRIPTION"})
        registry._description = "macontrol.hal.registry:ProbeDriver"
        assert registry.names() == ["grbl", "zaber", "power-meter"]
        assert registry["power-meter"].settings is PowerMeterSettings

    @pytest.mark.parametrize("value", ["no_such_module:X", "support.meter_driver:no_such_name"])
    def test_a_broken_one_fails_only_when_it_is_named(self, value: str) -> None:
        registry = registered(broken=value)
        assert [driver.name for driver in registry.working()] == ["grbl", "zaber"]
        assert set(registry.folders()) == {"grbl", "zaber"}
        with pytest.raises(ConfigError) as refusal:
            registry["broken"]
        assert "no_such" in refusal.value.detail
        assert "remove the distribution" in refusal.value.fix

    @pytest.mark.parametrize("group", ["stage", "probe", "policy"])
    @pytest.mark.parametrize("value", ["math:pi", "os:environ", "support.meter_driver:Literal"])
    def test_one_that_is_no_description_fails_only_when_it_is_named(
        self, group: str, value: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        registries: dict[str, Registry[Any]] = {
            "stage": STAGES,
            "probe": PROBES,
            "policy": POLICIES,
        }
        registry = registries[group]
        entry = EntryPoint("wrong", value, registry.group)
        monkeypatch.setitem(vars(registry), "plug_ins", [entry])
        monkeypatch.setattr(registry, "_loaded", dict(registry._loaded))
        assert "wrong" not in [description.name for description in registry.working()]
        with pytest.raises(ConfigError) as refusal:
            registry["wrong"]
        assert "remove the distribution" in refusal.value.fix

    def test_a_driver_of_another_name_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        entry = EntryPoint("meter", "support.meter_driver:DESCRIPTION", PROBES.group)
        monkeypatch.setitem(vars(PROBES), "plug_ins", [entry])
        monkeypatch.setattr(PROBES, "_loaded", dict(PROBES._loaded))
        with pytest.raises(ConfigError) as refusal:
            PROBES["meter"]
        assert "power-meter" in refusal.value.detail

    def test_a_distribution_that_exits_fails_only_when_it_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "exiting_driver.py").write_text("raise SystemExit(3)\n")
        monkeypatch.syspath_prepend(tmp_path)
        registry = registered(exits="exiting_driver:DESCRIPTION")
        assert [driver.name for driver in registry.working()] == ["grbl", "zaber"]
        with pytest.raises(ConfigError):
            registry["exits"]

    def test_none_takes_the_place_of_a_built_in_driver(self) -> None:
        registry = registered(grbl="support.meter_driver:DESCRIPTION")
        assert registry.names() == ["grbl", "zaber"]
        assert registry["grbl"] is STAGES["grbl"]
        with pytest.raises(ConfigError):
            registry.load_entry(registry.plug_ins[0])


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> Config:
    """The config of a lab bench with a probe that is no radio."""
    entry = EntryPoint("power-meter", "support.meter_driver:DESCRIPTION", "macontrol.probes")
    monkeypatch.setitem(vars(PROBE_DRIVERS), "plug_ins", [entry])
    monkeypatch.setattr(PROBE_DRIVERS, "_loaded", dict(PROBE_DRIVERS._loaded))
    return load_config(preset=LAB, assignments=["probe.driver=power-meter"])


class TestProbeThatIsNoRadio:
    def test_it_has_none_of_a_radios_settings(self, meter: Config) -> None:
        assert isinstance(meter.probe, PowerMeterSettings)
        assert meter.probe.lead_s == 0.075, "a setting of any probe, from the preset"
        assert not hasattr(meter.probe, "sample_rate_hz")
        assert Config.model_validate(meter.model_dump()) == meter

    def test_there_is_no_rf_plan_to_check(self, meter: Config) -> None:
        assert not is_planned(meter.probe)
        assert received_hz(2.4e9, meter.probe) is None

    def test_a_slot_is_measured_less_guards_and_lead(self, meter: Config) -> None:
        assert measured_s(meter) == pytest.approx(0.25 * 0.92 - 0.11 - 0.085)
        assert shortcoming(meter) is None
        short = meter.replace(probe__lead_s=0.115)
        problem = shortcoming(short)
        assert problem is not None
        assert problem.key == "probe.guard_s"

    def test_a_radios_setting_has_no_effect_on_it(self, meter: Config) -> None:
        words = ["probe.driver=power-meter", "probe.gain_db=30"]
        loaded = load_with_origins(preset=LAB, assignments=words)
        assert loaded.without_effect() == {"probe.gain_db": "probe.driver is power-meter"}

    def test_its_own_keys_are_in_its_own_table(self, meter: Config) -> None:
        words = ["probe.driver=power-meter", "probe.power-meter.visa_address=GPIB0::2"]
        probe = load_config(preset=LAB, assignments=words).probe
        assert isinstance(probe, PowerMeterSettings)
        assert probe.visa_address == "GPIB0::2"
        with pytest.raises(ConfigError, match=r"probe\.power-meter\.visa: unknown|visa_address"):
            load_config(preset=LAB, assignments=[words[0], "probe.power-meter.visa=1"])


def test_the_stages_of_config_and_hal_are_the_same() -> None:
    assert STAGES is STAGE_DRIVERS


class TestSharedKeyInADriversTable:
    """`[stage]` alone holds shared keys: a driver's table must not override them unseen."""

    @pytest.mark.parametrize(
        ("words", "path"),
        [
            (["stage.grbl.homing=allow"], "stage.grbl.homing"),
            (["stage.grbl.homing=allow", "stage.homing=ask"], "stage.grbl.homing"),
            (["stage.zaber.travel_mm=55"], "stage.zaber.travel_mm"),
            (["stage.grbl.driver=zaber"], "stage.grbl.driver"),
            (["probe.rtl_tcp.noise_floor=-60"], "probe.rtl_tcp.noise_floor"),
        ],
    )
    def test_it_is_refused(self, words: list[str], path: str) -> None:
        with pytest.raises(ConfigError) as refusal:
            load_config(preset=LAB, assignments=words)
        assert refusal.value.detail.startswith(f"{path} (--set {words[0]})")
        section, _, key = path.split(".")
        assert f"{section}.{key}" in refusal.value.fix

    def test_a_validated_table_does_not_override_it_either(self) -> None:
        config = load_config(preset=LAB)
        tables = config.model_dump()
        tables["stage"]["grbl"]["homing"] = "allow"
        assert Config.model_validate(tables).stage.homing == "ask"
