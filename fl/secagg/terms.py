"""The terms of a masked sum: who may fail, who may collude, and the numbers that follow.

What is assumed, and what it gives:

- everybody knows everybody's Ed25519 key beforehand (`Group.roster`), so that nobody speaks in
  another's name, the server included;
- at most `colluders` parties work with the server, and who they are is settled before the keys of
  a round are drawn; at most `dropouts` are gone at some step, and who does not depend on the keys;
- `honest-but-curious`: the server and the colluders follow the protocol, and look at all they get.
  They learn the sum over all survivors, and no other function of the honest inputs;
- `malicious`: the server and the colluders send to anybody what they like.  They still learn at
  most one sum a round, and every sum that they could learn is over at least `fewest` - `colluders`
  honest parties.  That the sum is right is not promised: the server says what it was.

Both hold unless AES, X25519, SHA-256 or Ed25519 is broken, and on a graph that is not complete but
for a chance of 2^-40 (`SECURITY_BITS`). The graph is drawn from the hash of all keys of the round.
A server that lies sees the honest keys first and may try other keys of its colluders until it likes
the graph, so `malicious` is made for 2^64 tries (`SERVER_TRIES_BITS`) on top. A round that lacks no
more than `dropouts` fails by chance at most once in 2^20 (`FAILURE_BITS`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from hashlib import sha256
from typing import Final, Literal, TypeAlias

import numpy as np

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ...accountant.rootfinding import first_integer
from ..crypto.shamir import MAX_HOLDERS
from . import risk

ServerKind: TypeAlias = Literal["malicious", "honest-but-curious"]

SERVER_KINDS: Final = ("malicious", "honest-but-curious")
RING_SIZES_BITS: Final = (32, 64)

SECURITY_BITS: Final = 40
"""Bits: an unlucky graph gives away something with a chance of at most 2^-40."""

SERVER_TRIES_BITS: Final = 64
"""Bits: how many graphs a server that lies may try, 2^64."""

FAILURE_BITS: Final = 20
"""Bits: a round with the dropouts that are allowed fails with a chance of at most 2^-20."""

MAX_COMPLETE_PARTIES: Final = 50
"""Up to so many parties everybody has all others as neighbours: cheap, and without any chance."""


@dataclass(frozen=True)
class Terms:
    """The numbers of one masked sum, checked against what is assumed; `choose` finds them.

    `length` words of `ring_bits` (32 or 64) bits are summed over `parties` parties, each with
    `degree` neighbours: all others, or an even number.  `threshold` of those who hold shares of a
    party's secrets restore them: its neighbours and itself.

    On a complete graph `threshold` is above `colluders` and at most `fewest`, and for a malicious
    server 2 `threshold` > `parties` + `colluders`.  On any other, the chances of `risk` are within
    the limits above, and for a malicious server 2 `fewest` > `parties` + `colluders`.

    Raises `InvalidInput` where any of that does not hold.
    Source: Bonawitz et al. 2017, *Practical secure aggregation*, CCS 2017, Theorems 6.3 and 6.5;
    Bell et al. 2020, CCS 2020, section 3.

    >>> Terms(5, dropouts=1, colluders=1, degree=4, threshold=4, length=10).fewest
    4
    """

    parties: int
    dropouts: int
    colluders: int
    degree: int
    threshold: int
    length: int
    ring_bits: int = 64
    server: ServerKind = "malicious"

    def __post_init__(self) -> None:
        _check_assumptions(self.parties, self.dropouts, self.colluders, self.server)
        validate.count(length=self.length)
        if self.ring_bits not in RING_SIZES_BITS:
            raise InvalidInput(f"`ring_bits` must be 32 or 64; it is {self.ring_bits!r:.20}.")
        validate.count_from(2, threshold=self.threshold)
        validate.count(degree=self.degree)
        largest = self.parties - 1
        if self.degree > largest or (self.degree < largest and self.degree % 2):
            raise InvalidInput(
                f"`degree` must be an even number below {largest}, or {largest}; it is "
                f"{self.degree}.",
                "Parties stand on a circle, and half of the neighbours are on either side.",
            )
        if not (_complete_graph_is_safe if self.complete else _sparse_graph_is_safe)(self):
            raise InvalidInput(
                f"Of {self.degree + 1} holders of shares, {self.threshold} restoring a secret is "
                f"not right for {self.dropouts} dropouts and {self.colluders} colluders.",
                "Either too few could give a party away, or too many could be missing.",
                "Let `choose` find the numbers.",
            )

    @property
    def fewest(self) -> int:
        """How many parties must reach the end, at least; every party insists on it."""
        return self.parties - self.dropouts

    @property
    def complete(self) -> bool:
        """Whether everybody is everybody's neighbour."""
        return self.degree == self.parties - 1

    @property
    def signed(self) -> bool:
        """Whether parties sign who survived before they give shares away."""
        return self.server == "malicious"

    @property
    def words(self) -> np.dtype[np.unsignedinteger]:
        """The type of the words: unsigned, little-endian."""
        return np.dtype(f"<u{self.ring_bits // 8}")

    @property
    def digest(self) -> bytes:
        """A hash of all that is agreed here."""
        return sha256(
            ",".join(f"{name}={value}" for name, value in asdict(self).items()).encode()
        ).digest()


