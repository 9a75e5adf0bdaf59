"""The drivers: one description each, found in their packages and in other distributions.

Command-line choices, bench, doctor, `devices`, presets and virtual bench derive from these
descriptions. A new driver is one package with a `DESCRIPTION`, or another distribution with an
entry point in the group `macontrol.stages` or `macontrol.probes`; nothing else changes.

A description is light: what it names as "module:name" is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from macontrol.config.drivers import PROBE_DRIVERS, STAGE_DRIVERS
from macontrol.config.model.errors import ConfigError, MacontrolError, described
from macontrol.config.model.registry import Registry, require_members, resolve
from macontrol.config.sections.driver import DriverSettings
from macontrol.config.sections.probe import ProbeSettings
from macontrol.config.sections.stage import StageSettings
from macontrol.hal.clock import Clock
from macontrol.hal.diagnostics import StageDiagnostics
from macontrol.hal.probe import Probe
from macontrol.hal.stage import Stage, StageDescription

if TYPE_CHECKING:
    from macontrol.hal.serial.line import TrafficLog
    from macontrol.hal.serial.stage import SerialStage


_ADDRESSES = ("HOST:PORT", "/dev/PORT")


class BenchStage(Stage, Protocol):
    """What a bench needs of a stage beyond its motion; `SerialStage` has it."""

    @property
    def identity_parts(self) -> Mapping[str, str]: ...
    @property
    def answer_times(self) -> Any: ...
    @property
    def quickest_description(self) -> StageDescription: ...
    def connect(self, deadline_s: float, keep_on: Callable[[], bool] | None = None) -> None: ...
    def time_again(self, deadline_s: float, keep_on: Callable[[], bool] | None = None) -> None: ...
    def home(self, deadline_s: float, keep_on: Callable[[], bool] | None = None) -> None: ...


def _check(name: str, settings: object, base: type[DriverSettings]) -> None:
    """Refuse a description whose settings do not fit it."""
    if not (isinstance(settings, type) and issubclass(settings, base)):
        raise TypeError(f"its settings are {settings!r}, not a subclass of {base.__name__}")
    if settings.driver_name() != name:
        raise ValueError(f"its settings are those of the driver {settings.driver_name()!r}")


def _built(what: str, protocol: type, reference: str, *arguments: Any, **options: Any) -> Any:
    """What a driver's factory makes; ConfigError if it fails, or does not fulfil its protocol."""
    try:
        made = resolve(reference)(*arguments, **options)
    except MacontrolError:
        raise
    except (Exception, SystemExit) as error:
        fix = f"correct the driver: {reference}"
        raise ConfigError(f"{what} cannot be built: {described(error)}", fix) from error
    require_members(made, protocol, what)
    return made


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
    emulator: str = ""
    """A callable: the emulated board of (config, clock, link)."""
    usb_ids: Mapping[str, str] = field(default_factory=dict)
    """USB vendors, or vendors and products, of such stages, and what they are."""

    def __post_init__(self) -> None:
        _check(self.name, self.settings, StageSettings)

    def make(
        self,
        settings: StageSettings,
        clock: Clock,
        *,
        confirm_homing: Callable[[], bool],
        log: TrafficLog | None = None,
    ) -> SerialStage:
        what, options = f"the stage of the driver {self.name}", {"confirm_homing": confirm_homing}
        made = _built(what, BenchStage, self.stage, settings, clock, log=log, **options)
        return cast("SerialStage", made)

    def make_diagnostics(self, settings: StageSettings) -> StageDiagnostics:
        what = f"the diagnostics of the driver {self.name}"
        return cast(StageDiagnostics, _built(what, StageDiagnostics, self.diagnostics, settings))


@dataclass(frozen=True)
class FoundProbes:
    """The probes that a driver finds on this machine."""

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
    """A callable: the probe of (settings, clock)."""
    option: str
    """The form of `--probe`, for the help, with "HOST:PORT" of a server or "/dev/PORT" in it."""
    parse: Callable[[str], Mapping[str, Any] | None]
    """The keys of the driver's own table that a `--probe` option sets; None if it is another's.

    It raises ValueError for one that is its own, and wrong.
    """
    remedy: str
    """What to do about a probe that cannot be opened."""
    noun: str = "radio"
    """What messages call such a device."""
    check: str = ""
    """A callable: raise ConfigError for settings that no device of this kind can use."""
    server: Callable[[Any], int] | None = None
    """The TCP port of the server that settings name, for a driver that uses a server."""
    server_port: int = 0
    """Where its servers listen by default, if it has any; `devices` looks there."""
    server_prefix: str = ""
    """How the names of its servers begin."""
    search: str = ""
    """A callable: the FoundProbes of this machine; it may open one for a moment."""
    status: str = ""
    """A callable: one line on what `search` can find, without a search."""
    emulator: str = ""
    """A callable: the EmulatedProbe (`sim.bench.emulated_probe`) of (config, site)."""

    def __post_init__(self) -> None:
        _check(self.name, self.settings, ProbeSettings)

    def option_at(self, address: str) -> str:
        """The `--probe` option for a server or a port at this address."""
        option = self.option
        for placeholder in _ADDRESSES:
            option = option.replace(placeholder, address)
        return option

    def make(self, settings: ProbeSettings, clock: Clock) -> Probe:
        what = f"the probe of the driver {self.name}"
        return cast(Probe, _built(what, Probe, self.probe, settings, clock))

    def refuse_unusable(self, settings: ProbeSettings) -> None:
        """Raise ConfigError for settings that no device of this kind can use."""
        if self.check:
            resolve(self.check)(settings)


STAGES = cast("Registry[StageDriver]", STAGE_DRIVERS)
PROBES = cast("Registry[ProbeDriver]", PROBE_DRIVERS)
