"""What stands in for the world: the channel, its drift, the actuator, the simulated backend, the
virtual bench and its boards; the oracle, the campaigns and the figures. This room imports
`macontrol.config` and the protocols of `macontrol.hal`; only `macontrol.sim.research` may import
the controller.
"""
