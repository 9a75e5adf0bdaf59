"""Check a configuration and show what follows from it; with --backend serial, examine the bench.

Nothing moves, except with --gain. The time of one decision is measured on this machine and compared
with the time that the slot leaves for it. A serial bench is examined for everything that a run
needs, one line each, with the fix where it fails: port, permission, other programs, board,
settings, homing, latency; radio, sample rate, delay, clipping, noise floor (with the transmitter
off: by tx.off_command, or switch it off before). The exit code is 0 if everything passes, and 69 if
something fails.

--gain proposes a gain for the radio: the highest without clipping at the strongest position found.
It homes the stage, with --yes or after you agree, walks the rail once through the guard, goes to
the strongest of 25 positions and tries gains there. The transmitter must be on. The gain that is in
use is restored at the end, and the proposal is printed as TOML.

It warns if the settings of the site were measured long ago (site.max_age_days), at another carrier
or on another rail: see `macontrol calibrate`.
"""

from __future__ import annotations

import argparse
import resource
import time
from contextlib import ExitStack
from functools import partial
from math import inf

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from macontrol.commands.check_theory import theory_table
from macontrol.commands.shared_arguments import (
    BY_BACKEND,
    add_bench_arguments,
    add_config_arguments,
    bench_loaded_from,
)
from macontrol.config import Config
from macontrol.config.checks.measuring import measured_s, shortcoming
from macontrol.config.checks.rf_plan import describe_plan, is_planned
from macontrol.config.checks.site import site_warnings
from macontrol.config.model.errors import ConfigError, HardwareError, UsageError
from macontrol.controller.policies.features import kernel_features
from macontrol.controller.policies.gram import GramPosterior
from macontrol.controller.policies.kernel import kernel_from_config
from macontrol.controller.policies.policy import HasPosterior, Policy
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.runtime.clock import WallClock
from macontrol.controller.survey.samples import Survey
from macontrol.doctor.bench import examine_bench
from macontrol.doctor.report import Finding, Report, Verdict
from macontrol.hal import Clock
from macontrol.hal.registry import PROBES
from macontrol.hal.serial.line import TrafficLog
from macontrol.hal.serial.traffic_log import TrafficFile
from macontrol.sim.world.channel import survey_rewards

_STYLES: dict[Verdict, str] = {"pass": "green", "note": "yellow", "FAIL": "bold red", "skip": "dim"}
_TIMED_SLOTS = 1000
_TIMED_SLOTS_OF_GRAM = 200
_HEADROOM = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--backend", choices=("sim", "serial"), default="sim", help="serial: examine the bench too"
    )
    add_bench_arguments(parser)
    parser.add_argument(
        "--gain",
        action="store_true",
        help="propose a gain instead: homes the stage, walks the rail with the transmitter on, and "
        "tries the gains of the radio at the strongest position, for a minute or two",
    )
    parser.add_argument(
        "--theory",
        action="store_true",
        help="also print the constants of the paper's analysis, and what each assumes",
    )
    add_config_arguments(parser, policy=True, preset=BY_BACKEND)


def main(arguments: argparse.Namespace) -> int:
    if arguments.gain and arguments.backend != "serial":
        raise UsageError("--gain: the simulated bench has no radio", "use --backend serial")
    if arguments.yes and not arguments.gain:
        raise UsageError("--yes: nothing moves without --gain", "remove it")
    loaded, console = bench_loaded_from(arguments), Console()
    config = loaded.config
    for key, reason in loaded.without_effect().items():
        console.print(f"note: {key} has no effect: {reason}", highlight=False, soft_wrap=True)
    for warning in site_warnings(config, time.time()):
        console.print(f"warning: {warning}", style="yellow", highlight=False, soft_wrap=True)
    if arguments.theory:
        console.print(theory_table(config, _simulated_survey(config)))
    if arguments.gain:
        from macontrol.commands.check_gain import sweep_gain

        return sweep_gain(config, arguments, console, Report(partial(_show, console)))
    if arguments.backend == "serial":
        with ExitStack() as closing:
            clock, log = WallClock(), None
            if arguments.traffic is not None:
                log = closing.enter_context(TrafficFile(arguments.traffic, clock))
            return _examine_bench(config, console, clock, log)
    _check_config(config, console)
    if is_planned(config.probe):
        _check_radio(config)
    return 0


def _check_radio(config: Config) -> None:
    """Check what can be checked of a radio before it is connected."""
    PROBES[config.probe.driver].refuse_unusable(config.probe)
    if problem := shortcoming(config):
        raise problem.error()


def _simulated_survey(config: Config) -> Survey:
    return Survey(np.array(config.survey_positions), survey_rewards(config, config.run.seed))


def _check_config(config: Config, console: Console) -> None:
    policy = make_policy(config, _simulated_survey(config))
    decision = _decision_times(config, policy)
    budget = config.timing.decision_share * config.physical.slot_duration_s
    # The median: slow decisions on a busy machine say nothing about a run under SCHED_FIFO.
    fits = _HEADROOM * float(np.median(decision)) <= budget
    console.print(_table(config, policy, decision, budget, fits))
    if not fits:
        raise ConfigError(
            "algorithm: one decision takes longer on this machine than the slot leaves for it",
            "lengthen physical.slot_duration_s, raise timing.decision_share, coarsen "
            "algorithm.grid_spacing, or set algorithm.ridge higher if it is below 0.001",
        )


def _examine_bench(config: Config, console: Console, clock: Clock, log: TrafficLog | None) -> int:
    """Check the config as without a bench, then examine the bench."""
    report = Report(partial(_show, console))
    try:
        _check_config(config, console)
    except ConfigError as error:
        report.error("decision", error, "")
    examine_bench(config, clock, report, log)
    if report.failures:
        console.print(f"{report.failures} of the above must be fixed", highlight=False)
    return HardwareError.exit_code if report.failures else 0


