"""The best of a random number of runs: exact small cases, quadrature, and dp_accounting."""

from __future__ import annotations

import itertools
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from dp_accounting.rdp import RdpAccountant
from scipy.stats import norm

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.accountant.composition import Composition
from privplan.accountant.engines.rdp.curves import curve
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.events.run_counts import log_inverse_success

from ..cases import for_each

RUN = ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(1.0)))
ONCE = ev.Gaussian(5.0)
ORDERS = np.array([1.2, 1.7, 2.0, 3.0, 5.0, 9.0, 20.0])
KINDS = ("geometric", "logarithmic", "poisson")


def generating(kind, mean, shape=None):
    """E[x^K], K the number of runs."""
    if kind == "negative-binomial":
        g = math.exp(-log_inverse_success(shape, mean))
        return lambda x: ((1.0 - (1.0 - g) * x) ** -shape - 1.0) / (g**-shape - 1.0)
    if kind == "poisson":
        return lambda x: np.exp(mean * (x - 1.0))
    if kind == "geometric":
        g = 1.0 / mean
        return lambda x: g * x / (1.0 - (1.0 - g) * x)
    g = math.exp(-log_inverse_success(0.0, mean)) if mean > 1.0 else 1.0 - 1e-12
    return lambda x: np.log1p(-(1.0 - g) * x) / math.log(g)


def log_derivative(kind, mean, above):
    """The logarithm of the derivative of E[x^K] at x = 1 - `above`."""
    if kind == "poisson":
        return math.log(mean) - mean * above
    g = 1.0 / mean if kind == "geometric" else math.exp(-log_inverse_success(0.0, mean))
    eta = 1.0 if kind == "geometric" else 0.0
    return math.log(mean) + (eta + 1.0) * (math.log(g) - np.log(g + (1.0 - g) * above))


def renyi(p, q, order):
    both = (p > 0.0) & (q > 0.0)
    logs = order * np.log(p[both]) + (1.0 - order) * np.log(q[both])
    return float(np.logaddexp.reduce(logs)) / (order - 1.0)


SHAPED = [("negative-binomial", shape) for shape in (-0.9, -0.5, 0.5, 3.0)]


@for_each(("kind", "shape"), [*((kind, None) for kind in KINDS), *SHAPED])
@for_each("mean", [1.5, 6.0, 60.0])
def test_no_pure_mechanism_on_a_few_outcomes_exceeds_the_curve(kind, shape, mean):
    """The exact law of the best, for every order of the outcomes and random epsilon-DP pairs."""
    rng = np.random.default_rng(7)
    f = generating(kind, mean, shape)
    for eps in (0.1, 2.5):
        bound = curve(ev.BestOf(kind, mean, ev.Pure(eps), shape), "add-remove").at(ORDERS)
        for extreme in itertools.product((0.0, 1.0), repeat=3):
            q = np.maximum(rng.dirichlet(rng.choice([0.05, 0.5, 3.0], size=3)), 1e-4)
            q /= q.sum()
            loss = eps * (2.0 * np.array(extreme) - 1.0) * rng.choice([0.5, 1.0])
            p = q * np.exp(loss)
            p /= p.sum()
            if np.abs(np.log(p / q)).max() > eps:
                continue
            for order in itertools.permutations(range(3)):
                laws = []
                for law in (p, q):
                    below = np.concatenate(([0.0], np.cumsum(law[list(order)])))
                    best = np.diff(f(np.minimum(below, 1.0)))
                    laws.append(np.append(best, f(0.0)))  # no run at all
                first, two = laws
                for a, most in zip(ORDERS, bound, strict=True):
                    assert max(renyi(first, two, a), renyi(two, first, a)) <= most + 1e-9


@for_each("kind", KINDS)
@for_each("mean", [2.0, 25.0])
@for_each("sigma", [0.8, 3.0])
def test_the_best_of_gaussian_runs_stays_below_the_curve(kind, mean, sigma):
    bound = curve(ev.BestOf(kind, mean, ev.Gaussian(sigma)), "add-remove").at(ORDERS)
    x, cell = np.linspace(-45.0 * sigma, 45.0 * sigma, 20_001, retstep=True)
    none = math.exp(-mean) if kind == "poisson" else 1e-300
    for sign in (1.0, -1.0):  # the largest is the best, or the smallest
        logs = [
            np.append(
                norm.logpdf(x, centre, sigma)
                + math.log(cell)
                + log_derivative(kind, mean, norm.sf(sign * (x - centre) / sigma)),
                math.log(none),
            )
            for centre in (0.0, 1.0)
        ]
        for p, q in (logs, logs[::-1]):
            for a, most in zip(ORDERS, bound, strict=True):
                divergence = np.logaddexp.reduce(a * p + (1.0 - a) * q) / (a - 1.0)
                assert divergence <= most + 1e-9
                assert divergence >= 0.0 or kind != "poisson"


