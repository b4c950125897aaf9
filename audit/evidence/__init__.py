"""What all facts of a log prove: its kinds of rounds, observers, plan, and total epsilon.

- `evidence`, `epsilon_total`: what a log supports in all, and its one number.
- `observed_rounds`, `round_kinds`, `observers`: rounds by kind, and who sees them.
- `doubts`: what takes a guarantee away beyond single rounds.
"""
