"""The flags of ULDP-GROUP: which records take part, at most k of each user over all silos.

    cap of user u in silo s     floor(k / |S|), and 1 more in (k mod |S|) silos by a public hash
    flags of silo s             of its n_su records of u, the first ones by a public hash, up to cap

Caps are a function of public constants, and those of a user sum to k.  A silo computes its flags
from its own records alone, so they do not depend on the user's records elsewhere nor on other
users: a silo learns of other silos' records only from what these release.  The price is that a user
whose records lie in few silos takes part with fewer than k of them.
"""

from __future__ import annotations

import hashlib
from typing import Final, Protocol

import numpy as np

from ...accountant import validate
from ...accountant.arrays import BoolArray, IntArray
from ..data.groups import Pairs

FLAGS_CHOSEN_BY: Final = "each-silo"
"""Who chooses the flags, as the log states it."""

_FLAG_HASH_BYTES: Final = 16
"""Bytes of a hash: two are equal with probability 2^-128."""


class Rows(Protocol):
    """Records of users in silos, as `Federation` and `HeldOutRows` have them."""

    @property
    def user(self) -> IntArray:
        """The user of each record, (records,), from 0."""

    @property
    def silo(self) -> IntArray:
        """The silo of each record, (records,), from 0."""

    @property
    def names(self) -> IntArray:
        """What every user's public draws follow, (users,)."""

    @property
    def silos(self) -> int:
        """How many silos there are."""

    def pairs(self) -> Pairs:
        """Return the records of every user in every silo where it has any."""


def records_taking_part(rows: Rows, most: int, seed: int) -> BoolArray:
    """Return which records take part in a whole run: (records,).

    `most` is k, the records of a user over all silos, 1 or above; `seed` is public.  A record is
    identified by its position among the user's records in its silo.

    Source: Kato et al. 2024, *Uldp-FL*, arXiv 2308.12210, Algorithm 2 (the flags b); how they are
    chosen is not printed there.
    """
    names, pairs = rows.names, rows.pairs()
    user_caps = caps(names, rows.silos, most, seed)
    chosen = np.zeros(len(rows.user), bool)
    for pair, (user, silo) in enumerate(zip(pairs.user.tolist(), pairs.silo.tolist(), strict=True)):
        of_pair = pairs.records(pair)
        most_of_pair = int(user_caps[user, silo])
        chosen[of_pair[_first(seed, int(names[user]), silo, len(of_pair), most_of_pair)]] = True
    return chosen


def caps(names: IntArray, silos: int, most: int, seed: int) -> IntArray:
    """Return the most records of each user that take part in each silo: (users, silos).

    The caps of one user sum to `most`, and differ by at most 1; they follow the user's name.

    >>> caps(np.arange(3), 2, 5, seed=0).sum(axis=1).tolist()
    [5, 5, 5]
    """
    per_silo, rest = divmod(validate.count(most=most), validate.count(silos=silos))
    user_caps = np.full((len(names), silos), per_silo, np.int64)
    if rest:
        for user, name in enumerate(names.tolist()):
            # A public hash per user and silo decides which silos get the records left over.
            ranked = sorted(range(silos), key=lambda silo: _hash(seed, b"cap", name, silo))
            user_caps[user, ranked[:rest]] += 1
    return user_caps


def _first(seed: int, user: int, silo: int, count: int, most: int) -> IntArray:
    """Return the positions of the first `most` of `count` records of a user, by their hashes."""
    if count <= most:
        return np.arange(count)
    ranked = sorted(range(count), key=lambda record: _hash(seed, b"record", user, silo, record))
    return np.array(ranked[:most], np.int64)


def _hash(seed: int, purpose: bytes, *numbers: int) -> bytes:
    """Return the hash of some numbers, keyed by the public seed."""
    content = b"".join(number.to_bytes(8, "little") for number in numbers)
    key = seed.to_bytes(8, "little")
    return hashlib.blake2b(content, digest_size=_FLAG_HASH_BYTES, key=key, person=purpose).digest()
