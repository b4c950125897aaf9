"""Many releases at once: their directions, their pmfs, one transform, and its bounds."""
