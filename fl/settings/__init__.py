"""Settings of a run: their schema, rules and file."""