@for_each(("kind", "known"), [("geometric", 4.833), ("poisson", 9.813), ("logarithmic", 4.0083)])
def test_the_best_of_forty_reaches_the_known_values(kind, known):
    result = account(ev.BestOf(kind, 40, RUN), delta=1e-5)
    assert result.epsilon.upper == pytest.approx(known, rel=1e-3)
    assert result.epsilon.upper <= known
    assert account(RUN, delta=1e-5).epsilon.lower < result.epsilon.lower


def test_the_best_of_a_fixed_number_of_runs_is_their_composition():
    fixed = account(ev.BestOf("fixed", 40, RUN), delta=1e-5, engine="rdp").epsilon.upper
    assert fixed == account(ev.Repeat(40, RUN), delta=1e-5, engine="rdp").epsilon.upper
    assert fixed == pytest.approx(15.18, abs=0.01)


@for_each(("kind", "shape"), [("geometric", 1), ("logarithmic", 0), ("poisson", math.inf)])
@for_each("mean", [1.0, 3.0, 200.0])
def test_dp_accounting_finds_about_as_much(kind, shape, mean):
    ours = account(ev.BestOf(kind, mean, ev.Gaussian(4.0)), delta=1e-6, engine="rdp").epsilon.upper
    theirs = RdpAccountant()
    theirs.compose(RepeatAndSelectDpEvent(dp_accounting.GaussianDpEvent(4.0), mean, shape))
    known = theirs.get_epsilon(1e-6)
    assert ours <= known * (1 + 1e-4)
    assert ours >= 0.95 * known


@for_each("relation", ["add-remove", "replace-one"])
def test_laws_of_tuning(relation):
    def upper(kind, mean, event=ONCE):
        return account(ev.BestOf(kind, mean, event), delta=1e-6, neighbours=relation).epsilon.upper

    once = account(ev.Gaussian(5.0), delta=1e-6, neighbours=relation, engine="rdp").epsilon.upper
    for kind in KINDS:
        assert once * (1 - 1e-9) <= upper(kind, 1.0) < upper(kind, 5.0) < upper(kind, 50.0)
        twice = upper(kind, 5.0, ev.Compose([ev.Gaussian(5.0), ev.Gaussian(5.0)]))
        assert twice == pytest.approx(upper(kind, 5.0, ev.Repeat(2, ev.Gaussian(5.0))))
        assert twice > upper(kind, 5.0)
    assert upper("geometric", 1.0) == pytest.approx(once, rel=1e-9)


def test_a_pure_run_gives_a_pure_best():
    for kind, factor in (("geometric", 3.0), ("logarithmic", 2.0)):
        limit = curve(ev.BestOf(kind, 10, ev.Pure(0.5)), "add-remove").limit
        assert limit == pytest.approx(factor * 0.5)
    limit = curve(ev.BestOf("poisson", 10, ev.Pure(0.5)), "add-remove").limit
    assert limit == pytest.approx(0.5 + 10 * math.tanh(0.25))


def test_a_search_in_a_search_is_accounted():
    inner = ev.BestOf("geometric", 3, ev.Gaussian(10.0))
    result = account(ev.BestOf("logarithmic", 4, inner), delta=1e-5)
    assert result.epsilon.upper > account(inner, delta=1e-5).epsilon.upper
    assert any("no data decide" in " ".join(step.conditions) for step in result.derivation)


@for_each(
    ("event", "words"),
    [
        (ev.BestOf("poisson", 3, ev.Approximate(0.1, 1e-6)), "delta aside"),
        (ev.Poisson(0.1, ev.BestOf("poisson", 3, RUN)), "best-of"),
    ],
)
def test_what_has_no_proof_is_refused(event, words):
    with pytest.raises(Unsupported, match=words) as refusal:
        account(event, delta=1e-5)
    assert refusal.value.next_step


@for_each(
    ("kind", "shape"), [("geometric", None), ("logarithmic", None), ("negative-binomial", 0.5)]
)
def test_at_least_one_run_is_at_least_one_on_average(kind, shape):
    for mean in (0.5, math.nextafter(1.0, 0.0)):
        with pytest.raises(InvalidInput, match="`mean` must be 1 or above") as refusal:
            ev.BestOf(kind, mean, RUN, shape)
        assert "poisson" in refusal.value.next_step
    assert ev.BestOf(kind, 1.0, RUN, shape).mean == 1.0
    assert ev.BestOf("poisson", 0.5, RUN).mean == 0.5


def test_no_pair_is_known_for_a_random_number_of_runs():
    with pytest.raises(Unsupported):
        account(ev.BestOf("poisson", 3, RUN), delta=1e-5, engine="pld")
    assert Composition.of(ev.BestOf("poisson", 3, RUN))[0].fully_observed


@for_each("kind", KINDS)
@for_each(("mean", "sigma"), [(1.0, 1e8), (1.0 + 1e-12, 1.0), (1e18, 1e-3), (1e18, 1e8)])
def test_extreme_settings_are_bounded(kind, mean, sigma):
    result = account(ev.BestOf(kind, mean, ev.Gaussian(sigma)), delta=1e-10, engine="rdp").epsilon
    once = account(ev.Gaussian(sigma), delta=1e-10, engine="rdp").epsilon
    assert result.upper >= once.upper * (1 - 1e-9)
