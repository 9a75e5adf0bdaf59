"""What `macontrol devices` shows of VISA."""

from __future__ import annotations

import warnings
from contextlib import suppress
from importlib.util import find_spec

from macontrol.hal.probes.scpi.transport import load_pyvisa, resource_manager
from macontrol.hal.registry import Radios


def search() -> Radios:
    """The resources that PyVISA lists; none of them is opened."""
    pyvisa = load_pyvisa()
    manager = resource_manager(pyvisa)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pyvisa-py names packages that could find more
            found = {f"visa://{name}": "" for name in manager.list_resources("?*::INSTR")}
    finally:
        with suppress(Exception):
            manager.close()
    return Radios("VISA resources", found, "none; an address on the network needs no search")


def status() -> str:
    """Whether PyVISA is installed."""
    if find_spec("pyvisa") is None:
        return 'PyVISA: not installed; USB and GPIB instruments need pip install "macontrol[visa]"'
    return "PyVISA: installed; --scpi searches for USB and GPIB instruments"
