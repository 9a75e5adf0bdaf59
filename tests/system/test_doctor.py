"""`macontrol check --backend serial` with emulated boards and radios.

Nothing moves, and exactly the lines of what is broken fail.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import serial

from macontrol.cli import main
from macontrol.config import load_config
from macontrol.controller.host.instance import InstanceLock
from macontrol.controller.host.processes import Access
from macontrol.controller.runtime.clock import WallClock
from macontrol.sim.bench.boards.grbl.board import VirtualGrbl
from macontrol.sim.bench.boards.zaber import VirtualZaber
from macontrol.sim.bench.radio import VirtualRadio
from macontrol.sim.bench.virtual import VirtualBench
from support.probe_settings import wait_until
from support.virtual_radio import virtual_radio

pytestmark = pytest.mark.any_user

LINES = re.compile(r"^(pass|note|FAIL|skip) +(\S+(?: \S+)?) {2,}?(.*(?:\n {18} fix: .*)?)", re.M)
STAGE = ["port", "permission", "in use", "board", "settings", "homing", "latency", "slot"]
RADIO = ["radio", "sample rate", "delay", "clipping", "noise floor"]
NO_RADIO = ["--probe", "rtl_tcp://127.0.0.1:9"]
NO_STAGE = ["--port", "/dev/no-such-port"]
# On a busy machine even an emulated board may answer late.
LONG_SLOTS = ["--set=physical.slot_duration_s=1.5", "--set=physical.actuation_time_s=1"]
SHORT_SLOTS = ["--set=physical.actuation_time_s=0.11", "--set=physical.slot_duration_s=0.25"]
RAIL = {27: 2.0, 110: 12000.0, 120: 2000.0, 130: 300.0}

Check = Callable[..., "Report"]


class Report:
    """The output of a check: verdict, detail and fix by line."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        self.text = text
        self.lines: dict[str, tuple[str, str, str]] = {}
        for verdict, what, rest in LINES.findall(text):
            detail, _, fix = rest.partition("fix: ")
            # The verdict comes first, notes after it.
            self.lines.setdefault(what.strip(), (verdict, detail.strip(), fix.strip()))

    def failed(self, *among: str) -> list[str]:
        return [what for what in among if self.lines[what][0] == "FAIL"]

    def passed(self, *among: str) -> list[str]:
        return [what for what in among if self.lines[what][0] in ("pass", "note")]

    def text_of(self, what: str) -> str:
        verdict, detail, fix = self.lines[what]
        assert bool(fix) == (verdict in ("FAIL", "note")), "what does not pass has a fix"
        return f"{detail}; {fix}"


@pytest.fixture
def check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Check:
    """Run the command in this process."""
    (tmp_path / "locks").mkdir()
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "locks"))

    def run(*words: str) -> Report:
        bench = ["--backend", "serial", "--preset", "lab-2g4-grbl", *LONG_SLOTS]
        code = main(["check", *bench, *words])
        captured = capsys.readouterr()
        assert captured.err == ""
        report = Report(code, captured.out)
        assert [what for what in report.lines if what != "decision"] == STAGE + RADIO
        return report

    return run


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def board(closing: ExitStack, **changes: object) -> VirtualGrbl:
    settings = RAIL | changes.pop("settings", {})  # type: ignore[operator]
    return closing.enter_context(
        VirtualGrbl(WallClock(), settings=settings, **changes)  # type: ignore[arg-type]
    )


def radio(closing: ExitStack, power: float = 0.0) -> VirtualRadio:
    made = virtual_radio(lambda _: power, noise_power=1e-4, block_bytes=16384)
    return closing.enter_context(made)


def test_a_good_bench_passes_and_does_not_move(check: Check, closing: ExitStack) -> None:
    clock = WallClock()
    bench = closing.enter_context(
        VirtualBench(load_config(preset="lab-2g4-grbl"), clock, seed=1, block_bytes=16384)
    )
    before = bench.stage.position_at(clock.now())
    report = check("--port", bench.stage.port, "--probe", f"rtl_tcp://{bench.radio.address}")
    assert report.failed(*STAGE, *RADIO) == [], report.text
    # How soon rewards are ready depends on how busy the machine is.
    expected = [what for what in STAGE + RADIO if what != "delay"]
    assert report.passed(*expected) == expected
    assert report.code == 0
    assert bench.stage.position_at(clock.now()) == before
    assert not [line for line in bench.stage.lines if "H" in line or "X" in line]
    assert "Grbl 1.1h" in report.text_of("board")
    assert "not homed" in report.text_of("homing")
    assert float(report.text_of("noise floor").split()[0]) == pytest.approx(-40, abs=1.5)


