"""What one party can read out of the messages that it received.

Every function takes a party's view (`Network.view`), or numbers taken from it, and what the party
owns; it returns a `Finding`: what was found, how sure that is, and one sentence.

- `shown_randomness`: Paillier ciphertexts whose randomness is 1, or related to another's;
- `noise_free_residue`: decrypted sums that no noise touches modulo some number;
- `unmasked`: values that are not uniform in their ring;
- `reused_masks`, `reused_keystream`: a mask or key that served twice;
- `weak_seeds`, `search_seed`, `published_seed`: seeds that can be tried one by one;
- `secrets_in`: keys, seeds or counts in any message or log, in any usual encoding.

They find what they look for in the protocol as published, and nothing in a sound one; a search
that finds nothing proves no more than that.
"""

from __future__ import annotations

from .ciphertexts import (
    decrypted_sums,
    noise_free_residue,
    plaintext,
    randomness,
    shown_randomness,
)
from .finding import FALSE_ALARM, Finding, residues, values, words
from .masks import reused_keystream, reused_masks, unmasked
from .seeds import published_seed, search_seed, secrets_in, weak_seeds

__all__ = [
    "FALSE_ALARM",
    "Finding",
    "decrypted_sums",
    "noise_free_residue",
    "plaintext",
    "published_seed",
    "randomness",
    "residues",
    "reused_keystream",
    "reused_masks",
    "search_seed",
    "secrets_in",
    "shown_randomness",
    "unmasked",
    "values",
    "weak_seeds",
    "words",
]
