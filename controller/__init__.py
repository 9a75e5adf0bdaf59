"""Decides and keeps time: policies, slot loop, guard, survey, recording and host setup.

This room imports `macontrol.config` and the protocols of `macontrol.hal`, never a driver. It cannot
know whether a bench is simulated or real.
"""
