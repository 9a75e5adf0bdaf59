"""The serial backend against the simulated one, on the same world.

For every seed a virtual bench and the true daemon run as processes of their own, slot by slot in
real time: commands go over a pseudo-terminal, samples over a socket. Beside them stand the
simulated backend with the same config and seed, and the antenna that never moves.

A radio sends in blocks, so that some rewards are used a slot late, and a bandit forks at close
decisions: rewards that are off by a thousandth send it another way sooner or later, and a run on a
fading channel earns more or less by chance. How much of a difference is due to either, twins tell:
simulated runs on the same world, with the same rewards late and an error as large as the probe's.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.config.files.atomic_file import regular_target
from macontrol.config.model.errors import InputOutputError, MacontrolError
from macontrol.controller.recording.runfile import Run, read_run
from macontrol.helper_process import python_module
from macontrol.sim.research.episode import play
from macontrol.sim.world.channel import Channel
from macontrol.sim.world.rewardmap import simulate_map

Floats = NDArray[np.float64]

TWINS = 8
_MACONTROL = tuple(python_module("macontrol"))
# Homing, noise floor and survey; a bench whose parent was killed ends by itself after that.
_BEFORE_SLOT_1_S = 600.0
_END_WITHIN_S = 10.0


@dataclass(frozen=True)
class Comparison:
    """What became of one seed. Rewards are means over the slots."""

    seed: int
    slots: int
    late: int
    """Slots whose stage or decision was late, and those that were missed."""
    late_rewards: int
    """Rewards that came after their slot, and were used then: radios send in blocks."""
    without_reward: int
    faults: int
    serial: float
    sim: float
    fixed: float
    lateness: float
    """How much more twins earn than the simulated backend, on average and relative."""
    chance: float
    """Standard deviation of the mean reward over twins, relative."""
    probe_bias: float
    """Mean error of the measured rewards against the world's where the antenna was, relative."""
    probe_error: float
    """Root mean square of that error, in the unit of rewards."""

    @property
    def late_share(self) -> float:
        return self.late / max(self.slots, 1)

    @property
    def difference(self) -> float:
        """How much more the serial backend earned than the simulated one, relative."""
        return self.serial / self.sim - 1.0


class Children:
    """Processes that are ended, whatever happens; from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[str]] = []
        self._stopped = False

    @contextmanager
    def start(self, command: Sequence[str], **environment: str) -> Iterator[subprocess.Popen[str]]:
        """A process that reads nothing, and that is ended when the `with` is left."""
        with self._lock:
            if self._stopped:
                raise MacontrolError("interrupted")
            process = subprocess.Popen(
                command,
                env={**_environment(), **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            self._processes.append(process)
        try:
            yield process
        finally:
            _end([process])
            _pipe(process).close()
            with self._lock:
                self._processes.remove(process)

    def stop(self) -> None:
        """End all, and start no more."""
        with self._lock:
            self._stopped = True
            left = list(self._processes)
        _end(left[::-1])  # those that use a bench before the bench


def _end(processes: Sequence[subprocess.Popen[str]]) -> None:
    """Ask them to end, and kill those that do not in time."""
    try:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(_END_WITHIN_S)
    except subprocess.TimeoutExpired:
        pass
    finally:
        for process in processes:
            process.kill()
            process.wait()


@dataclass(frozen=True)
class _Played:
    """A run of the controller: what it recorded, and what it said at its end."""

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
    """Run every seed on both backends, so many at a time; `options` say the config in words.

    The run files are kept in a folder, if one is given. `on_slot` is called now and then, from
    several threads, with a seed and the slot it is at.
    """
    if keep is not None:
        _make_folder(keep)
    children = Children()
    # Sockets need short names, so that all begins in a temporary folder.
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
            except BaseException:  # one has failed, or somebody has had enough
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
            f"{path}: the run files cannot be kept there: {error.strerror or error}; "
            "choose a folder that can be written to"
        ) from error


def _keep(folder: Path, into: Path) -> None:
    """Copy the run files, as they are at this moment."""
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
        first = _pipe(bench).readline() + _pipe(bench).readline()
        _, found, radio = first.partition("--probe ")
        if not found:
            raise _failed("the virtual bench", first + _pipe(bench).read())
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
            output = _pipe(bench).read()
            raise _failed(f"the virtual bench of seed {seed} (exit code {code})", output) from None


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
        for line in _pipe(process):
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
        raise _failed(f"the controller (exit code {code})", other)
    return _Played(read_run(file), summary)


def _evaluate(config: Config, seed: int, serial: _Played, sim: _Played) -> Comparison:
    columns, told = serial.run.slots, serial.summary
    seen = np.isfinite(columns["reward"])
    reward = columns["reward"][seen]
    expected = _world(config, seed, columns["slot"][seen], columns["position"][seen])
    error = reward - expected
    error_rms = float(np.sqrt(np.mean(error**2)))
    late = told["late_arrivals"] + told["late_decisions"] + told["missed_slots"]
    twins = _twins(config, seed, columns, error_rms)
    simulated = float(np.nanmean(sim.run.slots["reward"]))
    return Comparison(
        seed=seed,
        slots=int(told["slots"]),
        late=int(late),
        late_rewards=int(told["late_rewards"]),
        without_reward=int(np.count_nonzero(~seen)),
        faults=int(told["stage_faults"] + told["probe_faults"]),
        serial=float(reward.mean()),
        sim=simulated,
        fixed=float(sim.summary["fixed_antenna_reward"]),
        lateness=float(twins.mean() / simulated - 1.0),
        chance=float(twins.std(ddof=1) / twins.mean()),
        probe_bias=float(error.mean() / expected.mean()),
        probe_error=error_rms,
    )


def _world(config: Config, seed: int, slots: Floats, positions: Floats) -> Floats:
    """g_t(x_t) + eps_t of the given slots, and 0 where that is negative: no power shows it."""
    channel = Channel(config, seed)
    rewards = np.empty(len(slots))
    for row, (slot, position) in enumerate(zip(slots.tolist(), positions.tolist(), strict=True)):
        channel.advance(int(slot) - channel.slot)
        rewards[row] = max(channel.reward(position) + channel.noise, 0.0)
    return rewards


def _twins(config: Config, seed: int, run: Mapping[str, Any], error: float) -> Floats:
    """The mean rewards of simulated runs that are late where a run was, and err as its probe."""
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


def _environment() -> dict[str, str]:
    """Ours, without what a service manager of ours would hear."""
    kept = dict(os.environ)
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
        kept.pop(name, None)
    return kept


def _pipe(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def _failed(who: str, output: str) -> MacontrolError:
    tail = "\n".join(output.strip().splitlines()[-5:])
    return MacontrolError(f"{who} did not run as it should:\n{tail}")
