"""Who takes part in a round, and who knows.

    nobody               everybody takes part; the ciphertexts of B_u^-1 are sent once
    server               the server draws; those who are not drawn get a ciphertext of 0.  It knows
                         who was drawn, the silos do not
    oblivious-transfer   the server prepares P ciphertexts for each user, k of B_u^-1 and P - k of 0
                         in random order, and every silo takes the one in the same place, which the
                         silos derive from their seed.  The server does not learn the place, the
                         silos do not learn what was in it: a user takes part with probability k/P,
                         independently of all others, and nobody knows who does

Every ciphertext has randomness of its own and is made anew for every round, so that one of 0
cannot be told from another, nor recognised; opening a second one (which no silo does) would still
show nothing without the key.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....accountant.arrays import BoolArray, IntArray
from ....accountant.randomness import Secret
from ...crypto.keys import derive
from ...crypto.oblivious import Transfer, shared_choices
from ...crypto.paillier.keys import PrivateKey
from ...crypto.paillier.processes import Workers
from .terms import WeightingTerms


def transfer(terms: WeightingTerms, session: bytes, number: int, silo: str) -> Transfer:
    """Return what the server and one silo agree on for the transfer of one round."""
    return Transfer(session, number, silo, terms.users, terms.slots or 0, terms.ciphertext_bytes)


def common_slots(seed: Secret, terms: WeightingTerms, session: bytes, number: int) -> IntArray:
    """Return the slot of each user that all silos take in a round: (users,)."""
    key = derive(seed, b"weighting: slots")
    return shared_choices(key, session, number, terms.users, terms.slots or 0)


def offered(
    private: PrivateKey, inverses: Sequence[int], real: BoolArray, workers: Workers
) -> list[int]:
    """Return fresh ciphertexts of the inverses where `real`, and of 0 elsewhere.

    `real` is (users,), or (users, slots): then a user's slots stand one after the other.
    """
    # Every entry gets fresh randomness: a 0 cannot be told from an inverse.
    table = real.reshape(len(inverses), -1)
    plaintexts = [
        inverse if is_real else 0
        for inverse, row in zip(inverses, table.tolist(), strict=True)
        for is_real in row
    ]
    return private.encrypt_many(plaintexts, workers)
