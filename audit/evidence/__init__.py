"""What all facts of a log prove: its kinds of rounds, observers, plan, and total epsilon."""
