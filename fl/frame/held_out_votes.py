"""What a vote of who is held out is: by the unit that a system protects, the terms of one sum.

| unit | a term of the sum | weights |
|---|---|---|
| user | a user in a silo: its share v of right answers there, and 1 - v | sum to 1 at most |
| record | a record: v = 1 or v = 0, over k where k of a user are protected together | none |
| silo | a silo: the share v of right answers to its records that are held out, and 1 - v | none |

Every term is (v, 1 - v) / k, of L1 norm 1 / k and of L2 norm at most that.  So a unit that comes or
goes moves the sum by at most 1 / k, and one that is replaced by at most twice that.  Whoever has no
record that is held out has no term.  The records of a silo lie on both sides: it is trained on, it
votes, and it pays for both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np

from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.mechanisms import Gaussian
from ...accountant.sensitivity.release import up
from ..aggregation.user_weights import checked_weights, user_weights
from ..aggregation.weighted_sum import weighted_sum
from ..data.held_out import HeldOutRows

VOTE_BOUND: Final = 1.0
"""The L2 norm of one unit's vote, over all silos."""


@dataclass(frozen=True, eq=False)
class Ballots:
    """The terms of the sum: private.

    - `votes`: (n, 2), right and wrong; `silo`: (n,), where each is cast.
    - `weights`, `user`: (n,) each, where the terms of a user are weighted together; else None.
    """

    votes: FloatArray
    silo: IntArray
    weights: FloatArray | None = None
    user: IntArray | None = None


Casting: TypeAlias = Callable[[HeldOutRows, BoolArray], Ballots]
"""From the records that are held out, and which of them are answered right, to their votes."""


def votes_of_users(rule: str) -> Casting:
    """Return how users vote: a user's weights over silos, by `rule`, sum to at most 1."""

    def cast(held: HeldOutRows, right: BoolArray) -> Ballots:
        counts = held.counts
        # Refused where a user's weights sum to more than 1: the bound rests on it.
        weights = checked_weights(user_weights(rule, counts))
        cell = held.user * held.silos + held.silo
        of_cell = np.bincount(cell, right, minlength=counts.size)
        # One row for each user in each silo where it has a record, silo by silo.
        silo, user = np.nonzero(counts.T)
        # A user without a record in a silo has no row there, and a vote of neither kind.
        share = of_cell.reshape(counts.shape)[user, silo] / counts[user, silo]
        return Ballots(_right_and_wrong(share), silo, weights[user, silo], user)

    return cast


def votes_of_records(most: int, voting: Callable[[HeldOutRows], BoolArray] | None) -> Casting:
    """Return how records vote, 1 / `most` each; `voting` says which of them do, None: all."""

    def cast(held: HeldOutRows, right: BoolArray) -> Ballots:
        kept = np.ones(len(right), bool) if voting is None else voting(held)
        bound = record_bound(most)
        return Ballots(_right_and_wrong(right[kept].astype(np.float64)) * bound, held.silo[kept])

    return cast


def votes_of_silos(held: HeldOutRows, right: BoolArray) -> Ballots:
    """Return one vote of each silo that has a record that is held out."""
    counts = np.bincount(held.silo, minlength=held.silos)
    silo = np.flatnonzero(counts)
    share = np.bincount(held.silo, right, minlength=held.silos)[silo] / counts[silo]
    return Ballots(_right_and_wrong(share), silo)


def votes_sum(
    noise_multiplier: float, *, users: int, silos: int, rule: str, dropouts: int = 0
) -> Gaussian:
    """Return the noise of a sum of users' votes over all silos; raises as `weighted_sum`."""
    return weighted_sum(
        noise_multiplier,
        bound=VOTE_BOUND,
        users=users,
        silos=silos,
        rule=rule,
        tolerated_dropouts=dropouts,
    )


def record_votes_sum(
    noise_multiplier: float, *, silos: int, most: int, dropouts: int = 0
) -> Gaussian:
    """Return the noise of a sum of records' votes, 1 / `most` each: of deviation sigma in all."""
    return Gaussian(
        bound=record_bound(most),
        std=up(Fraction(noise_multiplier) * Fraction(VOTE_BOUND)),
        shares=silos,
        terms="unit",
        unit="record",
        tolerated_dropouts=dropouts,
    )


def record_bound(most: int) -> float:
    """Return the norm of one record's vote, where so many of a user are protected together."""
    return VOTE_BOUND / most


def _right_and_wrong(share: FloatArray) -> FloatArray:
    return np.stack((share, 1.0 - share), axis=1)
