"""Sums of integer vectors of which nobody sees more than the total."""
