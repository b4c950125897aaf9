"""Attacks on what a run leaves behind: they show a leak, or exclude one kind of it.

- `transcripts`, `masks`, `ciphertexts`, `seeds`: what messages of a party show: masks, Paillier
  ciphertexts, seeds.
- `finding`: the result of an attack on a transcript.
- `membership/`: membership inference from models.
"""
