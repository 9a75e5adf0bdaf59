"""The diagnostics of the drivers that a config names."""

from __future__ import annotations

from macontrol.config.probe_settings import ProbeSettings, split_address
from macontrol.config.stage_settings import StageSettings
from macontrol.hal.diagnostics import ProbeHints, StageDiagnostics
from macontrol.hal.stages.grbl.diagnostics import GrblDiagnostics
from macontrol.hal.stages.zaber.diagnostics import ZaberDiagnostics


def diagnostics_for(settings: StageSettings) -> StageDiagnostics:
    """The diagnostics of the stage's driver."""
    driver = GrblDiagnostics if settings.driver == "grbl" else ZaberDiagnostics
    return driver(settings)


def hints_for(settings: ProbeSettings) -> ProbeHints:
    """What to say about the probe's driver when the probe does not open."""
    if settings.driver == "rtl_tcp":
        return ProbeHints(
            "correct --probe (probe.address), or start the radio's server there",
            server_port=split_address(settings.address)[1],
        )
    return ProbeHints("unplug the radio and plug it in again; try SoapySDRUtil --probe")
