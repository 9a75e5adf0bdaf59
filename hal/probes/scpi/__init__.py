"""An instrument that speaks SCPI: a spectrum analyser, a network analyser, a power meter."""

from macontrol.hal.probes.scpi.settings import (
    DEFAULT_PORT,
    ScpiSettings,
    parse_option,
    server_port,
)
from macontrol.hal.registry import ProbeDriver

DESCRIPTION = ProbeDriver(
    name="scpi",
    label="SCPI instrument",
    settings=ScpiSettings,
    probe="macontrol.hal.probes.scpi.probe:ScpiProbe",
    option="scpi://HOST:PORT",
    parse=parse_option,
    remedy="correct --probe (probe.scpi.address or probe.scpi.resource), or switch it on",
    server=server_port,
    server_port=DEFAULT_PORT,
    noun="instrument",
    emulator="macontrol.sim.bench.instrument:instrument_server",
    search="macontrol.hal.probes.scpi.transport:search",
    status="macontrol.hal.probes.scpi.transport:status",
)
