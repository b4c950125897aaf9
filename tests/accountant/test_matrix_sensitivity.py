"""The sensitivity of C under a participation: enumeration, published values, laws, rounding.

Oracles: `tests/accountant/strategies.py` goes through all patterns, all signs and random vectors.
Published: tests/matrix_factorization/sensitivity_test.py of google-deepmind/jax_privacy 8967688.
"""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.sensitivity.matrix import column_bands, sensitivity_bounds, strategy_matrix

from ..cases import for_each
from .strategies import by_magnitudes, by_ones, by_signs, by_vectors

SINGLE = ev.SingleParticipation()
TIGHT = 1e-9


def separated(most: int, separation: int) -> ev.SeparatedParticipation:
    return ev.SeparatedParticipation(most, separation)


TRIANGLE = ev.DenseStrategy([[1, -1, 0], [0, 1, -1], [1, 0, -1], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
"""C^T C is 3 on the diagonal and -1 elsewhere: three contributions that repel one another."""


def test_strategies_as_matrices() -> None:
    banded = ev.BandedStrategy([[1, 2, 3], [4, 5]])
    assert strategy_matrix(banded).tolist() == [[1, 0, 0], [4, 2, 0], [0, 5, 3]]
    toeplitz = ev.ToeplitzStrategy(3, [2, 1])
    assert strategy_matrix(toeplitz).tolist() == [[2, 0, 0], [1, 2, 0], [0, 1, 2]]
    buffered = ev.BufferedToeplitzStrategy(4, [0.5, 1.0], [2.0, 0.25])
    assert strategy_matrix(buffered)[:, 0].tolist() == [1.0, 2.25, 1.25, 0.75]
    tree = strategy_matrix(ev.TreeStrategy(5, 2))
    assert tree.sum(axis=1).tolist() == [1, 1, 1, 1, 1, 2, 2, 4]
    assert tree.sum(axis=0).tolist() == [3, 3, 3, 3, 1]  # the fifth round is in no whole node


@for_each(
    "strategy",
    [
        ev.BandedStrategy([[1, 2, 3, 1], [4, 5, 2], [0, 0]]),
        ev.ToeplitzStrategy(5, [2, 1, 0.5]),
        ev.BufferedToeplitzStrategy(6, [0.5], [-0.25]),
    ],
)
def test_bands_hold_what_the_matrix_holds(strategy: ev.Strategy) -> None:
    bands, matrix = column_bands(strategy), strategy_matrix(strategy)
    assert bands is not None
    assert bands[-1].any()
    for lag, band in enumerate(bands):
        assert band[: len(matrix) - lag].tolist() == matrix.diagonal(-lag).tolist()
    assert not np.tril(matrix, -len(bands)).any()


PUBLISHED = [[1, 0, 0, 0], [2, 1, 0, 0], [0, 1, 1, 0], [0, 0, 3, -6]]
BANDED = [[1, 2 - 1, 1, -6], [2, 1, 1]]


@for_each(
    ("rows", "expected"),
    [(PUBLISHED, 6.0), ([row[:3] for row in PUBLISHED[:3]], math.sqrt(5)), ([[3]], 3.0)],
)
def test_single_participation_as_jax_privacy_has_it(rows, expected) -> None:
    found = sensitivity_bounds(ev.DenseStrategy(rows), SINGLE)
    assert found.exact
    assert found.bounds.lower <= expected <= found.bounds.upper
    assert found.bounds.upper == pytest.approx(expected, rel=1e-12)


@for_each("separation", [2, 3])
@for_each(
    "strategy",
    [
        ev.BandedStrategy(BANDED),
        ev.DenseStrategy([[1, 0, 0, 0], [2, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, -6]]),
    ],
)
def test_root_41_under_a_minimum_separation(strategy, separation) -> None:
    found = sensitivity_bounds(strategy, separated(4, separation))
    assert found.exact
    assert found.bounds.upper == pytest.approx(math.sqrt(41), rel=1e-12)


def test_equal_contributions_are_too_few() -> None:
    """[[1, 0], [-1, 1]]: 1.41 with ones, 2.24 with signs."""
    twice = separated(2, 1)
    strategy = ev.DenseStrategy([[1, 0], [-1, 1]])
    assert by_ones(strategy_matrix(strategy), twice) == pytest.approx(math.sqrt(2))
    found = sensitivity_bounds(strategy, twice)
    assert found.bounds.lower <= math.sqrt(5) <= found.bounds.upper
    assert found.bounds.upper == pytest.approx(math.sqrt(5), rel=1e-12)


def test_vectors_exceed_signs_and_magnitudes_exceed_vectors() -> None:
    """Signs give 11, three vectors at 120 degrees 12 (y = 4 proves it), |C^T C| 15."""
    each = ev.EpochParticipation(3)
    matrix = strategy_matrix(TRIANGLE)
    assert by_signs(matrix, each) == pytest.approx(math.sqrt(11))
    assert by_magnitudes(matrix, each) == pytest.approx(math.sqrt(15))
    found = sensitivity_bounds(TRIANGLE, each)
    assert found.exact
    assert found.dimensions > 1
    assert found.bounds.lower <= math.sqrt(12) <= found.bounds.upper
    assert found.bounds.upper == pytest.approx(math.sqrt(12), rel=1e-8)


@for_each(("steps", "levels"), [(1, 1), (2, 2), (7, 3), (8, 4), (100, 7), (128, 8), (1000, 10)])
def test_binary_trees_as_dp_accounting_counts_their_levels(steps, levels) -> None:
    """Its rho of one epoch is (levels) / (2 noise^2), with ceil(log2(steps + 1)) levels."""
    assert levels == math.ceil(math.log2(steps + 1))
    found = sensitivity_bounds(ev.TreeStrategy(steps, 2), SINGLE)
    assert found.bounds.upper == pytest.approx(math.sqrt(levels), rel=1e-9)
    assert found.bounds.lower <= math.sqrt(levels) <= found.bounds.upper


def _random_strategy(generator: np.random.Generator, steps: int) -> ev.Strategy:
    kind = int(generator.integers(6))
    if kind == 0:
        rows = generator.standard_normal((steps + int(generator.integers(3)), steps))
        return ev.DenseStrategy(rows.round(2).tolist())
    if kind == 1:
        lower = np.tril(generator.integers(-2, 3, (steps, steps)), -1) + np.eye(steps)
        return ev.DenseStrategy(lower.tolist())
    if kind == 2:
        others = generator.standard_normal(int(generator.integers(steps)))
        return ev.ToeplitzStrategy(steps, [1.0, *others.tolist()])
    if kind == 3:
        falling = np.sort(generator.random(int(generator.integers(1, steps + 1))) + 0.1)[::-1]
        return ev.ToeplitzStrategy(steps, falling.tolist())
    if kind == 4:
        bands = range(int(generator.integers(1, steps + 1)))
        return ev.BandedStrategy([generator.standard_normal(steps - m).tolist() for m in bands])
    return ev.TreeStrategy(steps, int(generator.integers(2, 4)))


def _random_participation(generator: np.random.Generator, steps: int) -> ev.Participation:
    kind = int(generator.integers(4))
    if kind == 0:
        return SINGLE
    if kind == 1:
        return separated(int(generator.integers(1, 5)), int(generator.integers(1, steps + 2)))
    if kind == 2:
        divisors = [each for each in range(1, steps + 1) if steps % each == 0]
        return ev.EpochParticipation(int(generator.choice(divisors)))
    return ev.BallsInBins(int(generator.integers(1, steps + 1)))


@pytest.mark.quick(4)
@for_each("seed", range(16))
def test_small_strategies_enumerated(seed: int) -> None:
    """All patterns with all signs, and random vectors of 2 and 3 numbers, for up to 6 rounds."""
    generator = np.random.default_rng(seed)
    for _ in range(25):
        steps = int(generator.integers(1, 7))
        strategy = _random_strategy(generator, steps)
        participation = _random_participation(generator, steps)
        matrix = strategy_matrix(strategy)
        found = sensitivity_bounds(strategy, participation)
        lower, upper = found.bounds.lower, found.bounds.upper
        signs = by_signs(matrix, participation)
        magnitudes = by_magnitudes(matrix, participation)
        vectors = max(by_vectors(matrix, participation, generator, d, 200) for d in (2, 3))
        assert max(signs, vectors) <= upper * (1 + 1e-12)
        assert signs * (1 - TIGHT) <= lower <= upper <= magnitudes * (1 + TIGHT)
        assert upper - lower <= 1e-5 * upper
        if found.exact and found.dimensions == 1:
            assert upper == pytest.approx(signs, rel=1e-8)


@pytest.mark.quick(4)
@for_each("seed", range(10))
def test_the_earliest_rounds_are_the_worst_where_coefficients_never_increase(seed: int) -> None:
    """Kalinin and Lampert 2024, Theorem 2, against every pattern."""
    generator = np.random.default_rng(seed)
    for _ in range(10):
        steps = int(generator.integers(1, 10))
        falling = np.sort(generator.random(int(generator.integers(1, steps + 1))))[::-1] + 1e-3
        strategy = ev.ToeplitzStrategy(steps, falling.tolist())
        participation = separated(
            int(generator.integers(1, 5)), int(generator.integers(1, steps + 1))
        )
        matrix = strategy_matrix(strategy)
        found = sensitivity_bounds(strategy, participation)
        assert found.exact
        assert found.bounds.upper == pytest.approx(by_ones(matrix, participation), rel=1e-9)
        rounds = range(0, steps, participation.separation)[: participation.most]
        earliest = float(np.linalg.norm(matrix[:, list(rounds)].sum(axis=1)))
        assert found.bounds.upper == pytest.approx(earliest, rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(-2, 2), min_size=1, max_size=5),
    st.integers(6, 12),
    st.integers(1, 4),
    st.integers(1, 6),
)
def test_more_rounds_never_move_less(others, steps, most, separation) -> None:
    strategy = ev.ToeplitzStrategy(steps, [1.0, *others])
    found = sensitivity_bounds(strategy, separated(most, separation)).bounds
    more = sensitivity_bounds(strategy, separated(most + 1, separation)).bounds
    closer = sensitivity_bounds(strategy, separated(most, max(separation - 1, 1))).bounds
    single = sensitivity_bounds(strategy, SINGLE).bounds
    assert found.lower <= more.upper
    assert found.lower <= closer.upper
    assert single.lower <= found.upper <= most * single.upper * (1 + 1e-9)


def test_separation_that_leaves_no_second_round_is_a_single_participation() -> None:
    strategy = ev.DenseStrategy(PUBLISHED)
    single = sensitivity_bounds(strategy, SINGLE).bounds
    assert sensitivity_bounds(strategy, separated(9, 4)).bounds == single
    assert sensitivity_bounds(strategy, separated(9, 10**9)).bounds == single
    assert sensitivity_bounds(strategy, ev.EpochParticipation(1)).bounds == single
    assert sensitivity_bounds(strategy, ev.BallsInBins(4)).bounds == single


def test_every_kind_of_strategy_agrees_with_its_dense_form() -> None:
    """Closed forms and dynamic programmes, against enumeration of the same matrix."""
    strategies = [
        ev.ToeplitzStrategy(10, [1.0, 0.5, 0.25]),
        ev.ToeplitzStrategy(10, [1.0, -0.5, 0.25]),
        ev.BandedStrategy([list(range(1, 11)), [0.5] * 9]),
        ev.BufferedToeplitzStrategy(10, [0.9, 0.3], [0.2, 0.1]),
        ev.BufferedToeplitzStrategy(10, [0.9, 0.3], [0.2, -0.4]),
    ]
    for participation in (SINGLE, separated(3, 2), separated(4, 1), ev.EpochParticipation(5)):
        for strategy in strategies:
            quick = sensitivity_bounds(strategy, participation)
            rows = strategy_matrix(strategy).tolist()
            dense = sensitivity_bounds(ev.DenseStrategy(rows), participation)
            assert quick.exact
            assert dense.exact
            assert quick.bounds.lower <= dense.bounds.upper
            assert dense.bounds.lower <= quick.bounds.upper


def test_many_rounds_have_closed_forms() -> None:
    decaying = ev.BufferedToeplitzStrategy(100_000, [0.999, 0.9], [0.01, 0.2])
    assert sensitivity_bounds(decaying, separated(50, 2000)).exact
    banded = ev.ToeplitzStrategy(100_000, [1.0, -0.5, 0.3, 0.1])
    found = sensitivity_bounds(banded, separated(100, 4))
    assert found.exact
    assert found.bounds.upper == pytest.approx(10.0 * math.sqrt(1.35), rel=1e-9)
    assert sensitivity_bounds(banded, ev.EpochParticipation(10)).exact


def test_ends_are_rounded_outward_of_exact_fractions() -> None:
    from fractions import Fraction

    generator = np.random.default_rng(8)
    for _ in range(50):
        column = generator.random(6) + 0.01
        rows = np.diag(column[:1].tolist() + [1e-6] * 5)
        rows[:, 0] = column
        exact = sum((Fraction(float(each)) ** 2 for each in column), Fraction(0))
        found = sensitivity_bounds(ev.DenseStrategy(rows.tolist()), SINGLE).bounds
        assert Fraction(found.lower) ** 2 <= exact <= Fraction(found.upper) ** 2
        assert found.upper - found.lower <= 1e-13 * found.upper


@for_each(
    ("rows", "field"),
    [
        ([[1, 0], [1, 0]], "`strategy.rows` must not have a column of zeros; column 1"),
        ([[1, 1], [2, 2]], "`strategy.rows` must have 2 linearly independent columns"),
        ([[1, 1]], "`strategy.rows` must have 2 linearly independent columns; 1 rows"),
        ([[1, 2, 3], [4, 5, 9], [6, 1, 7]], "independent columns; column 2 is not"),
        ([[0.1, 0.3], [0.2, 0.6]], "`strategy.rows` must have 2 linearly independent columns"),
    ],
)
def test_a_singular_dense_strategy_is_refused(rows, field) -> None:
    with pytest.raises(InvalidInput, match=re.escape(field)):
        sensitivity_bounds(ev.DenseStrategy(rows), SINGLE)


@for_each(
    ("make", "complaint"),
    [
        (lambda: ev.BandedStrategy([[1, 0, 1], [0.5, 0.5]]), "`diagonals[0][1]` must not be 0"),
        (lambda: ev.ToeplitzStrategy(3, [0, 1]), "`coefficients[0]` must not be 0"),
        (lambda: ev.ToeplitzStrategy(2, [1, 1, 1]), "`coefficients` must be at most 2"),
        (
            lambda: ev.BufferedToeplitzStrategy(3, [0.5], [1.0, 2.0]),
            "`scales` must be as many as `decays`, 1",
        ),
        (lambda: ev.BufferedToeplitzStrategy(3, [1.5], [1.0]), "`decays[0]` must be a number in"),
    ],
)
def test_a_strategy_that_is_none_is_refused_at_once(make, complaint) -> None:
    with pytest.raises(InvalidInput, match=re.escape(complaint)):
        make()


def test_participations_that_do_not_fit_are_refused() -> None:
    strategy = ev.ToeplitzStrategy(10, [1.0, 0.5])
    with pytest.raises(
        InvalidInput, match=r"`participation.epochs` must divide the 10 rounds"
    ) as e:
        sensitivity_bounds(strategy, ev.EpochParticipation(4))
    assert "Give 2 epochs" in e.value.next_step
    with pytest.raises(InvalidInput, match=r"`participation.bins` must be at most the 10 rounds"):
        sensitivity_bounds(strategy, ev.BallsInBins(11))


@for_each(
    ("strategy", "rounds"),
    [
        (ev.DenseStrategy([[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.0, 0.5, 1.0]]), 3),
        (ev.BandedStrategy([[1.0, 1.0, 1.0], [0.5, 0.5]]), 3),
        (ev.ToeplitzStrategy(10, [1.0, 0.5]), 10),
        (ev.BufferedToeplitzStrategy(10, [0.9], [0.3]), 10),
        (ev.TreeStrategy(10, 2), 10),
    ],
)
def test_an_event_is_refused_when_it_is_made_where_the_participation_does_not_fit(
    strategy, rounds
) -> None:
    with pytest.raises(InvalidInput, match=f"`participation.epochs` must divide the {rounds} ro"):
        ev.MatrixGaussian(1.0, strategy, ev.EpochParticipation(4))
    with pytest.raises(InvalidInput, match=f"`participation.bins` must be at most the {rounds} ro"):
        ev.MatrixGaussian(1.0, strategy, ev.BallsInBins(rounds + 1))
    ev.MatrixGaussian(1.0, strategy, ev.EpochParticipation(rounds))
    ev.MatrixGaussian(1.0, strategy, ev.BallsInBins(rounds))


@for_each("neighbours", ["add-remove", "zero-out", "replace-one"])
def test_the_sensitivity_can_be_asked_for_by_itself(neighbours: str) -> None:
    strategy, participation = ev.DenseStrategy([[1.0, 0.0], [-1.0, 1.0]]), ev.EpochParticipation(2)
    moved = pp.sensitivity(strategy, participation, neighbours=neighbours)
    far = 2.0 if neighbours == "replace-one" else 1.0
    assert moved.bounds.lower <= far * math.sqrt(5.0) <= moved.bounds.upper
    assert moved.exact
    # A run with that noise is one Gaussian release of noise over sensitivity.
    run = ev.MatrixGaussian(3.0, strategy, participation)
    plain = ev.Gaussian(3.0 / moved.bounds.upper)
    there = pp.account(run, delta=1e-5, neighbours=neighbours).epsilon.upper
    assert there == pytest.approx(pp.account(plain, delta=1e-5).epsilon.upper, rel=1e-6)
    with pytest.raises(InvalidInput, match="`strategy` must be a strategy; it is"):
        pp.sensitivity(run, participation)
    with pytest.raises(InvalidInput, match="`participation` must be a participation"):
        pp.sensitivity(strategy, 3)


@for_each(
    "strategy",
    [
        ev.TreeStrategy(10**8, 2),
        ev.ToeplitzStrategy(10**18, [1.0, 0.5]),
        ev.BufferedToeplitzStrategy(10**5, [0.5], [-1.0]),
        ev.DenseStrategy((np.eye(2) * 1e-200).tolist()),
        ev.DenseStrategy([[1e200, 1e200], [-1e200, 1e200]]),
    ],
)
def test_what_is_too_large_or_extreme_is_refused(strategy) -> None:
    with np.errstate(over="ignore"), pytest.raises(Unsupported, match=r"rounds|numbers|extreme"):
        sensitivity_bounds(strategy, separated(3, 1))
