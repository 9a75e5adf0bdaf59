"""Settings that change nothing under the other choices of a config.

Such a value is refused where it describes the site. Elsewhere `check` reports it, as a file may
hold the settings of several policies or drivers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from macontrol.config.policies import unused_settings
from macontrol.config.sections.sdr import SdrSettings

if TYPE_CHECKING:
    from macontrol.config.schema import Config

_OF_FRINGES = ("components", "fringe_periods", "fringe_damping", "sector_deg", "angular_spread_deg")
_OF_FRINGES_AND_RESIDUAL = (*_OF_FRINGES, "residual_length", "residual_weight")
_OF_CHANGE_POINTS = ("change_points", "change_angle_deg", "change_gain_retention")
_OF_STEADY_DRIFT = ("angle_correlation", "angle_step_deg", "gain_correlation")
_OF_THE_SHADOW = ("shadow_reversion", "shadow_step")


def idle_site_settings(config: Config) -> dict[str, str]:
    """Settings of the site without effect, as what they determine is set itself; with the fix."""
    return {
        site: f'it has no effect while {derived} is set; set {derived} = "auto", which derives it '
        "from the site"
        for site, derived in _idle_site(config)
    }


def _idle_site(config: Config) -> Iterator[tuple[str, str]]:
    """Each setting of the site without effect, and the setting that would be derived from it."""
    if config.kernel.fringe_periods != "auto":
        yield "kernel.sector_deg", "kernel.fringe_periods"
    if config.kernel.fringe_damping != "auto":
        yield "kernel.angular_spread_deg", "kernel.fringe_damping"


def without_effect(config: Config) -> dict[str, str]:
    """The settings without effect: `section.key`, and why."""
    found: dict[str, str] = {}
    for rules in (_of_kernel, _of_policy, _of_world, _of_devices):
        for keys, why in rules(config):
            found |= {key: why for key in keys if key not in found}
    return found


def _within(section: str, *keys: str) -> list[str]:
    return [f"{section}.{key}" for key in keys]


def _of_policy(config: Config) -> Iterator[tuple[list[str], str]]:
    algorithm = config.algorithm
    why = f"algorithm.policy is {algorithm.policy}"
    for setting in sorted(unused_settings(algorithm.policy)):
        section, _, key = setting.partition(".")
        keys = (key,) if key else type(getattr(config, section)).model_fields
        yield _within(section, *keys), why
    if not algorithm.use_movement_cost:
        yield ["algorithm.eta"], "algorithm.use_movement_cost is false"
    if not algorithm.use_persistence:
        yield ["algorithm.margin"], "algorithm.use_persistence is false"


def _of_kernel(config: Config) -> Iterator[tuple[list[str], str]]:
    kernel = config.kernel
    why = f"kernel.name is {kernel.name}"
    if kernel.name in ("se", "const-se"):
        yield _within("kernel", *_OF_FRINGES_AND_RESIDUAL), why
        if kernel.name == "se":
            yield ["kernel.constant_weight"], why
        return
    yield ["kernel.se_length"], why
    if kernel.name == "nonoscillatory":
        yield ["kernel.sector_deg"], why
    for site, derived in _idle_site(config):
        yield [site], f"{derived} is set"


def _of_world(config: Config) -> Iterator[tuple[list[str], str]]:
    if config.channel.scenario == "dense":
        why = "channel.scenario is dense"
        yield _within("channel", "blockage_db", "shadow_edge", "shadow_extent"), why
        yield _within("drift", *_OF_THE_SHADOW), why
    if config.drift.model == "continuous":
        yield _within("drift", *_OF_CHANGE_POINTS), "drift.model is continuous"
    else:
        yield _within("drift", *_OF_STEADY_DRIFT, *_OF_THE_SHADOW), "drift.model is piecewise"


def _of_devices(config: Config) -> Iterator[tuple[list[str], str]]:
    probe = config.probe
    if isinstance(probe, SdrSettings) and probe.mode == "wideband":
        yield _within("probe", "tone_offset_hz", "tone_bandwidth_hz"), "probe.mode is wideband"
    if probe.noise_floor != "measure":
        yield ["probe.noise_floor_s"], "probe.noise_floor is set"


def short_stroke(config: Config) -> str | None:
    """A warning if the actuator covers less than the stroke that the config asks for."""
    physical = config.physical
    configured = float("inf") if physical.stroke == "auto" else physical.stroke
    if physical.rho_max >= min(physical.nominal_reach, configured) - 1e-12:
        return None
    return (
        f"the actuator covers {physical.rho_max:.4g} wavelengths in T_a, less than "
        f"v·T_a = {physical.nominal_reach:.4g}: that is the stroke of this run"
    )
