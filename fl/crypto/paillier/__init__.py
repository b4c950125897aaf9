"""Paillier encryption for weighted sums: keys, packing, products of powers, blinding.

- `keys`, `packing`: keys, and many integers in one plaintext.
- `products`, `straus`, `fixed_base`, `powers`: weighted sums under encryption, and fast products of
  powers.
- `blinding`, `residues`: what hides ciphertexts from who owns the key.
- `processes`, `arithmetic`: work over processes; big integers.
"""
