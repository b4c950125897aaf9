"""FLAME's own formulas, mistakes included: for comparison only, none of them is a guarantee.

A user's vector has d coordinates in [0, 1]; each message is randomized with local epsilon eps_l.
SS-Simple sends all d, SS-Double and SS-Topk send k = beta d of them, padded to n_p per coordinate.

Source: Liu, Cao, Chen, Guo and Yoshikawa 2021, *FLAME: Differentially Private Federated Learning in
the Shuffle Model*, AAAI, arXiv 2009.08063v4, and its program, Rachelxuan11/FLAME.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom

MIN_PROGRAM_DELTA: Final = 1e-11
"""The program reports no smaller delta."""


_LEAST_EPSILON: Final = 1e-6
"""Where the program begins to search."""


def published_delta(users: int) -> float:
    """Return 0.01 / n^1.1."""
    return 0.01 / math.pow(users, 1.1)


def published_lemma_1(local_epsilon: float, users: int, delta: float, categories: int = 2) -> float:
    """Return sqrt(14 ln(2/delta) (e^eps_l + b - 1) / (n - 1)), for b-ary randomized response.

    Proven where the result is at most 1: Balle, Bell, Gascon and Nissim 2019, arXiv 1903.02837.
    Source: FLAME, Lemma 1.
    """
    spread = math.exp(local_epsilon) + categories - 1
    return math.sqrt(14.0 * math.log(2.0 / delta) * spread / (users - 1))


def published_buggy_bennett(local_epsilon: float, users: int, delta: float) -> float:
    """Return FLAME's epsilon for n Laplace messages in a shuffler: a bound with a slip of the pen.

    delta(eps) = 1/(gamma n) E[exp(-M (c/b^2) phi(a b / c)) / (M (a/b) log(1 + a b / c))], with M
    binomial (n, gamma), M >= 1: the correct bound has b in place of b / (a M).  FLAME copied the
    program of the privacy blanket before its correction of July 2020.
    Source: `amplification_bounds.py` of Rachelxuan11/FLAME.
    """
    return _bennett_epsilon(local_epsilon, users, delta, buggy=True)


def corrected_bennett(local_epsilon: float, users: int, delta: float) -> float:
    """Return the same with the correct bound, in floating point: what FLAME would have printed.

    Source: Balle et al. 2019, arXiv 1903.02837; the bound is derived in
    `amplification/shuffling/closed_forms.py`, which has it as a guarantee.
    """
    return _bennett_epsilon(local_epsilon, users, delta, buggy=False)


def published_subsampled(epsilon: float, rate: float) -> float:
    """Return log(1 + beta (e^eps - 1)), beta the share of coordinates sent; FLAME, Lemma 4."""
    return math.log1p(rate * math.expm1(epsilon))


def published_composition(epsilon: float, delta: float, count: float) -> float:
    """Return the smaller of sequential and advanced composition, as the program takes it."""
    advanced = epsilon * math.sqrt(2.0 * count * math.log(1.0 / delta))
    advanced += count * epsilon * math.expm1(epsilon)
    return min(count * epsilon, advanced)


def published_simple(
    local_epsilon: float,
    users: int,
    dimensions: int,
    *,
    lemma_1: bool = False,
    categories: int = 2,
    delta: float | None = None,
) -> float:
    """Return SS-Simple's epsilon at `delta`: d amplified messages, composed.

    `delta`: None means `published_delta`.  `categories`: of Lemma 1.

    >>> round(published_simple(0.01, 1000, 7850), 7)
    0.9100562
    """
    each = (published_delta(users) if delta is None else delta) / (dimensions + 1)
    if lemma_1:
        epsilon = published_lemma_1(local_epsilon, users, each, categories)
    else:
        epsilon = published_buggy_bennett(local_epsilon, users, each)
    return published_composition(epsilon, each, dimensions)


def published_theorem_4_with_double_counting(
    local_epsilon: float,
    *,
    dimensions: int,
    chosen: float,
    padded_to: int,
    delta: float,
    amplify: str = "buggy-bennett",
    categories: int = 2,
    sampling: bool = True,
) -> float:
    """Return the epsilon of SS-Double and SS-Topk at `delta`.

    2 beta d coordinates are composed, which is right for index sets that are known, and each is
    amplified by beta, which is right for index sets that are hidden: `sampling=False` leaves the
    second out (the program's `no_sub_amplification`).  `amplify`: `buggy-bennett`, `bennett` or
    `lemma-1`, which is of randomized response with so many `categories`.
    Source: FLAME, Theorem 4.

    >>> given = dict(dimensions=7850, chosen=157, padded_to=333, delta=published_delta(1000))
    >>> round(published_theorem_4_with_double_counting(0.5, **given), 7)
    0.2379266
    >>> round(published_theorem_4_with_double_counting(0.5, **given, sampling=False), 7)
    20.5352544
    """
    rate = chosen / dimensions
    count = 2.0 * chosen
    each = delta / (count + 1.0)
    bounds: dict[str, Callable[[float, int, float], float]] = {
        "buggy-bennett": published_buggy_bennett,
        "bennett": corrected_bennett,
        "lemma-1": partial(published_lemma_1, categories=categories),
    }
    bound = bounds[amplify]
    if sampling:
        epsilon = published_subsampled(bound(local_epsilon, padded_to, each / rate), rate)
    else:
        epsilon = bound(local_epsilon, padded_to, each)
    return published_composition(epsilon, each, count)


def published_index_privacy(users: int, padded_to: int, rate: Fraction) -> float:
    """Return nu = 1 / (l beta), l = floor(n_p / (n beta)) index sets of which one is a user's own.

    How much more likely than before a coordinate is a user's after its indices were seen among
    those of l - 1 others: a statement about a prior, not differential privacy.
    Source: FLAME, Theorem 5.

    >>> published_index_privacy(1000, 333, Fraction(1, 50))
    3.125
    """
    return float(1 / (index_sets(users, padded_to, rate) * rate))


def index_sets(users: int, padded_to: int, rate: Fraction) -> int:
    """Return l = floor(n_p / (n beta))."""
    return math.floor(padded_to / (users * rate))


def posterior_ratio(sets: Fraction | int, rate: Fraction, rounds: int) -> Fraction:
    """Return posterior over prior of a coordinate that was in all of `rounds` unions of index sets.

    A user's own k = beta d coordinates are in the union each time, another one with probability
    (l - 1) beta / (1 - beta), freshly drawn each round; the prior of a coordinate is beta.  After
    one round this is `published_index_privacy`.

    >>> posterior_ratio(16, Fraction(1, 50), 1)
    Fraction(25, 8)
    """
    decoy = (sets - 1) * rate / (1 - rate)
    return 1 / (rate + (1 - rate) * decoy**rounds)


def _bennett_epsilon(local_epsilon: float, users: int, delta: float, *, buggy: bool) -> float:
    counts = np.arange(1, users + 1)
    gamma = math.exp(-local_epsilon / 2.0)
    if gamma == 0.0:
        return local_epsilon
    # P(M = m)/(gamma n) over the number M of messages from the blanket.
    weights = binom.pmf(counts, users, gamma) / (gamma * users)

    def excess(epsilon: float) -> float:
        a, b, c = math.expm1(epsilon), *_laplace_moments(local_epsilon, epsilon)
        u = a * b / c
        terms = np.exp(-counts * (c / b**2) * ((1.0 + u) * math.log1p(u) - u)) * b / math.log1p(u)
        if buggy:
            terms = terms / (a * counts)
        return math.log(max(float(weights @ terms), MIN_PROGRAM_DELTA) / delta)

    least, most = _LEAST_EPSILON, local_epsilon * (1.0 - 1e-9)
    try:
        # Where the bound amplifies nothing the program ends in an error; a message's own noise is
        # left.
        if least >= most or excess(most) > 0.0:
            return local_epsilon
        return least if excess(least) <= 0.0 else float(brentq(excess, least, most, xtol=1e-14))
    except OverflowError:
        return local_epsilon


def _laplace_moments(local_epsilon: float, epsilon: float) -> tuple[float, float]:
    """Return the largest value and the second moment of the amplification variable."""
    half, whole = math.exp(local_epsilon / 2.0), math.exp(-local_epsilon)
    largest = half * -math.expm1(epsilon - local_epsilon)
    square = (math.exp(2.0 * epsilon) + 1.0) / 3.0 * (2.0 * half + whole)
    return largest, square - 2.0 * math.exp(epsilon) * (2.0 / half - whole)
