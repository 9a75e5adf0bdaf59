"""The `[physical]` table: the rail, the actuator and the slot (eq. reachable).

`physical` describes the actuator that the controller plans with: the stroke per slot, the simulated
world and the emulators use it. `[stage]` describes the connected stage. They relate as follows:

- speed, acceleration and step: a connected stage reports its own. A run is refused if the stroke
  of `physical` does not fit them (`bench_plan`). `stage.speed_mm_per_s` lowers the reported speed.
- `physical.command_latency_s` is assumed; the stage's own latency is measured and compared with it.
- `physical.settling_s` is part of the planned stroke; `stage.settling_s` is the time that the
  driver waits after each move. Both describe the same carriage, so a preset sets both.
- `physical.region_length` is the used rail; `stage.travel_mm` is the usable rail. The first must
  fit into the second.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from pydantic import Field

from macontrol.config.model import units
from macontrol.config.model.actuation import Actuation
from macontrol.config.model.motion import Trapezoid
from macontrol.config.sections.section import Auto, Ideal, NonNegative, Positive, Section

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Length = TypeVar("Length", float, "NDArray[np.float64]")

_LONGEST_SLOT_S = 3600.0


class Physical(Section):
    """The rail, the actuator and the slot (eq. reachable)."""

    carrier_frequency_hz: Positive = 30e9
    """the frequency of the link; it defines the wavelength"""
    region_length: Positive = 6.0
    """D, the length of the rail that is used"""
    slot_duration_s: Annotated[float, Field(gt=0, le=_LONGEST_SLOT_S)] = 0.005
    """T_s, the length of a slot"""
    actuation_time_s: Positive = 0.001
    """T_a, the part of a slot in which the antenna may move"""
    actuation: Literal["fixed", "as-needed"] = "fixed"
    """how much of T_a a slot spends: "fixed": all of it, as in the paper; "as-needed": nothing if
    the antenna holds, else the time of its move"""
    actuator_speed_m_per_s: Positive = 0.6
    """v, the highest speed of the actuator"""
    acceleration_m_per_s2: Positive | Ideal = "ideal"
    """of the actuator; "ideal": full speed at once"""
    command_latency_s: NonNegative = 0.0
    """from the command to the first step"""
    settling_s: NonNegative = 0.0
    """from the last step until the antenna stands still"""
    step_mm: Positive | Ideal = "ideal"
    """one actuator step; "ideal": any position can be taken"""
    stroke: Positive | Auto = 0.06
    """rho_max, the longest move per slot; "auto": all that the actuator can do in T_a"""
    initial_position: NonNegative | Auto = "auto"
    """x_0, where a run starts; "auto": the middle of the rail"""

    @property
    def wavelength_mm(self) -> float:
        return units.wavelength_mm(self.carrier_frequency_hz)

    def to_mm(self, wavelengths: Length) -> Length:
        """A length in millimetres, as a stage counts, of one in wavelengths."""
        return wavelengths * self.wavelength_mm

    def to_wavelengths(self, length_mm: Length) -> Length:
        """A length in wavelengths, as the controller counts, of one in millimetres."""
        return length_mm / self.wavelength_mm

    @property
    def nominal_reach(self) -> float:
        """v·T_a in wavelengths: what the actuator would cover in T_a if it were ideal."""
        return self.to_wavelengths(self.actuator_speed_m_per_s * self.actuation_time_s * 1e3)

    @property
    def actuator_reach(self) -> float:
        """The distance that the actuator covers in T_a less latency and settling (wavelengths)."""
        motion_s = self.actuation_time_s - self.command_latency_s - self.settling_s
        return self.to_wavelengths(self._motion(1.0).reach(motion_s) * 1e3)

    def _motion(self, unit_m: float) -> Trapezoid:
        """The motion of the actuator, with lengths in a unit of `unit_m` metres."""
        acceleration = self.acceleration_m_per_s2
        return Trapezoid(
            self.actuator_speed_m_per_s / unit_m,
            inf if acceleration == "ideal" else acceleration / unit_m,
        )

    @property
    def rho_max(self) -> float:
        """The stroke in wavelengths: what the actuator can do, or less where that is asked for."""
        reach = self.actuator_reach
        return reach if self.stroke == "auto" else min(self.stroke, reach)

    @property
    def rail_mm(self) -> float:
        """D in millimetres."""
        return self.to_mm(self.region_length)

    @property
    def stroke_mm(self) -> float:
        """ρ_max in millimetres."""
        return self.to_mm(self.rho_max)

    @property
    def x_0(self) -> float:
        return self.region_length / 2 if self.initial_position == "auto" else self.initial_position

    @property
    def actuation_plan(self) -> Actuation:
        """What a move costs of its slot."""
        return Actuation(
            slot_s=self.slot_duration_s,
            longest_s=self.actuation_time_s,
            overhead_s=self.command_latency_s + self.settling_s,
            motion=self._motion(self.wavelength_mm * 1e-3),
            as_needed=self.actuation == "as-needed",
        )

    @property
    def transmission_share(self) -> float:
        """The part of a slot in which the link transmits while the antenna holds.

        It is 1 − T_a/T_s, or 1 with actuation as needed. Rewards of maps, surveys and policies are
        at this share.
        """
        return self.actuation_plan.holding_share
