"""The Gaussian mechanism: sensitivities, events by relation, and noise of the stated law."""

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
from privplan.accountant.mechanisms import Gaussian
from privplan.accountant.mechanisms.gaussian import SMOOTHING
from privplan.accountant.sensitivity import uldp

from ..cases import for_each
from .mechanism_tickets import LEAST_P, RELATIONS, ticket_for


def test_gaussian_sensitivities() -> None:
    plain = Gaussian(bound=0.5, std=2.0)
    assert [plain.sensitivity(one) for one in RELATIONS] == [0.5, 1.0, 0.5]
    weighted = replace(plain, weights=records.Weights("records", 0.75))
    assert [weighted.sensitivity(one) for one in RELATIONS] == [0.375, 0.75, 0.375]
    silos = replace(plain, terms="silo-delta", shares=4)
    assert [silos.sensitivity(one) for one in RELATIONS] == [4.0, 4.0, 4.0]


def test_gaussian_events_by_relation() -> None:
    """The multiplier is in contribution bounds, of which replace-one moves two."""
    plain = Gaussian(bound=0.5, std=2.0)
    assert [plain.event(one) for one in RELATIONS] == [ev.Gaussian(4.0)] * 3
    silos = replace(plain, terms="silo-delta", shares=4)
    assert [silos.event(one).noise_multiplier for one in RELATIONS] == [0.5, 1.0, 0.5]  # type: ignore[attr-defined]


@for_each("relation", ["replace-one", "zero-out"])
def test_silos_updates_on_a_sample_have_no_event_where_a_unit_is_exchanged(relation: str) -> None:
    """Without the unit the sum is 2C away from both; two Gaussians C apart from it miss that."""
    own = Gaussian(1.0, 8.0, terms="silo-delta")
    sampling = records.Sampling("poisson", "user", 0.1, "server")
    with pytest.raises(Unsupported, match="Silos' updates on a sample"):
        own.event(relation, sampling, 100)
    assert own.event("add-remove", sampling) == ev.Poisson(0.1, ev.Gaussian(4.0))


def test_naive_uldp_has_the_event_of_its_release() -> None:
    """Every silo adds sigma C |S|^(1/2): noise sigma C |S| in all, on what moves by 2 C |S|."""
    sigma, clip, silos = 5.0, 0.125, 4
    own = Gaussian(clip, sigma * clip * silos, shares=silos, terms="silo-delta")
    assert own.share_std == sigma * clip * math.sqrt(silos)
    release = uldp.naive_release(sigma, rounds=1, silos=silos)
    assert own.event("add-remove") == release.event
    assert own.sensitivity("add-remove") == uldp.naive_sensitivity(clip, silos).l2


@given(
    bound=st.floats(1e-3, 1e3),
    ratio=st.floats(1e-2, 1e3),
    shares=st.integers(1, 40),
    dropouts=st.integers(0, 5),
    largest=st.floats(0.01, 3.0),
    relation=st.sampled_from(RELATIONS),
    terms=st.sampled_from(["unit", "silo-delta"]),
)
def test_gaussian_never_states_more_noise_than_there_is(
    bound: float,
    ratio: float,
    shares: int,
    dropouts: int,
    largest: float,
    relation: str,
    terms: Any,
) -> None:
    weights, missing = records.Weights("none", largest), min(dropouts, shares - 1)
    own = Gaussian(bound, bound * ratio, shares, terms, weights, tolerated_dropouts=missing)
    event, reach = own.event(relation), 2 if relation == "replace-one" else 1
    assert isinstance(event, ev.Gaussian)
    times = 2 * shares if terms == "silo-delta" else reach
    moved = Fraction(bound) * Fraction(largest) * times
    assert Fraction(own.sensitivity(relation)) >= moved
    assert Fraction(event.noise_multiplier) * moved <= Fraction(own.std) * reach
    # what the log lets others compute: the same multiplier, from its own numbers
    noise = own.noise()
    least = noise.shares - noise.tolerated_dropouts
    assert least * Fraction(noise.share_std) ** 2 >= Fraction(noise.std) ** 2
    assert noise.share_std <= noise.std / math.sqrt(least) * (1 + 1e-15)
    # the noise that is drawn has the stated variance and the smoothing on top
    steps = Fraction(own._parameter) ** 2
    assert steps >= (Fraction(own.share_std) / Fraction(own.grid)) ** 2 + SMOOTHING
    assert math.frexp(own.grid)[0] == 0.5
    assert 2**20 <= own.share_std / own.grid < 2**21


