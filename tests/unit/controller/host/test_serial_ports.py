"""Serial ports: identification, stable names, users."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from macontrol.controller.host.processes import Process
from macontrol.controller.host.serial_ports import SerialPort, find_serial_ports, port_identity
from support.machine_files import add_process, empty_machine, link, write


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    return empty_machine(tmp_path)


class TestFinding:
    def find(self, machine: Path, monkeypatch: pytest.MonkeyPatch, **facts: object) -> SerialPort:
        port = {
            "device": str(machine / "dev" / "ttyUSB0"),
            "vid": None,
            "pid": None,
            "manufacturer": None,
            "product": None,
        }
        write(machine / "dev" / "ttyUSB0")
        ports = [SimpleNamespace(**(port | facts)), SimpleNamespace(**(port | {"device": "/gone"}))]
        monkeypatch.setattr("serial.tools.list_ports.comports", lambda: ports)
        (found,) = find_serial_ports(
            machine / "dev", machine / "proc", stages={"2939": "Zaber stage"}
        )
        return found

    @pytest.mark.parametrize(
        ("vendor", "product", "what"),
        [
            (0x2341, 0x0043, "Arduino"),
            (0x1A86, 0x7523, "CH340"),
            (0x0403, 0x6001, "FTDI"),
            (0x10C4, 0xEA60, "CP210x"),
            (0x2939, 0x0001, "Zaber"),
            (0x1234, 0x5678, "USB serial port"),
        ],
    )
    def test_a_port_is_identified_by_its_usb_id(
        self, machine: Path, monkeypatch: pytest.MonkeyPatch, vendor: int, product: int, what: str
    ) -> None:
        found = self.find(machine, monkeypatch, vid=vendor, pid=product)
        assert found.what.startswith(what)
        assert found.usb_id == f"{vendor:04x}:{product:04x}"

    def test_the_stable_name_of_a_port_is_found(
        self, machine: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name = machine / "dev/serial/by-id/usb-Arduino_Uno-if00"
        link(name, "../../ttyUSB0")
        found = self.find(machine, monkeypatch, vid=0x2341, pid=0x43, product="Uno")
        assert found.names == (str(name),)
        assert found.what == "Arduino (Uno)"

    def test_the_process_that_uses_a_port_is_found(
        self, machine: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        add_process(machine / "proc", 7, "/usr/sbin/ModemManager", machine / "dev/ttyUSB0")
        assert self.find(machine, monkeypatch).holders == (Process(7, "ModemManager"),)


class TestIdentity:
    """The identity distinguishes two boards of one type where that is possible."""

    def identity(self, machine: Path, monkeypatch: pytest.MonkeyPatch, **facts: object) -> str:
        device = machine / "dev" / "ttyUSB0"
        write(device)
        link(machine / "dev" / "stage", device)
        usb = {"vid": 0x1A86, "pid": 0x7523, "serial_number": None, "location": "1-1.2"}
        port = SimpleNamespace(**({"device": str(device)} | usb | facts))
        monkeypatch.setattr("serial.tools.list_ports.comports", lambda: [port])
        return port_identity(str(machine / "dev" / "stage"))

    @pytest.mark.parametrize(
        ("facts", "expected"),
        [
            ({"serial_number": "A50285BI"}, "USB 1a86:7523 serial A50285BI"),
            ({}, "USB 1a86:7523 1-1.2"),
            ({"location": None}, "USB 1a86:7523"),
            ({"vid": None, "pid": None}, "not on the USB"),
            ({"device": "/dev/ttyUSB7"}, "not on the USB"),
        ],
    )
    def test_it_is_the_serial_number_or_the_socket(
        self,
        machine: Path,
        monkeypatch: pytest.MonkeyPatch,
        facts: dict[str, object],
        expected: str,
    ) -> None:
        assert self.identity(machine, monkeypatch, **facts) == expected
