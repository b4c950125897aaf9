"""What a system declares of itself: its TOML keys, defaults, sealed items, and the registry."""
