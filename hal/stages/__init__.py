"""Stage drivers, one package each."""