@given(
    st.floats(0.01, 100.0),
    st.floats(1e-3, 1e3),
    st.sampled_from(RELATIONS),
    st.integers(1, 9),
    st.sampled_from(["unit", "silo-delta"]),
)
def test_with_multiplier_gives_at_least_that_and_hardly_more(
    noise: float, bound: float, relation: str, shares: int, terms: Any
) -> None:
    own = Gaussian.with_multiplier(
        noise, bound=bound, relation=relation, shares=shares, terms=terms
    )
    event = own.event(relation)
    assert isinstance(event, ev.Gaussian)
    assert noise <= event.noise_multiplier <= noise * (1 + 1e-15)


@for_each(
    ("field", "values", "said"),
    [
        ("bound", (0.0, math.inf, math.nan, -1.0), "bound"),
        ("std", (0.0, math.inf, math.nan, True), "std"),
        ("shares", (0, 2.5), "shares"),
        ("tolerated_dropouts", (1, -1), "tolerated_dropouts"),
        ("terms", ("whole",), "terms"),
        ("weights", (records.Weights("none", 0.0),), "largest_sum"),
        ("weights", (records.Weights("none", math.inf),), "largest_sum"),
        # A bound of 2^60 steps; and every term would be cut to zero.
        ("std", (1e-12, 2.0**21), "steps of the grid"),
    ],
)
def test_gaussian_refuses_values_out_of_range(field: str, values: Any, said: str) -> None:
    for value in values:
        with pytest.raises(InvalidInput, match=said):
            Gaussian(**{"bound": 1.0, "std": 1.0, field: value})
    with pytest.raises(InvalidInput, match="neighbours"):
        Gaussian(1.0, 1.0).event("swap")


def test_neighbours_differ_by_whole_steps_under_the_same_noise() -> None:
    own = Gaussian(1.0, 4.0, shares=2)
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((20, 30))
    totals = [own.total(rows), own.total(rows[:-1])]
    results = [
        own.noisy(ticket_for(own), [total, np.zeros(30, dtype=np.int64)], ["a", "b"])
        for total in totals
    ]
    shift = totals[0] - totals[1]
    assert (results[0][0] - results[1][0] == shift * own.grid).all()
    assert (results[0][1] == results[1][1]).all()
    steps = results[0][0] / own.grid
    assert (steps == np.rint(steps)).all()
    size = sum(int(step) ** 2 for step in shift)
    assert 0.999 < math.sqrt(size) * own.grid <= own.sensitivity("add-remove")


def test_steps_and_units_are_the_same_draw() -> None:
    own = Gaussian(1.0, 4.0)
    total = own.total(np.ones((3, 8)))
    (units,) = own.noisy(ticket_for(own), [total], ["a"])
    (steps,) = own.noisy_steps(ticket_for(own), [total], ["a"])
    assert steps.dtype == np.int64
    assert (steps * own.grid == units).all()


@for_each(("shares", "dropouts"), [(1, 0), (4, 0), (5, 2)])
def test_shares_and_their_sum_have_the_stated_noise(shares: int, dropouts: int) -> None:
    """False alarm: below 1e-6 over seeds, for all of some 30 comparisons."""
    own = Gaussian(0.1, 0.5, shares, tolerated_dropouts=dropouts)
    count = 100_000
    names = [f"silo-{number}" for number in range(shares)]
    drawn = own.noisy(ticket_for(own), [np.zeros(count, dtype=np.int64)] * shares, names)
    for one in drawn:
        squares = np.sum((one / own.share_std) ** 2)
        assert LEAST_P < stats.chi2(count).cdf(squares) < 1 - LEAST_P
        assert stats.kstest(one / own.share_std, "norm").pvalue > LEAST_P
    arrived = np.sum(drawn[: shares - dropouts], axis=0)
    squares = np.sum((arrived / own.std) ** 2)
    assert LEAST_P < stats.chi2(count).cdf(squares) < 1 - LEAST_P
    for other in drawn[1:]:
        assert stats.pearsonr(drawn[0], other).pvalue > LEAST_P


def test_shares_drawn_apart_and_together_sum_to_the_same_number() -> None:
    """Bit for bit, in whatever order and in a ring, since they are integers until the end."""
    own, names = Gaussian(0.1, 0.5, 5), ["a", "b", "c", "d", "e"]
    totals = [own.total(np.full((2, 40), 0.01 * party)) for party in range(5)]
    together = own.noisy_steps(ticket_for(own), totals, names)
    ticket = ticket_for(own)
    apart = [
        own.share_steps(ticket, *one) for one in reversed(list(zip(totals, names, strict=True)))
    ]
    with pytest.raises(Unsupported, match="announces 1 draws"):
        own.share_steps(ticket, totals[0], "f")
    ticket.close()
    assert all((one == other).all() for one, other in zip(together, reversed(apart), strict=True))
    ring = np.sum([one.view(np.uint64) for one in apart], axis=0, dtype=np.uint64)
    total = own.units(np.sum(together, axis=0))
    assert (own.units(ring.view(np.int64)) == total).all()
    again = own.noisy(ticket_for(own), totals, names)
    assert all((own.units(s) == x).all() for s, x in zip(together, again, strict=True))
    assert (own.share(ticket_for(own), totals[0], "a") == again[0]).all()


