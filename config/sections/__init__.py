"""The tables of a config, one module per table."""
