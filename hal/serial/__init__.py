"""The parts of a stage behind a serial port, and `SerialStage`, which is composed of them."""
