"""The transmitter is switched by programs, and never stays off."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from macontrol.config import load_config
from macontrol.config.model.errors import ConfigError, TransmitterError
from macontrol.config.sections.tx import Tx
from macontrol.transmitter import Transmitter
from support.switched import Switch
from support.waiting import wait_until


@pytest.fixture
def switch(tmp_path: Path) -> Switch:
    return Switch(tmp_path)


def transmitter(switch: Switch, **changed: object) -> Transmitter:
    given = {"on_command": switch.command("on"), "off_command": switch.command("off")}
    made = Transmitter.of(Tx.model_validate({**given, "settling_s": 0.0, **changed}))
    assert made is not None
    return made


def test_it_is_off_within_and_on_afterwards(switch: Switch) -> None:
    with transmitter(switch).silent():
        assert not switch.is_on
    assert switch.is_on
    assert switch.runs == ["off", "on"]


def test_it_is_on_after_an_error(switch: Switch) -> None:
    with pytest.raises(KeyError), transmitter(switch).silent():
        raise KeyError
    assert switch.is_on


def test_arguments_with_spaces_and_dollars_reach_the_program_as_they_are(tmp_path: Path) -> None:
    switch = Switch(tmp_path / "a b")
    name = "$(touch x); $HOME"
    transmitter(switch, on_command=switch.command("on", name)).on()
    assert switch.runs == [f"on {name}"]


@pytest.mark.fault("tx-command-fails")
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo first; echo the relay is gone >&2; exit 3", ["exit code 3", "the relay is gone"]),
        ("exit 4", ["exit code 4", "without output"]),
        ("kill -9 $$", ["signal 9"]),
        ("echo working; sleep 60", ["0.3 s", "working"]),
    ],
)
def test_a_failure_is_described_and_the_transmitter_is_switched_on(
    switch: Switch, script: str, said: list[str]
) -> None:
    begun = time.monotonic()
    failing = transmitter(switch, off_command=f"sh -c '{script}'", timeout_s=0.3)
    with pytest.raises(TransmitterError) as failure, failing.silent():
        pytest.fail("it is not known to be off")
    assert time.monotonic() - begun < 10
    assert "tx.off_command" in failure.value.detail
    assert all(part in failure.value.detail for part in said), failure.value.detail
    assert switch.runs == ["on"]


@pytest.mark.fault("tx-command-fails")
@pytest.mark.parametrize("program", ["/no/such/program on", "/etc/passwd"])
def test_a_program_that_cannot_be_run_is_named(switch: Switch, program: str) -> None:
    made = transmitter(switch, off_command=program)
    with pytest.raises(TransmitterError) as failure:
        made.off()
    assert repr(program.split()[0]) in failure.value.detail
    made.close()
    assert switch.runs == ["on"]


def test_a_command_that_leaves_a_process_behind_ends_with_its_own_exit_code(
    switch: Switch,
) -> None:
    begun = time.monotonic()
    transmitter(switch, on_command="sh -c 'sleep 5 &'").on()
    assert time.monotonic() - begun < 4


def test_switching_on_is_tried_again(switch: Switch) -> None:
    with transmitter(switch).silent():
        switch.fail(1)
    assert switch.is_on


def test_closing_switches_it_on_and_ends_a_measurement(switch: Switch) -> None:
    made = transmitter(switch)
    with pytest.raises(TransmitterError), made.silent():
        made.close()
    with pytest.raises(TransmitterError):
        made.off()
    assert switch.is_on


def test_closing_does_not_touch_a_transmitter_that_is_on(switch: Switch) -> None:
    transmitter(switch).close()
    assert switch.runs == []


@pytest.mark.fault("killed-with-transmitter-off")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT])
def test_it_is_switched_on_although_the_process_is_killed(
    tmp_path: Path, number: signal.Signals
) -> None:
    switch = Switch(tmp_path)
    program = f"""
        import time
        from macontrol.transmitter import Transmitter
        from macontrol.config.sections.tx import Tx
        tx = Tx(on_command={switch.command("on")!r}, off_command={switch.command("off")!r})
        with Transmitter(tx).silent():
            print("off", flush=True)
            time.sleep(60)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"off\n"
        assert not switch.is_on
        os.killpg(process.pid, number)
    wait_until(lambda: switch.is_on)
    assert switch.runs == ["off", "on"]


def test_without_both_commands_there_is_none() -> None:
    assert Transmitter.of(Tx()) is None
    assert Transmitter.of(Tx(on_command="switch on")) is None


@pytest.mark.parametrize(
    "setting",
    ["tx.on_command=x", "tx.off_command=x", "tx.floor_every_s=60", 'tx.on_command="it\'s"'],
)
def test_settings_that_cannot_work_are_refused(setting: str) -> None:
    with pytest.raises(ConfigError, match=r"tx\."):
        load_config(None, [setting])
