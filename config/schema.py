"""What a run is: the physical system, the reward, the kernel, the algorithm, the simulated world.

The models hold no numbers of their own: every value stands in a preset, `paper` by default, so
there is one place to read what a run uses. Lengths are in wavelengths unless a name says
otherwise. A value of "auto" is derived from the others, by the property of the same meaning.
"""

from __future__ import annotations

import math
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field, model_validator

from macontrol.config.checks.contradictions import contradictions
from macontrol.config.model import units
from macontrol.config.model.motion import Trapezoid
from macontrol.config.model.reward import reward_of, transmission_share
from macontrol.config.model.slot_timing import SlotTiming
from macontrol.config.probe_settings import ProbeSettings
from macontrol.config.section import Section
from macontrol.config.stage_settings import StageSettings

if TYPE_CHECKING:
    from macontrol.config.model.grid import Grid

Auto: TypeAlias = Literal["auto"]
Ideal: TypeAlias = Literal["ideal"]
PolicyName: TypeAlias = Literal["moveucb", "gp-ucb", "sweep-and-hold", "epsilon-greedy", "fixed"]
KernelName: TypeAlias = Literal["physics", "se", "const-se", "nonoscillatory"]

# Far beyond anything physical, and low enough that no product of a few of them overflows.
_LARGEST = 1e15
_IMPLAUSIBLE = 100.0
"""So many times the largest reward is a broken probe's."""
LARGEST_SEED = 2**63 - 1
LARGEST_HORIZON = 10**9
_LONGEST_SLOT_S = 3600.0

Positive: TypeAlias = Annotated[float, Field(gt=0, le=_LARGEST)]
NonNegative: TypeAlias = Annotated[float, Field(ge=0, le=_LARGEST)]
Fraction: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Sector: TypeAlias = Annotated[tuple[float, float], Field(strict=False)]

# The confidence parameter at which each policy is at its best in the paper (fig. beta).
OPTIMAL_BETA: dict[str, float] = {"moveucb": 1.5, "gp-ucb": 3.5, "epsilon-greedy": 0.0}


class Physical(Section):
    """The rail, the actuator and the slot (eq. reachable)."""

    carrier_frequency_hz: Positive
    region_length: Positive
    slot_duration_s: Annotated[float, Field(gt=0, le=_LONGEST_SLOT_S)]
    actuation_time_s: Positive
    actuator_speed_m_per_s: Positive
    acceleration_m_per_s2: Positive | Ideal
    command_latency_s: NonNegative
    settling_s: NonNegative
    step_mm: Positive | Ideal
    stroke: Positive | Auto
    initial_position: NonNegative | Auto

    @property
    def wavelength_mm(self) -> float:
        return units.wavelength_mm(self.carrier_frequency_hz)

    @property
    def nominal_reach(self) -> float:
        """v·T_a in wavelengths: what the actuator would cover in T_a if it were ideal."""
        return self.actuator_speed_m_per_s * self.actuation_time_s * 1e3 / self.wavelength_mm

    @property
    def actuator_reach(self) -> float:
        """The distance that the actuator covers in T_a less latency and settling (wavelengths)."""
        acceleration = self.acceleration_m_per_s2
        motion = Trapezoid(
            self.actuator_speed_m_per_s, inf if acceleration == "ideal" else acceleration
        )
        motion_s = self.actuation_time_s - self.command_latency_s - self.settling_s
        return motion.reach(motion_s) * 1e3 / self.wavelength_mm

    @property
    def rho_max(self) -> float:
        """The stroke in wavelengths: what the actuator can do, or less where that is asked for."""
        reach = self.actuator_reach
        return reach if self.stroke == "auto" else min(self.stroke, reach)

    @property
    def stroke_mm(self) -> float:
        """ρ_max in millimetres."""
        return self.rho_max * self.wavelength_mm

    @property
    def x_0(self) -> float:
        return self.region_length / 2 if self.initial_position == "auto" else self.initial_position

    @property
    def transmission_share(self) -> float:
        """1 − T_a/T_s: the part of a slot in which the link transmits."""
        return transmission_share(self.actuation_time_s, self.slot_duration_s)


