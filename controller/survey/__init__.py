"""The survey: its samples, the walk that measures them, the file that stores them."""
