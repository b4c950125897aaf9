"""Cryptography between parties: fixed point, keys, masks, shares, Paillier, oblivious transfer."""
