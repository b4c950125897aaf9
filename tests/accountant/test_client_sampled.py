"""Releases inside of a sampled client: closed forms, enumeration, and what Poisson would say."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, laplace, norm

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.composition import Composition
from privplan.accountant.engines.rdp.curves import curve

from ..cases import for_each

RELATIONS = ("add-remove", "zero-out", "replace-one")


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return delta of a Gaussian at distance mu."""
    if mu == 0.0:
        return 0.0
    below = norm.cdf(mu / 2.0 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    return float(below)


def rounds_delta(rounds: int, rate: float, mu: float, epsilon: float) -> float:
    """Return delta of several rounds: the client takes part in a binomial number, which is seen."""
    return sum(
        float(binom.pmf(j, rounds, rate)) * gaussian_delta(mu * math.sqrt(j), epsilon)
        for j in range(rounds + 1)
    )


def test_absence_that_may_be_seen_hides_little() -> None:
    visible = ev.ClientSampled(0.1, ev.Gaussian(1.0))
    truth = brentq(lambda epsilon: 0.1 * gaussian_delta(1.0, epsilon) - 1e-5, 0.0, 20.0)
    bounds = pp.account(visible, delta=1e-5).epsilon
    assert bounds.lower <= truth <= bounds.upper <= truth * 1.001
    assert f"{truth:.2f}" == "3.80"
    hidden = pp.account(ev.Poisson(0.1, ev.Gaussian(1.0)), delta=1e-5).epsilon
    assert f"{hidden.upper:.2f}" == "1.68"


@for_each(("neighbours", "moved"), [("add-remove", 1), ("replace-one", 2)])
@for_each(("rounds", "rate"), [(1, 0.3), (10, 0.1), (40, 0.02)])
@for_each("epsilon", [0.2, 1.0, 4.0])
def test_several_rounds(
    rounds: int, rate: float, epsilon: float, neighbours: str, moved: int
) -> None:
    event = ev.Repeat(rounds, ev.ClientSampled(rate, ev.Gaussian(2.0)))
    truth = rounds_delta(rounds, rate, moved / 2.0, epsilon)
    delta = pp.account(event, epsilon=epsilon, neighbours=neighbours, engine="pld").delta
    assert delta.lower <= truth * (1.0 + 1e-9)
    assert truth <= delta.upper * (1.0 + 1e-9)
    assert delta.upper <= truth * 1.01 + 1e-12


@for_each("neighbours", RELATIONS)
def test_steps_of_one_round_hang_on_one_draw(neighbours: str) -> None:
    """Gaussian steps of one round are one Gaussian with less noise, sampled once."""
    steps = ev.Repeat(4, ev.Gaussian(4.0))
    ours, other = (
        pp.account(ev.Repeat(5, ev.ClientSampled(0.2, inner)), delta=1e-6, neighbours=neighbours)
        for inner in (steps, ev.Gaussian(2.0))
    )
    assert ours.epsilon == other.epsilon
    apart = ev.Repeat(20, ev.ClientSampled(0.2, ev.Gaussian(4.0)))
    assert pp.account(apart, delta=1e-6, neighbours=neighbours).epsilon.upper < ours.epsilon.lower


@for_each("epsilon", [0.3, 1.0, 2.5])
def test_randomized_responses_enumerated(epsilon: float) -> None:
    """Three rounds of two responses each: every outcome, with the one of a client that is away."""
    rate, truth_probability = 0.3, math.e / (math.e + 1.0)
    one_round = [(1.0 - rate, 1.0 - rate)]
    for answers in itertools.product((truth_probability, 1.0 - truth_probability), repeat=2):
        lies = [1.0 - answer for answer in answers]
        one_round.append((rate * math.prod(answers), rate * math.prod(lies)))
    truth = sum(
        max(math.prod(p for p, _ in each) - math.exp(epsilon) * math.prod(q for _, q in each), 0.0)
        for each in itertools.product(one_round, repeat=3)
    )
    inner = ev.Repeat(2, ev.RandomizedResponse(1.0, 2))
    event = ev.Repeat(3, ev.ClientSampled(rate, inner))
    delta = pp.account(event, epsilon=epsilon, neighbours="replace-one").delta
    assert delta.lower <= truth * (1.0 + 1e-9)
    assert truth <= delta.upper * (1.0 + 1e-9)
    assert delta.upper <= truth * 1.02
    assert delta.lower >= truth * 0.995


@for_each("neighbours", ["zero-out", "replace-one"])
def test_a_whole_local_run_is_one_release(neighbours: str) -> None:
    run = ev.Repeat(10, ev.Poisson(0.05, ev.Gaussian(1.0)))
    inner, sampled = (
        pp.account(event, epsilon=0.7, neighbours=neighbours, engine="pld").delta
        for event in (run, ev.ClientSampled(0.1, run))
    )
    assert 0.1 * inner.lower <= sampled.upper <= 0.1 * inner.upper * 1.01
    assert 0.0999 * inner.lower <= sampled.lower <= 0.1 * inner.upper


@for_each("neighbours", RELATIONS)
@for_each("epsilon", [0.0, 0.7, 2.0])
def test_two_noises_under_one_draw_by_quadrature(epsilon: float, neighbours: str) -> None:
    """A Gaussian and a Laplace sum of one round, on a fine grid of the plane: both ends."""
    edges = np.concatenate(([-np.inf], np.linspace(-12.0, 12.0, 1201), [np.inf]))
    laws = (norm(scale=1.5), laplace(scale=2.0))

    def output(shift: float) -> np.ndarray:
        return np.outer(*(np.diff(law.cdf(edges - shift)) for law in laws))

    unit, other = output(1.0), output(-1.0 if neighbours == "replace-one" else 0.0)
    truth = 0.3 * float(np.maximum(unit - math.exp(epsilon) * other, 0.0).sum())
    event = ev.ClientSampled(0.3, ev.Compose([ev.Gaussian(1.5), ev.Laplace(2.0)]))
    delta = pp.account(event, epsilon=epsilon, neighbours=neighbours, engine="pld").delta
    assert delta.lower <= truth * (1.0 + 1e-4)
    assert delta.lower >= truth * (1.0 - 1e-3)
    assert delta.upper >= truth * (1.0 - 1e-12)


@for_each("neighbours", ["add-remove", "replace-one"])
def test_the_ends_of_a_local_run_are_near_each_other(neighbours: str) -> None:
    run = ev.Repeat(50, ev.ClientSampled(0.1, ev.Repeat(20, ev.Poisson(0.1, ev.Gaussian(1.0)))))
    bounds = pp.account(run, delta=1e-5, neighbours=neighbours, engine="pld").epsilon
    assert bounds.lower >= 0.995 * bounds.upper


@for_each(("neighbours", "moved"), [("add-remove", 1.0), ("replace-one", 2.0)])
@for_each("rounds", [1, 9])
def test_mu_of_a_seen_client_is_that_of_its_release(
    rounds: int, neighbours: str, moved: float
) -> None:
    """Dropping the release is a post-processing of it; at tiny FPR the rate is no matter."""
    event = ev.Repeat(rounds, ev.ClientSampled(0.1, ev.Gaussian(2.0)))
    mu = pp.risk(event, neighbours=neighbours).mu_everywhere
    truth = moved * math.sqrt(rounds) / 2.0
    assert mu.lower <= truth <= mu.upper
    assert mu.upper - mu.lower < 1e-8
    # By the test that wants all rounds seen, and their sum large.
    rates = np.geomspace(1e-300, 1e-250, 40)
    seen = 0.1**rounds
    powers = seen * norm.cdf(norm.ppf(rates / seen) + truth)
    shown = (norm.ppf(powers) - norm.ppf(rates)).max()
    assert 0.97 * truth <= shown <= mu.upper


def test_mu_of_several_releases_of_a_seen_client() -> None:
    inner = ev.Compose([ev.Gaussian(2.0), ev.Repeat(3, ev.Poisson(0.2, ev.Gaussian(4.0)))])
    mu = pp.risk(ev.ClientSampled(0.3, inner)).mu_everywhere
    truth = math.sqrt(0.25 + 3.0 / 16.0)
    assert mu.lower <= truth <= mu.upper <= truth * (1.0 + 1e-8)


@for_each("neighbours", RELATIONS)
def test_renyi_curves(neighbours: str) -> None:
    inner = ev.Compose([ev.Gaussian(3.0), ev.Repeat(3, ev.Poisson(0.2, ev.Laplace(2.0)))])
    orders = np.array([1.2, 2.0, 7.5, 200.0])
    parts = [(curve(leaf.event, neighbours), leaf.count) for leaf in Composition.of(inner)]  # type: ignore[arg-type]
    total = sum(count * part.at(orders) for part, count in parts)
    grown = math.log(0.1) + (orders - 1.0) * total
    expected = np.logaddexp(math.log(0.9), grown) / (orders - 1.0)
    ours = curve(ev.ClientSampled(0.1, inner), neighbours).at(orders)  # type: ignore[arg-type]
    assert np.all(ours >= expected * (1.0 - 1e-12))
    assert ours == pytest.approx(expected, rel=1e-9)


def test_engines_agree() -> None:
    run = ev.Repeat(30, ev.ClientSampled(0.1, ev.Repeat(5, ev.Poisson(0.1, ev.Gaussian(2.0)))))
    for neighbours in ("add-remove", "replace-one"):
        pld, rdp = (
            pp.account(run, delta=1e-6, neighbours=neighbours, engine=engine).epsilon
            for engine in ("pld", "rdp")
        )
        assert pld.upper <= rdp.upper


def test_a_client_that_always_or_never_takes_part() -> None:
    inner = ev.Poisson(0.1, ev.Gaussian(2.0))
    (leaf,) = Composition.of(ev.ClientSampled(1.0, inner))
    assert leaf.event == inner
    assert Composition.of(ev.ClientSampled(0.0, inner)) == ()
    (nested,) = Composition.of(ev.ClientSampled(0.5, ev.ClientSampled(0.5, inner)))
    assert nested.event == ev.ClientSampled(0.25, inner)
    assert Composition.of(ev.ClientSampled(0.5, ev.Compose(()))) == ()


def test_records_of_one_client_are_drawn_together() -> None:
    group = ev.Group(3, ev.ClientSampled(0.1, ev.Gaussian(6.0)))
    (leaf,) = Composition.of(group)
    assert leaf.event == ev.ClientSampled(0.1, ev.Group(3, ev.Gaussian(6.0)))
    ours, one = (
        pp.account(each, delta=1e-6).epsilon
        for each in (group, ev.ClientSampled(0.1, ev.Gaussian(2.0)))
    )
    assert ours.upper == pytest.approx(one.upper, rel=1e-9)


def test_more_participation_loses_more() -> None:
    uppers = [
        pp.account(ev.Repeat(5, ev.ClientSampled(rate, ev.Laplace(1.0))), delta=1e-6).epsilon.upper
        for rate in (0.01, 0.1, 0.5, 1.0)
    ]
    assert uppers == sorted(uppers)


def test_a_unit_that_is_hardly_ever_there() -> None:
    event = ev.ClientSampled(0.1, ev.Repeat(10, ev.Poisson(1e-6, ev.Gaussian(1.0))))
    assert pp.account(event, delta=2e-6).epsilon.upper == 0.0


def test_at_delta_zero_all_is_seen() -> None:
    event = ev.Repeat(3, ev.ClientSampled(0.1, ev.Repeat(2, ev.Laplace(2.0))))
    bounds = pp.account(event, delta=0.0).epsilon
    assert bounds.lower <= 3.0 <= bounds.upper
    assert bounds.upper - bounds.lower < 1e-12
    guess = ev.ClientSampled(0.1, ev.Gaussian(1.0))
    assert pp.account(guess, delta=0.0).epsilon.upper == math.inf


def test_what_is_set_aside_is_set_aside_when_the_client_is_there() -> None:
    event = ev.ClientSampled(0.1, ev.Approximate(1.0, 1e-4))
    for engine in ("pld", "rdp"):
        assert pp.account(event, delta=1.1e-5, engine=engine).epsilon.upper <= 1.0 + 1e-6
        assert pp.account(event, delta=0.9e-5, engine=engine).epsilon.upper > 1.0


def test_a_gap_is_explained() -> None:
    event = ev.ClientSampled(0.1, ev.Repeat(10, ev.TruncatedPoisson(0.1, 6, 40, ev.Gaussian(1.0))))
    guarantee = pp.account(event, delta=1e-5)
    assert any("all releases of a client's round" in text for text in guarantee.warnings)
