"""One module per `macontrol` command; only the command line imports them."""
