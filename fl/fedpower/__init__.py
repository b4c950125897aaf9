"""FedPower, private federated SVD: one Gram release, a power iteration, and three as published.

- `declaration`, `settings`, `run_terms`, `expected_log`: keys, and what each release is.
- `planner`, `one_shot`, `power`: the design by public facts; one Gram release; a power iteration.
- `published`, `private`, `utility`, `published_noise`, `noise_removal/`: the three printed
  algorithms, and taking noise off under encryption.
- `rows`, `data`, `iterate`, `predicted_error`, `product_check`: rows of nodes, the iterate, how
  well it should work, a second computation.
- `directions`, `measure`, `metrics`: what was found, and how near it is.
- `canaries`, `canary_pairs`, `planner_canaries`: canaries.
"""
