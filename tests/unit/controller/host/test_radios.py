"""Radios on the USB and radio servers, from the files of the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from macontrol.controller.host.processes import Process, clients_of
from macontrol.controller.host.radios import UsbRadio, find_radio_servers, find_usb_radios
from support.machine_files import add_process, empty_machine, link, write


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    return empty_machine(tmp_path)


def plug_in_radio(machine: Path, usb_id: str) -> Path:
    folder = machine / "usb" / "1-2"
    vendor, product = usb_id.split(":")
    facts = {"idVendor": vendor, "idProduct": product, "busnum": "1", "devnum": "7"}
    for name, text in {**facts, "serial": "00000001"}.items():
        write(folder / name, text + "\n")
    write(machine / "dev/bus/usb/001/007")
    return folder


def radios_of(machine: Path) -> list[UsbRadio]:
    return find_usb_radios(machine / "usb", machine / "dev", machine / "proc")


class TestUsbRadios:
    @pytest.mark.parametrize(
        ("usb_id", "what"),
        [
            ("0bda:2838", "RTL2832U dongle"),
            ("1d50:6089", "HackRF One"),
            ("0456:b673", "ADALM-Pluto"),
            ("2500:0020", "USRP B2xx"),
        ],
    )
    def test_a_radio_is_identified_by_its_usb_id(
        self, machine: Path, usb_id: str, what: str
    ) -> None:
        plug_in_radio(machine, usb_id)
        (found,) = radios_of(machine)
        assert (found.what, found.usb_id, found.serial) == (what, usb_id, "00000001")
        assert not found.kernel_driver
        assert not found.holders

    def test_other_devices_are_not_listed(self, machine: Path) -> None:
        plug_in_radio(machine, "046d:c31c")
        write(machine / "usb" / "usb1" / "speed", "480")
        assert radios_of(machine) == []

    def test_the_kernel_driver_that_uses_a_radio_is_found(self, machine: Path) -> None:
        folder = plug_in_radio(machine, "0bda:2838")
        driver = machine / "drivers" / "dvb_usb_rtl28xxu"
        driver.mkdir(parents=True)
        link(folder / "1-2:1.0" / "driver", driver)
        (found,) = radios_of(machine)
        assert found.kernel_driver == "dvb_usb_rtl28xxu"

    def test_the_process_that_uses_a_radio_is_found(self, machine: Path) -> None:
        plug_in_radio(machine, "0bda:2838")
        add_process(machine / "proc", 41, "rtl_fm -f 100M", machine / "dev/bus/usb/001/007")
        (found,) = radios_of(machine)
        assert found.holders == (Process(41, "rtl_fm -f 100M"),)


def table(*rows: tuple[str, str, str, int]) -> str:
    """The kernel's table of TCP sockets: local and remote address, state, inode."""
    return "  sl  local_address rem_address st\n" + "".join(
        f"   0: {local} {remote} {state} 0:0 0:0 0 0 0 {inode} 1\n"
        for local, remote, state, inode in rows
    )


class TestServers:
    def test_a_server_and_its_client_are_found(self, machine: Path) -> None:
        proc = machine / "proc"
        rows = table(
            ("0100007F:04D2", "00000000:0000", "0A", 11),
            ("0100007F:04D2", "0100007F:9999", "01", 12),
            ("0100007F:9999", "0100007F:04D2", "01", 13),
            ("0100007F:0050", "00000000:0000", "0A", 14),
        )
        write(proc / "net" / "tcp", rows)
        add_process(proc, 5, "rtl_tcp -a 127.0.0.1", "socket:[11]", "socket:[12]")
        add_process(proc, 6, "gqrx", "socket:[13]")
        (found,) = find_radio_servers(proc, port=1234, prefix="rtl_")
        assert (found.address, found.is_busy) == ("127.0.0.1:1234", True)
        assert found.servers == (Process(5, "rtl_tcp -a 127.0.0.1"),)
        assert found.clients == clients_of(1234, proc) == (Process(6, "gqrx"),)

    def test_a_server_on_another_port_is_identified_by_its_name(self, machine: Path) -> None:
        proc = machine / "proc"
        write(proc / "net" / "tcp6", table(("0" * 32 + ":1F90", "0:0", "0A", 21)))
        add_process(proc, 5, "/usr/bin/rtl_433 -F rtl_tcp", "socket:[21]")
        (found,) = find_radio_servers(proc, port=1234, prefix="rtl_")
        assert (found.address, found.is_busy) == ("127.0.0.1:8080", False)

    def test_a_server_that_does_not_listen_on_loopback_is_not_listed(self, machine: Path) -> None:
        write(machine / "proc/net/tcp", table(("0A00000A:04D2", "0:0", "0A", 31)))
        assert find_radio_servers(machine / "proc", port=1234, prefix="rtl_") == []
