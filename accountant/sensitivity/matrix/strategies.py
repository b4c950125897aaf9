"""From a strategy to its matrix C: a row for each noised value, a column for each round."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from functools import lru_cache
from typing import Final

import numpy as np

from ... import events as ev
from ...arrays import FloatArray
from ...errors import InvalidInput, Unsupported
from ...events.matrices import MAX_STRATEGY_STEPS, rounds_of

MAX_MATRIX_ENTRIES: Final = 2**24
"""Most numbers of a matrix that is written down."""

MAX_CANCELLING_TERMS: Final = 1_000_000
"""Most terms of a buffered strategy that are added up with more digits, as they cancel."""

EXTRA_DIGITS: Final = 40
"""Digits that are left, at the size of the first coefficient, where terms cancel."""

MAX_PLAIN_BUFFERS: Final = 16
"""Most buffers, all of one sign, whose sums need no more digits."""

UNIT_ROUNDOFF: Final = 2.0**-53


def strategy_steps(strategy: ev.Strategy) -> int:
    """Return T, the rounds of a strategy.

    >>> strategy_steps(ev.DenseStrategy([[1.0, 0.0], [0.5, 1.0]]))
    2
    """
    steps = rounds_of(strategy)
    if steps is None:
        raise Unsupported(f"The strategy `{strategy.type}` has no matrix here.")
    return steps


def strategy_matrix(strategy: ev.Strategy) -> FloatArray:
    """Return C as an array of shape (rows, T).

    Raises `InvalidInput` for a strategy whose columns are linearly dependent: then B C^{-1} z does
    not exist, so some round cannot be released; `Unsupported` above `MAX_MATRIX_ENTRIES`.

    >>> strategy_matrix(ev.ToeplitzStrategy(3, [1.0, 0.5]))
    array([[1. , 0. , 0. ],
           [0.5, 1. , 0. ],
           [0. , 0.5, 1. ]])
    """
    match strategy:
        case ev.DenseStrategy(rows):
            _require_small(len(rows) * len(rows[0]))
            matrix = np.array(rows, np.float64)
            _require_independent_columns(matrix)
            return matrix
        case ev.TreeStrategy(steps, fan_out):
            return _tree(steps, fan_out)
    bands = column_bands(strategy)
    assert bands is not None
    steps = bands.shape[1]
    _require_small(steps * steps)
    matrix = np.zeros((steps, steps))
    for lag, band in enumerate(bands):
        rounds = np.arange(steps - lag)
        matrix[rounds + lag, rounds] = band[: steps - lag]
    return matrix


def toeplitz_coefficients(strategy: ev.Strategy) -> FloatArray | None:
    """Return c with C[i, j] = c[i - j], without zeros at its end, or None for another strategy."""
    match strategy:
        case ev.ToeplitzStrategy(steps, coefficients):
            require_steps(steps)
            return _trimmed(np.array(coefficients, np.float64))
        case ev.BufferedToeplitzStrategy(steps, decays, scales):
            require_steps(steps)
            return _trimmed(_buffered(steps, decays, scales))
        case _:
            return None


def column_bands(strategy: ev.Strategy) -> FloatArray | None:
    """Return an array with C[j + m, j] at [m, j], for a lower triangular strategy by its diagonals.

    Bands that hold only zeros at the end are left out.  None for a dense strategy and a tree.
    """
    if isinstance(strategy, ev.BandedStrategy):
        steps = len(strategy.diagonals[0])
        _require_small(steps * len(strategy.diagonals))
        bands = np.zeros((len(strategy.diagonals), steps))
        for lag, diagonal in enumerate(strategy.diagonals):
            bands[lag, : len(diagonal)] = diagonal
        used = np.flatnonzero(bands.any(axis=1))
        return np.asarray(bands[: used[-1] + 1])
    coefficients = toeplitz_coefficients(strategy)
    if coefficients is None:
        return None
    steps = strategy_steps(strategy)
    _require_small(steps * coefficients.size)
    rounds, lags = np.arange(steps), np.arange(coefficients.size)[:, None]
    return np.where(rounds + lags < steps, coefficients[:, None], 0.0)


@lru_cache(maxsize=8)
def _buffered(steps: int, decays: tuple[float, ...], scales: tuple[float, ...]) -> FloatArray:
    """Return the coefficients, each to a few roundings of itself or of 1e-40."""
    may_cancel = min(scales) < 0.0 < max(scales)
    if steps > 1 and (may_cancel or len(scales) > MAX_PLAIN_BUFFERS):
        return _cancelling(steps, decays, scales)
    coefficients = np.zeros(steps)
    coefficients[0] = 1.0
    powers = np.arange(steps - 1, dtype=np.float64)
    for decay, scale in zip(decays, scales, strict=True):
        coefficients[1:] += scale * decay**powers
    return coefficients


def _cancelling(steps: int, decays: tuple[float, ...], scales: tuple[float, ...]) -> FloatArray:
    """Return the coefficients, terms of either sign added up with as many digits as are lost."""
    if steps * len(scales) > MAX_CANCELLING_TERMS:
        raise Unsupported(
            f"The strategy is a sum of {steps * len(scales):,} terms of either sign.",
            f"They may cancel, and at most {MAX_CANCELLING_TERMS:,} are added up with the digits "
            "that this takes.",
            "Use fewer rounds, or scales of one sign.",
        )
    largest = max(map(abs, scales)) or 1.0
    digits = math.log10(largest) + math.log10(float(len(scales)) * steps)
    context = Context(prec=EXTRA_DIGITS + math.ceil(max(digits, 0.0)))
    factors = [Decimal(decay) for decay in decays]
    terms = [Decimal(scale) for scale in scales]
    coefficients = np.zeros(steps)
    coefficients[0] = 1.0
    for step in range(1, steps):
        total = Decimal(0)
        for term in terms:
            total = context.add(total, term)
        coefficients[step] = float(total)
        terms = [context.multiply(*each) for each in zip(terms, factors, strict=True)]
    return coefficients


def _trimmed(coefficients: FloatArray) -> FloatArray:
    used = np.flatnonzero(coefficients)
    return coefficients[: used[-1] + 1]


def _tree(steps: int, fan_out: int) -> FloatArray:
    """Return a row for every node all of whose rounds are among the first `steps`."""
    require_steps(steps)
    _require_small(steps * steps)
    levels = []
    width = 1
    while width <= steps:
        node_of = np.arange(steps) // width
        levels.append((np.arange(steps // width)[:, None] == node_of).astype(np.float64))
        width *= fan_out
    matrix = np.concatenate(levels)
    _require_small(matrix.size)
    return matrix


def _require_small(entries: int) -> None:
    if entries > MAX_MATRIX_ENTRIES:
        raise Unsupported(
            f"The strategy would be written down as {entries:.2g} numbers.",
            f"At most {MAX_MATRIX_ENTRIES:,} are.",
            "Use fewer rounds or bands, or a Toeplitz strategy with non-negative coefficients "
            "that never increase, whose sensitivity has a closed form.",
        )


def require_steps(steps: int) -> None:
    """Refuse more rounds than are computed with."""
    if steps > MAX_STRATEGY_STEPS:
        raise Unsupported(
            f"The strategy has {steps:,} rounds.",
            f"At most {MAX_STRATEGY_STEPS:,} are computed with.",
            "Use fewer rounds, or begin a new block with fresh noise: a Repeat.",
        )


def _require_independent_columns(matrix: FloatArray) -> None:
    empty = np.flatnonzero(~matrix.any(axis=0))
    if empty.size:
        raise InvalidInput(
            f"`strategy.rows` must not have a column of zeros; column {empty[0]} is one.",
            "The strategy is singular: no noised value holds that round, so none can release it.",
            "Give every round a noised value with it in it.",
        )
    rows, steps = matrix.shape
    if np.array_equal(matrix, np.tril(matrix)) and rows == steps and matrix.diagonal().all():
        return
    dependent = 0 if rows < steps else _first_dependent(matrix / np.abs(matrix).max(axis=0))
    if dependent is not None:
        which, why = f"{rows} rows are fewer", "The strategy is singular"
        if rows >= steps:
            which = f"column {dependent} is not, up to rounding"
            share = 16.0 * UNIT_ROUNDOFF * rows
            why = (
                "Up to rounding the strategy is singular: what the columns before it do not make "
                f"up is at most {share:.1e} of that column"
            )
        raise InvalidInput(
            f"`strategy.rows` must have {steps} linearly independent columns; {which}.",
            f"{why}, so some round cannot be computed from its noised values.",
            "Add rows, or account for the values that are released as Gaussian events.",
        )


def _first_dependent(matrix: FloatArray) -> int | None:
    """Return the first column that is a combination of those before it, up to rounding."""
    triangular: FloatArray = np.asarray(np.linalg.qr(matrix, mode="r"))
    left = np.abs(triangular.diagonal())
    lengths = np.sqrt((matrix * matrix).sum(axis=0))
    dependent = np.flatnonzero(left <= 16.0 * UNIT_ROUNDOFF * len(matrix) * lengths)
    return int(dependent[0]) if dependent.size else None
