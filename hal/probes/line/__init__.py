"""A power detector that prints one number per line on a serial port."""

from macontrol.hal.probes.line.settings import LineSettings, parse_option
from macontrol.hal.registry import ProbeDriver

DESCRIPTION = ProbeDriver(
    name="line",
    label="detector on a serial port",
    settings=LineSettings,
    probe="macontrol.hal.probes.line.probe:LineProbe",
    option="line:///dev/PORT",
    parse=parse_option,
    remedy="correct --probe (probe.line.port), and see `macontrol devices`",
    noun="detector",
    emulator="macontrol.sim.bench.detector:detector",
)