def choose(
    parties: int,
    *,
    length: int,
    dropouts: int = 0,
    colluders: int = 0,
    ring_bits: int = 64,
    server: ServerKind = "malicious",
) -> Terms:
    """Return terms for what is assumed: a complete graph for few, as few neighbours as do for many.

    Ranges: 2 <= `parties` <= 65,535; `dropouts` and `colluders` 0 or above, with `colluders` + 2 <=
    `parties` - `dropouts`, as two colluding parties would learn the input of a third; for a
    malicious server 2 (`parties` - `dropouts`) > `parties` + `colluders`, since it could otherwise
    have two halves believe in two sets of survivors.  Raises `InvalidInput` otherwise.

    >>> choose(30, length=10, dropouts=3, colluders=5).threshold
    18
    >>> many = choose(1000, length=10, dropouts=100, colluders=200, server="honest-but-curious")
    >>> many.degree, many.threshold
    (66, 43)
    """
    _check_assumptions(parties, dropouts, colluders, server)

    def terms(degree: int, threshold: int) -> Terms:
        return Terms(parties, dropouts, colluders, degree, threshold, length, ring_bits, server)

    if parties > MAX_COMPLETE_PARTIES:
        degree_and_threshold = _sparse(parties, dropouts, colluders, server)
        if degree_and_threshold is not None:
            return terms(*degree_and_threshold)
    largest = parties - dropouts
    return terms(parties - 1, max(2, min(largest, (parties + colluders) // 2 + 1)))


def _check_assumptions(parties: int, dropouts: int, colluders: int, server: str) -> None:
    validate.count_from(2, parties=parties)
    validate.count_from(0, dropouts=dropouts)
    validate.count_from(0, colluders=colluders)
    validate.choice(SERVER_KINDS, server=server)
    if parties > MAX_HOLDERS:
        raise InvalidInput(f"`parties` must be at most {MAX_HOLDERS}; it is {parties}.")
    if parties - dropouts < colluders + 2:
        raise InvalidInput(
            f"Of {parties} parties with {dropouts} dropouts and {colluders} colluders, fewer than "
            "two honest ones may be left.",
            "Who knows all inputs but one learns that one from the sum.",
            "Have more parties, or assume fewer dropouts or colluders.",
        )
    if server == "malicious" and 2 * (parties - dropouts) <= parties + colluders:
        raise InvalidInput(
            f"{parties} parties with {dropouts} dropouts and {colluders} colluders cannot be "
            "protected from a malicious server.",
            "It could tell two groups of parties different survivors, and learn more than a sum.",
            "Assume fewer dropouts or colluders (parties > 2 dropouts + colluders), or say that "
            "the server is honest but curious.",
        )


def _complete_graph_is_safe(terms: Terms) -> bool:
    n, c, t = terms.parties, terms.colluders, terms.threshold
    return c < t <= terms.fewest and (terms.server != "malicious" or 2 * t > n + c)


def _sparse_graph_is_safe(terms: Terms) -> bool:
    n, d, c, k, t = (
        terms.parties,
        terms.dropouts,
        terms.colluders,
        terms.degree,
        terms.threshold,
    )
    return t <= k and _is_safe(n, d, c, k, terms.server)(t) and _is_lasting(n, d, k, t)


def _is_safe(
    parties: int, dropouts: int, colluders: int, degree: int, server: str
) -> Callable[[int], bool]:
    """Return which thresholds give nothing away; a larger one gives away less."""
    if server == "malicious":
        limit = Fraction(1, 2 ** (SECURITY_BITS + SERVER_TRIES_BITS))
        return lambda threshold: risk.one_sided(parties, colluders, degree, threshold) <= limit
    # What splitting the survivors leaves of the chance that is allowed.
    rest = Fraction(1, 2**SECURITY_BITS) - risk.split(parties, colluders, dropouts, degree)
    return lambda threshold: risk.exposed(parties, colluders, degree, threshold) <= rest


def _is_lasting(parties: int, dropouts: int, degree: int, threshold: int) -> bool:
    return risk.lost(parties, dropouts, degree, threshold) <= Fraction(1, 2**FAILURE_BITS)


def _sparse(parties: int, dropouts: int, colluders: int, server: str) -> tuple[int, int] | None:
    """Return the smallest degree below n - 1 and the smallest threshold that do, if any.

    Both are sought by halving: safety grows with the threshold, and what can be had with the
    degree, but for rounding to whole numbers.
    """

    def threshold_for(degree: int) -> int | None:
        safe = _is_safe(parties, dropouts, colluders, degree, server)
        threshold = _least(2, degree, safe)
        lasts = threshold is not None and _is_lasting(parties, dropouts, degree, threshold)
        return threshold if lasts else None

    largest = (parties - 2) // 2
    # Doubled until a degree does, then halved between the last two.
    bound = 1
    while bound < largest and threshold_for(2 * bound) is None:
        bound *= 2
    half = _least(bound // 2 + 1, min(bound, largest), lambda h: threshold_for(2 * h) is not None)
    if half is None:
        return None
    threshold = threshold_for(2 * half)
    return None if threshold is None else (2 * half, threshold)


def _least(first: int, last: int, does: Callable[[int], bool]) -> int | None:
    """Return the least number in [first, last] that does, where all above one that does do too."""
    if first > last or not does(last):
        return None
    return first_integer(does, first, last)
