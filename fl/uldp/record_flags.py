"""Which records take part where noise protects records: at most k of each user, over all silos.

    cap of user u in silo s     floor(k / |S|), and 1 more in (k mod |S|) silos by a public hash
    silo s flags                of its n_su records of u, the cap first ones by a public hash

Caps are dealt from public constants alone, and those of a user sum to k.  A silo needs nothing but
its own records to know its flags, so they are the same whatever the user has elsewhere and whoever
else takes part: what a silo learns of other silos' records, it learns from what these release.
The price is that a user whose records lie in few silos takes part with fewer than k of them.
"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...accountant import validate
from ..data.federation import Federation

FLAGS_CHOSEN_BY: Final = "each-silo"
"""How flags are chosen, as the log states it."""

_FLAG_HASH_BYTES: Final = 16
"""Length of a hash: two of them are equal with probability 2^-128."""


def records_taking_part(federation: Federation, most: int, seed: int) -> NDArray[np.bool_]:
    """Return which records take part, fixed for a whole run: (records,).

    `most` is the number of records of a user over all silos, 1 or above, `seed` a public one.  A
    record is known by its place among the user's records in its silo.

    Source: Kato et al. 2024, *Uldp-FL*, arXiv 2308.12210, Algorithm 2 (the flags b); how they are
    chosen is not printed there.
    """
    allowed = caps(federation.users, federation.silos, most, seed)
    chosen = np.zeros(federation.records, bool)
    pairs = federation.pairs()
    for pair, (user, silo) in enumerate(zip(pairs.user.tolist(), pairs.silo.tolist(), strict=True)):
        of_pair = pairs.records(pair)
        chosen[of_pair[_first(seed, user, silo, len(of_pair), int(allowed[user, silo]))]] = True
    return chosen


def caps(users: int, silos: int, most: int, seed: int) -> NDArray[np.int64]:
    """Return how many records of each user take part in each silo, at most: (users, silos).

    Those of one user sum to `most`; no two of them differ by more than 1.

    >>> caps(3, 2, 5, seed=0).sum(axis=1).tolist()
    [5, 5, 5]
    """
    everywhere, left = divmod(validate.count(most=most), validate.count(silos=silos))
    found = np.full((validate.count(users=users), silos), everywhere, np.int64)
    if left:
        for user in range(users):
            ranked = sorted(range(silos), key=lambda silo: _hash(seed, b"cap", user, silo))
            found[user, ranked[:left]] += 1
    return found


def _first(seed: int, user: int, silo: int, count: int, most: int) -> NDArray[np.int64]:
    """Return which of the `count` records of a user in a silo come first by their hashes."""
    if count <= most:
        return np.arange(count)
    ranked = sorted(range(count), key=lambda record: _hash(seed, b"record", user, silo, record))
    return np.array(ranked[:most], np.int64)


def _hash(seed: int, purpose: bytes, *numbers: int) -> bytes:
    """Return the hash of some numbers under a public seed, as its key."""
    content = b"".join(number.to_bytes(8, "little") for number in numbers)
    key = seed.to_bytes(8, "little")
    return hashlib.blake2b(content, digest_size=_FLAG_HASH_BYTES, key=key, person=purpose).digest()
