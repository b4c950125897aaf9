"""Attack risk against tests that are carried out, and against the numbers of riskcal.

A grid of cells is a post-processing of the release, so the best test on cells is a real one: no
upper end may lie below it.  Cells are narrow enough for it to lose less than `CELL_LOSS`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.guarantee import Bounds, Neighbours
from privplan.accountant.risk.attack_power import attack_power

from ..cases import for_each

FloatArray = NDArray[np.float64]

CELL_LOSS = 2e-5


def cell_masses(shift: float, sigma: float, edges: FloatArray) -> FloatArray:
    """Return the masses of the cells of N(shift, sigma^2)."""
    return np.diff(ndtr((edges - shift) / sigma))


def sampled_pair(
    rate: float, sigma: float, cells: int, neighbours: Neighbours
) -> tuple[FloatArray, FloatArray]:
    """Return with and without a unit that is drawn at `rate`, or with its two values."""
    edges = np.concatenate(([-np.inf], np.linspace(-6.5 * sigma, 6.5 * sigma + 1, cells), [np.inf]))
    idle = cell_masses(0.0, sigma, edges)
    with_unit = (1.0 - rate) * idle + rate * cell_masses(1.0, sigma, edges)
    if neighbours == "replace-one":
        return with_unit, (1.0 - rate) * idle + rate * cell_masses(-1.0, sigma, edges)
    return with_unit, idle


def product(pairs: Sequence[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    """Return the pair of independent rounds, one mass for each combination of cells."""
    p, q = pairs[0]
    for other_p, other_q in pairs[1:]:
        p, q = np.outer(p, other_p).ravel(), np.outer(q, other_q).ravel()
    return p, q


class BestTests:
    """The tests between P and Q that accuse where p / q is large, and between Q and P."""

    def __init__(self, p: FloatArray, q: FloatArray) -> None:
        self.p, self.q = p, q
        self.curves = [self._curve(p, q), self._curve(q, p)]

    @staticmethod
    def _curve(p: FloatArray, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        with np.errstate(divide="ignore", invalid="ignore"):
            order = np.argsort(-np.nan_to_num(p / q, nan=0.0, posinf=np.inf), kind="stable")
        fpr = np.concatenate(([0.0], np.cumsum(q[order])))
        tpr = np.concatenate(([0.0], np.cumsum(p[order])))
        return fpr, tpr

    def tpr(self, fpr: float) -> float:
        """Return the larger power of both orders."""
        return max(float(np.interp(fpr, *curve)) for curve in self.curves)

    def advantage(self) -> float:
        return 0.5 * float(np.abs(self.p - self.q).sum())

    def bayes_risk(self, prior: float) -> float:
        """Return the lesser error where one or the other data set has that prior."""
        return min(
            float(np.minimum(prior * a, (1.0 - prior) * b).sum())
            for a, b in ((self.p, self.q), (self.q, self.p))
        )


def near(bounds: Bounds, attained: float, within: float) -> None:
    """Assert that the upper end is not below what is attained, and the lower not far above."""
    assert attained <= bounds.upper * (1.0 + 1e-12)
    assert bounds.lower <= attained + within
    assert bounds.upper <= attained + 5.0 * within


ROUNDS = [
    (((0.1, 1.0),), 4000),
    (((0.5, 0.4),), 4000),
    (((0.02, 0.5),), 4000),
    (((0.1, 1.0), (0.1, 1.0)), 1200),
    (((0.3, 0.8), (0.6, 2.0)), 1200),
    (((0.2, 1.5), (0.2, 1.5), (0.5, 2.0)), 100),
]
BOTH: tuple[Neighbours, ...] = ("add-remove", "replace-one")


@for_each(
    ("settings", "cells", "neighbours"),
    [
        *((*rounds, relation) for rounds in ROUNDS[:3] for relation in BOTH),
        (*ROUNDS[3], "add-remove"),
        (*ROUNDS[4], "replace-one"),
        (*ROUNDS[5], "add-remove"),
    ],
)
def test_sampled_gaussians(
    settings: tuple[tuple[float, float], ...], cells: int, neighbours: Neighbours
) -> None:
    event = ev.Compose([ev.Poisson(rate, ev.Gaussian(sigma)) for rate, sigma in settings])
    tests = BestTests(
        *product([sampled_pair(rate, sigma, cells, neighbours) for rate, sigma in settings])
    )
    within = CELL_LOSS if cells > 1000 else 2e-3  # cells of .14 standard deviations lose .14^2 / 12
    for fpr in (1e-3, 0.02, 0.3, 0.8):
        near(attack_power(event, neighbours).tpr(fpr), tests.tpr(fpr), within)
    prior = 0.3 if neighbours == "add-remove" else 0.52
    found = pp.risk(event, prior=prior, neighbours=neighbours)
    near(found.advantage, tests.advantage(), within)
    # The guarantee is the lower end: no test errs less.
    assert found.bayes_risk.lower <= tests.bayes_risk(prior)
    assert tests.bayes_risk(prior) - within <= found.bayes_risk.upper
    assert tests.bayes_risk(prior) - 5.0 * within <= found.bayes_risk.lower


@for_each(("epsilon", "categories", "rounds"), [(0.5, 2, 1), (1.0, 4, 2), (0.5, 2, 6), (1.0, 4, 6)])
def test_randomized_responses(epsilon: float, categories: int, rounds: int) -> None:
    truth = np.exp(epsilon) / (np.exp(epsilon) + categories - 1)
    lie = (1.0 - truth) / (categories - 1)
    p = np.full(categories, lie)
    q = p.copy()
    p[0], q[1] = truth, truth
    tests = BestTests(*product([(p, q)] * rounds))
    event = ev.Repeat(rounds, ev.RandomizedResponse(epsilon, categories))
    for fpr, prior in ((1e-3, 0.5), (0.1, 0.2), (0.6, 0.2)):
        found = pp.risk(event, fpr=fpr, prior=prior, neighbours="replace-one")
        near(found.tpr, tests.tpr(fpr), 1e-6)
        near(found.advantage, tests.advantage(), 1e-6)
        assert found.bayes_risk.lower <= tests.bayes_risk(prior) + 1e-15
        assert found.bayes_risk.upper >= tests.bayes_risk(prior) - 1e-15
        assert found.bayes_risk.gap < 1e-6


@pytest.mark.slow
def test_one_test_where_only_single_deltas_are_known() -> None:
    # The best of Poisson many runs has no pair here, and delta has a lower end at each epsilon.
    # Whatever test attains it, concavity from (0, 0) and to (1, 1) gives power at every FPR.
    event = ev.BestOf("poisson", 4.0, ev.Gaussian(2.0))
    delta = pp.account(event, epsilon=0.0).delta.lower
    for fpr in (0.01, 0.3, 0.9):
        found = pp.risk(event, fpr=fpr).tpr
        least = min(fpr / (1.0 - delta), delta + (1.0 - delta) * fpr)
        assert found.upper >= found.lower >= least * (1.0 - 1e-9)
        assert found.lower > fpr


@for_each("candidates", [2, 3, 5])
@for_each("epsilon", [0.5, 2.0])
def test_responses_name_the_candidate(candidates: int, epsilon: float) -> None:
    # As many categories as candidates: the response itself is the best guess.
    named = np.exp(epsilon) / (np.exp(epsilon) + candidates - 1)
    event = ev.RandomizedResponse(epsilon, candidates)
    found = pp.risk(event, guesses=candidates, neighbours="replace-one").reconstruction
    assert found.lower == 1.0 / candidates < named <= found.upper
    if candidates == 2:
        assert found.upper <= named + 1e-8


@for_each(("rate", "candidates"), [(0.1, 6), (0.7, 2)])
def test_sampled_candidates_at_random_points(rate: float, candidates: int) -> None:
    # Candidates on a circle of radius 1; the posterior mode over cells of the plane is exact.
    sigma, edges = 0.6, np.concatenate(([-np.inf], np.linspace(-4.0, 4.0, 321), [np.inf]))
    angles = 2.0 * np.pi * np.arange(candidates) / candidates
    idle = np.outer(cell_masses(0.0, sigma, edges), cell_masses(0.0, sigma, edges))
    laws = [
        (1.0 - rate) * idle
        + rate
        * np.outer(
            cell_masses(float(np.cos(angle)), sigma, edges),
            cell_masses(float(np.sin(angle)), sigma, edges),
        )
        for angle in angles
    ]
    named = float(np.max(laws, axis=0).sum()) / candidates
    event = ev.Poisson(rate, ev.Gaussian(sigma))
    for neighbours in ("add-remove", "replace-one", "zero-out"):
        found = pp.risk(event, guesses=candidates, neighbours=neighbours).reconstruction
        assert found.lower < named < found.upper


RISKCAL: tuple[tuple[ev.Event, float, float, dict[float, float]], ...] = (
    (
        ev.Laplace(1.0),
        0.3934693402873731,
        0.02718281828458191,
        {0.1: 0.09999999999997847, 0.3: 0.2779472586782322, 0.6: 0.29713811668957324},
    ),
    (
        ev.Gaussian(1.0),
        0.3829249225480341,
        0.09236225722880176,
        {0.1: 0.09866369307807062, 0.3: 0.2530043668422331, 0.8: 0.18615622121437944},
    ),
    (
        ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(1.0))),
        0.16109778446692433,
        0.02915070683530352,
        {0.1: 0.09999993815310014, 0.6: 0.38217195216233385},
    ),
    (
        ev.Repeat(100, ev.Poisson(0.1, ev.Gaussian(2.0))),
        0.20586722506752725,
        0.037715021001261784,
        {0.3: 0.2938684131940965, 0.8: 0.19956802510803281},
    ),
)
"""Advantage, TPR at FPR .01 and Bayes risk by prior, as riskcal 1.5.1 gives them with dp-accounting
0.6.0 on a grid of 1e-3.  On its default grid of 1e-4 the TPR of the third is .0290997, below what
is attained: its rates there rest on pmfs that are cut off."""


@for_each(("event", "advantage", "tpr", "bayes_risks"), RISKCAL, ids=str)
def test_riskcal_agrees(
    event: ev.Event, advantage: float, tpr: float, bayes_risks: dict[float, float]
) -> None:
    # A grid of 1e-3 costs riskcal up to 1e-4, always to the safe side; ours must lie within.
    for prior, published in bayes_risks.items():
        found = pp.risk(event, fpr=0.01, prior=prior)
        assert found.bayes_risk.upper >= published * (1.0 - 1e-12)
        assert found.bayes_risk.lower == pytest.approx(published, abs=5e-5)
    for bounds, published in ((found.advantage, advantage), (found.tpr, tpr)):
        assert bounds.lower <= published * (1.0 + 1e-12)
        assert bounds.upper == pytest.approx(published, abs=1e-4)
    if event == RISKCAL[2][0]:  # what it gives on its finer grid is below what is attained
        assert found.tpr.lower - 3e-5 > 0.0290997210968017
