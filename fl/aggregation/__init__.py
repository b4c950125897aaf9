"""How what the silos make becomes one sum, and what is checked of it.

- `choice`, `sums`: which aggregator, its interface, and sums in the clear.
- `masked_sums`, `share_sums`: masked sums through a server; sums among peers.
- `weighted_sum`, `unweighted_views`, `user_weights`: weights of users, the noise of a sum, and what
  observers see of it.
- `clip_check`, `residuals`: the clip computed twice; statistics of the noise.
"""
