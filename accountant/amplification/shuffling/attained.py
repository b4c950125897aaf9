"""What an analyzer can do: exact tests on concrete neighbouring data, for lower bounds.

Each message is sorted into one of a few numbered bins, and the analyzer adds the numbers up.  That
is a post-processing of the shuffled messages, so whatever tells two data sets apart by the sum
tells the mechanism's outputs apart.  The bins follow the likelihood ratio against the others, in
even steps, so that the sum is close to the optimal statistic (sum of the ratios).

The data sets: all others at one value, among whom the unit hides.  For noise that is 0
(one neighbour is one of the others, the other lies at 1) or 1/2 (the neighbours lie at 0 and 1);
for randomized response a third category (or, with two, the other one).

Both laws are bounded by `lattice`: P from below and Q from above, so a pair says nothing about the
order (Q, P), which has a pair of its own.  Sums that lie close together are merged, outcomes that
are too rare are left out; neither raises a hockey stick.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from ... import validate
from ...arrays import FloatArray, IndexArray
from ...rootfinding import enclose, narrow
from ..sums import UNIT_ROUNDOFF
from .lattice import Part, law_of_sum
from .randomizers import GaussianRandomizer, LaplaceRandomizer, Randomizer, ResponseRandomizer

LogPair: TypeAlias = tuple[FloatArray, FloatArray]
"""log P and log Q of the same outcomes; P is rounded down, Q up, and some are left out."""

MAX_LAPLACE_BINS: Final = 64
"""Most steps between the bins of Laplace noise; twice as many gain less than a thousandth."""

MAX_BIN_STEPS: Final = 128
"""The same for Gaussian noise, and for randomized response at orders other than 1."""

MAX_DEVIATION_STEPS: Final = 5e4
"""About how many steps of a bin one deviation of the sum of all bins may take."""

GAUSSIAN_REACHES: Final = (2.0, 4.0)
"""Standard deviations beyond 0 and 1 from which on all Gaussian noise is one bin."""

MAX_MERGED_OUTCOMES: Final = 6000
"""Sums are merged until so many are left."""

MAX_ATTAINED_USERS: Final = 10**8
"""Nothing is shown for more users: the sums get too long to list."""


def attained_pairs(randomizer: Randomizer | None, users: int) -> tuple[LogPair, ...]:
    """Return pairs that one shuffled round attains on concrete data, for lower bounds.

    Each (log P, log Q) holds for that order alone and lies below what the analyzer can do; the
    relation is replace-one.  None (a stated local epsilon names no mechanism) gives no pair.

    >>> from .randomizers import ResponseRandomizer
    >>> pairs = attained_pairs(ResponseRandomizer(1.0, 3), 10_000)
    >>> round(lower_epsilon(pairs, 1e-6), 5)
    0.03799
    """
    users = validate.count(users=users)
    pairs: list[LogPair] = []
    if users <= MAX_ATTAINED_USERS:
        for bins in _tests(randomizer, users):
            pairs += summed_pairs([Part(bins.others, users - 1)], bins, 1)
    return tuple(pairs)


def summed_pairs(others: Sequence[Part], bins: Bins, copies: int) -> tuple[LogPair, LogPair]:
    """Return the pairs (P, Q) and (Q, P) of the sum of all bin numbers.

    P adds `copies` messages of the first neighbour to the `others`, Q as many of the second.
    """
    laws = [law_of_sum([*others, Part(law, copies)]) for law in (bins.first, bins.second)]
    lowest = max(law.first for law in laws)
    highest = max(min(law.last for law in laws), lowest - 1)  # nothing, where they lie apart
    # P by its lower bounds against Q by its upper ones: no hockey stick of the pair is too large.
    first, second = (law.between(lowest, highest) for law in laws)
    return _merged(first[0], second[1]), _merged(second[0], first[1])


def lower_delta(pair: LogPair, epsilon: float) -> float:
    """Return sum (P - e^epsilon Q)+ over the outcomes of a pair, rounded down."""
    log_p, log_q = pair
    excess = log_p - log_q - epsilon
    sizes = np.abs(log_p) + np.abs(log_q) + abs(epsilon) + 16.0
    # Down by the rounding of the logs: an outcome counts only if it exceeds for certain.
    excess = excess - 4.0 * UNIT_ROUNDOFF * sizes
    gains = np.where(excess > 0.0, -np.exp(log_p) * np.expm1(-np.maximum(excess, 0.0)), 0.0)
    return max(float((gains * (1.0 - 8.0 * UNIT_ROUNDOFF * sizes)).sum()) * (1.0 - 1e-14), 0.0)


def lower_epsilon(pairs: Sequence[LogPair], delta: float) -> float:
    """Return an epsilon at which some pair still exceeds `delta`, nearly the largest; 0 if none.

    No epsilon at or below it is true of the mechanism at this delta in (0, 1).
    """
    delta = validate.open_probability(delta=delta)
    return max((_lower_epsilon(pair, delta) for pair in pairs), default=0.0)


def _lower_epsilon(pair: LogPair, delta: float) -> float:
    def above(log_epsilon: float) -> float:
        return lower_delta(pair, math.exp(log_epsilon)) - delta

    bracket = enclose(above, -2.0, 0.7, -60.0, 12.0)
    if bracket is None:
        return 0.0 if above(-2.0) <= 0.0 else math.exp(12.0)
    return math.exp(narrow(above, bracket, absolute=1e-7).low)


def _merged(log_p: FloatArray, log_q: FloatArray) -> LogPair:
    """Return the pair with neighbouring outcomes added up, and those left out that say nothing."""
    finite = np.flatnonzero(np.isfinite(log_p))
    if finite.size == 0:
        return np.zeros(0), np.zeros(0)
    log_p, log_q = log_p[finite], log_q[finite]
    width = -(-finite.size // MAX_MERGED_OUTCOMES)
    if width == 1:
        return log_p, log_q
    starts = np.arange(0, finite.size, width)
    # Sums of P down, of Q up, by more than the rounding of log-add-exp.
    up = 1e-14 + 4.0 * width * UNIT_ROUNDOFF
    return np.logaddexp.reduceat(log_p, starts) - up, np.logaddexp.reduceat(log_q, starts) + up


# --- bins ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Bins:
    """Masses of the bins: of a message of the others, of the two neighbours, and of the middle.

    The middle is the value 1/2, or a category at random; except for Gaussian noise that is also
    the law of a dummy from the blanket.
    """

    others: FloatArray
    first: FloatArray
    second: FloatArray
    middle: FloatArray


def _tests(randomizer: Randomizer | None, users: int) -> list[Bins]:
    """Return the bins of each test that is made; none where noise is tiny or huge.

    None too where a message says nothing.
    """
    if isinstance(randomizer, ResponseRandomizer) and 0.0 < randomizer.epsilon0 <= 200.0:
        return [response_bins(randomizer, order) for order in _orders(randomizer, users)]
    if isinstance(randomizer, LaplaceRandomizer) and 1e-6 <= randomizer.epsilon0 <= 200.0:
        return [noise_bins(randomizer, 0.0, users)]
    if isinstance(randomizer, GaussianRandomizer) and 0.05 <= randomizer.sigma <= 1e6:
        return [noise_bins(randomizer, 0.0, users, reach) for reach in GAUSSIAN_REACHES]
    return []


def noise_bins(
    randomizer: LaplaceRandomizer | GaussianRandomizer,
    others: float,
    messages: int,
    reach: float = 0.0,
) -> Bins:
    """Return bins for neighbours at 1 and 0, the others at `others`, for so many messages.

    The edges lie at even steps of (mu_1 - mu_0) / mu_others, from `reach` scales of the noise below
    0 to as far above 1.
    """
    if isinstance(randomizer, GaussianRandomizer):
        gaussian, scale = True, randomizer.sigma
    else:
        gaussian, scale = False, 1.0 / randomizer.epsilon0
    y = np.linspace(-reach * scale, 1.0 + reach * scale, 8001)
    log_first, log_second, log_others = (
        _log_shape(y - x, scale, gaussian) for x in (1.0, 0.0, others)
    )
    # (mu_1 - mu_0)/mu_others, which never falls along the line: its even steps are the bin edges.
    statistic = np.exp(log_first - log_others) - np.exp(log_second - log_others)
    most = MAX_BIN_STEPS if gaussian else MAX_LAPLACE_BINS
    steps = min(max(round(MAX_DEVIATION_STEPS / math.sqrt(messages)), 8), most)
    levels = (np.arange(steps) + 0.5) / steps
    levels = statistic[0] + levels * (statistic[-1] - statistic[0])
    edges = np.concatenate(([-np.inf], np.interp(levels, statistic, y), [np.inf]))
    masses = _gaussian_masses if gaussian else _laplace_masses
    return Bins(*(masses((edges - x) / scale) for x in (others, 1.0, 0.0, 0.5)))


def _log_shape(off: FloatArray, scale: float, gaussian: bool) -> FloatArray:
    z: FloatArray = np.abs(off) / scale
    return -0.5 * z * z if gaussian else -z


def _laplace_masses(z: FloatArray) -> FloatArray:
    """Return the probabilities between consecutive z, each without cancelling."""
    low, high = z[:-1], z[1:]
    # Intervals right of 0 are mirrored, so both tails are differences of small exponentials.
    flipped = low >= 0.0
    a, b = np.where(flipped, -high, low), np.where(flipped, -low, high)
    with np.errstate(over="ignore", invalid="ignore"):
        one_sided = -0.5 * np.exp(b) * np.expm1(a - b)
        two_sided = -0.5 * np.expm1(a) - 0.5 * np.expm1(-b)
    return np.where(b <= 0.0, one_sided, two_sided)


def _gaussian_masses(z: FloatArray) -> FloatArray:
    """Return the probabilities between consecutive z, by Gauss-Legendre quadrature.

    Eight points integrate cells of width 1/4 to far below rounding; nothing lies beyond 38.
    """
    z = np.clip(z, -38.0, 38.0)
    low, width = z[:-1], np.diff(z)
    cells = math.ceil(float(width.max()) / 0.25)
    nodes, weights = np.polynomial.legendre.leggauss(8)
    inside = (np.arange(cells)[:, None] + 0.5 * (nodes + 1.0)).ravel() / cells
    points = low[:, None] + width[:, None] * inside
    density = np.exp(-0.5 * points * points) / math.sqrt(2.0 * math.pi)
    masses: FloatArray = (density * np.tile(weights, cells)).sum(axis=1) * width * (0.5 / cells)
    return masses


def response_bins(randomizer: ResponseRandomizer, order: float = 1.0) -> Bins:
    """Return bins for neighbours on a first and a second category, the others on a third.

    The number of a bin is nearest to an even step of (mu_1 - order mu_2) / mu_others.  Of two
    categories, the others hold the second, and the bins are 0 and 1.
    """
    k, ratio = randomizer.categories, math.exp(-randomizer.epsilon0)
    total = 1.0 + (k - 1) * ratio
    true, lie = 1.0 / total, ratio / total
    if k == 2:
        second = np.array([true, lie])
        return Bins(second, second[::-1], second, np.array([0.5, 0.5]))
    # Categories: the first, the second, that of the others, and all others together.
    laws = []
    for holds in (2, 0, 1):
        masses = np.array([lie, lie, lie, (k - 3) * lie])
        masses[holds] = true
        laws.append(masses)
    laws.append(np.array([1.0, 1.0, 1.0, k - 3.0]) / k)
    gains = np.array([1.0 - order * ratio, ratio - order, ratio * ratio * (1.0 - order)])
    numbers = _bin_numbers(np.append(gains, ratio * (1.0 - order)), laws[0])
    return Bins(*(np.bincount(numbers, law).astype(np.float64) for law in laws))


def _bin_numbers(gains: FloatArray, masses: FloatArray) -> IndexArray:
    """Return whole numbers nearly proportional to the gains, from 0 up, errors weighed by mass."""
    scaled = (gains - gains.min()) / np.ptp(gains)
    # Every number of steps is tried: shape (steps, categories).
    steps = np.arange(2, MAX_BIN_STEPS + 1)[:, None]
    off = np.round(steps * scaled) / steps - scaled
    off -= (off * masses).sum(axis=1, keepdims=True)
    best = int(np.argmin((off * off * masses).sum(axis=1)))
    numbers: IndexArray = np.round(steps[best] * scaled).astype(np.intp)
    return numbers


def _orders(randomizer: ResponseRandomizer, users: int) -> list[float]:
    """Return the orders e^epsilon for which tests are made: 1, and a likely one."""
    if randomizer.categories == 2:
        return [1.0]
    ratio = math.exp(-randomizer.epsilon0)
    lie = ratio / (1.0 + (randomizer.categories - 1) * ratio)
    # A likely epsilon: five deviations of the loss of one message among n.
    likely = 5.0 * -math.expm1(-randomizer.epsilon0) * math.sqrt(2.0 / (users * lie))
    return [1.0, math.exp(min(likely, 0.5 * randomizer.epsilon0))]
