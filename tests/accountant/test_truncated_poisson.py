"""Truncated Poisson samples: exact binomials, and no data set is worse than the curve."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from dp_accounting.pld import privacy_loss_distribution as google
from dp_accounting.pld.privacy_loss_distribution import NeighborRel

from privplan.accountant import events as ev
from privplan.accountant.amplification.truncation import Cut

from ..cases import for_each
from .sampling import RELATIONS, delta, epsilon


@for_each(("population", "rate", "batch"), [(4, 0.5, 2), (9, 0.25, 1), (7, 0.75, 6)])
def test_the_cases_of_a_cut_are_those_of_exact_binomials(population, rate, batch):
    q = Fraction(rate)

    def mass(n, k):
        return math.comb(n, k) * q**k * (1 - q) ** (n - k)

    full = sum(mass(population - 1, k) for k in range(batch, population))
    joined = sum(
        mass(population - 1, k) * q * Fraction(batch, k + 1) for k in range(batch, population)
    )
    cut = Cut.of(population, rate, batch)
    for found, exact in ((cut.full, full), (cut.spared, 1 - full), (cut.rate, joined / full)):
        assert exact <= Fraction(found) <= exact * (1 + Fraction(1, 10**9))
    overall = q * (1 - full) + joined
    assert overall * (1 - Fraction(1, 10**9)) <= Fraction(cut.overall) <= overall


def test_cuts_of_huge_populations_are_bounded():
    cut = Cut.of(10**15, 0.5, 10**14)
    assert (cut.spared, cut.full) == (1.0, 1.0)
    assert cut.rate >= 0.5 * 10**14 / (0.5 * 10**15)
    rare = Cut.of(10**6, 1e-3, 3000)
    assert 0.0 < rare.full < 1e-250
    assert rare.overall == pytest.approx(1e-3)


@for_each(
    ("relation", "theirs"),
    [("add-remove", NeighborRel.ADD_OR_REMOVE_ONE), ("replace-one", NeighborRel.REPLACE_ONE)],
)
def test_truncated_poisson_is_no_looser_than_dp_accounting(relation, theirs):
    ours = epsilon(
        ev.Repeat(50, ev.TruncatedPoisson(0.1, 14, 100, ev.Gaussian(2.0))), 1e-5, relation
    )
    pld = google.from_truncated_subsampled_gaussian_mechanism(
        dataset_size=100,
        sampling_probability=0.1,
        truncated_batch_size=14,
        noise_multiplier=2.0,
        value_discretization_interval=1e-3,
        neighboring_relation=theirs,
    ).self_compose(50)
    assert ours.upper <= pld.get_epsilon_for_delta(1e-5) * (1 + 1e-4)
    assert ours.upper >= 0.5 * pld.get_epsilon_for_delta(1e-5)


@for_each("relation", RELATIONS)
def test_what_is_counted_as_laid_open_is_not_shown_to_be(relation):
    event = ev.TruncatedPoisson(1e-150, 1, 10, ev.Gaussian(1.0))
    assert delta(event, 0.5, relation).lower == 0.0


def test_a_sample_that_is_never_cut_is_a_poisson_sample():
    event = ev.Repeat(9, ev.TruncatedPoisson(0.1, 30, 30, ev.Gaussian(1.0)))
    assert epsilon(event, 1e-5) == epsilon(ev.Repeat(9, ev.Poisson(0.1, ev.Gaussian(1.0))), 1e-5)
