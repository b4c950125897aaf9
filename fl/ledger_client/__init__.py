"""The client of the budget ledger: a connection, an odometer that claims, and a run that does."""
