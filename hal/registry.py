"""The drivers: one description each, found in their packages and in other distributions.

Command-line choices, bench, doctor, `devices`, presets and virtual bench derive from these
descriptions. A new driver is one package with a `DESCRIPTION`, or another distribution with an
entry point in the group `macontrol.stages` or `macontrol.probes`; nothing else changes.

A description is light: what it names as "module:name" is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from macontrol.config.drivers import PROBE_DRIVERS, STAGE_DRIVERS
from macontrol.config.model.registry import Registry, resolve
from macontrol.config.sections.probe import ProbeSettings
from macontrol.config.sections.stage import StageSettings
from macontrol.hal.clock import Clock
from macontrol.hal.diagnostics import StageDiagnostics
from macontrol.hal.probe import Probe

if TYPE_CHECKING:
    from macontrol.hal.serial.line import TrafficLog
    from macontrol.hal.serial.stage import SerialStage


_ADDRESS = "HOST:PORT"


@dataclass(frozen=True)
class StageDriver:
    """A driver of stages."""

    name: str
    label: str
    """What a person calls it."""
    settings: type[StageSettings]
    stage: str
    """A callable: the stage of (settings, clock, *, confirm_homing, log)."""
    diagnostics: str
    """A callable: the StageDiagnostics of (settings)."""
    preset: str
    """A preset for a lab bench with such a stage: a TOML file in the driver's package."""
    emulator: str
    """A callable: the emulated board of (config, clock, link)."""
    usb_ids: Mapping[str, str] = field(default_factory=dict)
    """USB vendors, or vendors and products, of such stages, and what they are."""

    def make(
        self,
        settings: StageSettings,
        clock: Clock,
        *,
        confirm_homing: Callable[[], bool],
        log: TrafficLog | None = None,
    ) -> SerialStage:
        made: SerialStage = resolve(self.stage)(
            settings, clock, confirm_homing=confirm_homing, log=log
        )
        return made

    def make_diagnostics(self, settings: StageSettings) -> StageDiagnostics:
        made: StageDiagnostics = resolve(self.diagnostics)(settings)
        return made


@dataclass(frozen=True)
class Radios:
    """The radios that a driver finds on this machine."""

    title: str
    found: Mapping[str, str]
    """What to give to --probe, and a label."""
    if_none: str
    """What to print where nothing is found."""


@dataclass(frozen=True)
class ProbeDriver:
    """A driver of probes."""

    name: str
    label: str
    settings: type[ProbeSettings]
    probe: str
    """A callable: the probe of (settings, clock, transmission_share)."""
    option: str
    """The form of `--probe`, for the help; a server's has "HOST:PORT" in it."""
    parse: Callable[[str], Mapping[str, Any] | None]
    """The keys of the driver's own table that a `--probe` option sets; None if it is another's.

    It raises ValueError for one that is its own, and wrong.
    """
    remedy: str
    """What to do about a probe that cannot be opened."""
    check: str = ""
    """A callable: raise ConfigError for settings that no device of this kind can use."""
    server: Callable[[Any], int] | None = None
    """The TCP port of the server that settings name, for a driver that uses a server."""
    server_port: int = 0
    """Where its servers listen by default, if it has any; `devices` looks there."""
    server_prefix: str = ""
    """How the names of its servers begin."""
    search: str = ""
    """A callable: the Radios of this machine; it may open one for a moment."""
    status: str = ""
    """A callable: one line on what `search` can find, without a search."""
    emulator: str = ""
    """A callable: the emulated server of a radio, with the parameters of `sim.bench.radio`."""

    def option_at(self, address: str) -> str:
        """The `--probe` option for a server at this address."""
        return self.option.replace(_ADDRESS, address)

    def make(self, settings: ProbeSettings, clock: Clock, transmission_share: float) -> Probe:
        made: Probe = resolve(self.probe)(settings, clock, transmission_share)
        return made

    def refuse_unusable(self, settings: ProbeSettings) -> None:
        """Raise ConfigError for settings that no device of this kind can use."""
        if self.check:
            resolve(self.check)(settings)


STAGES = cast("Registry[StageDriver]", STAGE_DRIVERS)
PROBES = cast("Registry[ProbeDriver]", PROBE_DRIVERS)
