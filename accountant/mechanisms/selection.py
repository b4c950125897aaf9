"""Exponential selection: a candidate is drawn by its score, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from .. import events as ev
from .. import records, validate
from ..arrays import FloatArray, IntArray
from ..errors import InvalidInput, Unsupported
from ..neighbours import Neighbours, as_neighbours
from ..randomness import Stream, uniform
from ..sensitivity.release import up
from ..sensitivity.selection import CHANGES
from .base import Mechanism, is_random
from .clip import numbers
from .exponentials import bernoulli, exp_minus, scaled_exp
from .round_ticket import Ticket

_TOP_WEIGHT: Final = 1 << 39
"""Weight of the best candidate in the proposal; all together stay below 10^18."""

_MAX_CANDIDATES: Final = 1 << 20
"""Most candidates."""


@dataclass(frozen=True)
class Exponential(Mechanism):
    """Candidate i is chosen with probability ~ e^(eta u_i), for scores u_i.

    `score_bound` D is how far one unit moves a score, under `relation`.  `change` says how:

    generic      each score by at most D, in any direction: eta = epsilon / (2 D)
    one-sided    all in the same direction: eta = epsilon / D
    single       one score alone: eta = epsilon / D

    so that the log of the probability ratio of two data sets spans at most `epsilon` over the
    candidates: bounded range, hence epsilon-DP.  D must cover the rounding of the scores as they
    are computed.  Range: `epsilon` and `score_bound` above 0.  Raises `InvalidInput`.
    Source: McSherry and Talwar 2007; Dong, Durfee and Rogers 2020, arXiv 1909.13830v2 (range).

    >>> Exponential(epsilon=0.5, score_bound=1.0, relation="add-remove").event("add-remove")
    Exponential(epsilon=0.5)
    """

    epsilon: float
    score_bound: float
    relation: str
    change: Literal["generic", "one-sided", "single"] = "generic"
    unit: Literal["record", "user", "silo", "entry"] = "user"
    source: Literal["public", "released", "private"] = "public"

    def __post_init__(self) -> None:
        self._set_checked(
            epsilon=validate.positive(epsilon=self.epsilon),
            score_bound=validate.positive(score_bound=self.score_bound),
        )
        as_neighbours(self.relation)
        validate.choice(CHANGES, change=self.change)
        if not 1e-100 <= self.exponent <= 1e100:
            raise InvalidInput(
                "`epsilon` / `score_bound` must lie in [1e-100, 1e100].",
                next_step="Give scores in other units.",
            )

    @property
    def exponent(self) -> Fraction:
        """The factor eta of the scores."""
        times = 2 if self.change == "generic" else 1
        return Fraction(self.epsilon) / (times * Fraction(self.score_bound))

    @property
    def contribution(self) -> records.Contribution:
        """How far one unit moves a score."""
        return records.Contribution(self.score_bound, "l1", self.unit, "whole", self.source)

    def noise(self, draws: int = 1) -> records.Noise:
        """Return the noise of `draws` choices: in the choice itself, of no deviation."""
        return records.Noise("exponential", 0.0, draws=draws)

    def sensitivity(self, relation: str) -> float:
        """Return how far one unit moves a score; `Unsupported` for another relation."""
        self._check_relation(relation)
        return up(Fraction(self.score_bound))

    def base_event(self, relation: Neighbours, on_sample: bool) -> ev.Event:
        """Return one choice, of bounded range `epsilon`."""
        self._check_relation(relation)
        return ev.Exponential(self.epsilon)

    def select(self, ticket: Ticket, scores: ArrayLike, name: str, count: int = 1) -> list[int]:
        """Return `count` different candidates, in the order drawn: that many draws of the round.

        Each is drawn among those that are left.  `scores` is (n,), finite.  The stream moves on by
        32 bytes a call, whatever the scores.  Raises `InvalidInput` for scores that are no finite
        numbers, without naming them, and for more choices than candidates; `Unsupported` for
        several choices on one sample, since an intent's draws have samples of their own.
        """
        array = _scores(scores, validate.count(count=count))
        self.check_ticket(ticket)
        if count > 1 and is_random(ticket.intent.sampling):
            raise Unsupported(
                "Several choices by the scores of one sample have no event here.",
                "The intent states a new sample for each draw, which hides more than one for all.",
                "Choose one candidate from each sample, or let everybody take part.",
            )
        for _ in range(count):
            ticket.draw()
        return _drawn(ticket.stream(name), array, self.exponent, count)

    def _check_relation(self, relation: str) -> None:
        if as_neighbours(relation) != self.relation:
            raise Unsupported(
                f"The score bound holds for {self.relation}, not for {relation}.",
                "How far one unit moves a score depends on what a neighbour is.",
                "State the bound for the relation of the run.",
            )


def choose(stream: Stream, scores: ArrayLike, exponent: Fraction, count: int = 1) -> list[int]:
    """Return `count` different candidates, each drawn with P(i) ~ e^(`exponent` u_i) of those left.

    For scores u (n,) that are released already, or public: choosing by such is post-processing, has
    no event, and nothing accounts for it.  `exponent` may be negative, and lies in [-1e100, 1e100].
    The stream moves on by 32 bytes.  Raises `InvalidInput` as `Exponential.select`.
    """
    array = _scores(scores, validate.count(count=count))
    if abs(exponent) > 10**100:
        raise InvalidInput("`exponent` must lie in [-1e100, 1e100].")
    return _drawn(stream, array if exponent >= 0 else -array, abs(exponent), count)


def _drawn(stream: Stream, scores: FloatArray, exponent: Fraction, count: int) -> list[int]:
    # How many bytes the draws take depends on the scores: they come from a fork.
    fork = stream.fork()
    remaining, chosen = np.arange(len(scores)), []
    for _ in range(count):
        index = _draw(fork, scores[remaining], exponent)
        chosen.append(int(remaining[index]))
        remaining = np.delete(remaining, index)
    return chosen


def _draw(stream: Stream, scores: FloatArray, exponent: Fraction) -> int:
    """Return one candidate, by the exponent eta.

    It is proposed with an integer weight W_i at least 2^39 e^-g_i, g_i = eta (max u - u_i), from
    floats, and kept with probability 2^39 e^-g_i / W_i, exactly; else drawn anew.  So its
    probability is proportional to e^-g_i, whatever the floats were.
    """
    # g_i = eta (max u - u_i) in floats, and W_i = floor of a bit more than 2^39 e^-g_i, plus 1:
    # never below 2^39 e^-g_i, as the acceptance test needs.
    best = float(scores.max())
    with np.errstate(over="ignore"):
        behind = (best - scores) * float(exponent)
    raised = exp_minus(behind) * (_TOP_WEIGHT * (1.0 + 2.0**-38))
    weights: IntArray = raised.astype(np.int64) + 1
    ends = np.cumsum(weights)
    while True:
        # A candidate by its weight, then the exact acceptance test.
        point = int(uniform(stream, 1, int(ends[-1]))[0])
        index = int(np.searchsorted(ends, point, side="right"))
        true = exponent * (Fraction(best) - Fraction(float(scores[index])))
        acceptance = scaled_exp(true, Fraction(_TOP_WEIGHT, int(weights[index])))
        if bernoulli(stream, 1, acceptance, rare=stream)[0]:
            return index


def _scores(scores: ArrayLike, count: int) -> FloatArray:
    array = numbers(scores)
    if array is not None and array.ndim == 1 and count <= len(array) <= _MAX_CANDIDATES:
        with np.errstate(over="ignore"):
            finite = array.astype(np.float64)
        if np.isfinite(finite).all():
            return finite
    raise InvalidInput(
        f"Scores must be from {count} to {_MAX_CANDIDATES:,} finite numbers, "
        "one for each candidate.",
        next_step="Give an array of shape (n,).",
    )
