"""List what is likely a stage or a radio on this machine, and the programs that use it.

Nothing is opened: opening a port resets many boards, and a radio in use is not disturbed. With
--soapy, SoapySDR searches for radios; some of its modules open a free radio to do so.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence, Sized

from rich.console import Console
from rich.text import Text

from macontrol.config.model.errors import ProbeError
from macontrol.controller.host.processes import Access, Process
from macontrol.controller.host.radios import (
    RadioServer,
    UsbRadio,
    find_radio_servers,
    find_usb_radios,
)
from macontrol.controller.host.serial_ports import SerialPort, find_serial_ports
from macontrol.hal.probes.soapy.stream import find_radios, installed_modules, load_soapy


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--soapy", action="store_true", help="also search for radios with SoapySDR")


def main(arguments: argparse.Namespace) -> int:
    console = Console()
    show(console, find_serial_ports(), find_usb_radios(), find_radio_servers())
    if arguments.soapy:
        soapy = load_soapy()
        show_soapy(console, find_radios(soapy), installed_modules(soapy))
    else:
        _line(console, _soapy_status())
    return 0


def show(
    console: Console,
    ports: Sequence[SerialPort],
    radios: Sequence[UsbRadio],
    servers: Sequence[RadioServer],
) -> None:
    """Print what was found."""
    _heading(console, "serial ports", "none: is the stage plugged in and powered?", ports)
    for port in ports:
        _entry(console, port.names[0] if port.names else port.device, _facts_of_port(port))
    _heading(console, "radios on the USB", "none", radios)
    for radio in radios:
        _entry(console, f"{radio.what} {radio.serial}".strip(), _facts_of_radio(radio))
    _heading(console, "rtl_tcp servers", "none on this machine", servers)
    for server in servers:
        _entry(console, f"rtl_tcp://{server.address}", _facts_of_server(server))
    if not (ports or radios or servers):
        _line(console, "No stage and no radio found. `macontrol virtual-bench` emulates both.")


def show_soapy(console: Console, radios: Mapping[str, str], modules: Sequence[str]) -> None:
    """Print the radios that SoapySDR finds, each as a --probe option."""
    none = f"none; its modules: {', '.join(modules) or 'none'}"
    _heading(console, "radios that SoapySDR finds", none, radios)
    for option, label in radios.items():
        _entry(console, f"--probe {option}", [label] if label else [])


def _soapy_status() -> str:
    try:
        modules = ", ".join(installed_modules(load_soapy())) or "no radio"
    except ProbeError:
        return "SoapySDR: not installed for this Python (Debian: python3-soapysdr)"
    return f"SoapySDR: installed, with modules for {modules}; --soapy searches for radios"


def _facts_of_port(port: SerialPort) -> list[str]:
    facts = [port.what + (f", USB {port.usb_id}" if port.usb_id else "")]
    if port.names:
        facts.append(f"now {port.device}")
    return [*facts, *_permission(port.access), *_held(port.holders)]


def _facts_of_radio(radio: UsbRadio) -> list[str]:
    facts = [f"USB {radio.usb_id}, {radio.device}"]
    if radio.access is not None:
        facts += _permission(radio.access)
    if radio.kernel_driver:
        facts.append(
            f"held by the kernel module {radio.kernel_driver}; "
            f"fix: sudo modprobe -r {radio.kernel_driver.partition(',')[0]}, and blacklist it"
        )
    return facts + _held(radio.holders)


def _facts_of_server(server: RadioServer) -> list[str]:
    facts = [f"served by {_names(server.servers) or 'a process that this user cannot see'}"]
    if server.is_busy:
        facts.append(f"in use by {_names(server.clients) or 'a client on another machine'}")
    return facts


def _permission(access: Access) -> list[str]:
    if access.allowed:
        return []
    return [f"no permission ({access.mode} {access.owner} {access.group}); fix: {access.fix}"]


def _held(holders: Sequence[Process]) -> list[str]:
    return [f"held by {_names(holders)}"] if holders else []


def _names(processes: Sequence[Process]) -> str:
    return ", ".join(str(process) for process in processes)


def _heading(console: Console, title: str, none: str, found: Sized) -> None:
    heading = Text(title, style="bold")
    if not found:
        heading.append(f": {none}", style="not bold")
    _line(console, heading)


def _entry(console: Console, name: str, facts: Sequence[str]) -> None:
    _line(console, f"  {name}")
    for fact in facts:
        _line(console, f"      {fact}")


def _line(console: Console, text: str | Text) -> None:
    console.print(text, soft_wrap=True, highlight=False, markup=False)