def test_a_zaber_stage_is_examined_too(check: Check, closing: ExitStack) -> None:
    clock = WallClock()
    bench = closing.enter_context(VirtualBench(load_config(preset="lab-5g8-zaber"), clock, seed=1))
    before = bench.stage.position_at(clock.now())
    words = ["--preset", "lab-5g8-zaber", "--port", bench.stage.port, *NO_RADIO]
    report = check(*words)
    assert report.passed(*STAGE) == STAGE, report.text
    assert re.search(r"Zaber device \d+, serial \d+, firmware \d", report.text_of("board"))
    assert check(*words, "--set", "stage.travel_mm=999").failed(*STAGE) == ["settings"]
    assert bench.stage.position_at(clock.now()) == before


class TestZaber:
    @pytest.fixture
    def device(self, closing: ExitStack) -> VirtualZaber:
        rail = {"limit.max": 330_000.0, "maxspeed": 327_680.0, "accel": 400.0}
        return closing.enter_context(VirtualZaber(WallClock(), settings=rail))

    def examine(self, check: Check, device: VirtualZaber, *words: str) -> Report:
        return check("--preset", "lab-5g8-zaber", "--port", device.port, *NO_RADIO, *words)

    def test_flags_that_invalidate_the_position_fail_with_a_fix(
        self, check: Check, device: VirtualZaber
    ) -> None:
        device.raise_flag("FS")
        report = self.examine(check, device)
        assert report.failed(*STAGE) == ["homing"]
        assert "FS, the motor stalled" in report.text_of("homing")
        assert "the rail is clear" in report.text_of("homing")

    @pytest.mark.fault("zaber-hot-or-supply")
    def test_other_flags_are_notes(self, check: Check, device: VirtualZaber) -> None:
        device.raise_flag("WT")
        report = self.examine(check, device)
        assert report.failed(*STAGE) == []
        assert re.search(r"note +settings +WT, the device is hot\n +fix: let it cool", report.text)
        assert "(flags: WT, WR)" in report.text_of("homing")

    def test_a_device_that_another_program_moves_is_a_note(
        self, check: Check, device: VirtualZaber
    ) -> None:
        device.interrupt(300_000, speed=16_384)  # half a minute
        report = self.examine(check, device)
        assert report.failed(*STAGE) == []
        assert "it was moving when it was connected" in report.text

    def test_without_the_microstep_size_the_settings_fail(
        self, check: Check, device: VirtualZaber
    ) -> None:
        report = self.examine(check, device, "--set", "stage.zaber.microstep_mm=unknown")
        assert report.failed(*STAGE) == ["settings"]
        assert report.lines["board"][0] == "skip"
        assert "data sheet" in report.text_of("settings")


