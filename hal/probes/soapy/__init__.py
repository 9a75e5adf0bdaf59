"""A local radio through SoapySDR."""

from macontrol.hal.probes.soapy.settings import SoapySettings, parse_option
from macontrol.hal.registry import ProbeDriver

DESCRIPTION = ProbeDriver(
    name="soapy",
    label="SoapySDR radio",
    settings=SoapySettings,
    probe="macontrol.hal.probes.soapy.stream:make_probe",
    option="soapy:ARGS as in soapy:driver=rtlsdr",
    parse=parse_option,
    remedy="unplug the radio and plug it in again; try SoapySDRUtil --probe",
    search="macontrol.hal.probes.soapy.stream:search",
    status="macontrol.hal.probes.soapy.stream:status",
)
