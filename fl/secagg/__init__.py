"""Sums of integer vectors of which nobody sees more than the total.

- `terms`, `messages`, `group`, `risk`: who may fail or collude, what is said, what all hold in
  common, unlucky graphs.
- `client`, `server`, `committee`: a masked sum.
- `decentralised`, `peers`, `peer_group`, `gathering`: a sum among peers by additive shares, and who
  is there.
"""
