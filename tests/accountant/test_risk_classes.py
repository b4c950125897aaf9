"""Attack risk of events known by stated numbers, of those that show nothing, of rough deltas."""

from __future__ import annotations

import math

import numpy as np

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.risk.attack_power import attack_power
from privplan.accountant.risk.trade_off import delta_by_larger_epsilons

from ..cases import for_each


def answers(epsilon, delta, rounds):
    """Return the masses of all answers of the worst mechanism with (epsilon, delta), twice over.

    Two answers with odds e^epsilon, and one for each data set, of probability delta, that only it
    can give.
    """
    odds = 1.0 / (1.0 + math.exp(-epsilon))
    p = np.array([delta, (1.0 - delta) * odds, (1.0 - delta) * (1.0 - odds), 0.0])
    joint, other = np.ones(1), np.ones(1)
    for _ in range(rounds):
        joint, other = np.outer(joint, p).ravel(), np.outer(other, p[::-1]).ravel()
    return joint, other


def best_tpr(p, q, fpr):
    """Return the TPR of the best test, by its corners."""
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-np.where(q > 0.0, p / q, np.where(p > 0.0, np.inf, -1.0)))
    false, true = (np.concatenate(([0.0], np.cumsum(each[order]))) for each in (q, p))
    last = np.append(false[1:] > false[:-1], True)
    return float(np.interp(fpr, false[last], true[last]))


@for_each(
    ("event", "epsilon", "delta", "rounds", "neighbours"),
    [
        (ev.Pure(1.0), 1.0, 0.0, 1, "add-remove"),
        (ev.Pure(1.0), 1.0, 0.0, 1, "zero-out"),
        (ev.Local(2.0), 2.0, 0.0, 1, "replace-one"),
        (ev.Repeat(4, ev.Pure(0.7)), 0.7, 0.0, 4, "replace-one"),
        (ev.Repeat(4, ev.Pure(0.7)), 0.7, 0.0, 4, "add-remove"),
        (ev.Approximate(1.0, 1e-3), 1.0, 1e-3, 1, "zero-out"),
        (ev.Repeat(3, ev.Approximate(0.5, 0.01)), 0.5, 0.01, 3, "add-remove"),
    ],
)
def test_the_worst_mechanism_of_a_class_is_enumerated(event, epsilon, delta, rounds, neighbours):
    p, q = answers(epsilon, delta, rounds)
    for fpr in (1e-4, 0.01, 0.3):
        found = pp.risk(event, fpr=fpr, neighbours=neighbours)
        exact = best_tpr(p, q, fpr)
        assert found.tpr.lower <= exact * (1.0 + 1e-12)
        assert exact <= found.tpr.upper * (1.0 + 1e-12)
        assert found.tpr.gap <= 1e-6 * exact
    advantage = float(np.maximum(p - q, 0.0).sum())
    assert found.advantage.lower <= advantage * (1.0 + 1e-12)
    assert advantage <= found.advantage.upper * (1.0 + 1e-12)
    assert found.mu.gap <= 1e-2 * found.mu.upper


def test_a_class_is_attained_as_gdp_says():
    mu = pp.risk(ev.Pure(1.0)).mu_everywhere
    known = pp.gdp(ev.Pure(1.0)).mu
    assert mu.lower <= known.upper
    assert known.lower <= mu.upper
    assert mu.gap <= 1e-8


@for_each(
    "event",
    [
        ev.Pure(0.0),
        ev.Poisson(0.0, ev.Gaussian(1.0)),
        ev.ZCDP(0.0),
        ev.Approximate(0.0, 0.0),
        ev.Compose([]),
    ],
)
def test_what_shows_nothing_finds_as_many_as_it_accuses(event):
    found = pp.risk(event, fpr=0.01)
    assert found.advantage == 0.0
    assert found.tpr == 0.01
    assert found.mu == found.mu_everywhere == 0.0
    assert "1 in 100 members" in found.sentence


@for_each("scale", [1e-10, 1e-4, 1e-3, 1.5e-3, 0.05])
@for_each("fpr", [1e-8, 0.01, 0.3])
def test_losses_beyond_all_numbers_are_shown(scale, fpr):
    kept = math.exp(-1.0 / scale)
    exact = fpr / kept if fpr <= 0.5 * kept else 1.0 - kept / (4.0 * fpr)
    found = pp.risk(ev.Laplace(scale), fpr=fpr).tpr
    assert found.lower <= exact <= found.upper
    assert found.gap <= 1e-4


ROUGH = ev.Renyi((8.0,), (4.0,))
"""An event known at one Renyi order, which says little at a small epsilon."""


@for_each("epsilon", [0.0, 0.5, 2.0])
@for_each("at", [3.0, 4.0, 6.0])
def test_a_larger_epsilon_bounds_delta_below_it(epsilon, at):
    # The worst mechanism with (at, delta) has four answers, and the event shows no more.
    delta = pp.account(ROUGH, epsilon=at).delta.upper
    p, q = answers(at, delta, 1)
    worst = float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())
    bound = delta_by_larger_epsilons(ROUGH, "add-remove", epsilon)
    assert bound <= worst * 1.02  # of nearly a hundred epsilons one is next to `at`
    # A Gaussian release with that divergence shows this much.
    gaussian = pp.account(ev.Gaussian(1.0), epsilon=epsilon).delta.lower
    assert bound >= gaussian


def test_an_advantage_is_hardly_larger_than_all_miss_rates_leave():
    power = attack_power(ROUGH, "add-remove")
    fprs = np.linspace(0.001, 0.5, 500)
    lead = max(1.0 - power.miss(float(fpr)).lower - fpr for fpr in fprs)
    assert pp.risk(ROUGH).advantage.upper <= lead + 1e-3
    assert lead < 0.99 * pp.account(ROUGH, epsilon=0.0).delta.upper
