"""How sampling, shuffling and grouping change a guarantee: pure mathematics, no engine."""
