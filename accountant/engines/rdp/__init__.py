"""Renyi differential privacy: curves that add up, and one conversion at the end.

- `engine`, `conversion`: curves of leaves added up, and the step to (epsilon, delta) at the best
  order.
- `curves`, `releases`: curves of single releases: noise; stated numbers, responses, selection,
  shuffles.
- `sampled`, `sampled_gaussian`, `fixed_size`, `draws`, `joint`: Poisson samples, fixed batches,
  draws with replacement, releases that share a sample.
- `groups`, `mixture`: units of several records, and other mixtures of Gaussians.
- `epochs`, `matrix_bins`: samplers that hide a unit's place; correlated noise.
- `tuning`: the best of a random number of runs.
- `moments`: the divergence of a pair that is given as weighted points.
"""

from .engine import RdpEngine

__all__ = ["RdpEngine"]
