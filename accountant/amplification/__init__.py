"""How sampling, shuffling and grouping change a guarantee: pure mathematics, no engine.

- `subsampling`, `truncation`, `occurrences`: users drawn before a shuffle; Poisson samples cut to
  B; draws with replacement.
- `group`: from one record to a unit of k records.
- `shuffling/`: what a shuffler adds to local randomizers.
- `bins`, `bin_moments`: balls in bins with correlated noise.
- `sums`, `spectrum`: certified tails of sums of independent variables.
"""
