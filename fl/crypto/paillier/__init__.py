"""Paillier encryption for weighted sums: keys, packing, products of powers, blinding."""
