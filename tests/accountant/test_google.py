"""dp_accounting as a second opinion: same meaning of neighbours, never below the truth."""

import math
from functools import partial

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from privplan.accountant import events as ev
from privplan.accountant.composition import Composition, Leaf
from privplan.accountant.engines.google import GoogleEngine
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.guarantee import NEIGHBOURS, Neighbours

from ..cases import for_each
from ..sweeps import sweep

ENGINE = GoogleEngine()
COARSE = GoogleEngine(discretisation=0.01)


def upper(
    event: ev.Event,
    delta: float = 1e-5,
    neighbours: Neighbours = "add-remove",
    engine: GoogleEngine = ENGINE,
) -> float:
    bounds = engine.epsilon(Composition.of(event), delta, neighbours).bounds
    assert bounds.lower == 0.0
    return bounds.upper


def gaussian_delta(mean: float, epsilon: float) -> float:
    """Balle, Wang: arXiv 1805.06530, Theorem 8."""
    tail = math.exp(epsilon + float(log_ndtr(-epsilon / mean - mean / 2)))
    return float(ndtr(mean / 2 - epsilon / mean)) - tail


def gaussian_epsilon(mean: float, delta: float) -> float:
    return float(brentq(lambda e: gaussian_delta(mean, e) - delta, 0, 200, xtol=1e-12))


def pair_epsilon(p: ArrayLike, q: ArrayLike, delta: float, runs: int = 1) -> float:
    """Epsilon of a pair of finite distributions, composed by enumeration."""
    law_p, law_q = np.array(p), np.array(q)
    first, second = law_p, law_q
    for _ in range(runs - 1):
        first, second = np.outer(first, law_p).ravel(), np.outer(second, law_q).ravel()

    def excess(epsilon: float) -> float:
        return float(np.maximum(first - math.exp(epsilon) * second, 0).sum()) - delta

    return float(brentq(excess, 0, 60, xtol=1e-12)) if excess(0.0) > 0 else 0.0


@pytest.mark.quick(3)
@for_each(("neighbours", "moves"), [("add-remove", 1), ("zero-out", 1), ("replace-one", 2)])
@for_each("noise", [0.8, 5.0])
@for_each("delta", sweep([1e-5, 1e-3, 1e-10], quick=1))
def test_gaussian_is_just_above_the_closed_form(
    neighbours: Neighbours, moves: int, noise: float, delta: float
) -> None:
    truth = gaussian_epsilon(moves / noise, delta)
    result = upper(ev.Gaussian(noise), delta, neighbours)
    assert truth <= result <= truth + 1e-5
    back = ENGINE.delta(Composition([Leaf(ev.Gaussian(noise), 1)]), truth, neighbours).bounds.upper
    assert delta * (1 - 1e-6) <= back <= delta * (1 + 1e-4)


def test_many_gaussians_are_one() -> None:
    event = ev.Compose([ev.Repeat(30, ev.Gaussian(10.0)), ev.Gaussian(2.0)])
    truth = gaussian_epsilon(math.sqrt(0.55), 1e-5)
    assert truth <= upper(event) <= truth + 1e-5


SAMPLED = ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(1.0)))
KNOWN = [
    (ev.Gaussian(1.0), "add-remove", 4.377),
    (ev.Gaussian(1.0), "replace-one", 9.997),
    (SAMPLED, "add-remove", 1.828),
    (SAMPLED, "zero-out", 1.828),
    (SAMPLED, "replace-one", 2.843),
]


@for_each(("event", "neighbours", "expected"), sweep(KNOWN, quick=2))
def test_known_numbers(event: ev.Event, neighbours: Neighbours, expected: float) -> None:
    assert upper(event, 1e-5, neighbours) == pytest.approx(expected, abs=6e-4)


