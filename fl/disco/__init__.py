"""DISCO: peers that train together without a server, as published and in a form that holds.

- `declaration`, `settings`, `terms`: keys, and what a round is.
- `system`, `updates`, `noise`, `clip_rules`, `time_frames`: rounds in a form that holds: updates,
  noise shares, the clip, who takes part when.
- `published`, `published_noise`, `float_shares`: as published: noise by the update's size, float
  shares.
- `canaries`: peers or records as canaries.
"""