def test_units_are_steps_of_the_grid_rounded_once() -> None:
    own = Gaussian(0.1, 0.5)
    steps = np.array([0, 1, -3, 2**53 + 1, -(2**60) - 1])
    assert own.units(steps).tolist() == [float(z * Fraction(own.grid)) for z in steps.tolist()]


@for_each(
    ("totals", "names"),
    [
        ([np.zeros(3)], ["a"]),
        ([np.zeros(3, dtype=np.int32)], ["a"]),
        ([np.zeros((3, 1), dtype=np.int64)], ["a"]),
        ([np.zeros(3, dtype=np.int64)] * 2, ["a", "a"]),
        ([np.zeros(3, dtype=np.int64)] * 2, ["a"]),
        ([], []),
        ([np.zeros(3, dtype=np.int64), np.zeros(4, dtype=np.int64)], ["a", "b"]),
        ([np.array([2**62 + 1])], ["a"]),
        ([np.array([-(2**63)])], ["a"]),
        ([np.array([2**61 + 1])] * 2, ["a", "b"]),  # each fits, and their sum does not
    ],
    ids=range(10),
)
def test_sums_that_are_no_sums_get_no_noise(totals: list[np.ndarray], names: list[str]) -> None:
    own = Gaussian(1.0, 4.0, shares=max(1, len(totals)))
    ticket = ticket_for(own)
    with pytest.raises(InvalidInput):
        own.noisy(ticket, totals, names)


def test_weights_of_a_row_keep_the_stated_sum() -> None:
    own = Gaussian(1.0, 4.0, weights=records.Weights("uniform", 0.5))
    own.total(np.ones((2, 3)), [0.5, 0.25])
    for weights in ([0.6, 0.1], None):
        with pytest.raises(InvalidInput, match="weights"):
            own.total(np.ones((2, 3)), weights)


@for_each(("smoothing", "noise"), [(0.25, 0.5), (0.25, 4.0), (1.0, 2.0)])
def test_rounding_by_a_discrete_gaussian_gives_a_discrete_gaussian(
    smoothing: float, noise: float
) -> None:
    """The argument of `gaussian`, at smoothing variances v where its error can be seen at all.

    K(N(0, a^2)) against the discrete Gaussian of variance a^2 + v: equal up to the factor
    1 +- 3 e^(-2 pi^2 v), from the sum over y, and as much again from its own normaliser.
    """
    y = np.arange(-60.0, 60.0, 1 / 64)  # so smooth that sums are integrals
    j = np.arange(-80, 81)[:, None]
    weights = np.exp(-((j - y) ** 2) / (2 * smoothing))
    density = np.exp(-(y**2) / (2 * noise)) / math.sqrt(2 * math.pi * noise) / 64
    rounded = (weights / weights.sum(axis=0) * density).sum(axis=1)
    stated = np.exp(-(j[:, 0] ** 2) / (2 * (noise + smoothing)))
    near = np.abs(j[:, 0]) <= 6
    errors = np.abs(rounded[near] / (stated[near] / stated.sum()) - 1)
    assert errors.max() <= 2 * 3 * math.exp(-2 * math.pi**2 * smoothing) + 1e-13
    if (smoothing, noise) == (0.25, 0.5):
        assert errors.max() > 1e-4  # the test can see an error


def _delta_discrete(parameter: float, shift: int, epsilon: float) -> float:
    """Return delta of the discrete Gaussian for a shift by whole steps, by summing."""
    x = np.arange(-int(40 * parameter), int(40 * parameter) + shift + 1)
    p = np.exp(-((x - shift) ** 2) / (2 * parameter**2))
    q = np.exp(-(x**2) / (2 * parameter**2))
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() / q.sum())


def _delta_continuous(std: float, shift: int, epsilon: float) -> float:
    mu = shift / std
    ahead = stats.norm.cdf(mu / 2 - epsilon / mu)
    return float(ahead - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu))


def test_the_smoothing_is_needed_and_enough() -> None:
    """A discrete Gaussian reveals more than the continuous one of its own parameter, at some
    epsilon; never more than the continuous one with 64 less variance."""
    excess = []
    for parameter in (16.0, 40.0, 80.0):
        for shift in (int(parameter / 8), int(parameter), int(3 * parameter)):
            for epsilon in (0.05, 0.3, 0.7, 1.3, 2.1):
                true = _delta_discrete(parameter, shift, epsilon)
                if true < 1e-12:
                    continue
                excess.append(true / _delta_continuous(parameter, shift, epsilon) - 1)
                smoothed = math.sqrt(parameter**2 - SMOOTHING)
                assert true <= _delta_continuous(smoothed, shift, epsilon)
    assert max(excess) > 1e-4
