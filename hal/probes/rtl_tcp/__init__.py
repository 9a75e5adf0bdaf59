"""A radio behind an rtl_tcp server."""
