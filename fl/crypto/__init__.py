"""Cryptography between parties: fixed point, keys, masks, shares, Paillier, oblivious transfer.

- `fixed_point_sums`: numbers on a grid, in a ring.
- `keys`, `sealed_box`: keys, signatures, messages for one reader.
- `masks`, `additive`, `shamir`: masks and shares.
- `oblivious`, `paillier/`: oblivious transfer; sums under encryption.
"""
