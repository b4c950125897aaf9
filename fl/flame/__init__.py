"""FLAME: users who send coordinates of their updates through a shuffler to an analyzer.

- `declaration`, `settings`, `terms`, `factories`: keys, what a round is, and who makes the system.
- `system`, `selection`, `padding`, `message_sums`, `index_privacy`: rounds: chosen coordinates,
  dummies, sums of messages, decoys.
- `published`: the three protocols as printed.
- `sealing_cost`: what a round of boxes costs before it runs.
- `canaries`, `canary_layout`, `canary_scores`: canaries.
- `votes`: users who are held out.
"""
