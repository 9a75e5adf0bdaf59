"""The serial backend compared with the simulated one, on the same world.

For every seed a virtual bench and the daemon run as processes in real time: commands go over a
pseudo-terminal, samples over a socket. They are compared with the simulated backend of the same
config and seed, and with a fixed antenna.

Two effects are not errors of the serial path. A radio sends in blocks, so that some rewards are
used one slot late. And a small error of a reward can change a close decision, after which the run
takes another way and earns more or less by chance. Twins show the size of both effects: simulated
runs on the same world, with the same late rewards and an error as large as the probe's.
"""

from __future__ import annotations

import json
import shlex
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macontrol.commands.bench.children import Children, failed, pipe
from macontrol.config import Config
from macontrol.config.files.atomic_file import regular_target
from macontrol.config.model.errors import InputOutputError, MacontrolError, reason_of
from macontrol.controller.recording.runfile import Run, read_run
from macontrol.helper_process import python_module
from macontrol.sim.research.episode import play
from macontrol.sim.world.channel import Channel
from macontrol.sim.world.rewardmap import simulate_map

Floats = NDArray[np.float64]

TWINS = 8
_MACONTROL = tuple(python_module("macontrol"))
# The longest time for homing, noise floor and survey. A bench ends by itself after it.
_BEFORE_SLOT_1_S = 600.0


@dataclass(frozen=True)
class Comparison:
    """The result of one seed. Rewards are means over the slots."""

    seed: int
    slots: int
    late: int
    """Slots with a late stage or a late decision, and missed slots."""
    late_rewards: int
    """Rewards that arrived after their slot and were used then."""
    without_reward: int
    faults: int
    serial: float
    sim: float
    fixed: float
    lateness: float
    """The mean reward of the twins relative to the simulated backend's, minus 1."""
    chance: float
    """The relative standard deviation of the mean reward over the twins."""
    probe_bias: float
    """The relative mean error of the measured rewards."""
    probe_error: float
    """The root mean square of that error, in the unit of rewards."""

    @property
    def late_share(self) -> float:
        return self.late / max(self.slots, 1)

    @property
    def difference(self) -> float:
        """The mean reward of the serial backend relative to the simulated one's, minus 1."""
        return self.serial / self.sim - 1.0


@dataclass(frozen=True)
class _Played:
    """A run of the controller: its run file and its summary."""

    run: Run
    summary: dict[str, Any]


def compare(
    config: Config,
    options: Sequence[str],
    seeds: Sequence[int],
    slots: int,
    *,
    parallel: int,
    keep: Path | None = None,
    on_slot: Callable[[int, int], None] = lambda _seed, _slot: None,
) -> list[Comparison]:
    """Run every seed on both backends, `parallel` at a time; `options` are those of the config.

    The run files are copied to the folder `keep`, if it is given. `on_slot` is called from several
    threads with a seed and its current slot.
    """
    if keep is not None:
        _make_folder(keep)
    children = Children()
    # The path of a socket must be short: use a temporary folder.
    with tempfile.TemporaryDirectory(prefix="macontrol-") as name:
        with ThreadPoolExecutor(parallel) as workers:
            try:
                folders = {seed: Path(name) / str(seed) for seed in seeds}
                for folder in folders.values():
                    folder.mkdir()
                simulated = {
                    seed: workers.submit(_simulate, children, folder, options, seed, slots)
                    for seed, folder in folders.items()
                }
                measured = {
                    seed: workers.submit(
                        _drive, children, config, folder, options, seed, slots, on_slot
                    )
                    for seed, folder in folders.items()
                }
                for future in as_completed([*simulated.values(), *measured.values()]):
                    future.result()
            except BaseException:  # a run has failed, or the user interrupts
                workers.shutdown(wait=False, cancel_futures=True)
                children.stop()
                raise
            finally:
                if keep is not None:
                    _keep(Path(name), keep)
        return [
            _evaluate(config, seed, measured[seed].result(), simulated[seed].result())
            for seed in seeds
        ]


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputOutputError(
            f"{path}: the run files cannot be kept there: {reason_of(error)}",
            "choose a folder that can be written to",
        ) from error


def _keep(folder: Path, into: Path) -> None:
    """Copy the run files."""
    try:
        for file in sorted(folder.glob("*/*.sqlite*")):
            shutil.copyfile(file, regular_target(into / f"{file.parent.name}-{file.name}"))
    except OSError as error:
        raise InputOutputError(f"{into}: the run files cannot be kept there: {error}") from error


def _simulate(
    children: Children, folder: Path, options: Sequence[str], seed: int, slots: int
) -> _Played:
    command = ["--backend", "sim", "--fast", "--run", str(folder / "sim.sqlite"), *options]
    command += ["--seed", str(seed), "--slots", str(slots)]
    return _play(children, command, folder / "sim.sqlite", folder)


