"""Users of a table: names that are a public function of the id as it is written.

The same id in several silos is one user.  Everything that a run draws for a user (its cohort, the
order of its records in training) follows its name, so it does not depend on who else is there; an
index in a sorted list of users would.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import numpy as np

from ...accountant.arrays import BoolArray, IntArray
from .batches import arrow

if TYPE_CHECKING:
    import pyarrow

_NAME_BYTES: Final = 8
_PERSON: Final = b"privplan-user"


def normalised_ids(cells: pyarrow.Array, case: str) -> pyarrow.Array:
    """Return ids as texts without space around them, in lower case for `case = "lower"`.

    An id that is missing is an empty text.
    """
    pa = arrow()
    text = cells if pa.types.is_string(cells.type) else cells.cast(pa.string())
    text = pa.compute.fill_null(pa.compute.utf8_trim_whitespace(text), "")
    return pa.compute.utf8_lower(text) if case == "lower" else text


def user_names(cells: pyarrow.Array, case: str, seed: int) -> tuple[IntArray, BoolArray]:
    """Return the name of each row's user, (rows,) int64 of 63 bits, and which rows have an id.

    `seed` is public: names hide nothing.  Two ids have one name with probability 2^-63.
    """
    # Each id is hashed once for all of its rows in a batch.
    ids = normalised_ids(cells, case).dictionary_encode()
    words = ids.dictionary.to_pylist()
    there = np.array([bool(word) for word in words], bool)
    codes = ids.indices.to_numpy(zero_copy_only=False)
    return _names(words, seed)[codes], there[codes]


def user_name(user: str, seed: int) -> int:
    """Return the name of one user, by its normalised id.

    >>> user_name("p1", 0) == user_name("p1", 0), user_name("p1", 0) == user_name("p1", 1)
    (True, False)
    """
    return int(_names([user], seed)[0])


def _names(users: list[str], seed: int) -> IntArray:
    # The key is taken in once, and each id into a copy of what that left.
    key = seed.to_bytes(8, "little")
    keyed = hashlib.blake2b(digest_size=_NAME_BYTES, key=key, person=_PERSON)

    def digest(user: str) -> bytes:
        hashed = keyed.copy()
        hashed.update(user.encode("utf-8", "surrogatepass"))
        return hashed.digest()

    words = np.frombuffer(b"".join(map(digest, users)), "<u8")
    return (words >> np.uint64(1)).astype(np.int64)
