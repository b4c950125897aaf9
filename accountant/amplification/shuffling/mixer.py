"""The mixer's view: sums of messages with Laplace noise, by who knows all senders and dummies.

A shuffler that cannot read what it mixes knows who sent which coordinates, which messages it kept,
and its own dummies.  It is also told what is made of the sums of each coordinate.  To it neither
the choice of coordinates nor a dummy hides anything: a user hides in the noise of the other users
who sent the same coordinates.

**Theorem** (replace-one; n users who tell nothing, each with noise of scale b C on values in
[-C, C]; each sends k of d coordinates, a uniform set whatever the data are; of the messages of a
coordinate, n_p or more are kept where as many were sent, by a choice that depends on no data).  A
round is dominated, at every order, by `Gaussian(b sqrt(2 / S))` with r messages `Laplace(b)` and
`Approximate(0, f)`, for every r, and S as below.

Proof.  Reveal all sets, what is kept, the dummies and the other users' values; none of them depends
on the user's data.  A coordinate in which the user's message is not kept shows nothing of it.  In
the others the sum shows an integer z_j, |z_j| <= C / g in steps of the grid g, with the noise of
M_j messages around it, M_j >= min(1 + B_j, n_p), B_j the number of the others who sent it.

(i) *Noise on a grid.*  The noise of a message is R = round(L), L Laplace.  Its probabilities are
integrals of a log-concave density over intervals of one length, so they are log-concave, and so
are those of the sum D of M copies.  So the ratio of D and s + D is monotone, the most powerful
tests are thresholds, P(D >= x) against P(D >= x - s), and s may be the largest, 2C / g.  Let D' be
the sum of the L themselves.  As |D - D'| <= M / 2, such a test is no better than one of D' shifted
by s + M.  So what is seen is dominated by D' with a shift of 2C + M g instead of 2C: that is what
`coarseness` g / C costs, a factor of at most 1 + n g / (2C).

(ii) *Gaussian given its variance.*  A Laplace variable of scale b is b sqrt(2 E) N, with E
exponential and N normal.  So D' is b C sqrt(2 G_j) N, G_j of the Gamma law of shape M_j.  Reveal
G_j, which depends on no data: independent Gaussian releases are left, together one of noise
multiplier sigma (in C, of values 2C apart) with 1 / sigma^2 = sum_j 1 / (2 b^2 G_j).

(iii) *Few senders.*  In a coordinate with fewer than m messages do not reveal G_j: the sum is made
of the user's message, which is `Laplace(b)` by itself.  Outside an event of probability f, which
depends on no data, there are at most r of these, and sum_j 1 / G_j is at most S over the others.

**The tails.**  The sets of one user are a uniform k of d, so their indicators are negatively
associated (Joag-Dev and Proschan 1983, Theorem 2.11), and so are the B_j, sums over independent
users.  With q = P(min(1 + B_1, n_p) < m),

    P(more than r coordinates have fewer than m) <= (k q)^(r+1) / (r+1)!

For others count m messages where there are fewer, M = max(min(1 + B, n_p), m).  With h(x) =
min(1/x, 1/x_0), E[e^(t h(G_j)) | M_j] falls as M_j rises, so for every t, as if all were
independent,

    P(sum_j 1/G_j > S) <= k P(G_1 < x_0) + e^(-t S) E[e^(t h(G_1))]^k

The expectation is bounded by steps over a grid of G, from above, with upper bounds on the binomial
probabilities.  The first tail and P(G < x_0) are given f / 4 each, the exponential one f / 2.

**Colluders.**  Those who tell what they sent are none of the n users.  In a coordinate each has one
message at most, so c of them leave n_p - c places of n_p: give n - c and n_p - c.  A round that is
given up where more than n_p messages come shows less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import gammainc

from ... import events as ev
from ...arrays import FloatArray
from ...sensitivity.release import repeated
from .binomials import log_binomial, reach

FAILURE: Final = 2.0**-40
"""The probability f of a round, which is charged to delta."""

LEAST_GRID_LOG2: Final = -20
"""The grid counts as this power of two of the noise at least, as `mechanisms.laplace` has it."""

_COMPARED_DELTA: Final = 2.0**-30
"""The delta at which one round of sums is compared with the messages themselves."""

_SENDER_COUNTS: Final = 400
_GAMMA_POINTS: Final = 1000
_EXPONENTS: Final = 400
_HALVINGS: Final = 60
MOST_COUNTED: Final = 10**5
"""More messages of a coordinate count as so many: scipy's Gamma tails are right up to there."""

_MARGIN: Final = 1e-9
"""Relative, above the rounding of floats in Gamma probabilities and sums."""


def mixer_event(
    message: ev.Event,
    *,
    users: int,
    dimensions: int,
    chosen: int,
    padded_to: int,
    coarseness: float = 0.0,
    failure: float = FAILURE,
) -> ev.Event | None:
    """Return one round before who mixes messages that it cannot read; see the module.

    `message` is the event of one message under replace-one; of `dimensions` coordinates each of
    `users` sends `chosen`, at random whatever the data are, and `padded_to` messages of each are
    kept.  Both numbers are without those who tell what they sent.  `coarseness` is the step of the
    grid in bounds.  None where nothing is proven beyond the messages themselves, or that is no
    better: for other noise than Laplace's, and where most coordinates may have few senders.
    Range: `chosen` from 1 to `dimensions`, the others 1 or above, `failure` in (0, 1).
    """
    if not isinstance(message, ev.Laplace) or min(users, padded_to) < 2:
        return None
    best, event = chosen * 2.0 / message.noise_multiplier, None
    for tail in tails(users, dimensions, chosen, padded_to, failure):
        parts = summed(message, tail, users, coarseness, failure)
        # What one round comes to, nearly: the other messages are counted by their whole epsilon.
        moved = 2.0 / parts[0].noise_multiplier  # replace-one: two bounds
        rounded = moved * moved / 2.0 + moved * math.sqrt(-2.0 * math.log(_COMPARED_DELTA))
        rounded += tail.apart * 2.0 / message.noise_multiplier
        if rounded < best:
            best, event = rounded, ev.Compose(parts)
    return event


