"""The survey: its samples, the walk that takes them, the file that keeps them."""
