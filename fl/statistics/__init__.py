"""Private statistics: one noisy Gram matrix, from which fits cost nothing more.

- `declaration`, `settings`, `run_terms`, `public_terms`, `system`, `measure`: the system
  `statistics`, and what its release is.
- `private_statistics`, `release_plan`, `statistics`, `finished_run`, `door`: one release by a
  program: the door, its plan, what it released, or a folder's.
- `exact_sums`, `sum_check`, `noise_shown`, `guarantees`: exact sums, a second computation, the
  noise as one law, what is proven.
- `ridge`, `components`, `noise_split`, `estimators/`: fits at no further cost.
- `canaries`, `canary_pairs`: canaries.
"""
