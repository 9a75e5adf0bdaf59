"""How files are read and written: kind and size first, in one piece, with room left on the disk."""
