"""How many messages of each coordinate the analyzer gets in the end: n_p, dummies among them."""

from __future__ import annotations

from typing import Final

from ...accountant import events as ev
from ...accountant.amplification.shuffling.double import overflow_probability
from ...accountant.errors import InvalidInput
from ...accountant.rootfinding import first_integer
from .settings import DOUBLE, SIMPLE, FlameSettings, Protocol

OVERFLOW_PART: Final = 0.01
"""The part of delta, over all rounds, that a padding found here may overflow with."""

USUAL_PADDING_FACTOR: Final = 2
"""How many times the least padding is taken where none is given.

Dummies are cover.  At the least padding a full coordinate has hardly any: 1,000 users who send 65
of 650 coordinates five times with epsilon0 4 have epsilon 123 at n_p = 167, and 5.9 at twice that.
"""


def padding(protocol: Protocol, table: FlameSettings, users: int) -> int | None:
    """Return n_p where the settings say it, or what follows from the protocol; None for `simple`.

    For `topk` as many as there are users, so that nothing overflows.
    """
    if protocol == SIMPLE:
        return None
    if table.padded_to is not None or protocol == DOUBLE:
        return table.padded_to
    return users


def least_padding(users: int, dimensions: int, chosen: int, failure: float) -> int:
    """Return the least n_p that a coordinate passes with probability at most `failure` in a round.

    Of n users each sends a coordinate with probability k / d, independently:
    P <= d P(Bin(n, k / d) > n_p).  Range: `failure` in (0, 1).
    """

    def rare(padded_to: int) -> bool:
        event = ev.SampledShuffle(
            *(users, dimensions, chosen, padded_to),
            *("coordinate", "oblivious", "refuse", ev.Local(1.0)),
        )
        return overflow_probability(event) <= failure

    if not 0.0 < failure < 1.0:
        raise InvalidInput("`failure` must be a number in (0, 1).")
    return first_integer(rare, max(2, users * chosen // dimensions), users)


def usual_padding(users: int, dimensions: int, chosen: int, failure: float) -> int:
    """Return the n_p of `double` where none is given: twice the least, at most the users."""
    return min(users, USUAL_PADDING_FACTOR * least_padding(users, dimensions, chosen, failure))
