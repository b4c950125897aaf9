"""Private statistics: one noisy Gram matrix, from which fits cost nothing more."""
