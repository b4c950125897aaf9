"""The sensitivity of a strategy under a participation, between bounds, and exactly where known.

`sensitivity` is asked for by itself: by how much one unit moves C x.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np

from ... import events as ev
from ...arrays import FloatArray, IndexArray
from ...errors import InvalidInput, Unsupported, kind_of, with_article
from ...guarantee import Bounds
from ...nearest_names import named_keywords
from ...neighbours import as_neighbours
from .directions import Squares, largest_eigenvalue, rounding_margin, worst_directions
from .participations import (
    MAX_PATTERNS,
    SeparatedRounds,
    as_separated,
    fixed_stride,
    strided_patterns,
)
from .separated import (
    MAX_CHAIN_STEPS,
    MAX_WINDOW_STATES,
    chain_steps,
    climbed,
    even_sum,
    heaviest_pattern,
    largest_sum,
    row_bounds,
    shifted_sums,
    sum_of_stretches,
    tree_squares,
    window_states,
)
from .strategies import (
    UNIT_ROUNDOFF,
    column_bands,
    strategy_matrix,
    strategy_steps,
    toeplitz_coefficients,
)

MAX_GRAM_STEPS: Final = 4_096
"""Most rounds for which all of C^T C is computed."""

MAX_TREE_STEPS: Final = 2_048
"""Most rounds of a tree that is written down as a matrix."""

MAX_PAIRS: Final = 3e7
"""Most pairs of rounds that are added up, over all patterns that are looked at one by one."""

MAX_REFINED: Final = 5_000
"""Most rounds of patterns, added up, whose worst vectors are looked for."""

EXACT_SHARE: Final = 1e-9
"""Relative width of bounds on a sensitivity that count as a single number."""

COLUMN_NORM: Final = "one round: the largest column norm of C"
CHAIN: Final = (
    "bands of C at most twice the separation: only rounds that follow each other on a pattern "
    "meet in C^T C, so signs attain every |C^T C|; the worst pattern by a dynamic programme"
)
ORTHOGONAL: Final = (
    "bands of C at most the separation: the columns of a pattern are orthogonal, so norms add in "
    "squares, whatever the signs; the worst pattern by a dynamic programme"
)
DECREASING: Final = (
    "Kalinin and Lampert 2024, Theorem 2, arXiv 2405.13763: coefficients that are non-negative "
    "and never increase, so the earliest rounds are the worst, with equal contributions"
)
PATTERNS: Final = (
    "every pattern of rounds by itself: from above |C^T C|, the largest eigenvalue of C^T C and "
    "the dual of a semidefinite programme, from below signs and vectors"
)
WINDOWS: Final = (
    "from above the largest sum of |C^T C| over patterns, by a dynamic programme over the rounds "
    "that meet in it; from below a pattern, with signs or vectors, that attains it"
)
TREE: Final = (
    "rounds counted under every complete node: from above as many as fit there, from below the "
    "earliest rounds; one round is in one node of each level"
)
SPECTRUM: Final = (
    "from above the largest eigenvalue of C^T C, times the rounds of a pattern; from below a "
    "pattern, with signs or vectors, that attains it"
)
STRETCHES: Final = (
    "bands of C at most twice the separation, and too many rounds to look at every pattern: from "
    "above the heaviest round of each stretch, with what links it to the one before; from below "
    "rounds that are evenly apart, with signs"
)
ROW_SUMS: Final = (
    "from above the largest sum, over patterns, of each round's largest sum of |C^T C|; from below "
    "a pattern, with signs or vectors, that attains it"
)


@dataclass(frozen=True)
class MatrixSensitivity:
    """By how many contribution bounds one unit moves C x, in L2: between `bounds`.

    `exact` says that the two ends agree but for rounding.  `source` is how they were found, and
    the lower end is attained by contributions of so many `dimensions`, each of norm 1, in fixed
    rounds.
    """

    bounds: Bounds
    exact: bool
    source: str
    dimensions: int = 1


@lru_cache(maxsize=64)
@np.errstate(over="ignore", invalid="ignore")  # what overflows is refused by its range
def sensitivity_bounds(strategy: ev.Strategy, participation: ev.Participation) -> MatrixSensitivity:
    """Return bounds on the largest L2 norm of C d, over what one unit may contribute.

    max sqrt(sum_{i, j in pattern} (C^T C)_ij <d_i, d_j>)   over patterns and vectors |d_i| <= 1.

    In contribution bounds, for a unit that is absent (add-remove) or contributes zeros (zero-out)
    in one of the two data sets.  Under replace-one both ends double: the two contributions differ
    by at most the sum of their norms, and a unit that is replaced by its opposite in the same
    rounds attains it.  Balls in bins count as if the bin was known.

    Raises `InvalidInput` for a singular strategy and a participation that does not fit it,
    `Unsupported` for matrices that are too large.
    Source: Denisov, McMahan, Rush, Smith and Thakurta 2022, Theorem 2.1, arXiv 2202.08312 (why
    inputs that depend on earlier outputs cost no more); Choquette-Choo et al. 2023, Section
    2, arXiv 2211.06530 (vectors), and equation 5 of arXiv 2306.08153 (|C^T C|).

    >>> steps = ev.DenseStrategy([[1.0, 0.0], [-1.0, 1.0]])
    >>> twice = sensitivity_bounds(steps, ev.EpochParticipation(2))
    >>> round(twice.bounds.lower, 6), round(twice.bounds.upper, 6), twice.exact
    (2.236068, 2.236068, True)
    """
    steps = strategy_steps(strategy)
    allowed = as_separated(participation, steps)
    stride = 0 if allowed is not None else fixed_stride(participation, steps)
    coefficients = toeplitz_coefficients(strategy)
    if stride == steps:
        allowed, stride = SeparatedRounds(steps, 1, steps), 0
    if coefficients is not None and allowed is not None and allowed.most == 1:
        # The first column holds all that the others do.
        return _decreasing(coefficients, allowed)
    if coefficients is not None and _never_increases(coefficients):
        # Of all rounds so far apart the earliest are the worst, and a pass may hold those.
        return _decreasing(
            coefficients, allowed or SeparatedRounds(steps, -(-steps // stride), stride)
        )
    if isinstance(strategy, ev.TreeStrategy) and (
        steps > MAX_TREE_STEPS or (allowed is not None and allowed.most == 1)
    ):
        rounds = allowed or SeparatedRounds(steps, -(-steps // stride), stride)
        return _result(tree_squares(strategy.fan_out, rounds), TREE)
    bands = column_bands(strategy)
    if bands is not None:
        if allowed is not None and (allowed.most == 1 or len(bands) <= 2 * allowed.separation):
            return _by_bands(bands, allowed)
        if stride and len(bands) <= 2 * stride:
            return _by_passes(bands, stride)
    matrix = strategy_matrix(strategy)
    if allowed is not None and allowed.most == 1:
        squares = np.einsum("ij,ij->j", matrix, matrix)
        return _result(_exactly(float(squares.max()), len(matrix), 1), COLUMN_NORM)
    if steps > MAX_GRAM_STEPS:
        raise Unsupported(
            f"The sensitivity of a strategy over {steps:,} rounds is not computed here.",
            f"C^T C is written down for at most {MAX_GRAM_STEPS:,} rounds.",
            "Use bands of at most twice the minimum separation, or a Toeplitz strategy whose "
            "coefficients are non-negative and never increase.",
        )
    gram = matrix.T @ matrix
    _require_range(float(gram.diagonal().max()))
    if allowed is not None and allowed.most == steps:
        allowed, stride = None, 1  # all rounds: any other pattern is a part of that
    if allowed is None:
        patterns = strided_patterns(stride, steps)
    elif allowed.count <= MAX_PATTERNS and allowed.count * allowed.most**2 <= MAX_PAIRS:
        patterns = allowed.patterns()
    else:
        return _by_search(matrix, gram, allowed)
    return _result(_worst_pattern(matrix, gram, patterns), PATTERNS)


def _never_increases(coefficients: FloatArray) -> bool:
    return bool(coefficients[-1] >= 0.0 and (np.diff(coefficients) <= 0.0).all())


def _decreasing(coefficients: FloatArray, allowed: SeparatedRounds) -> MatrixSensitivity:
    """Return the norm of the sum of the columns 0, b, 2b, ...

    (C^T C)_ij with i < j is the sum of c_l c_{l + j - i} over l < T - j: it never grows with j, nor
    with j - i.  The n-th round of any pattern is at least n b, and two of them as far apart as
    there, so that no pair of another pattern counts for more.
    """
    column = np.zeros(allowed.steps)
    column[: coefficients.size] = coefficients
    column = shifted_sums(column, allowed.most, allowed.separation)
    _require_range(float(column.max()) * float(column.max()))
    square = math.fsum((column * column).tolist())
    # All terms are 0 or above: each of the few additions is off by a rounding of its result.
    margin = 4.0 * UNIT_ROUNDOFF * (2 * allowed.most.bit_length() + 16)
    source = COLUMN_NORM if allowed.most == 1 else DECREASING
    return _result(Squares(square * (1.0 - margin), square * (1.0 + margin)), source)


def _by_bands(bands: FloatArray, allowed: SeparatedRounds) -> MatrixSensitivity:
    """Return it where only rounds that follow each other on a pattern meet in C^T C."""
    weights = (bands * bands).sum(axis=0)
    lags = range(allowed.separation, len(bands)) if allowed.most > 1 else range(0)
    links = {lag: _links(bands, lag) for lag in lags}
    if chain_steps(links, allowed) > MAX_CHAIN_STEPS:
        low, high = even_sum(weights, links, allowed), sum_of_stretches(weights, links, allowed)
        margin = rounding_margin(3 * len(bands) + 2 * allowed.most, 1)
        return _result(Squares(low * (1.0 - margin), high * (1.0 + margin)), STRETCHES)
    square = largest_sum(weights, links, allowed)
    source = COLUMN_NORM if allowed.most == 1 else CHAIN if links else ORTHOGONAL
    return _result(_chained(square, bands, allowed.most), source)


def _by_passes(bands: FloatArray, stride: int) -> MatrixSensitivity:
    """Return it where rounds are `stride` apart, and only those that follow each other meet."""
    weights = (bands * bands).sum(axis=0)
    if len(bands) > stride:
        links = _links(bands, stride)
        weights[: links.size] += links
    passes = -(-weights.size // stride)
    padded = np.zeros(passes * stride)
    padded[: weights.size] = weights
    square = float(padded.reshape(passes, stride).sum(axis=0).max())
    source = CHAIN if len(bands) > stride else ORTHOGONAL
    return _result(_chained(square, bands, passes), source)


def _links(bands: FloatArray, lag: int) -> FloatArray:
    """Return 2 |C^T C| of all rounds and those `lag` later."""
    steps = bands.shape[1]
    products = bands[lag:, : steps - lag] * bands[: len(bands) - lag, lag:]
    return np.asarray(2.0 * np.abs(products.sum(axis=0)))


def _chained(square: float, bands: FloatArray, rounds: int) -> Squares:
    # A round is linked to two others at most, so entries are off by 3 of the weights in all.
    return _exactly(square, 3 * len(bands) + 2 * rounds, 1)


def _exactly(square: float, operations: int, rounds: int) -> Squares:
    margin = rounding_margin(operations, rounds)
    return Squares(square * (1.0 - margin), square * (1.0 + margin))


def _worst_pattern(matrix: FloatArray, gram: FloatArray, patterns: Sequence[IndexArray]) -> Squares:
    """Return bounds over patterns that are looked at one by one, the worst first."""
    magnitudes = np.abs(gram)
    tops = np.array([magnitudes[np.ix_(pattern, pattern)].sum() for pattern in patterns])
    lower, upper, dimensions, refined = 0.0, 0.0, 1, 0
    for index in np.argsort(-tops):
        pattern = patterns[index]
        margin = 1.0 + rounding_margin(len(matrix), pattern.size)
        most = float(tops[index]) * margin
        # No later pattern can be worse than this one's |C^T C|.
        if most <= upper:
            break
        if refined > MAX_REFINED:
            size = max(len(pattern) for pattern in patterns)
            upper = max(upper, min(most, size * largest_eigenvalue(gram, len(matrix))))
            break
        refined += pattern.size
        columns, part = matrix[:, pattern], gram[np.ix_(pattern, pattern)]
        squares = worst_directions(columns, part, above=lower)
        upper = max(upper, squares.upper)
        if squares.lower > lower:
            lower, dimensions = squares.lower, squares.dimensions
    return Squares(lower, max(lower, upper), dimensions)


def _by_search(matrix: FloatArray, gram: FloatArray, allowed: SeparatedRounds) -> MatrixSensitivity:
    """Return bounds under a minimum separation with too many patterns to look at each."""
    magnitudes = np.abs(gram)
    weights = row_bounds(magnitudes, allowed)
    margin = 1.0 + rounding_margin(len(matrix), allowed.most)
    upper, source = largest_sum(weights, {}, allowed), ROW_SUMS
    meeting = [lag for lag in range(len(gram)) if magnitudes.diagonal(lag).any()]
    states = window_states(allowed.separation, meeting[-1] + 1)
    links = {lag: 2.0 * magnitudes.diagonal(lag) for lag in meeting if lag}
    if states <= MAX_WINDOW_STATES and chain_steps(links, allowed, states) <= MAX_CHAIN_STEPS:
        upper, source = largest_sum(magnitudes.diagonal(), links, allowed), WINDOWS
    upper *= margin
    spectral = allowed.most * largest_eigenvalue(gram, len(matrix))
    if spectral < upper:
        upper, source = spectral, SPECTRUM
    starts = [
        heaviest_pattern(weights, allowed),
        np.arange(allowed.most, dtype=np.intp) * allowed.separation,
    ]
    best = Squares(0.0, upper)
    for start in starts:
        pattern = climbed(magnitudes, start, allowed)
        better = worst_directions(matrix[:, pattern], gram[np.ix_(pattern, pattern)], above=0.0)
        if better.lower > best.lower:
            best = Squares(better.lower, max(better.lower, upper), better.dimensions)
    return _result(best, source)


def _require_range(square: float) -> None:
    # Beyond, squares overflow, or lose digits.
    if not 1e-280 < square < 1e280:
        raise Unsupported(
            "The entries of the strategy are too extreme to compute with.",
            f"A square of them is {square:g}; between 1e-280 and 1e280 it can be.",
            "Scale the strategy, and the noise with it.",
        )


def _result(squares: Squares, source: str) -> MatrixSensitivity:
    _require_range(squares.upper)
    lower = math.sqrt(max(squares.lower, 0.0)) * (1.0 - 4.0 * UNIT_ROUNDOFF)
    upper = math.sqrt(squares.upper) * (1.0 + 4.0 * UNIT_ROUNDOFF)
    exact = upper - lower <= EXACT_SHARE * upper
    return MatrixSensitivity(Bounds(lower, upper), exact, source, squares.dimensions)


@named_keywords
def sensitivity(
    strategy: ev.Strategy, participation: ev.Participation, *, neighbours: str = "add-remove"
) -> MatrixSensitivity:
    """Return bounds on how far one unit moves C x in L2, in bounds on one contribution.

        max sqrt(sum_{i, j in pattern} (C^T C)_ij <d_i, d_j>)

    over patterns and vectors |d_i| <= 1, and twice that under `replace-one`.  The noise multiplier
    of a Gaussian release that tells as much as the whole run is that of `matrix-gaussian` over it.
    Of balls in bins it is that of a bin that is known.  `neighbours` is `add-remove`, `replace-one`
    or `zero-out` of one unit.

    Raises `InvalidInput` for a singular strategy and a participation that does not fit it,
    `Unsupported` for matrices that are too large.
    Source: Choquette-Choo et al. 2023, Section 2, arXiv 2211.06530, and equation 5 of arXiv
    2306.08153; see `sensitivity_bounds`.

    >>> moved = sensitivity(ev.ToeplitzStrategy(3, [1.0, 0.5]), ev.SingleParticipation())
    >>> round(moved.bounds.upper, 6), moved.exact
    (1.118034, True)
    """
    relation = as_neighbours(neighbours)
    for name, given, kind in (
        ("strategy", strategy, ev.Strategy),
        ("participation", participation, ev.Participation),
    ):
        if not isinstance(given, kind):
            raise InvalidInput(
                f"`{name}` must be {with_article(name)}; it is {kind_of(given)}.",
                "How far a unit moves a sum depends on both.",
                "Ask as in sensitivity(ToeplitzStrategy(10, [1.0, 0.5]), SingleParticipation()).",
            )
    moved = sensitivity_bounds(strategy, participation)
    if relation != "replace-one":
        return moved
    return replace(moved, bounds=Bounds(2.0 * moved.bounds.lower, 2.0 * moved.bounds.upper))
