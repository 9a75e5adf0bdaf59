"""The rate that a command such as iperf3 prints, as a probe of macontrol."""

from macontrol.hal.registry import ProbeDriver
from throughput_probe.settings import ThroughputSettings, parse_option

DESCRIPTION = ProbeDriver(
    name="throughput",
    label="command that prints a rate",
    settings=ThroughputSettings,
    probe="throughput_probe.probe:ThroughputProbe",
    option="iperf3://HOST:PORT",
    parse=parse_option,
    remedy="run probe.throughput.command in a terminal: it must print one rate per line",
)
