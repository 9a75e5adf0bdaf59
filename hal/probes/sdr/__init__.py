"""Power from a stream of IQ samples: ring, time stamps, noise floor, validity."""
