"""What hardware is: the Stage and Probe protocols, units and errors, and the drivers that speak
to real devices (GRBL and Zaber stages, rtl_tcp and SoapySDR radios). This room imports only
`macontrol.config`. The other rooms build on its protocols and never on a driver; only the command
line picks a driver.
"""
