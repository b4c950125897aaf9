"""Index privacy: what decoys hide of which coordinates are a user's largest, round by round.

    prior        beta = k / d, of any coordinate
    one round    k l coordinates are sent, (l - 1) k of them decoys:   nu = 1 / (l beta) times that
    R rounds     decoys change, and the largest may stay:   1 / (beta + (1 - beta) q^R),
                 q = (l - 1) k / (d - k)

**No differential privacy**: a statement about one prior, in which each set of k coordinates is as
likely to be the largest, to whoever sees which coordinates a user sends and reads none of them.

Source: Liu, Cao, Chen, Guo and Yoshikawa 2021, *FLAME*, AAAI, arXiv 2009.08063v4, Theorem 5, for
one round; the others follow by Bayes' rule (`accountant.claims.flame_published.posterior_ratio`).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from ...accountant import rounding
from ...accountant.claims.flame_published import posterior_ratio
from ...accountant.sensitivity.release import up
from ..frame.opening import Note

INDEX_PRIVACY: Final = "index privacy"

_FIRST_ROUNDS: Final = 5
"""Of how many rounds a person is told, besides the last one."""


def posterior_ratios(dimensions: int, chosen: int, decoys: int, rounds: int) -> list[float]:
    """Return posterior over prior after 1 to `rounds` rounds, rounded up.

    Of a coordinate that a user sent in all of them.  Range: 1 <= k = `chosen`, `decoys` 0 or above,
    k + `decoys` at most d = `dimensions`.

    >>> [round(ratio, 3) for ratio in posterior_ratios(7850, 157, 2355, 5)]
    [3.125, 8.942, 20.784, 34.958, 44.18]
    """
    if chosen == dimensions:
        return [1.0] * rounds
    sets, rate = Fraction(chosen + decoys, chosen), Fraction(chosen, dimensions)
    return [up(posterior_ratio(sets, rate, count)) for count in range(1, rounds + 1)]


def index_privacy(dimensions: int, chosen: int, decoys: int, rounds: int) -> Note:
    """Return what is said of it in a run of so many rounds; arguments as `posterior_ratios`."""
    ratios = posterior_ratios(dimensions, chosen, decoys, rounds)
    sent, prior = chosen + decoys, chosen / dimensions
    listed = [*range(1, min(rounds, _FIRST_ROUNDS) + 1)]
    listed += [rounds] * (rounds > _FIRST_ROUNDS)
    after = ", ".join(f"{rounding.up(ratios[count - 1])} after {count:,}" for count in listed)
    return Note(
        INDEX_PRIVACY,
        (
            f"{sent:,} of {dimensions:,} coordinates are sent, {chosen:,} of them the largest. "
            f"A guess at one of these holds with probability {rounding.up(prior)} beforehand.",
            f"Where the largest stay and decoys change, it is more likely by a factor of "
            f"{after} round{'s' * (rounds > 1)}.",
            "That is a statement about one prior, before who sees which coordinates a user sends; "
            "it is no differential privacy, and is in no epsilon.",
        ),
        {"sent": sent, "sets": sent / chosen, "prior": prior, "posterior_over_prior": ratios},
    )
