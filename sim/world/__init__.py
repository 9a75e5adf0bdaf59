"""The simulated world: channel, drift, carriage, reward maps."""
