"""Where the mass of a loss lies, and which way its place on a grid errs.

- `noise`: log probabilities of intervals under one noise.
- `pair`, `pair_parts`, `mixtures`: pairs (P, Q) by their loss: outcomes, continuous parts, mixtures
  of one noise.
- `loss_grid`, `loss_pmfs`, `lower_hull`: grids, and pmfs on them that dominate a pair or are
  dominated by it.
- `families`, `pmf_rows`, `pmf_points`: many noises and rates at once, on few points each.
"""
