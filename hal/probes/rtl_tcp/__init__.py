"""A radio behind an rtl_tcp server."""

from macontrol.hal.probes.rtl_tcp.settings import (
    DEFAULT_PORT,
    RtlTcpSettings,
    parse_option,
    server_port,
)
from macontrol.hal.registry import ProbeDriver

DESCRIPTION = ProbeDriver(
    name="rtl_tcp",
    label="rtl_tcp server",
    settings=RtlTcpSettings,
    probe="macontrol.hal.probes.rtl_tcp.stream:make_probe",
    option="rtl_tcp://HOST:PORT",
    parse=parse_option,
    remedy="correct --probe (probe.rtl_tcp.address), or start the radio's server there",
    check="macontrol.hal.probes.rtl_tcp.stream:refuse_beyond_all_tuners",
    server=server_port,
    server_port=DEFAULT_PORT,
    server_prefix="rtl_",
    emulator="macontrol.sim.bench.radio:radio_server",
)
