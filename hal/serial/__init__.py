"""Parts of a stage behind a serial port: the line, its traffic log, the timing of answers."""
