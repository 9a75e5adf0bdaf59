"""The simulator: the world (channel, drift, carriage, reward maps), the simulated and the virtual
bench, and research (oracle, replay, the figures of the paper). It imports `macontrol.config` and
the protocols of `macontrol.hal`; only `macontrol.sim.research` may import the controller.
"""
