"""Is this reported epsilon right?  The verdict about a described run, and its causes."""
