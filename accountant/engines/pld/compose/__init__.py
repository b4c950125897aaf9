"""Many releases at once: their directions, their pmfs, one transform, and its bounds.

- `questions`, `rounds`, `directions`: epsilon or delta, the factors of a composition, and the
  directions to bound.
- `delta_bounds`, `transform`, `curve`: certified bounds by one tilted transform; at every epsilon
  at once.
- `estimate`: saddle points, which no bound rests on.
- `client_sampled`: releases inside of a sampled client.
"""
