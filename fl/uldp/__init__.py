"""Uldp-FL: user-level privacy across silos, by Kato, Xiong, Takagi, Cao and Yoshikawa 2024.

- `declaration`, `settings`, `terms`, `expected_log`, `sealed_items`: keys, and what each round is.
- `averaging`, `weighted`, `hidden_weights`, `published_weights`: ULDP-AVG and ULDP-SGD: with known
  weights, hidden ones, and as published.
- `correlated`: correlated noise: schedules and blocks.
- `naive`, `group`, `record_flags`, `group_votes`: ULDP-NAIVE; ULDP-GROUP and which records take
  part.
- `weighting/`: Protocol 1: weights that nobody learns.
- `canaries/`: canaries.
"""
