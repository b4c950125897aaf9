"""Exact probabilities of what a noisy product draws, beside what its event proves."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import privplan as pp
from privplan.accountant.mechanisms import NoisyProduct, noisy_product
from privplan.accountant.mechanisms.gaussian import SMOOTHING
from privplan.accountant.mechanisms.product_grid import ProductGrid
from privplan.accountant.mechanisms.product_rows import ProductRows, basis_steps

from ..cases import for_each
from .mechanism_tickets import ticket_for
from .products import bound

COARSEST = ProductGrid(8, 8)
BLOCK = 2**20


def exact_delta(moved: int, parameter: float, epsilon: float, every: int = 1) -> float:
    """Return delta of a discrete Gaussian that moves by whole steps, summed over all integers.

    Of numbers within 9 parameters: beyond is less than 10^-18.  What all weights sum to is
    sqrt(2 pi) parameters, up to e^(-10^13) (Poisson summation).  With `every`, the middle stands
    for that many numbers next to each other.
    """
    whole = math.sqrt(2 * math.pi) * parameter
    # ln P(x) - ln P(x + moved) is (2 x moved + moved^2) / (2 parameter^2): above epsilon from here.
    first = math.floor((epsilon * 2 * parameter**2 / moved - moved) / 2) + 1
    total = 0.0
    for start in range(first, math.ceil(9 * parameter), BLOCK * every):
        x = start + 0.5 * (every - 1) + every * np.arange(BLOCK, dtype=np.float64)
        loss = (2.0 * x * moved + float(moved) ** 2) / (2 * parameter**2)
        weights = np.exp(-((x / parameter) ** 2) / 2)
        total += float(np.sum(weights * -np.expm1(epsilon - loss)))
    return total * every / whole


def drawn_parameter(mechanism: NoisyProduct) -> float:
    """Return the parameter of one share, from the formulas: R and s are 1."""
    share = mechanism.share_std * 2.0**mechanism.grid_bits.product_bits
    return math.sqrt(share**2 + SMOOTHING)


@for_each("epsilon", [0.5, 3.0, 8.0])
@for_each("noise", [0.25, 0.4])
def test_delta_of_a_row_is_at_most_what_the_event_proves(noise: float, epsilon: float) -> None:
    """The longest row along the longest direction comes: the pair that attains the bound."""
    mechanism = NoisyProduct(product=bound(dimension=1, rank=1), std=noise, grid_bits=COARSEST)
    (moved,) = ProductRows(mechanism, np.ones((1, 1))).total(basis_steps(np.ones((1, 1)), 8))
    assert moved == 2**24
    exact = exact_delta(int(moved), drawn_parameter(mechanism), epsilon, 16)
    if (noise, epsilon) == (0.25, 8.0):
        each = exact_delta(int(moved), drawn_parameter(mechanism), epsilon)
        assert exact == pytest.approx(each, rel=1e-11)
    proven = pp.account(mechanism.event("add-remove"), epsilon=epsilon).delta
    assert 0.999 * proven.upper <= exact <= proven.upper
    # A row that moved a thousandth more would be seen.
    assert exact_delta(2**24 + 2**14, drawn_parameter(mechanism), epsilon, 16) > proven.upper


def test_delta_of_two_rows_that_come_back_apart_is_what_the_event_proves() -> None:
    """Two silos' products move by R^2 / s each: one number along the diagonal, by sqrt(2)."""
    mechanism = NoisyProduct(product=bound(dimension=1, rank=1), std=0.4, grid_bits=COARSEST)
    event = mechanism.event("replace-one")
    # Noise is the same in every direction, so only the length of the difference counts.
    moved = math.isqrt(2 * 4**24)
    exact = exact_delta(moved, drawn_parameter(mechanism), 3.0, 16)
    proven = pp.account(event, epsilon=3.0, neighbours="replace-one").delta
    assert 0.999 * proven.upper <= exact <= proven.upper


@for_each(("shares", "dropouts"), [(1, 0), (5, 2)])
def test_what_is_drawn_has_the_parameter_of_the_formula(
    monkeypatch: pytest.MonkeyPatch, shares: int, dropouts: int
) -> None:
    """The sampler is asked for this parameter and no other, rounded up."""
    asked: list[tuple[int, float]] = []

    def remember(_stream: object, count: int, scale: float) -> np.ndarray:
        asked.append((count, scale))
        return np.zeros(count, np.int64)

    monkeypatch.setattr(noisy_product, "discrete_gaussian", remember)
    product = bound(row_norm=0.3, divisor=7.0)
    mechanism = NoisyProduct(
        product=product,
        std=0.123,
        grid_bits=ProductGrid(11, 13),
        shares=shares,
        tolerated_dropouts=dropouts,
    )
    ticket = ticket_for(mechanism)
    mechanism.share_steps(ticket, np.zeros(18, np.int64), "a")
    mechanism.extra_steps(ticket, np.zeros(18, np.int64), "server")
    step = Fraction(0.3) ** 2 / 7 / 2**35
    square = Fraction(0.123) ** 2 / (shares - dropouts) / step**2 + SMOOTHING
    for count, scale in asked:
        assert count == 18
        assert square <= Fraction(scale) ** 2 <= square * (1 + Fraction(1, 10**14))
    assert len(asked) == 2
