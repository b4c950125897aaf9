"""Laplace and discrete mechanisms: events, exact clipping, noise that has its stated law."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Laplace,
    RoundDescription,
)
from privplan.accountant.mechanisms.integers import clipped_integers

from ..cases import for_each
from .mechanism_tickets import LEAST_P, RELATIONS, USERS, ticket_for


def test_laplace_events() -> None:
    own = Laplace(bound=0.5, scale=2.0, dimensions=7)
    assert [own.event(one) for one in RELATIONS] == [ev.Laplace(4.0)] * 3
    assert [own.sensitivity(one) for one in RELATIONS] == [0.5, 1.0, 0.5]
    assert own.event("add-remove", USERS) == ev.Poisson(0.25, ev.Laplace(4.0))
    stated = own.intent(RoundDescription(1, "train"), "add-remove")
    assert stated.contribution.norm == "l1"
    assert stated.noise == records.Noise("laplace", 2.0, 1, 2.0, 0, 1, own.grid)


@for_each("kind", [Laplace, DiscreteLaplace])
def test_sampled_laplace_vectors_are_refused_under_replace_one(kind: Any) -> None:
    vector, single = kind(1, 2.0, dimensions=2), kind(1, 2.0)
    with pytest.raises(Unsupported, match="one dimension"):
        vector.event("replace-one", USERS)
    assert vector.event("replace-one", replace(USERS, rate=1.0)) == single.event("replace-one")
    assert vector.event("add-remove", USERS) == single.event("add-remove", USERS)
    single.event("replace-one", USERS)


def test_laplace_noise_and_shift() -> None:
    own = Laplace(bound=0.5, scale=2.0, dimensions=100_000)
    count = own.dimensions
    nothing = np.zeros(count, dtype=np.int64)
    noise = own.noisy(ticket_for(own), nothing, "a")
    assert stats.kstest(noise / own.scale, "laplace").pvalue > LEAST_P
    total = own.total(np.ones((1, count)))
    assert int(np.abs(total).sum()) * Fraction(own.grid) <= Fraction(own.bound)
    shifted = own.noisy(ticket_for(own), total + 5, "a")
    assert (shifted - noise == (total + 5) * own.grid).all()


def test_laplace_l1_clip_is_exact_and_close() -> None:
    own = Laplace(bound=0.5, scale=2.0, dimensions=3)
    total = own.total([[3.0, -4.0, 1.0]])
    size = int(np.abs(total).sum()) * Fraction(own.grid)
    assert Fraction(1, 2) - 4 * Fraction(own.grid) < size <= Fraction(1, 2)


def test_vectors_longer_than_stated_are_refused() -> None:
    for own in (Laplace(1.0, 2.0), DiscreteLaplace(1, 2.0), DiscreteGaussian(1, 2.0)):
        with pytest.raises(Unsupported, match="coordinates"):
            own.noisy(ticket_for(own), np.zeros(2, dtype=np.int64), "a")


def test_discrete_events() -> None:
    assert DiscreteGaussian(3, 6.0).event("add-remove") == ev.DiscreteGaussian(2.0, 3)
    assert DiscreteLaplace(3, 6.0).event("replace-one") == ev.DiscreteLaplace(2.0, 3)
    assert DiscreteLaplace(3, 6.0, dimensions=9).event("add-remove") == ev.DiscreteLaplace(2.0, 3)
    vector = DiscreteGaussian(3, 6.0, dimensions=9)
    assert vector.event("add-remove") == ev.ZCDP(0.125)
    assert vector.event("replace-one") == ev.ZCDP(0.5)
    wide = replace(vector, scale=100.0)
    found = wide.event("add-remove")
    assert isinstance(found, ev.Gaussian)
    assert 0.995 * 100 / 3 < found.noise_multiplier <= math.sqrt(100.0**2 - 64) / 3
    third = DiscreteGaussian(3, 1.0).event("add-remove")
    assert isinstance(third, ev.DiscreteGaussian)
    assert Fraction(third.noise_multiplier) * 3 <= 1


def test_discrete_sensitivities_and_noise() -> None:
    own = DiscreteGaussian(3, 6.0)
    assert [own.sensitivity(one) for one in RELATIONS] == [3.0, 6.0, 3.0]
    stated = own.intent(RoundDescription(1, "count", draws=2), "add-remove")
    assert stated.noise == records.Noise("discrete-gaussian", 6.0, 1, 6.0, 0, 2, 1.0)
    assert stated.contribution == records.Contribution(3.0, "l2", "user")
    laplace = DiscreteLaplace(3, 6.0).intent(RoundDescription(1, "count"), "add-remove")
    assert laplace.contribution.norm == "l1"


def test_integers_within_the_bound_are_counted_as_they_are() -> None:
    assert DiscreteGaussian(1, 4.0).total(np.ones(100, dtype=np.int64)).tolist() == [100]
    assert DiscreteLaplace(5, 4.0).total([5, -5, 9, -70, 2]).tolist() == [2]
    one_hot = np.eye(4, dtype=np.int64)[[0, 0, 2, 3]]
    assert DiscreteGaussian(1, 4.0, dimensions=4).total(one_hot).tolist() == [2, 0, 1, 1]
    assert DiscreteGaussian(5, 4.0, dimensions=2).total([[3, 4]]).tolist() == [3, 4]
    assert DiscreteLaplace(1, 4.0).total(np.array([True, False, True])).tolist() == [2]
    assert DiscreteLaplace(1, 4.0).total(np.array([2**64 - 1], dtype=np.uint64)).tolist() == [1]
    assert DiscreteLaplace(1, 4.0).total(np.empty(0, dtype=np.int64)).tolist() == [0]


ANY_INTEGER = st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)


@given(
    rows=st.lists(st.lists(ANY_INTEGER, min_size=3, max_size=3)),
    bound=st.integers(1, 2**40) | st.integers(1, 20),
    norm=st.sampled_from(["l1", "l2"]),
)
def test_integer_rows_keep_their_bound_exactly(
    rows: list[list[int]], bound: int, norm: Any
) -> None:
    table = np.array(rows, dtype=np.int64).reshape(len(rows), 3)
    for row, made in zip(rows, clipped_integers(table, bound, norm).tolist(), strict=True):
        power = 1 if norm == "l1" else 2
        assert sum(abs(z) ** power for z in made) <= bound**power
        if sum(abs(z) ** power for z in row) <= bound**power:
            assert made == row
        for now, before in zip(made, row, strict=True):
            assert now * before >= 0
            assert abs(now) <= abs(before)


@for_each("values", [[1.5], [[[1]]], ["a"], [None], 3])
def test_terms_are_integers(values: Any) -> None:
    with pytest.raises(InvalidInput, match="integers"):
        DiscreteGaussian(1, 4.0).total(values)


@for_each("kind", [DiscreteGaussian, DiscreteLaplace])
def test_discrete_noise_has_its_law(kind: Any) -> None:
    """False alarm: below 1e-6 over seeds."""
    count, scale = 200_000, 3.3
    own = kind(1, scale, dimensions=count)
    noise = own.noisy(ticket_for(own), np.full(count, 7, dtype=np.int64), "a") - 7
    x = np.arange(-200, 201)
    exponent = x**2 / (2 * scale**2) if kind is DiscreteGaussian else np.abs(x) / scale
    expected = np.exp(-exponent) / np.exp(-exponent).sum() * count
    near = np.abs(x) <= 9
    counts = np.array([np.count_nonzero(noise == value) for value in x[near]])
    found = [*counts, count - counts.sum()]
    ideal = [*expected[near], expected[~near].sum()]
    assert stats.chisquare(found, ideal).pvalue > LEAST_P


DISCRETE = {"bound": (0, 1.5, 2**41), "scale": (0.0, 2.0**41), "dimensions": (0,)}
CONTINUOUS = {"bound": (0.0,), "scale": (0.0, math.inf, 1e-12), "dimensions": (0,)}


@for_each(
    ("kind", "refused"),
    [(DiscreteGaussian, DISCRETE), (DiscreteLaplace, DISCRETE), (Laplace, CONTINUOUS)],
)
def test_values_out_of_range_are_refused(kind: Any, refused: dict[str, Any]) -> None:
    for name, values in refused.items():
        for value in values:
            with pytest.raises(InvalidInput):
                kind(**{"bound": 1, "scale": 2.0, name: value})


@for_each("split", [(1, 1), (2, 1), (2, 2), (3, 1)])
@for_each("scale", [0.7, 2.0])
def test_laplace_vectors_reveal_no_more_than_one_coordinate(
    split: tuple[int, int], scale: float
) -> None:
    """Two shifts by k_1 and k_2 against one by k_1 + k_2, at every epsilon, on a sample or not."""
    x = np.arange(-60, 61)

    def law(shift: int) -> np.ndarray:
        weights = np.exp(-np.abs(x - shift) / scale)
        return weights / weights.sum()

    together = (law(sum(split)), law(0))
    apart = (np.outer(law(split[0]), law(split[1])), np.outer(law(0), law(0)))
    for rate in (1.0, 0.2):
        for epsilon in np.linspace(-2.0, sum(split) / scale + 0.5, 23):
            deltas = []
            for p, q in (together, apart):
                mixed = rate * p + (1 - rate) * q
                gained, lost = mixed - math.exp(epsilon) * q, q - math.exp(epsilon) * mixed
                deltas.append([float(np.maximum(each, 0.0).sum()) for each in (gained, lost)])
            assert deltas[1][0] <= deltas[0][0] + 1e-12
            assert deltas[1][1] <= deltas[0][1] + 1e-12


@for_each("scale", [0.8, 2.0, 6.0])
def test_gaussian_vectors_keep_their_zcdp(scale: float) -> None:
    """The Renyi divergence of two shifted coordinates, by summing, at several orders."""
    own = DiscreteGaussian(2, scale, dimensions=2)
    stated = own.event("add-remove")
    assert isinstance(stated, ev.ZCDP)
    x = np.arange(-120, 121)
    for shift in ((2, 0), (1, 1)):
        for order in (1.5, 2.0, 4.5):
            total = 0.0
            for step in shift:
                p, q = -((x - step) ** 2) / (2 * scale**2), -(x**2) / (2 * scale**2)
                terms = np.exp(order * p + (1 - order) * q)
                total += math.log(terms.sum() / np.exp(q).sum()) / (order - 1)
            assert total <= order * stated.rho * (1 + 1e-12)
