"""The pairs that dominate a release, and those that it attains: one file a family of event.

Each registers one function for each event that it knows.

- `registry`: the table of these functions, and what a dominated mechanism is.
- `noisy_sums`: Gaussian and Laplace noise, of all units or of a Poisson sample.
- `fixed_size`, `fixed_size_groups`, `with_replacement`, `truncated`, `occurrences`: batches of a
  fixed size, draws put back, Poisson samples cut to B.
- `batches`, `allocation`: shuffled batches of an epoch; each unit in exactly k of t releases.
- `groups`, `group_classes`, `gaussian_mixtures`: units of several records; random contributions, as
  of silos that join by coins.
- `binomial`, `binomial_mixtures`: the density ratio of noise shifted by a random number of bounds.
- `outcomes`: finitely many outcomes: randomized response, stated epsilons, discrete noise.
- `selections`, `scores`: partition selection; the largest of noisy sums.
- `sampled_shuffle`: shuffled rounds, and shuffled coordinates of each user.
- `matrix_bins`, `ratio_sums`: balls in bins with correlated noise.
"""