def summed(
    message: ev.Laplace, tail: Tail, users: int, coarseness: float, failure: float
) -> tuple[ev.Gaussian, *tuple[ev.Event, ...]]:
    """Return what the theorem makes of a tail: parts of a round, each of them seen."""
    scale = message.noise_multiplier
    step = max(coarseness, math.ldexp(scale, LEAST_GRID_LOG2))
    shift = 1.0 + users * step / 2.0
    noise = scale * math.sqrt(2.0 / tail.total) / shift * (1.0 - _MARGIN)
    alone = (repeated(tail.apart, message),) if tail.apart else ()
    return ev.Gaussian(noise), *alone, ev.Approximate(0.0, failure)


@dataclass(frozen=True)
class Tail:
    """In at most `apart` coordinates r the user is nearly alone; over the others the sum is S.

    `total` is S: what sum_j 1 / G_j passes hardly ever.
    """

    apart: int
    total: float


@lru_cache(maxsize=256)
def tails(
    users: int, dimensions: int, chosen: int, padded_to: int, failure: float
) -> tuple[Tail, ...]:
    """Return tails of which each holds but for `failure`; see the module.

    None where a user may be alone in most coordinates.
    """
    counts, weights, below = _senders(users, dimensions, chosen, padded_to, failure)
    # P(M < m) at each of the counts m.
    fewer = below + np.concatenate(([0.0], np.cumsum(weights[:-1])))
    tails: list[Tail] = []
    apart = 0
    while apart < chosen:
        rare = math.log(failure / 4.0) + math.lgamma(apart + 2.0)
        with np.errstate(divide="ignore"):
            allowed = (apart + 1) * np.log(chosen * fewer) <= rare
        at = int(np.flatnonzero(allowed)[-1]) if allowed.any() else -1
        if at >= 0:
            lumped = weights[at:].copy()
            lumped[0] += fewer[at]
            total = _inverse_total(counts[at:], lumped, chosen, failure)
            tails += [Tail(apart, total)] if math.isfinite(total) else []
            if 2.0 * counts[at] >= min(users * chosen / dimensions, padded_to):
                break  # more that count by themselves would gain little
        apart = 2 * apart or 1
    return tuple(tails)


def _inverse_total(counts: FloatArray, weights: FloatArray, chosen: int, failure: float) -> float:
    """Return S, for so many messages with these probabilities; infinite where that is useless."""

    def beneath(points: FloatArray) -> FloatArray:
        """Return upper bounds on P(G_1 < x)."""
        tables = gammainc(counts[:, None], points[None, :])
        return np.minimum((1.0 + _MARGIN) * (weights @ tables), 1.0)

    most = float(counts[-1])
    least = _quantile(beneath, most, failure / (4.0 * chosen))
    if least <= most * 1e-6:
        return math.inf
    points = np.geomspace(least, most + 8.0 * math.sqrt(most), _GAMMA_POINTS)
    inverse = 1.0 / points
    # E[psi] = psi(last) + sum_i P(G < x_i) (psi(x_(i-1)) - psi(x_i)), where psi falls by steps.
    exponents = np.geomspace(1e-2, 600.0, _EXPONENTS) / (inverse[0] - inverse[-1])
    psi = np.exp(exponents[:, None] * (inverse - inverse[-1])[None, :])
    expected = 1.0 + (psi[:, :-1] - psi[:, 1:]) @ beneath(points[1:])
    logs = chosen * np.log(expected * (1.0 + _MARGIN)) + math.log(2.0 / failure)
    return float((chosen * inverse[-1] + np.min(logs / exponents)) * (1.0 + _MARGIN))


def _senders(
    users: int, dimensions: int, chosen: int, padded_to: int, failure: float
) -> tuple[FloatArray, FloatArray, float]:
    """Return how many messages a coordinate keeps, each with its probability from above.

    And the probability of fewer.  Where there are many numbers, some count as a lower one.
    """
    others, most = users - 1, min(padded_to, MOST_COUNTED)
    if chosen == dimensions or not others:
        return np.array([float(min(users, most))]), np.ones(1), 0.0
    share, rest = chosen / dimensions, (dimensions - chosen) / dimensions
    mean, variance = others * share, others * share * rest
    rare = math.log(4.0 * chosen / failure) + 1e-9
    first = max(math.floor(mean - reach(variance, rare)), 0)
    last = min(math.ceil(mean + reach(variance, math.log(1e9))), others)
    numbers = np.arange(first, last + 1, dtype=np.float64)
    weights = np.exp(log_binomial(numbers, others, share, rest)) * (1.0 + _MARGIN)
    weights[-1] += 1e-9  # of more than the last, which hide better
    kept = np.minimum(1.0 + numbers, float(most))
    width = -(-len(kept) // _SENDER_COUNTS)
    starts = np.arange(0, len(kept), width)
    below = math.exp(-rare) if first > 0 else 0.0
    return kept[starts], np.add.reduceat(weights, starts), below


def _quantile(beneath: Callable[[FloatArray], FloatArray], most: float, failure: float) -> float:
    """Return x_0, of which P(G_1 < x_0) is at most `failure`."""
    low, high = 0.0, most
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        rare = float(beneath(np.array([middle]))[0]) <= failure
        low, high = (middle, high) if rare else (low, middle)
    return low
