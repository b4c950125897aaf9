"""Records of users who are held out: a model is measured on them once, and never trained on them.

    a user is held out   iff   mix(mix(name + gamma) + key) < share 2^64

A name is a public keyed hash of the user's id, so who is held out follows from each id by itself,
in every silo alike: never from a place in a list, nor from who else is there.  The seed is public.
Where a record is of nobody who has others, what it holds takes the place of the name.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...accountant.arrays import BoolArray, Float32Array, IntArray
from ...accountant.validate import open_probability
from .groups import Pairs, pairs_of

_PERSON: Final = b"privplan-heldout"
_MIXING: Final = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))
"""Shifts and multipliers of the finalizer of SplitMix64 (Stafford's variant 13)."""


@dataclass(frozen=True, eq=False, repr=False)
class HeldOutRows:
    """The records that a model is measured on: private, as are their number and that of users.

    - `features`: (rows, ...) float32; `labels`: (rows,) int64.
    - `user`, `silo`: (rows,) int64, from 0 to `users` - 1 and `silos` - 1.
    - `names`: (users,) int64, what every user's public draws follow.
    """

    features: Float32Array
    labels: IntArray
    user: IntArray
    silo: IntArray
    users: int
    silos: int
    names: IntArray

    @property
    def counts(self) -> IntArray:
        """How many records each user has in each silo: (users, silos)."""
        # One cell for each user and silo; those without a record stay 0.
        cells = np.bincount(self.user * self.silos + self.silo, minlength=self.users * self.silos)
        return cells.reshape(self.users, self.silos).astype(np.int64)

    def pairs(self) -> Pairs:
        """Return the records of every user in every silo where it has any, by silo, then user."""
        # Nobody at all has no pairs; a user is below 1 then.
        return pairs_of(self.user, self.silo, max(self.users, 1))


def held_out(names: ArrayLike, share: float, seed: int) -> BoolArray:
    """Return which names are held out: each with probability `share`, by itself; (names,).

    `names` are integers of 64 bits.  Raises `InvalidInput` unless 0 < `share` < 1.

    >>> few = held_out([7, 8, 9, 10], .5, 0)
    >>> bool((held_out([9], .5, 0) == few[2]).all())
    True
    """
    # A word of 64 bits is below the limit with probability `share`, rounded down.
    limit = int(Fraction(open_probability(held_out=share)) * 2**64)
    # The seed enters by a sum between two bijections, so that no structure of the names is left.
    digest = hashlib.blake2b(seed.to_bytes(8, "little"), digest_size=8, person=_PERSON).digest()
    words = _mixed(np.asarray(names).astype(np.uint64)) + np.uint64(int.from_bytes(digest, "big"))
    chosen: BoolArray = _mixed(words) < np.uint64(limit)
    return chosen


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a bijection of words of 64 bits in which every bit depends on every other."""
    for shift, factor in _MIXING:
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    return words
