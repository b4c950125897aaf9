"""Exponential selection: what choosing by scores costs.

One draw takes candidate i with probability proportional to exp(eta v_i), for scores that one unit
changes by at most D each.  The log of the probability ratio of i is
eta (v_i - v_i') - log(Z/Z'), so its values over i span at most

    2 eta D   for any change of the scores (`generic`),
    eta D     where all scores move in the same direction (`one-sided`), or one score alone moves
              (`single`),

and since log(Z/Z') lies among the eta (v_i - v_i'), the span ("range") also bounds the pure
epsilon.  Mechanisms of bounded range compose better than pure ones: rho = range^2/8.
Source: McSherry and Talwar 2007; Dong, Durfee and Rogers 2020, arXiv 1909.13830v2 (range);
Cesar and Rogers 2021, arXiv 2004.07223v2 (zCDP).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from .. import events as ev
from .. import validate
from ..errors import InvalidInput
from ..neighbours import as_neighbours
from .release import Release, repeated, require_public, up

CHANGES: Final = ("generic", "one-sided", "single")
SCORES: Final = ("private", "privatised")


def exponent_as_published(epsilon: float, users: int) -> Fraction:
    """Return DELM's factor eps/(2n) in P ~ exp(eps v/(2n)), for scores v in [0, 1].

    The usual exponent for epsilon-DP is eps/(2 D), without the number of users n: this one is far
    more private, and nearly uniform.  Source: Cao et al. 2023, DELM, equation 16, as printed.
    """
    return Fraction(validate.positive(epsilon=epsilon)) / (2 * validate.count(users=users))


def draw_range(
    exponent: float | Fraction, score_bound: float = 1.0, *, change: str = "generic"
) -> float:
    """Return the bounded range, in nats, of one draw with P ~ exp(`exponent` score).

    2 eta D for a `generic` change of the scores by at most D = `score_bound` each; eta D where
    they move `one-sided`, or a `single` one moves.  Attained by two candidates (the pure epsilon
    in the limit of probabilities near 0 and 1).  The relation is the one that `score_bound` is
    for.

    >>> round(draw_range(exponent_as_published(3.0, 100)), 9), draw_range(0.5, change="single")
    (0.03, 0.5)
    """
    validate.choice(CHANGES, change=change)
    eta = exponent if isinstance(exponent, Fraction) else validate.positive(exponent=exponent)
    if eta <= 0:
        raise InvalidInput("`exponent` must be above 0.")
    bound = Fraction(validate.positive(score_bound=score_bound))
    return up((2 if change == "generic" else 1) * Fraction(eta) * bound)


def release(
    exponent: float | Fraction,
    neighbours: str = "replace-one",
    *,
    candidates: int,
    score_bound: float = 1.0,
    change: str = "generic",
    draws: int = 1,
    layers: int = 1,
    rounds: int = 1,
    scores: str = "private",
    bound_source: str = "public",
) -> Release:
    """Return the event of selecting `draws` of `candidates` in each of `layers`, every round.

    Draws without replacement are a sequence: each is a draw among those that are left, and what
    was drawn is public, so k draws compose like k draws.  Layers compose too: a record moves the
    scores of all layers, so they are no disjoint parts of the data.  In all
    rounds x layers x draws events of bounded range.  `scores`: `privatised` scores come from what
    was released under differential privacy already, and selecting by them costs nothing; an empty
    composition is returned.  `neighbours` is the relation for which `score_bound` holds; under
    `generic` that is all that is needed of it.

    Raises `InvalidInput` where there are fewer candidates than draws, `Unsupported` for a score
    bound from private data.

    >>> release(0.25, candidates=100, draws=50, layers=3, rounds=250).event
    Repeat(count=37500, event=Exponential(epsilon=0.5))
    """
    relation = as_neighbours(neighbours)
    require_public(bound_source, what="A bound on the scores")
    validate.choice(SCORES, scores=scores)
    drawn_each = validate.count(draws=draws)
    if drawn_each > validate.count(candidates=candidates):
        raise InvalidInput(
            f"`draws` must be at most `candidates` ({candidates}); it is {drawn_each}.",
            "Draws are without replacement.",
            "Draw fewer.",
        )
    # Draws without replacement compose: what was drawn is public, the rest a new selection.
    count = drawn_each * validate.count(layers=layers) * validate.count(rounds=rounds)
    range_each = draw_range(exponent, score_bound, change=change)
    event: ev.Event = repeated(count, ev.Exponential(range_each))
    moves = {
        "generic": f"one unit changes each score by at most {score_bound:g}",
        "one-sided": f"one unit moves all scores the same way, by at most {score_bound:g}",
        "single": f"one unit changes one score only, by at most {score_bound:g}",
    }[change]
    if scores == "privatised":
        event = ev.Compose(())
        moves = "scores are computed from accounted releases and public data alone"
    return Release(event, relation, "model", conditions=(moves, "only the choices are released"))
