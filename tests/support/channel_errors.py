"""How far the rewards of a run are from those of its simulated world."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from macontrol.controller.recording.runfile import Run
from macontrol.sim.world.channel import Channel

_COLUMNS = ("slot", "position", "reward", "transmission_share")


def channel_errors(run: Run, seed: int) -> NDArray[np.float64]:
    """The error of each measured reward, slot by slot, in the world of a seed."""
    config, measured = run.header.config, np.isfinite(run.slots["reward"])
    columns = (run.slots[name][measured].tolist() for name in _COLUMNS)
    channel, errors, holding = Channel(config, seed), [], config.physical.transmission_share
    for slot, position, reward, share in zip(*columns, strict=True):
        channel.advance(slot - channel.slot)
        # No power can show a reward below 0.
        expected = max(channel.reward(position) + channel.noise, 0.0)
        errors.append(reward - expected * share / holding)
    return np.array(errors)
