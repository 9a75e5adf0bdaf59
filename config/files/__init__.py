"""Reading and writing files: check kind and size, write atomically, keep free disk space."""