def _show(console: Console, finding: Finding) -> None:
    line = Text(f"{finding.verdict:5}", style=_STYLES[finding.verdict])
    line.append(f" {finding.subject:12} {finding.detail}", style="default not bold")
    if finding.fix:
        line.append(f"\n{'':18} fix: {finding.fix}", style="default not bold")
    console.print(line, soft_wrap=True, highlight=False)


def _decision_times(config: Config, policy: Policy) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """How long observing and deciding take on this machine, with a full window."""
    grid, position = config.grid, policy.start_position
    # In feature space the cost does not depend on the window.
    grows = isinstance(policy, HasPosterior) and isinstance(policy.posterior, GramPosterior)
    warm_up = config.algorithm.window if grows else min(config.algorithm.window, 300)
    slots = _TIMED_SLOTS if not grows else _TIMED_SLOTS_OF_GRAM
    times = np.empty(slots)
    for slot in range(1, warm_up + slots + 1):
        reward = config.g_max * 0.5 * (1 + np.sin(position * 3))
        start = time.perf_counter()
        policy.observe(slot, position, float(reward))
        position = policy.decide(slot, position).position
        if slot > warm_up:
            times[slot - warm_up - 1] = time.perf_counter() - start
        if slot % 200 == 0:
            position = float(grid.points[(slot * 37) % grid.size])
    return times


def _measured(config: Config) -> str:
    """The measured part of a slot; a radio leaves out the guards and the lead."""
    interval = f"{config.slot_timing.measure_s * 1e3:.3g}"
    if not is_planned(config.probe):
        return f"{interval} to measure"
    return f"{max(measured_s(config), 0.0) * 1e3:.3g} of {interval} measured"


def _table(
    config: Config,
    policy: Policy,
    decision: np.ndarray[tuple[int], np.dtype[np.float64]],
    budget: float,
    fits: bool,
) -> Table:
    physical, algorithm = config.physical, config.algorithm
    stroke = f"{physical.rho_max:.5g} wavelengths, {physical.stroke_mm:.4g} mm"
    if physical.rho_max < physical.nominal_reach * (1 - 1e-3):
        stroke += f" (v·T_a would be {physical.nominal_reach:.5g})"
    median, p99 = np.quantile(decision, (0.5, 0.99))
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows = [
        (
            "wavelength",
            f"{physical.wavelength_mm:.4f} mm at {physical.carrier_frequency_hz / 1e9:g} GHz",
        ),
        (
            "rail",
            f"{physical.region_length:g} wavelengths, {physical.rail_mm:.4g} mm",
        ),
        ("stroke", stroke),
        (
            "grid",
            f"{config.grid_size} positions, {physical.to_mm(algorithm.grid_spacing):.4g} mm apart",
        ),
        ("slots per traversal", f"{config.traversal_slots}"),
        (
            "slot",
            f"{physical.slot_duration_s * 1e3:g} ms: {physical.actuation_time_s * 1e3:g} to move, "
            f"{_measured(config)}, {budget * 1e3:.3g} to decide",
        ),
        *_move_rows(config),
        (
            "window",
            f"{algorithm.window} samples, {algorithm.window * physical.slot_duration_s:g} s",
        ),
        ("scale of rewards", f"{config.g_max:.4f}, noise {config.noise_std:.4f}"),
        ("policy", f"{algorithm.policy}, beta = {algorithm.beta_for(algorithm.policy):g}"),
        *_kernel_rows(config),
        ("one decision here", f"{median * 1e6:.0f} µs, p99 {p99 * 1e6:.0f} µs"),
        ("fits the slot", f"yes, {median / budget:.0%} of its budget" if fits else "NO"),
        ("memory", f"{resident:.0f} MB resident"),
    ]
    if is_planned(config.probe):
        plan = describe_plan(physical.carrier_frequency_hz, config.probe)
        rows.insert(1, ("radio", plan))
    table = Table(title="what follows from this configuration", show_header=False)
    for name, value in rows:
        table.add_row(name, value)
    return table


def _move_rows(config: Config) -> list[tuple[str, str]]:
    """What a slot spends on a move, if that depends on the move."""
    physical, plan = config.physical, config.physical.actuation_plan
    if not plan.as_needed:
        return []
    shown = []
    for name, distance in (
        ("hold", 0.0),
        ("a grid step", config.algorithm.grid_spacing),
        ("a stroke", physical.rho_max),
    ):
        time_s = plan.time_s(distance)
        shown.append(f"{name} {time_s * 1e3:.3g} ms ({plan.share(time_s):.0%} left)")
    return [("moves as needed", ", ".join(shown))]


def _kernel_rows(config: Config) -> list[tuple[str, str]]:
    """What follows from the kernel's settings: its fringes, their damping, its numerical rank."""
    kernel, settings = kernel_from_config(config.kernel), config.kernel
    fringes = [term for term in kernel.terms if term.period != inf]
    rows: list[tuple[str, str]] = [("kernel", settings.name)]
    if fringes:
        derived = " (from the sector)" if settings.fringe_periods == "auto" else ""
        periods = ", ".join(f"{term.period:.4g}" for term in fringes)
        rows.append(("fringe periods", f"{periods} wavelengths{derived}"))
        derived = " (from the angular spread)" if settings.fringe_damping == "auto" else ""
        rows.append(("fringe damping", f"{fringes[0].length:.4g} wavelengths{derived}"))
    rank = kernel_features(kernel, config.grid).rank
    rows.append(("numerical rank", f"{rank} of {config.grid_size} positions"))
    return rows
