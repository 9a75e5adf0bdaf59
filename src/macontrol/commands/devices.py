"""List likely stages, radios and instruments on this machine, and the programs that use them.

Nothing is opened: opening a port resets many boards, and a device in use is not disturbed. Each
option also searches for devices of one kind, and may open a free one for a moment.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence, Sized

from rich.console import Console
from rich.text import Text

from macontrol.config.model.registry import resolve
from macontrol.controller.host.processes import Access, Process
from macontrol.controller.host.radios import (
    RadioServer,
    UsbRadio,
    find_radio_servers,
    find_usb_radios,
)
from macontrol.controller.host.serial_ports import SerialPort, find_serial_ports
from macontrol.hal.registry import PROBES, STAGES, FoundProbes, ProbeDriver
from macontrol.standard_streams import print_plain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for driver in PROBES.working():
        if driver.search:
            parser.add_argument(
                f"--{driver.name}",
                action="store_true",
                help=f"also search for a {driver.label}; that may open one for a moment",
            )


def main(arguments: argparse.Namespace) -> int:
    console, drivers = Console(), list(PROBES.working())
    known = {usb: what for stage in STAGES.working() for usb, what in stage.usb_ids.items()}
    servers = {
        driver: find_radio_servers(port=driver.server_port, prefix=driver.server_prefix)
        for driver in drivers
        if driver.server_port
    }
    show(console, find_serial_ports(stages=known), find_usb_radios(), servers)
    for driver in drivers:
        if driver.search and getattr(arguments, driver.name):
            show_probes(console, resolve(driver.search)())
        elif driver.status:
            print_plain(console, resolve(driver.status)())
    return 0


def show(
    console: Console,
    ports: Sequence[SerialPort],
    radios: Sequence[UsbRadio],
    servers: Mapping[ProbeDriver, Sequence[RadioServer]],
) -> None:
    """Print what was found."""
    _heading(console, "serial ports", "none: is the stage plugged in and powered?", ports)
    for port in ports:
        _entry(console, port.names[0] if port.names else port.device, _facts_of_port(port))
    _heading(console, "radios on the USB", "none", radios)
    for radio in radios:
        _entry(console, f"{radio.what} {radio.serial}".strip(), _facts_of_radio(radio))
    for driver, found in servers.items():
        _heading(console, f"{driver.label}s", "none on this machine", found)
        for server in found:
            _entry(console, driver.option_at(server.address), _facts_of_server(server))
    if not (ports or radios or any(servers.values())):
        print_plain(
            console, "No stage and no radio found. `macontrol virtual-bench` emulates both."
        )


def show_probes(console: Console, probes: FoundProbes) -> None:
    """Print the probes that a driver finds, as --probe takes them."""
    _heading(console, probes.title, probes.if_none, probes.found)
    for option, label in probes.found.items():
        _entry(console, f"--probe {option}", [label] if label else [])


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
    print_plain(console, heading)


def _entry(console: Console, name: str, facts: Sequence[str]) -> None:
    print_plain(console, f"  {name}")
    for fact in facts:
        print_plain(console, f"      {fact}")
