"""What `macontrol devices` shows of SoapySDR."""

from __future__ import annotations

from macontrol.config.model.errors import ProbeError
from macontrol.hal.probes.soapy.stream import find_radios, installed_modules, load_soapy
from macontrol.hal.registry import Radios


def search() -> Radios:
    """The radios that SoapySDR finds; some of its modules open a free one for that."""
    soapy = load_soapy()
    modules = ", ".join(installed_modules(soapy)) or "none"
    return Radios("radios that SoapySDR finds", find_radios(soapy), f"none; its modules: {modules}")


def status() -> str:
    """Whether SoapySDR is installed, and for which radios."""
    try:
        modules = ", ".join(installed_modules(load_soapy())) or "no radio"
    except ProbeError:
        return "SoapySDR: not installed for this Python (Debian: python3-soapysdr)"
    return f"SoapySDR: installed, with modules for {modules}; --soapy searches for radios"