class TestStage:
    def test_a_file_that_is_not_a_port(self, check: Check, tmp_path: Path) -> None:
        file = tmp_path / "notes"
        file.write_text("not a port")
        report = check("--port", str(file), *NO_RADIO)
        assert report.failed(*STAGE) == ["port"]
        assert "not a serial port" in report.text_of("port")
        assert file.read_text() == "not a port"

    @pytest.mark.fault("port-missing-or-forbidden")
    def test_no_such_port(self, check: Check) -> None:
        report = check("--port", "/dev/no-such-port", *NO_RADIO)
        assert report.code == 69
        assert report.failed(*STAGE) == ["port"]
        assert "/dev/no-such-port: No such file" in report.text_of("port")
        assert "--port" in report.text_of("port")

    @pytest.mark.fault("port-in-use")
    def test_a_port_that_another_process_holds(self, check: Check, closing: ExitStack) -> None:
        stage = board(closing)
        code = "import sys; file = open(sys.argv[1]); print(flush=True); sys.stdin.read()"
        words = [sys.executable, "-c", code, stage.port]
        holder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with holder:
            assert holder.stdout is not None
            holder.stdout.readline()
            report = check("--port", stage.port, *NO_RADIO)
            holder.communicate()
        assert report.failed(*STAGE) == ["in use"]
        assert f"(process {holder.pid})" in report.text_of("in use")
        assert f"kill {holder.pid}" in report.text_of("in use")
        assert report.lines["board"][0] == "skip"

    @pytest.mark.fault("port-in-use")
    def test_a_port_that_a_process_of_another_user_holds(
        self, check: Check, closing: ExitStack
    ) -> None:
        stage = board(closing)
        # Processes of other users are invisible; the check does not count its own process either.
        closing.enter_context(serial.Serial(stage.port, exclusive=True))
        report = check("--port", stage.port, *NO_RADIO)
        assert report.failed(*STAGE) == ["in use"]
        assert report.text.count("in use") == 2, "the subject and the detail"
        assert "sudo fuser" in report.text_of("in use")
        assert report.lines["board"][0] == "skip"

    def test_a_stage_that_another_controller_uses(self, check: Check, closing: ExitStack) -> None:
        stage = board(closing)
        with InstanceLock(stage.port):
            report = check("--port", stage.port, *NO_RADIO)
        assert report.failed(*STAGE) == ["in use"]
        assert "is driven by" in report.text_of("in use")

    @pytest.mark.fault("port-missing-or-forbidden")
    def test_a_port_this_user_may_not_open(
        self, check: Check, closing: ExitStack, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Tests may run as root, who may open everything.
        shut = Access(False, "root", "dialout", "crw-rw----")
        monkeypatch.setattr("macontrol.doctor.port.access_to", lambda _: shut)
        report = check("--port", board(closing).port, *NO_RADIO)
        assert report.failed(*STAGE) == ["permission"]
        assert report.lines["in use"][0] == "skip"
        assert "sudo usermod -aG dialout" in report.text_of("permission")

    @pytest.mark.fault("no-board-on-port")
    def test_a_port_without_a_board(
        self, check: Check, closing: ExitStack, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("macontrol.hal.stages.grbl.session.BANNER_WAIT_S", 0.2)
        stage = board(closing, reset_on_open=False)
        stage.hang()
        report = check("--port", stage.port, *NO_RADIO)
        assert report.failed(*STAGE) == ["board"]
        assert "baud" in report.text_of("board")

    @pytest.mark.fault("board-settings-contradict")
    @pytest.mark.parametrize(
        ("setting", "expected"),
        [
            ("stage.travel_mm=999", "stage.travel_mm to at most 296"),
            ("stage.speed_mm_per_s=999", "stage.speed_mm_per_s to at most 200"),
            ("stage.offset_mm=999", "leaves nothing"),
        ],
    )
    def test_settings_that_contradict_the_config(
        self, check: Check, closing: ExitStack, setting: str, expected: str
    ) -> None:
        report = check("--port", board(closing).port, *NO_RADIO, "--set", setting)
        assert report.failed(*STAGE) == ["settings"]
        assert report.passed("board", "homing", "latency") == ["board", "homing", "latency"]
        assert expected in report.text_of("settings")

    @pytest.mark.fault("axis-missing")
    def test_an_axis_that_the_board_does_not_have(self, check: Check, closing: ExitStack) -> None:
        report = check("--port", board(closing).port, *NO_RADIO, "--set", 'stage.grbl.axis="C"')
        assert report.failed(*STAGE) == ["settings"]
        assert "X Y Z" in report.text_of("settings")

    @pytest.mark.fault("board-settings-contradict")
    def test_a_board_without_homing(self, check: Check, closing: ExitStack) -> None:
        stage = board(closing, settings={20: 0, 22: 0})
        report = check("--port", stage.port, *NO_RADIO)
        assert report.failed(*STAGE) == ["settings"]
        assert "set $22=1" in report.text_of("settings")
        assert report.passed("board", "homing") == ["board", "homing"]
        assert report.lines["latency"][0] == "skip"

    def test_a_board_in_alarm_is_examined_completely(
        self, check: Check, closing: ExitStack
    ) -> None:
        stage = board(closing, reset_on_open=False)
        with Path(stage.port).open("wb", buffering=0) as port:
            port.write(b"$X\n")
            wait_until(lambda: stage.state == "Idle")
        stage.trip_limit()
        report = check("--port", stage.port, *NO_RADIO)
        assert report.failed(*STAGE) == ["homing"], report.text
        # The board's line "ALARM:1" may have been lost while no program had the port open.
        assert "alarm" in report.text_of("homing").lower()
        assert report.passed("settings", "latency") == ["settings", "latency"]
        assert stage.state == "Alarm"
        again = check("--port", stage.port, *NO_RADIO)
        assert again.failed(*STAGE) == [], again.text
        assert "locked until it is homed" in again.text_of("homing")

    def test_a_carriage_on_its_switch(self, check: Check, closing: ExitStack) -> None:
        report = check("--port", board(closing, distance_mm=-2.5).port, *NO_RADIO)
        assert report.failed(*STAGE) == ["homing"], report.text
        assert "the X limit switch is closed" in report.text_of("homing")

    def test_a_rail_that_is_too_short(self, check: Check, closing: ExitStack) -> None:
        report = check("--port", board(closing, settings={130: 100.0}).port, *NO_RADIO)
        assert report.failed(*STAGE) == ["slot"]
        assert "physical.region_length" in report.text_of("slot")

    def test_a_board_too_slow_for_the_slot(self, check: Check, closing: ExitStack) -> None:
        stage = board(closing, reset_on_open=False)
        stage.slow_down(0.1)
        report = check("--port", stage.port, *NO_RADIO, *SHORT_SLOTS)
        assert report.failed(*STAGE) == ["slot"]
        assert "set physical.actuation_time_s to at least" in report.text_of("slot")
        assert "set physical.command_latency_s to 0." in report.text

    def test_a_setting_that_could_be_better_is_a_note(
        self, check: Check, closing: ExitStack
    ) -> None:
        report = check("--port", board(closing, settings={1: 25}).port, *NO_RADIO)
        assert report.failed(*STAGE) == []
        assert re.search(r"^note +settings +\$1=25: .*\n +fix: set \$1=255", report.text, re.M)


class TestRadio:
    @pytest.mark.fault("radio-unreachable")
    def test_no_server_at_the_address(self, check: Check) -> None:
        report = check(*NO_STAGE, *NO_RADIO)
        assert report.failed(*RADIO) == ["radio"]
        assert "no server listens at this address; start rtl_tcp" in report.text_of("radio")

    @pytest.mark.fault("radio-busy")
    def test_a_busy_server_and_its_client(self, check: Check, closing: ExitStack) -> None:
        made = radio(closing)
        host, port = made.address.split(":")
        code = (
            "import socket, sys, threading; c = socket.create_connection(sys.argv[1:]);"
            "print(flush=True); [None for _ in iter(lambda: c.recv(65536), b'')]"
        )
        words = [sys.executable, "-c", code, host, port]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as client:
            assert client.stdout is not None
            client.stdout.readline()
            wait_until(lambda: made.clients == 1)
            report = check(
                *NO_STAGE,
                *("--probe", f"rtl_tcp://{made.address}", "--set", "probe.connect_timeout_s=1"),
            )
            client.kill()
        assert report.failed(*RADIO) == ["radio"]
        assert "busy with another client" in report.text_of("radio")
        assert f"(process {client.pid})" in report.text_of("radio")

    @pytest.mark.fault("tuner-out-of-range")
    def test_a_tuner_that_does_not_reach_the_frequency(
        self, check: Check, closing: ExitStack
    ) -> None:
        plan = ("probe.tuner_frequency_hz=1.9e9", "probe.converter_lo_hz=500e6")
        words = [word for value in plan for word in ("--set", value)]
        report = check(*NO_STAGE, "--probe", f"rtl_tcp://{radio(closing).address}", *words)
        assert report.failed(*RADIO) == ["radio"]
        assert "R820T tuner receives 24 MHz to 1766 MHz" in report.text_of("radio")

    @pytest.mark.fault("radio-wrong-server")
    def test_another_kind_of_server(self, check: Check, closing: ExitStack) -> None:
        made = radio(closing)
        made.header = b"SSH-2.0-Open"
        report = check(*NO_STAGE, "--probe", f"rtl_tcp://{made.address}")
        assert report.failed(*RADIO) == ["radio"]
        assert "is not rtl_tcp" in report.text_of("radio")

    @pytest.mark.fault("radio-silent")
    def test_a_server_that_sends_no_samples(self, check: Check, closing: ExitStack) -> None:
        made = radio(closing)
        made.stall(60.0)
        words = ["--set", "probe.silence_s=0.5"]
        report = check(*NO_STAGE, "--probe", f"rtl_tcp://{made.address}", *words)
        assert report.failed(*RADIO) == ["radio"]

    def test_a_server_that_stops_during_the_check_leaves_no_line_out(
        self, check: Check, closing: ExitStack
    ) -> None:
        made = radio(closing)

        def stop_server() -> None:
            wait_until(lambda: made.clients == 1, 60.0)
            time.sleep(1.5)  # by then the noise floor is being measured
            made.close()

        thread = threading.Thread(target=stop_server)
        thread.start()
        words = ["--probe", f"rtl_tcp://{made.address}", "--set", "probe.noise_floor_s=10"]
        report = check(*NO_STAGE, *words)
        thread.join()
        assert report.code == 69
        assert report.failed(*RADIO) == ["sample rate", "noise floor"]
        assert "no server listens" in report.text_of("sample rate")

    def test_a_radio_that_is_overdriven(self, check: Check, closing: ExitStack) -> None:
        report = check(*NO_STAGE, "--probe", f"rtl_tcp://{radio(closing, power=9.0).address}")
        assert report.failed(*RADIO) == ["clipping", "noise floor"]
        assert "lower probe.gain_db (it is 20)" in report.text_of("clipping")

    def test_a_noise_floor_without_room_for_a_signal(
        self, check: Check, closing: ExitStack
    ) -> None:
        report = check(*NO_STAGE, "--probe", f"rtl_tcp://{radio(closing, power=0.2).address}")
        assert report.failed(*RADIO) == ["noise floor"]
        assert "switch the transmitter off" in report.text_of("noise floor")

    def test_rewards_after_the_decision_are_a_note_with_a_fix(
        self, check: Check, closing: ExitStack
    ) -> None:
        made = virtual_radio(lambda _: 0.0, noise_power=1e-4, block_bytes=262144)  # 64 ms
        words = [*NO_STAGE, "--probe", f"rtl_tcp://{closing.enter_context(made).address}"]
        report = check(*words, "--set", "probe.lead_s=0")
        text = report.text_of("delay")
        found = re.search(r"at most (\d+) ms; .* 5 ms.*set probe\.lead_s to ([\d.]+)", text)
        assert found, text
        assert 0.03 < float(found[2]) == pytest.approx(float(found[1]) / 1e3, abs=0.0021)
        time.sleep(0.2)  # for the radio to notice that its client has closed
        assert report.failed(*RADIO) == []
        again = check(*words, "--set", "probe.lead_s=0.9")
        assert again.passed("delay") == ["delay"], again.text
        assert "905 ms" in again.text_of("delay")

    def test_lost_samples(self, check: Check, closing: ExitStack) -> None:
        made = radio(closing)

        def lose() -> None:
            wait_until(lambda: made.clients == 1, 60.0)
            time.sleep(2.0)
            made.lose(0.3)

        thread = threading.Thread(target=lose)
        thread.start()
        report = check(*NO_STAGE, "--probe", f"rtl_tcp://{made.address}")
        thread.join()
        assert "sample rate" in report.failed(*RADIO)

    @pytest.mark.fault("sample-rate-wrong")
    def test_a_sample_rate_that_is_too_low(self, check: Check) -> None:
        """A server that sends at three quarters of the requested rate."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            thread = threading.Thread(target=slow_server, args=(server,), daemon=True)
            thread.start()
            report = check(*NO_STAGE, "--probe", f"rtl_tcp://127.0.0.1:{server.getsockname()[1]}")
        assert report.code == 69
        assert report.failed("radio", "sample rate"), report.text


def slow_server(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.sendall(b"RTL0" + bytes((0, 0, 0, 5, 0, 0, 0, 29)))
        block = bytes((126, 129)) * 8192
        due = time.monotonic()
        try:
            while True:
                due += 8192 / 1_536_000
                time.sleep(max(0.0, due - time.monotonic()))
                connection.sendall(block)
        except OSError:
            return


def test_options_of_the_bench_need_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--port", "/dev/ttyUSB0"]) == 64
    assert "--port needs --backend serial" in capsys.readouterr().err
