"""Several replaced records of one unit, of which a batch of a fixed size holds a random number.

Of n records k are replaced, and a batch of m is drawn.  Draw a batch S of the n - k others first,
then J of the k by the hypergeometric law w, and let J random members of S give way to them: that is
a uniform batch, for the old records and for the new ones alike.  For J = j the sums of S, of the
old batch and of the new one lie at most 2 j bounds from each other.  In units of the noise let
d_j = 2 j / sigma.  A test that has mass Phi(u) on S has some Phi(u + s), -d_j <= s <= d_j, on the
old batch and at least max(Phi(u - d_j), Phi(u + s - d_j)) on the new one.  So for orders a >= 1 its
P(test) - a Q(test) is, averaged over S and J, at most

    h(a) = max over u of  w_0 (1 - a) Phi(u) + sum over j >= 1 of w_j T_j(u),
    T_j(u) = max over u <= v <= u + d_j of  Phi(v) - a Phi(v - d_j),

where s < 0 is left out, since it lowers the old mass and not the bound on the new one.  The inner
maximum is at v = d_j / 2 - log(a) / d_j, or at the nearest end.  h does not know which of the two
data sets came first, so it holds for both, and is convex: the hockey stick of a pair.

The slope of the whole, divided by the normal density at u, falls as u grows: a term that still
grows has w_j (e^(-d_j u - d_j^2 / 2) - a) above 0, one that falls has w_j (1 - a e^(d_j u - d_j^2 /
2)) below 0.  So it rises to one maximum, and falls, and the maximum lies between a point where the
slope is surely above 0 and one where it is surely below.  For k = 1 h is the exact curve of
`fixed_size`.  For larger k no data set is known that attains all of it; old records at +1 and new
ones at -1, with all others at -1, attain T_j for v = u + d_j, the mixture sum of w_j N(2 j) against
N(0), which is the lower end.

Where m is above n - k there are fewer than m others, and J is at least m - n + k.  S is then all of
them and as many fictitious records at 0, which give way first: what is drawn is the same uniform
batch, and the three sums lie no farther apart.

Source: derived here; Balle, Barthe, Gaboardi 2018, arXiv 1807.01647, for k = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import log_ndtr, ndtr
from scipy.stats import hypergeom

from .... import events as ev
from ....amplification.group import group_step, type_of
from ....amplification.shuffling.profile import Profile, atoms
from ....arrays import FloatArray
from ....errors import Unsupported
from ....guarantee import Step
from ..grid.pair import Pair
from ..grid.pair_parts import AtomPair
from .registry import DominatedMechanism, pairs

SLOPE_HALVINGS: Final = 50
"""Halvings of the interval that holds the maximum; the bound holds after any number of them."""

MAX_TERMS: Final = 200_000
"""Most terms, epsilons times numbers of records, that are computed at once."""

TERM_ERROR: Final = 1e-13
"""Bounds the relative error of each term, of weights, of normal masses and of their sum."""

MAX_REPLACED_RECORDS: Final = 10_000
"""Most records of one unit; above, the rdp engine answers."""

NEGLIGIBLE_WEIGHT: Final = 1e-250
"""Weights below are added to the bound whole."""

HULL_ACCURACY: Final = 5e-5
"""The relative error in epsilon that a chord of the pair may cost."""


@dataclass(frozen=True, eq=False)
class ReplacedGroup:
    """The law of J, from 1 up, and how far the noise is moved; `none` is the probability of 0.

    - `weights` (J,): P(J = j); `distances` (J,): d_j = 2 j / sigma; `rest`: what was left out.
    """

    none: float
    weights: FloatArray
    distances: FloatArray
    rest: float

    @classmethod
    def of(cls, size: int, batch: int, population: int, noise: float) -> ReplacedGroup:
        """Return the law of how many of `size` records are in a batch."""
        drawn = np.arange(0, min(size, batch) + 1)
        weights = hypergeom.pmf(drawn, population, size, batch)
        kept = (weights > NEGLIGIBLE_WEIGHT) & (drawn > 0)
        rest = float(weights[~kept & (drawn > 0)].sum()) + NEGLIGIBLE_WEIGHT
        distances = np.asarray(2.0 * drawn[kept] / noise, dtype=np.float64)
        return cls(float(weights[0]), weights[kept], distances, rest)

    def log_delta(self, epsilon: float) -> float:
        """Return the log of an upper bound on h(e^epsilon), epsilon at least 0."""
        return float(self.log_deltas(np.array([epsilon]))[0])

    def log_deltas(self, epsilons: FloatArray) -> FloatArray:
        """Return it for many epsilons at once."""
        rows = max(MAX_TERMS // self.distances.size, 1)
        blocks = np.split(epsilons, range(rows, epsilons.size, rows))
        sticks = np.concatenate([self.hockey_sticks(block) for block in blocks])
        return np.asarray(np.log(np.minimum(sticks, 1.0)))

    def hockey_stick(self, epsilon: float) -> float:
        """Return an upper bound on h(e^epsilon)."""
        return float(self.hockey_sticks(np.array([epsilon]))[0])

    def hockey_sticks(self, epsilons: FloatArray) -> FloatArray:
        """Return upper bounds on h(e^epsilon) for each epsilon, (E,)."""
        d, column = self.distances, epsilons[:, None]
        best_v = 0.5 * d - column / d
        # Beyond the last edge every term falls.  Below the first every T_j grows, and by one of
        # them w_j phi(u + d_j) alone exceeds a phi(u), more than all that is lost.
        growing = (best_v - d + np.log(self.weights) / d).min(axis=1) - 1.0
        falling = best_v.max(axis=1) + 1.0
        low = self._last(growing, falling, column, 1.0)
        high = self._last(falling, growing, column, -1.0)
        return self._largest_within(low, high, column) + self.rest

    def _last(
        self, start: FloatArray, stop: FloatArray, column: FloatArray, sign: float
    ) -> FloatArray:
        """Return nearly the last u from `start` on at which the slope surely has this sign."""
        for _ in range(SLOPE_HALVINGS):
            middle = 0.5 * (start + stop)
            slope, error = self._slope(middle[:, None], column)
            sure = sign * slope > error
            start, stop = np.where(sure, middle, start), np.where(sure, stop, middle)
        return start

    def _slope(self, u: FloatArray, column: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the slope at u over e^epsilon phi(u), and a bound on its rounding error."""
        d = self.distances
        best_v = 0.5 * d - column / d
        # What is capped here is of the same sign, and large enough for its sign to be sure.
        up, down = -d * u - 0.5 * d * d - column, np.minimum(d * u - 0.5 * d * d, 300.0)
        gained = np.where(u < best_v - d, np.exp(np.minimum(up, 300.0)) - 1.0, 0.0)
        lost = np.where(u > best_v, np.exp(-column) - np.exp(down), 0.0)
        terms = self.weights * (np.maximum(gained, 0.0) + np.minimum(lost, 0.0))
        epsilons = column[:, 0]
        total = terms.sum(axis=1) + self.none * np.expm1(-epsilons)
        scale = 1.0 + epsilons + (np.abs(d * u) + d * d).max(axis=1)
        return total, TERM_ERROR * scale * (np.abs(terms).sum(axis=1) + 1.0)

    def _largest_within(self, low: FloatArray, high: FloatArray, column: FloatArray) -> FloatArray:
        """Return a bound on the value over an interval of u, by the largest of each term."""
        d, epsilons = self.distances, column[:, 0]
        best_v = 0.5 * d - column / d
        # The u at which each term is largest, then v = `best_v` or the nearest end of its range.
        u = np.clip(np.maximum(best_v - d, low[:, None]), low[:, None], high[:, None])
        v = np.clip(best_v, u, u + d)
        gained, paid = ndtr(v), np.exp(column + log_ndtr(v - d))
        error = TERM_ERROR * (1.0 + epsilons) * (self.weights * (gained + paid)).sum(axis=1)
        lost = self.none * -np.expm1(-epsilons) * np.exp(epsilons + log_ndtr(low))
        value = (self.weights * (gained - paid)).sum(axis=1) - lost * (1.0 - 1e-12) + error
        return np.asarray(value)


