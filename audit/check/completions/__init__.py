"""The runs that a description allows: what it mentions and leaves open, pinned in every way."""
