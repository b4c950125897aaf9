"""Attacks on what a run leaves behind: they show a leak, or exclude one kind of it."""