@lru_cache(maxsize=64)
def replaced_records(size: int, sampled: ev.FixedSize) -> DominatedMechanism:
    """Return the pair of `size` replaced records, in batches of a fixed size with Gaussian noise.

    Raises `Unsupported` for other noise, and for a unit of more records than there are.
    """
    inner = sampled.event
    if not isinstance(inner, ev.Gaussian) or size > min(sampled.population, MAX_REPLACED_RECORDS):
        raise Unsupported(
            f"The pld engine has no pair for {size:,} records of {type_of(sampled)}.",
            "It knows Gaussian noise, and units of up to "
            f"{min(sampled.population, MAX_REPLACED_RECORDS):,} records.",
            "Leave the choice of the engine to privplan: rdp answers from one record's curve.",
            otherwise="Account for one record, or for a group under Poisson sampling.",
        )
    group = ReplacedGroup.of(size, sampled.batch, sampled.population, inner.noise_multiplier)
    log_p, log_q = atoms(
        Profile(group.log_delta, math.inf, (), group.log_deltas), accuracy=HULL_ACCURACY
    )
    step = Step(
        "sampling",
        f"{size:,} replaced records, of which a batch of {sampled.batch:,} of "
        f"{sampled.population:,} holds a hypergeometric number j: the old and the new batch lie "
        "within 2 j bounds of each other, and of the batch without them.",
        "derived in engines/pld/pairs/fixed_size_groups.py",
        (
            "the sample is fresh, uniform and secret, and its size known",
            "each record contributes at most 1 bound",
            "lower end: old records at +1, new ones and all others at -1",
            "neighbours: replace-one",
        ),
    )
    pair = Pair.of_outcomes(AtomPair(log_p, log_q, has_heavy_atoms=False))
    # What is attained is a mixture of shifts by 2 j bounds, hence half the noise.
    attained = ev.GaussianMixture(
        0.5 * inner.noise_multiplier,
        tuple((0.5 * inner.noise_multiplier * group.distances).tolist()),
        tuple(group.weights.tolist()),
    )
    lower_pair = pairs(attained, "add-remove").lower_pair
    return DominatedMechanism.of(pair, [lower_pair], False, (group_step(size, "replace-one"), step))