@for_each("neighbours", ["add-remove", "replace-one"])
def test_one_sampled_gaussian_against_its_pair(neighbours: Neighbours) -> None:
    rate, noise = 0.2, 0.8
    at = np.linspace(-12, 12, 40_001)
    width = at[1] - at[0]

    def density(mean: float) -> np.ndarray:
        weight = np.exp(-0.5 * ((at - mean) / noise) ** 2) / (noise * math.sqrt(2 * math.pi))
        return np.asarray(weight * width)

    present = (1 - rate) * density(0) + rate * density(1)
    law_q = density(0)
    if neighbours == "replace-one":
        law_q = (1 - rate) * density(0) + rate * density(-1)
    orders = ((present, law_q), (law_q, present))
    truth = max(pair_epsilon(p, q, 1e-4) for p, q in orders)
    result = upper(ev.Poisson(rate, ev.Gaussian(noise)), 1e-4, neighbours)
    assert truth - 1e-6 <= result <= truth + 1e-4


@for_each(("neighbours", "moves"), [("add-remove", 1), ("replace-one", 2)])
@for_each("noise", [0.3, 1.0, 4.0])
def test_laplace_is_just_above_the_closed_form(
    neighbours: Neighbours, moves: int, noise: float
) -> None:
    truth = moves / noise + 2 * math.log1p(-1e-4)  # delta = 1 - e^((epsilon - moves/noise)/2)
    assert truth <= upper(ev.Laplace(noise), 1e-4, neighbours) <= truth + 2e-4
    assert upper(ev.Laplace(noise), 1e-14, neighbours) == pytest.approx(moves / noise, abs=2e-4)


@for_each(("neighbours", "moves"), [("add-remove", 3), ("replace-one", 6)])
@for_each("kind", [ev.DiscreteLaplace, ev.DiscreteGaussian])
@for_each("rate", [1.0, 0.3])
def test_discrete_noise_is_just_above_its_pair(
    neighbours: Neighbours, moves: int, kind: type[ev.Event], rate: float
) -> None:
    event = kind(1.2, 3)
    scale = 1.2 * 3
    at = np.arange(-200, 201)

    def mass(mean: int) -> np.ndarray:
        power = np.abs(at - mean) / scale
        if kind is ev.DiscreteGaussian:
            power = 0.5 * power**2
        weight = np.exp(-power)
        return np.asarray(weight / weight.sum())

    sampled = ev.Poisson(rate, event) if rate < 1 else event
    if rate < 1 and neighbours == "replace-one":
        with pytest.raises(Unsupported, match="one unit is replaced"):
            upper(sampled, 1e-4, neighbours)
        return
    present, absent = (1 - rate) * mass(0) + rate * mass(moves), mass(0)
    orders = ((present, absent), (absent, present))
    truth = max(pair_epsilon(p, q, 1e-4) for p, q in orders)
    assert truth <= upper(sampled, 1e-4, neighbours) <= truth + 3e-4


@for_each("runs", [1, 2, 5])
@for_each("categories", [2, 4])
def test_randomized_response_counts_every_repetition(runs: int, categories: int) -> None:
    odds = math.exp(0.7)
    mass = [odds, 1.0] + [1.0] * (categories - 2)
    p = np.array(mass) / (odds + categories - 1)
    q = p.copy()
    q[[0, 1]] = p[[1, 0]]
    truth = pair_epsilon(p, q, 1e-3, runs)
    event = ev.Repeat(runs, ev.RandomizedResponse(0.7, categories))
    assert truth <= upper(event, 1e-3, "replace-one") <= truth + runs * 1e-4 + 1e-6
    # elsewhere only the epsilon itself is known to hold
    assert upper(event, 1e-3, "add-remove") == upper(ev.Repeat(runs, ev.Pure(0.7)), 1e-3)


@for_each("kind", [ev.Pure, ev.Local, ev.Exponential])
@for_each("neighbours", NEIGHBOURS)
def test_bare_epsilons(kind: type[ev.Event], neighbours: Neighbours) -> None:
    p = [math.exp(0.7) / (1 + math.exp(0.7)), 1 / (1 + math.exp(0.7))]
    truth = pair_epsilon(p, p[::-1], 1e-3, 6)
    result = upper(ev.Repeat(6, kind(0.7)), 1e-3, neighbours)
    assert truth <= result <= truth + 1e-3


