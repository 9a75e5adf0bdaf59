"""The daemon on a stage that fails: whole processes and a wire that the test can read.

The emulated stage and its radio run in the test, which compares the recorded positions and rewards
with the true position of the carriage and the true reward there.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from math import inf
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from macontrol.config import Config, load_config
from macontrol.controller.recording.runfile.reader import read_run
from macontrol.controller.runtime.clock import WallClock
from macontrol.sim.bench.boards.device import VirtualDevice
from macontrol.sim.bench.boards.grbl.board import VirtualGrbl
from macontrol.sim.bench.boards.zaber import VirtualZaber
from macontrol.sim.bench.virtual import VirtualBench
from macontrol.sim.world.channel import Channel
from support.emulated_stages import occupy
from support.scripted_zaber import summed
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

CLOCK = WallClock()
SEED = 3
# A short rail, a quick carriage, a world that stands still, and a radio that is soon ready.
COMMON = """
[physical]
{physical}
[reward]
noise_level = 0.0
[survey]
samples = 3
[timing]
fault_patience_s = {patience}
[stage]
{stage}
[probe]
sample_rate_hz = 1.024e6
settling_s = 0.2
noise_floor_s = 0.3
lead_s = 0.0
"""
GRBL = """
region_length = 0.4
acceleration_m_per_s2 = 10.0
slot_duration_s = 0.14
actuation_time_s = 0.09
"""
ZABER = """
region_length = 0.8
acceleration_m_per_s2 = 5.0
slot_duration_s = 0.2
actuation_time_s = 0.14
[algorithm]
policy = "epsilon-greedy"  # it never rests: a stall shows in motion only
epsilon = 1.0
"""
HOMED_AGAIN = 'homing = "allow"\nrehome_every_s = 8.0'
# For this long after a homing, the next one does not begin.
FRESH_S = 2.0


class Bench:
    """An emulated bench, and daemons that are started on it."""

    def __init__(
        self,
        folder: Path,
        preset: str,
        physical: str,
        *,
        stage: str = 'homing = "allow"',
        patience: float = 30.0,
        board: dict[Any, float] | None = None,
    ) -> None:
        self.folder = folder
        self.environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
        self.link = folder / "stage"
        text = COMMON.format(physical=physical, stage=stage, patience=patience)
        self.file = folder / "bench.toml"
        self.file.write_text(f'preset = "{preset}"\n{text}')
        self.config: Config = load_config(self.file)
        self.virtual = VirtualBench(
            self.config, CLOCK, seed=SEED, link=self.link, block_bytes=16384
        )
        self.stage: VirtualDevice = self.virtual.stage
        settings: Any = vars(self.virtual.stage)["settings"]
        settings.update(board or {})
        self.track: list[tuple[float, float]] = []
        """When the carriage was truly where (mm)."""
        self._daemons: list[Daemon] = []
        self._watching = True
        self._watch = threading.Thread(target=self._look)

    def __enter__(self) -> Bench:
        self.virtual.__enter__()
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        for daemon in self._daemons:
            daemon.close()
        self._watching = False
        self._watch.join()
        self.virtual.__exit__()

    def start(self) -> Daemon:
        daemon = Daemon(self)
        self._daemons.append(daemon)
        return daemon

    @property
    def words(self) -> list[str]:
        """The command that runs the daemon on it."""
        words = [sys.executable, "-m", "macontrol", "--backend", "serial", "--cold"]
        words += ["--log", "json"]
        words += ["--config", str(self.file), "--port", str(self.link)]
        return [*words, "--probe", f"rtl_tcp://{self.virtual.radio.address}"]

    def true_mm(self) -> float:
        return self.stage.position_at(CLOCK.now())

    def still(self, within_s: float) -> float:
        """Wait until the carriage stands; for how long (s) it still moved."""
        begun = CLOCK.now()
        before, after = self.true_mm(), -1.0
        while before != after:
            assert CLOCK.now() - begun < within_s, "the carriage still moves"
            CLOCK.sleep_until(CLOCK.now() + 0.05)
            before, after = after, self.true_mm()
        return CLOCK.now() - begun

    def _look(self) -> None:
        while self._watching:
            now = CLOCK.now()
            self.track.append((now, self.stage.position_at(now)))
            CLOCK.sleep_until(CLOCK.now() + 0.01)

    # -- What must hold, whatever has happened ------------------------------------------------

    def assert_motions_were_safe(self) -> None:
        """No motion without homing, beyond the stroke, or off the region; no setting written."""
        rail, physical = self.config.rail_mm, self.config.physical
        stroke = physical.rho_max * physical.wavelength_mm
        assert self.stage.blind_moves == 0
        assert max(true_mm for _, true_mm in self.track) <= max(rail, 40.0) + 0.1
        at: float | None = None
        moves = 0
        for line in self.stage.lines:
            assert not re.match(r"\$(\d+|J)=", line)
            if line.startswith(("$H", "home")):
                at = 0.0
            elif (target := self._target_mm(line)) is not None:
                assert at is not None
                assert -1e-6 <= target <= rail + 0.02
                assert abs(target - at) <= stroke + 0.02, line
                at, moves = target, moves + 1
        assert moves > 5

    def _target_mm(self, line: str) -> float | None:
        if found := re.search(r"G1X(-?[\d.]+)", line):
            return -2.0 - float(found[1])  # from where the board stands after homing
        if found := re.match(r"move abs (\d+)", line):
            return int(found[1]) * float(self.config.stage.model_dump()["zaber"]["microstep_mm"])
        return None

    def assert_rewards_were_true(self, daemon: Daemon, *, but: tuple[float, float]) -> None:
        """Every reward belongs to the recorded position, except while steps were lost."""
        slots, track = read_run(daemon.run_file).slots, np.array(self.track)
        physical, timing = self.config.physical, self.config.timing
        slot_s, channel = physical.slot_duration_s, Channel(self.config, SEED)
        end_s = (1 - timing.decision_share) * slot_s
        rewarded = 0
        names = ("start_s", "position", "reward", "on_time", "transmission_share")
        for start, x, reward, on_time, share in zip(*(slots[name] for name in names), strict=True):
            if np.isnan(reward) or but[0] - slot_s < start < but[1]:
                continue
            assert on_time
            begin_s = (1 - share + timing.guard_share) * slot_s
            measured = slice(*np.searchsorted(track[:, 0], [start + begin_s, start + end_s]))
            assert track[measured, 1] == pytest.approx(x * physical.wavelength_mm, abs=0.03)
            bits = np.log2(1 + self.config.reward.snr * abs(channel.field(float(x))) ** 2)
            assert reward == pytest.approx(share * bits, rel=0.1)
            rewarded += 1
        assert rewarded > 15


class Daemon:
    """A `macontrol --backend serial` process, and its events."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.run_file = bench.folder / "run.sqlite"
        self.process = subprocess.Popen(
            [*bench.words, "--run", str(self.run_file)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=bench.environment,
        )
        self.events: list[dict[str, Any]] = []
        self._resumed_at_s = -inf
        """When slots last continued after a homing."""
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        for line in _pipe(self.process.stdout):
            with self._news:
                self.events.append(event := json.loads(line))
                if event["event"] == "missed-slots" and "of the stage" in event["detail"]:
                    self._resumed_at_s = CLOCK.now()
                self._news.notify()
        with self._news:
            self._news.notify()

    def await_event(self, kind: str, detail: str = "", *, since: int = 0) -> int:
        """Wait for an event; the number of events so far."""
        with self._news:
            assert self._news.wait_for(lambda: self._seen(kind, detail, since), 60.0), (
                f"no {kind} {detail!r} in {self.events[since:]}"
            )
            return len(self.events)

    def await_time(self) -> None:
        """Wait until no regular homing is near: a fault in one is reported in another way."""
        rehomes = self._bench.config.stage.rehome_every_s != "off"
        if rehomes and CLOCK.now() - self._resumed_at_s > FRESH_S:
            self.await_event("missed-slots", "homing of the stage", since=len(self.events))

    def await_board(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition of the board, while the process runs."""
        wait_until(lambda: condition() or self.process.poll() is not None, 60.0)
        assert condition(), (self.end(), self.events)

    def _seen(self, kind: str, detail: str, since: int) -> bool:
        return any(
            event["event"] == kind and detail in event.get("detail", "")
            for event in self.events[since:]
        )

    def work_on(self) -> None:
        """Wait until the run has rewards of six more slots."""
        enough = self._rewards() + 6
        wait_until(lambda: self._rewards() >= enough, 60.0, every_s=0.2)

    def _rewards(self) -> int:
        return int(np.isfinite(read_run(self.run_file).slots["reward"]).sum())

    def cause(self, fault: Callable[[], None], *details: str, is_homed: bool = True) -> None:
        """Cause a fault; wait until it is reported, the stage works again and slots have rewards.

        If the stage `is_homed` meanwhile, slots continue when the antenna is back from its switch.
        """
        self.await_time()
        since = len(self.events)
        fault()
        for detail in details:
            self.await_event("stage-fault", detail, since=since)
        self.await_event("recovery", "the stage works again", since=since)
        if is_homed:
            self.await_event("missed-slots", "recovery of the stage", since=since)
        self.work_on()

    def end(self, within_s: float = 25.0) -> tuple[int, str]:
        """Wait for the end of the process; return its exit code and its error output.

        Less than the 30 s that a board is waited for; loading an interpreter takes seconds.
        """
        code = self.process.wait(within_s)
        self._reader.join()
        return code, _pipe(self.process.stderr).read()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdout, self.process.stderr):
            _pipe(pipe).close()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def replug_as_another(bench: Bench, closing: ExitStack) -> None:
    """Pull the cable and put it back; the system gives the port another name."""
    before = os.path.realpath(bench.link)
    bench.stage.unplug()
    CLOCK.sleep_until(CLOCK.now() + 0.5)
    occupy(before, closing)
    bench.stage.plug_in()
    assert os.path.realpath(bench.link) != before


@pytest.mark.fault(
    "stage-unplugged",
    "board-reset",
    "stage-lost-while-holding",
    "limit-alarm-or-stall",
    "hold-by-hand",
    "steps-lost",
)
def test_a_grbl_stage_goes_on_after_every_fault_that_can_be_mended_until_one_cannot(
    tmp_path: Path, closing: ExitStack
) -> None:
    bench = closing.enter_context(
        Bench(tmp_path, "lab-2g4-grbl", GRBL, stage=HOMED_AGAIN, board={24: 3000.0})
    )
    board = bench.virtual.stage
    assert isinstance(board, VirtualGrbl)
    daemon = bench.start()
    daemon.await_event("start")
    daemon.await_time()
    for fragment in (b"\xff\x00\x80", b"ok\r\n", b"<Idle|MPos:\r\n", b"x" * 3000, b"error:7\r\n"):
        board.send(fragment)
        CLOCK.sleep_until(CLOCK.now() + 0.1)
    daemon.cause(board.reset, "reset during the run")
    daemon.cause(board.trip_limit, "limit switch was hit")
    daemon.cause(lambda: replug_as_another(bench, closing), "gone")

    def hold() -> None:
        since = len(daemon.events)
        board.press_hold()
        daemon.await_event("stage-fault", "the board reports Hold", since=since)
        board.press_start()

    daemon.cause(hold, is_homed=False)

    def slow() -> None:
        board.slow_down(0.3)
        CLOCK.sleep_until(CLOCK.now() + 1.5)
        board.slow_down(0.0)

    daemon.cause(slow, "does not answer", is_homed=False)
    daemon.await_time()
    since = len(daemon.events)
    steps_lost_s = CLOCK.now()
    board.lose_steps(1.0)
    daemon.await_event("homing", since=since)
    mended_s = CLOCK.now()
    CLOCK.sleep_until(CLOCK.now() + 1.0)
    board.trip_limit()
    code, errors = daemon.end()
    assert code == 69
    assert "ALARM:1" in errors
    assert "check the limit switch and its wiring" in errors
    assert bench.still(2.0) < 2.0
    bench.assert_motions_were_safe()
    bench.assert_rewards_were_true(daemon, but=(steps_lost_s, mended_s))


@pytest.mark.fault("board-reset", "limit-alarm-or-stall")
def test_a_zaber_stage_goes_on_after_every_fault_that_can_be_mended_until_one_cannot(
    tmp_path: Path, closing: ExitStack
) -> None:
    bench = closing.enter_context(Bench(tmp_path, "lab-5g8-zaber", ZABER))
    device = bench.virtual.stage
    assert isinstance(device, VirtualZaber)
    daemon = bench.start()
    daemon.await_event("start")
    for line in (
        summed("@02 1 07 OK IDLE FS 5"),  # another device of the chain
        b"!01 1 IDLE FS:00",  # a wrong checksum
        b"@01 1 07 OK IDLE WR 5",  # none
        b"\xff\x00\x80",
    ):
        device.send(line + b"\r\n")
        CLOCK.sleep_until(CLOCK.now() + 0.1)
    device.raise_flag("WT")
    faults = [each["detail"] for each in daemon.events if each["event"] == "stage-fault"]
    assert not [each for each in faults if "does not answer" not in each]  # a busy machine's
    daemon.cause(device.reset, "no reference position")
    daemon.cause(lambda: replug_as_another(bench, closing), "gone")

    def stall() -> None:
        since = len(daemon.events)
        device.stall()
        daemon.await_event("stage-fault", "stalled", since=since)
        device.release()

    daemon.cause(stall)
    device.stall()
    code, errors = daemon.end()
    assert code == 69
    assert "FS, the motor stalled" in errors
    assert "check the rail" in errors
    bench.assert_motions_were_safe()
    bench.assert_rewards_were_true(daemon, but=(0.0, 0.0))


@pytest.mark.fault("port-in-use", "stage-gone")
def test_a_stage_that_is_gone_for_good_ends_the_run_and_is_not_shared_before(
    tmp_path: Path, closing: ExitStack
) -> None:
    bench = closing.enter_context(Bench(tmp_path, "lab-2g4-grbl", GRBL, patience=1.0))
    daemon = bench.start()
    daemon.await_event("start")
    code, errors = bench.start().end()
    assert code == 69
    assert "is driven by" in errors
    bench.stage.unplug()
    code, errors = daemon.end()
    assert code == 69
    assert f"{bench.link} does not exist" in errors
    assert "timing.fault_patience_s" in errors


@pytest.mark.fault("stop-while-stage-opens", "stop-while-recovering")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_a_grbl_stage_is_connected_homed_or_recovered_stops_it_at_once(
    tmp_path: Path, closing: ExitStack, number: signal.Signals
) -> None:
    bench = closing.enter_context(
        # It homes at 5 mm/s: from where it stands, 40 mm, that takes 8 s.
        Bench(tmp_path, "lab-2g4-grbl", GRBL, board={25: 300.0, 24: 3000.0})
    )
    board = bench.virtual.stage
    assert isinstance(board, VirtualGrbl)
    board.reset_on_open = False
    board.hang()
    daemon = bench.start()
    daemon.await_board(lambda: board._wire.is_open)
    daemon.process.send_signal(number)
    assert daemon.end() == (0, "")
    board.reset()
    board.reset_on_open = True

    daemon = bench.start()
    daemon.await_board(lambda: board.state == "Home")
    daemon.process.send_signal(number)
    wait_until(lambda: board.state == "Alarm")
    assert bench.still(2.0) < 2.0
    assert bench.true_mm() > 20.0
    assert daemon.end() == (0, "")
    if number is signal.SIGINT:
        return
    daemon = bench.start()
    daemon.await_event("start")
    board.reset()
    daemon.await_board(lambda: board.state == "Home")
    daemon.process.send_signal(number)
    wait_until(lambda: board.state == "Alarm")
    assert bench.still(2.0) < 2.0
    assert bench.true_mm() > 0.1
    assert daemon.end() == (0, "")


@pytest.mark.fault("stop-while-stage-opens")
def test_a_signal_while_a_zaber_stage_is_homed_stops_it_at_once(
    tmp_path: Path, closing: ExitStack
) -> None:
    slow = {"limit.approach.maxspeed": 10_000.0}
    bench = closing.enter_context(Bench(tmp_path, "lab-5g8-zaber", ZABER, board=slow))
    device = bench.virtual.stage
    assert isinstance(device, VirtualZaber)
    daemon = bench.start()
    daemon.await_board(lambda: "home" in device.lines)
    daemon.process.send_signal(signal.SIGTERM)
    wait_until(lambda: "NI" in device.flags)
    assert bench.still(2.0) < 2.0
    assert bench.true_mm() > 20.0
    assert daemon.end() == (0, "")


@pytest.mark.fault("homing-without-consent", "stop-while-stage-opens")
@pytest.mark.parametrize("answer", ["signal", "n", "y"])
def test_a_person_is_asked_before_the_first_motion_and_a_signal_is_an_answer_too(
    tmp_path: Path, closing: ExitStack, answer: str
) -> None:
    bench = closing.enter_context(
        Bench(tmp_path, "lab-2g4-grbl", GRBL, stage='homing = "ask"', board={25: 1500.0})
    )
    board = bench.virtual.stage
    assert isinstance(board, VirtualGrbl)
    before = bench.true_mm()
    master, slave = os.openpty()
    closing.callback(os.close, master)
    with subprocess.Popen(
        bench.words, stdin=slave, stdout=slave, stderr=slave, env=bench.environment
    ) as process:
        os.close(slave)
        shown = b""
        while b"[y/N]" not in shown:
            shown += os.read(master, 4096)
        if answer == "y":
            os.write(master, b"y\n")
            wait_until(lambda: board.state == "Home")
        elif answer == "n":
            os.write(master, b"n\n")
            assert process.wait(15.0) == 69
        if answer != "n":
            process.send_signal(signal.SIGTERM)
            assert process.wait(15.0) == 0
    assert (bench.true_mm() == before) == (answer != "y")
    assert ("$H" in board.lines) == (answer == "y")
