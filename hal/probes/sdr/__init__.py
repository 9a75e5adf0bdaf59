"""Rewards from a stream of IQ samples: ring, time stamps, power, noise floor, validity."""