def test_approximate_spends_its_delta() -> None:
    event = ev.Repeat(10, ev.Approximate(0.1, 1e-6))
    assert math.isinf(upper(event, 9e-6))
    assert upper(event, 1e-4) < upper(event, 2e-5) <= 1.0 + 1e-3
    assert ENGINE.delta(Composition.of(event), 50.0, "add-remove").bounds.upper >= -math.expm1(
        10 * math.log1p(-1e-6)
    )


def test_composition_of_unlike_events_is_between_its_parts_and_their_sum() -> None:
    laplace = ev.Repeat(10, ev.Laplace(8.0))
    sampled = ev.Repeat(50, ev.Poisson(0.1, ev.Gaussian(2.0)))
    ask = partial(upper, engine=COARSE)
    both = ask(ev.Compose([laplace, sampled]))
    assert both > max(ask(laplace), ask(sampled))
    assert both < ask(laplace, 5e-6) + ask(sampled, 5e-6)
    assert both == pytest.approx(ask(ev.Compose([sampled, laplace])), abs=1e-8)


def test_nothing_and_no_guarantee() -> None:
    assert upper(ev.Compose([])) == 0.0
    assert upper(ev.Poisson(0.0, ev.Laplace(1.0))) == 0.0
    secret = Composition.of(ev.Compose([ev.Gaussian(1.0), ev.NoGuarantee("the seed is public")]))
    assert math.isinf(ENGINE.epsilon(secret, 1e-5, "add-remove").bounds.upper)
    assert ENGINE.delta(secret, 1.0, "add-remove").bounds.upper == 1.0


def test_delta_below_the_floor_is_infinite_with_a_warning() -> None:
    answer = ENGINE.epsilon(Composition.of(ev.Repeat(20, ev.Laplace(5.0))), 1e-16, "add-remove")
    assert math.isinf(answer.bounds.upper)
    assert "resolve" in answer.warnings[0]


def test_losses_beyond_745_are_covered() -> None:
    answer = COARSE.epsilon(Composition([Leaf(ev.Gaussian(0.025), 1)]), 1e-5, "add-remove")
    assert answer.bounds.upper >= 40**2 / 2 + 40 * 4.2
    assert gaussian_delta(40.0, 700.0) > 1e-5  # the truth is beyond 745 indeed
    assert "745" in answer.warnings[0]


@for_each(
    ("event", "neighbours"),
    [
        (ev.FixedSize(1, 10, ev.Gaussian(1.0)), "replace-one"),
        (ev.ZCDP(0.5), "add-remove"),
        (ev.Poisson(0.5, ev.Pure(1.0)), "add-remove"),
        (ev.Poisson(0.5, ev.Laplace(1.0)), "replace-one"),
        (ev.Gaussian(0.001), "add-remove"),
        (ev.Gaussian(1e-200), "add-remove"),
        (ev.Pure(1000.0), "add-remove"),
        (ev.Repeat(10**7, ev.Pure(1.0)), "add-remove"),
        (ev.DiscreteGaussian(0.01, 100), "add-remove"),
    ],
)
def test_refusals(event: ev.Event, neighbours: Neighbours) -> None:
    with pytest.raises(Unsupported) as caught:
        upper(event, 1e-5, neighbours)
    assert caught.value.next_step


def test_input_is_checked() -> None:
    with pytest.raises(InvalidInput, match="discretisation"):
        GoogleEngine(discretisation=0.0)
    with pytest.raises(InvalidInput, match="delta"):
        ENGINE.epsilon(Composition([Leaf(ev.Gaussian(1.0), 1)]), 1.5, "add-remove")
    with pytest.raises(InvalidInput, match="epsilon"):
        ENGINE.delta(Composition([Leaf(ev.Gaussian(1.0), 1)]), -1.0, "add-remove")


def test_the_derivation_says_what_was_done() -> None:
    steps = COARSE.epsilon(
        Composition.of(ev.Repeat(2, ev.Poisson(0.1, ev.Gaussian(1.0)))), 1e-5, "replace-one"
    ).steps
    assert [step.stage for step in steps] == ["sampling", "composition", "conversion"]
    assert "q N(-1)" in steps[0].statement
    assert "lower end is 0" in steps[2].statement
    assert all(step.source for step in steps)
