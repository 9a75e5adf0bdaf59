"""Replaces the real world: channel, drift, simulated bench, virtual bench; oracle and figures.

This room imports `macontrol.config` and the protocols of `macontrol.hal`. Only
`macontrol.sim.research` imports the controller.
"""
