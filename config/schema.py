"""Everything a run depends on: one table per section, and what follows from them together.

Lengths are in wavelengths unless a name says otherwise. A value of "auto" is derived from the
others, by the property of the same meaning. Defaults are the values of the paper's Table 1; only
the names of the drivers and of the policy have none, and the preset `paper` sets them. A comment of
a key that begins with "open:" marks an assumption: the paper leaves that choice open, and the value
is the one that reproduces the paper's figures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from macontrol.config.checks.contradictions import contradictions
from macontrol.config.drivers import CHOICES, settings_class, sort_table
from macontrol.config.model.errors import ConfigError, ContradictionError
from macontrol.config.model.reward import reward_of
from macontrol.config.model.slot_timing import SlotTiming
from macontrol.config.sections.algorithm import Algorithm
from macontrol.config.sections.channel import Channel
from macontrol.config.sections.drift import Drift
from macontrol.config.sections.driver import ChosenSettings, DriverSettings
from macontrol.config.sections.kernel import Kernel
from macontrol.config.sections.physical import Physical
from macontrol.config.sections.probe import ProbeSettings
from macontrol.config.sections.reference import NoReference
from macontrol.config.sections.reward import Reward
from macontrol.config.sections.run import Run
from macontrol.config.sections.section import Section
from macontrol.config.sections.site import Site
from macontrol.config.sections.stage import StageSettings
from macontrol.config.sections.survey import Survey
from macontrol.config.sections.timing import Timing
from macontrol.config.sections.tx import Tx

if TYPE_CHECKING:
    from macontrol.config.model.grid import Grid

_IMPLAUSIBLE = 100.0
"""A reward of this many times the largest one comes from a broken probe."""
_PLAIN: dict[str, type[ChosenSettings]] = {
    "stage": StageSettings,
    "probe": ProbeSettings,
    "reference": NoReference,
    "algorithm": Algorithm,
}


def driver_settings(section: str, table: Any) -> ChosenSettings:
    """The settings in a table, as an instance of the class of its driver or policy.

    The spelling of earlier versions is accepted, and keys of other drivers are left out.
    """
    key = CHOICES[section][0]
    if not isinstance(table, Mapping) or key not in table:
        return _PLAIN[section].model_validate(table)
    try:
        settings = settings_class(section, table[key])
    except ConfigError as error:
        raise ValueError(str(error)) from None
    keys = sort_table(section, table, settings)
    return settings.model_validate(keys.own | keys.common)


def _chosen(section: str) -> BeforeValidator:
    def settings(value: Any) -> Any:
        return value if isinstance(value, ChosenSettings) else driver_settings(section, value)

    return BeforeValidator(settings)


class Config(Section):
    """Everything a run depends on. Contradictions between sections are refused here."""

    physical: Physical = Field(default_factory=Physical)
    reward: Reward = Field(default_factory=Reward)
    kernel: Kernel = Field(default_factory=Kernel)
    algorithm: Annotated[SerializeAsAny[Algorithm], _chosen("algorithm")]
    survey: Survey = Field(default_factory=Survey)
    channel: Channel = Field(default_factory=Channel)
    drift: Drift = Field(default_factory=Drift)
    timing: Timing = Field(default_factory=Timing)
    stage: Annotated[SerializeAsAny[StageSettings], _chosen("stage")]
    probe: Annotated[SerializeAsAny[ProbeSettings], _chosen("probe")]
    reference: Annotated[SerializeAsAny[DriverSettings], _chosen("reference")] = Field(
        default_factory=NoReference
    )
    tx: Tx = Field(default_factory=Tx)
    run: Run = Field(default_factory=Run)
    site: Site = Field(default_factory=Site)

    @property
    def reference_probe(self) -> ProbeSettings | None:
        """The settings of the reference receiver; None if there is none."""
        return self.reference if isinstance(self.reference, ProbeSettings) else None

    @property
    def g_max(self) -> float:
        """The largest reward: all paths in phase, |h|² = L by Cauchy–Schwarz (Setup)."""
        paths = len(self.channel.path_powers)
        power = sum(self.channel.path_powers)
        return reward_of(self.physical.transmission_share, self.reward.snr * paths * power)

    @property
    def largest_reward(self) -> float:
        """What no working probe exceeds: rewards are rates of at most g_max, or not far above."""
        return _IMPLAUSIBLE * self.g_max

    @property
    def rail_mm(self) -> float:
        """D in millimetres: how much of the stage's rail is used."""
        return self.physical.rail_mm

    @property
    def slot_timing(self) -> SlotTiming:
        """How the time of a slot is divided."""
        return SlotTiming.from_shares(
            self.physical.slot_duration_s,
            self.physical.actuation_time_s,
            guard_share=self.timing.guard_share,
            decision_share=self.timing.decision_share,
        )

    @property
    def longest_measure_s(self) -> float:
        """The measuring interval of a slot in which the antenna holds, which is the longest one."""
        timing, plan = self.slot_timing, self.physical.actuation_plan
        return timing.measure_end_s - timing.measure_begin_s(plan.time_s(0.0))

    @property
    def window_s(self) -> float:
        """w·T_s: how long a sample stays in the window."""
        return self.algorithm.window * self.physical.slot_duration_s

    @property
    def noise_std(self) -> float:
        """sigma_eps: standard deviation of one reward observation."""
        return self.reward.noise_level * self.g_max

    @property
    def grid_size(self) -> int:
        """G: the number of positions on the grid, both ends of the rail included."""
        return round(self.physical.region_length / self.algorithm.grid_spacing) + 1

    @property
    def grid(self) -> Grid:
        """X_g: the positions that a policy may choose."""
        from macontrol.config.model.grid import Grid  # NumPy is loaded where it is needed

        return Grid(self.physical.region_length, self.grid_size)

    @property
    def traversal_slots(self) -> int:
        """⌈D/ρ_max⌉: how many slots the antenna takes from one end of the rail to the other."""
        return math.ceil(self.physical.region_length / self.physical.rho_max - 1e-9)

    @property
    def survey_positions(self) -> list[float]:
        """Where the survey measures: evenly over the rail, both ends included, on the grid."""
        last, samples = self.grid_size - 1, self.survey.samples
        length = self.physical.region_length
        indices = (round(number * last / (samples - 1)) for number in range(samples))
        return [min(index * (length / last), length) for index in indices]

    @property
    def change_points(self) -> int:
        """S: how many change points a horizon of the piecewise drift holds."""
        auto = math.ceil(math.sqrt(self.run.horizon))
        return auto if self.drift.change_points == "auto" else self.drift.change_points

    @property
    def shadow_extent(self) -> float:
        extent = self.channel.shadow_extent
        return self.physical.region_length / 2 if extent == "auto" else extent

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Config:
        problems = contradictions(self)
        if problems:
            raise ContradictionError(problems)
        return self

    def replace(self, **values: Any) -> Config:
        """This config with some values changed, checked again: `replace(algorithm__beta=2.0)`."""
        tables = self.model_dump()
        for name, value in values.items():
            section, key = name.split("__")
            tables[section][key] = value
        return Config.model_validate(tables)
