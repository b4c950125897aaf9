"""A run that somebody describes: its claim, its settings, and where each fact comes from."""