def _drive(
    children: Children,
    config: Config,
    folder: Path,
    options: Sequence[str],
    seed: int,
    slots: int,
    on_slot: Callable[[int, int], None],
) -> _Played:
    """A virtual bench, and the daemon on it."""
    port, notify, file = folder / "stage", folder / "notify", folder / "serial.sqlite"
    longest_s = _BEFORE_SLOT_1_S + 2 * slots * config.physical.slot_duration_s
    bench_command = [*_MACONTROL, "virtual-bench", "--link", str(port), "--notify", str(notify)]
    bench_command += ["--radio", "127.0.0.1:0", "--duration", f"{longest_s:.0f}", *options]
    with children.start([*bench_command, "--seed", str(seed)]) as bench:
        first = pipe(bench).readline() + pipe(bench).readline()
        _, found, radio = first.partition("--probe ")
        if not found:
            raise failed("the virtual bench", first + pipe(bench).read())
        command = ["--backend", "serial", "--yes", "--cold", "--port", str(port), *options]
        command += ["--probe", shlex.split(radio)[0], "--run", str(file)]
        command += ["--seed", str(seed), "--slots", str(slots)]
        try:
            return _play(
                children, command, file, folder, notify, on_slot=lambda slot: on_slot(seed, slot)
            )
        except MacontrolError:
            if (code := bench.poll()) is None:
                raise
            output = pipe(bench).read()
            raise failed(f"the virtual bench of seed {seed} (exit code {code})", output) from None


def _play(
    children: Children,
    command: Sequence[str],
    file: Path,
    folder: Path,
    notify: Path | None = None,
    *,
    on_slot: Callable[[int], None] = lambda _slot: None,
) -> _Played:
    """Run the controller to its end."""
    environment = {"XDG_STATE_HOME": str(folder / "state")}
    if notify is not None:
        environment["NOTIFY_SOCKET"] = str(notify)
    summary: dict[str, Any] | None = None
    other = ""
    with children.start([*_MACONTROL, *command, "--log", "json"], **environment) as process:
        for line in pipe(process):
            try:
                event = json.loads(line)
            except ValueError:
                other += line
                continue
            if event["event"] == "summary":
                summary = event
            elif event["event"] == "status":
                on_slot(event["slot"])
        code = process.wait()
    if code != 0 or summary is None:
        raise failed(f"the controller (exit code {code})", other)
    return _Played(read_run(file), summary)


def _evaluate(config: Config, seed: int, serial: _Played, sim: _Played) -> Comparison:
    columns, summary = serial.run.slots, serial.summary
    seen = np.isfinite(columns["reward"])
    reward = columns["reward"][seen]
    weight = config.physical.actuation_plan.recorded(columns["transmission_share"][seen])
    expected = _world(config, seed, columns["slot"][seen], columns["position"][seen]) * weight
    error = reward - expected
    error_rms = float(np.sqrt(np.mean(error**2)))
    late = summary["late_arrivals"] + summary["late_decisions"] + summary["missed_slots"]
    # The noise of a map is that of a holding antenna.
    twins = _twins(config, seed, columns, float(np.sqrt(np.mean((error / weight) ** 2))))
    simulated = float(np.nanmean(sim.run.slots["reward"]))
    return Comparison(
        seed=seed,
        slots=int(summary["slots"]),
        late=int(late),
        late_rewards=int(summary["late_rewards"]),
        without_reward=int(np.count_nonzero(~seen)),
        faults=int(summary["stage_faults"] + summary["probe_faults"]),
        serial=float(reward.mean()),
        sim=simulated,
        fixed=float(sim.summary["fixed_antenna_reward"]),
        lateness=float(twins.mean() / simulated - 1.0),
        chance=float(twins.std(ddof=1) / twins.mean()),
        probe_bias=float(error.mean() / expected.mean()),
        probe_error=error_rms,
    )


def _world(config: Config, seed: int, slots: Floats, positions: Floats) -> Floats:
    """g_t(x_t) + eps_t of the given slots; 0 where that is negative, as no power can show it."""
    channel = Channel(config, seed)
    rewards = np.empty(len(slots))
    for row, (slot, position) in enumerate(zip(slots.tolist(), positions.tolist(), strict=True)):
        channel.advance(int(slot) - channel.slot)
        rewards[row] = max(channel.reward(position) + channel.noise, 0.0)
    return rewards


def _twins(config: Config, seed: int, run: Mapping[str, Any], error: float) -> Floats:
    """The mean rewards of simulated runs with the late rewards and the error of a run."""
    slots = int(run["slot"][-1])
    late = np.zeros(slots, dtype=bool)
    late[run["slot"][run["late"]] - 1] = True
    world, rng = simulate_map(config, seed, slots), np.random.default_rng(seed)
    means = []
    for _ in range(TWINS):
        noise = world.noise + error * rng.standard_normal(slots)
        twin = play(config, replace(world, noise=noise), seed=seed, late=late)
        means.append(twin.observed.mean())
    return np.array(means)
