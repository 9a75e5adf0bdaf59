"""What decides and keeps time: the kernel, the posterior, MoveUCB, the baselines and the theory
behind them; the clock, the slot loop, the guard, the survey and the recorder. This room imports
`macontrol.config` and the protocols of `macontrol.hal`, never a driver, so it cannot tell a
simulated bench from a real one.
"""