class Reward(Section):
    """The rate reward, its noise and the energy price of travel (eqs. reward, observation)."""

    snr_db: Annotated[float, Field(ge=-60, le=120)]
    movement_cost: NonNegative
    noise_level: Fraction

    @property
    def snr(self) -> float:
        return units.from_db(self.snr_db)


class Kernel(Section):
    """The prior covariance of the reward over the rail (eq. kernel and the comparison kernels)."""

    name: KernelName
    components: Annotated[int, Field(ge=0, le=32)]
    fringe_periods: Annotated[tuple[Positive, ...], Field(strict=False)] | Auto
    fringe_damping: Positive | Auto
    residual_length: Positive
    se_length: Positive
    sector_deg: Sector
    angular_spread_deg: Positive
    constant_weight: Fraction
    residual_weight: Fraction


class Algorithm(Section):
    """The policy and its parameters (Algorithm 1 and the benchmarks)."""

    policy: PolicyName
    beta: NonNegative | Auto
    eta: NonNegative
    margin: NonNegative
    window: Annotated[int, Field(ge=1, le=10_000)]
    ridge: Annotated[float, Field(ge=1e-6, le=1e6)]
    grid_spacing: Positive
    search: Literal["global", "local"]
    use_movement_cost: bool
    use_persistence: bool
    epsilon: Fraction
    sweep_period: Annotated[int, Field(ge=1)]

    def beta_for(self, policy: str) -> float:
        """The confidence parameter as set, or the policy's own optimum of the paper."""
        return OPTIMAL_BETA.get(policy, 0.0) if self.beta == "auto" else self.beta


class Survey(Section):
    """The warm-up: T_0 samples of the frozen reward map, from which sigma_f follows."""

    samples: Annotated[int, Field(ge=2, le=100_000)]
    variance_floor: Positive
    fresh_s: NonNegative


class Channel(Section):
    """The simulated multipath channel (eq. multipath, Scenarios)."""

    scenario: Literal["blocked", "dense"]
    path_powers: Annotated[tuple[Positive, ...], Field(strict=False, min_length=1, max_length=64)]
    sector_deg: Sector
    angular_spread_deg: NonNegative
    sub_rays: Annotated[int, Field(ge=1, le=4096)]
    sub_ray_phases: Literal["aligned", "random"]
    blockage_db: NonNegative
    shadow_extent: Positive | Auto
    shadow_edge: Positive


class Drift(Section):
    """How the simulated channel changes from slot to slot (Drift models)."""

    model: Literal["continuous", "piecewise"]
    angle_correlation: Fraction
    angle_step_deg: NonNegative
    gain_correlation: Fraction
    shadow_reversion: Fraction
    shadow_step: NonNegative
    change_points: Annotated[int, Field(ge=0)] | Auto
    change_angle_deg: NonNegative
    change_gain_retention: Fraction


class Timing(Section):
    """How a slot is divided when it is run live."""

    guard_share: Annotated[float, Field(ge=0, lt=1)]
    decision_share: Annotated[float, Field(gt=0, lt=1)]
    fault_patience_s: Positive


class Run(Section):
    """How long a run is, where its randomness starts, and how much room its files leave."""

    horizon: Annotated[int, Field(ge=1, le=LARGEST_HORIZON)]
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)]
    free_space_floor_mb: NonNegative


class Config(Section):
    """Everything a run depends on. Contradictions between sections are refused here."""

    physical: Physical
    reward: Reward
    kernel: Kernel
    algorithm: Algorithm
    survey: Survey
    channel: Channel
    drift: Drift
    timing: Timing
    stage: StageSettings
    probe: ProbeSettings
    run: Run

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
        return self.physical.region_length * self.physical.wavelength_mm

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
        """Where the survey looks: evenly over the rail, both ends included, on the grid."""
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
            raise ValueError("\n".join(problems))
        return self

    def replace(self, **values: Any) -> Config:
        """This config with some values changed, checked again: `replace(algorithm__beta=2.0)`."""
        tables = self.model_dump()
        for name, value in values.items():
            section, key = name.split("__")
            tables[section][key] = value
        return Config.model_validate(tables)
