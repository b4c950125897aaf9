"""The rdp engine: published epsilons, a second library, laws, refusals, speed."""

from __future__ import annotations

import math
import random
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privplan.accountant import events as ev
from privplan.accountant.composition import Composition
from privplan.accountant.engines.gdp import GdpEngine
from privplan.accountant.engines.rdp.conversion import best_epsilon
from privplan.accountant.engines.rdp.curves import curve
from privplan.accountant.engines.rdp.fixed_size import amplified
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.guarantee import NEIGHBOURS, Neighbours

from ..cases import for_each
from .rdp_answers import ADD, ENGINE, REPLACE, delta, epsilon, rounds


@for_each(
    ("event", "at", "truth", "dp_accounting"),
    [
        (rounds(1.0, 0.01, 1000), 1e-5, 1.8282, 2.1014),
        (rounds(0.6, 0.001, 100_000), 1e-6, 6.9608, 7.756),
        (rounds(5.0, 0.1, 5000), 1e-5, 6.6769, 7.194),
        (ev.Repeat(100, ev.Gaussian(10.0)), 1e-5, 4.377178, 4.729),
        (rounds(30.0, 0.01, 1000), 1e-6, 0.03572, 0.041494),
    ],
)
def test_published_epsilons(event: ev.Event, at: float, truth: float, dp_accounting: float) -> None:
    assert truth <= epsilon(event, at) <= dp_accounting + 1e-3


def test_the_optimum_is_not_at_the_edge_of_a_grid() -> None:
    # dp_accounting's default orders stop at 1,024 and leave 0.0415; Opacus's at 63, and 0.1435.
    assert epsilon(rounds(30.0, 0.01, 1000), 1e-6) == pytest.approx(0.0393530, rel=1e-4)


@for_each(("event", "truth"), [(rounds(1.0, 0.01, 1000), 2.8434), (rounds(5.0, 0.1, 5000), 15.42)])
def test_poisson_under_replace_one_is_above_its_pld(event: ev.Event, truth: float) -> None:
    assert truth <= epsilon(event, 1e-5, REPLACE) <= 1.15 * truth


def test_fixed_size_reproduces_the_published_bound_and_improves_on_it() -> None:
    base = curve(ev.Gaussian(1.0), REPLACE)
    published = amplified(base, 0.01)
    result = best_epsilon(lambda orders: 1000 * published(orders), 1e-5)
    assert result.value == pytest.approx(20.987, abs=5e-3)
    assert result.order == pytest.approx(2.0, abs=0.01)
    ours = epsilon(ev.Repeat(1000, ev.FixedSize(100, 10_000, ev.Gaussian(1.0))), 1e-5, REPLACE)
    assert 14.821 <= ours <= 17.0
    other = epsilon(ev.Repeat(200, ev.FixedSize(50, 1000, ev.Gaussian(4.0))), 1e-5, REPLACE)
    assert 1.737 <= other <= 1.91


def test_never_looser_than_dp_accounting_and_never_below_the_closed_form() -> None:
    from dp_accounting import dp_event as dp
    from dp_accounting.rdp import RdpAccountant

    drawn = random.Random(20)
    for _ in range(25):
        parts, theirs = [], []
        for _ in range(drawn.choice((1, 2))):
            noise = math.exp(drawn.uniform(math.log(0.5), math.log(20)))
            rate = drawn.choice((1.0, math.exp(drawn.uniform(math.log(1e-3), math.log(0.9)))))
            count = drawn.choice((1, 7, 400))
            parts.append(ev.Repeat(count, ev.Poisson(rate, ev.Gaussian(noise))))
            sampled = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise))
            theirs.append(dp.SelfComposedDpEvent(sampled, count))
        at = drawn.choice((1e-3, 1e-6, 1e-10))
        accountant = RdpAccountant().compose(dp.ComposedDpEvent(theirs))
        event = ev.Compose(parts)
        ours = epsilon(event, at)
        assert ours <= accountant.get_epsilon(at) * (1 + 1e-6)
        assert delta(event, 1.0) <= accountant.get_delta(1.0) * (1 + 1e-6) + 1e-300
        plain = Composition(
            leaf for leaf in Composition.of(event) if isinstance(leaf.event, ev.Gaussian)
        )
        assert ours >= GdpEngine().epsilon(plain, at, ADD).bounds.lower


def test_one_sampled_round_is_above_its_closed_form() -> None:
    drawn = random.Random(21)
    for _ in range(200):
        noise = math.exp(drawn.uniform(math.log(0.2), math.log(10)))
        rate, at = drawn.uniform(0.001, 0.99), drawn.uniform(0.0, 3.0)
        z = math.exp(at) - 1 + rate
        x = noise**2 * math.log(z / rate) + 0.5
        tail = [0.5 * math.erfc(v / noise / math.sqrt(2)) for v in (x - 1, x)]
        truth = rate * tail[0] - z * tail[1]
        assert truth <= delta(ev.Poisson(rate, ev.Gaussian(noise)), at)


noises = st.floats(0.2, 50.0)
rates = st.floats(1e-4, 1.0)
counts = st.integers(1, 10_000)
more = st.floats(1.0, 3.0)
relations = st.sampled_from(NEIGHBOURS)


@settings(max_examples=40, deadline=None)
@given(noises, rates, counts, more, relations)
def test_epsilon_is_monotone(
    noise: float, rate: float, count: int, factor: float, neighbours: Neighbours
) -> None:
    def at(n: float, r: float, c: int) -> float:
        return epsilon(rounds(n, min(r, 1.0), c), 1e-5, neighbours)

    here = at(noise, rate, count) * (1 + 1e-4) + 1e-9
    assert at(noise * factor, rate, count) <= here
    assert at(noise, rate / factor, count) <= here
    assert at(noise, rate, math.ceil(count / factor)) <= here


@settings(max_examples=25, deadline=None)
@given(noises, st.floats(1e-4, 0.99), st.integers(1, 100))
def test_relations_are_ordered(noise: float, rate: float, count: int) -> None:
    event = rounds(noise, rate, count)
    assert epsilon(event, 1e-5, ADD) == epsilon(event, 1e-5, "zero-out")
    assert epsilon(event, 1e-5, ADD) <= epsilon(event, 1e-5, REPLACE) * (1 + 1e-6)
    assert epsilon(event, 1e-5, REPLACE) <= (
        epsilon(ev.Repeat(count, ev.Gaussian(noise)), 1e-5, REPLACE) * (1 + 1e-4)
    )


@settings(max_examples=25, deadline=None)
@given(st.permutations([0, 1, 2, 3]), st.floats(1e-9, 0.1))
def test_the_order_of_composition_is_irrelevant(order: list[int], at: float) -> None:
    parts = (ev.Gaussian(3.0), rounds(1.0, 0.01, 50), ev.Laplace(4.0), ev.Approximate(0.1, 1e-12))
    shuffled = epsilon(ev.Compose([parts[i] for i in order]), at)
    assert shuffled == pytest.approx(epsilon(ev.Compose(parts), at), rel=1e-12)


@for_each(
    "inner",
    [
        ev.Pure(1.0),
        ev.Local(1.0),
        ev.RandomizedResponse(1.0, 4),
        ev.Exponential(1.0),
        ev.Approximate(1.0, 1e-6),
    ],
)
def test_bare_numbers_are_not_sampled_under_replace_one(inner: ev.Event) -> None:
    with pytest.raises(Unsupported) as refusal:
        epsilon(ev.Poisson(0.1, inner), 1e-5, REPLACE)
    assert inner.type in refusal.value.what
    assert "present with the unit absent" in refusal.value.why
    assert "account under add-remove" in refusal.value.next_step
    assert epsilon(ev.Poisson(0.1, inner), 1e-5, ADD) < epsilon(inner, 1e-5, ADD)


@for_each(
    ("event", "neighbours", "words"),
    [
        (ev.Poisson(0.1, ev.DiscreteGaussian(1.0, 1)), REPLACE, "pld can"),
        (ev.Poisson(0.1, ev.ZCDP(1.0)), ADD, "sampling of `zcdp`"),
        (ev.Poisson(0.0, ev.ZCDP(1.0)), ADD, "sampling of `zcdp`"),
        (ev.Poisson(0.1, ev.FixedSize(1, 9, ev.Gaussian(1.0))), REPLACE, "sampling of `fixed"),
        (ev.FixedSize(1, 9, ev.ZCDP(1.0)), ADD, "under add-remove"),
        (ev.FixedSize(1, 9, ev.Repeat(5, ev.Approximate(0.5, 0.1))), "zero-out", "`approximate`"),
        (ev.FixedSize(1, 9, ev.BestOf("geometric", 3.0, ev.Pure(0.5))), "zero-out", "`best-of`"),
        (
            ev.FixedSize(1, 9, ev.Compose((ev.ZCDP(1.0), ev.Laplace(2.0)))),
            ADD,
            "`zcdp` and `laplace`",
        ),
        (ev.FixedSize(1, 9, ev.Approximate(1.0, 0.1)), REPLACE, "of `approximate`"),
        (ev.FixedSize(1, 9, ev.Poisson(0.5, ev.Gaussian(1.0))), REPLACE, "of `poisson`"),
        (ev.ShuffledBatches(3, ev.FixedSize(2, 9, ev.Gaussian(1.0))), ADD, "under add-remove"),
        (ev.Group(2, ev.Poisson(0.1, ev.ZCDP(1.0))), ADD, "sampling of `zcdp`"),
    ],
)
def test_what_is_not_proven_is_refused(event: ev.Event, neighbours: Neighbours, words: str) -> None:
    with pytest.raises(Unsupported, match=words) as refusal:
        epsilon(event, 1e-5, neighbours)
    assert refusal.value.next_step


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(InvalidInput, match="`delta`"):
        epsilon(ev.Gaussian(1.0), -0.1)
    with pytest.raises(InvalidInput, match="`epsilon`"):
        delta(ev.Gaussian(1.0), math.nan)


def test_the_derivation_names_every_step() -> None:
    steps = ENGINE.epsilon(Composition.of(rounds(1.0, 0.01, 1000)), 1e-5, ADD).steps
    assert [step.stage for step in steps] == ["mechanism", "sampling", "composition", "conversion"]
    assert "1000 releases" in steps[2].statement
    assert "Order 7.7" in steps[3].statement
    assert all("arXiv" in step.source for step in steps)


def test_a_thousand_rounds_take_less_than_twenty_milliseconds() -> None:
    event = Composition.of(rounds(1.0, 0.01, 1000))
    taken = []
    for _ in range(10):
        start = time.process_time()
        ENGINE.epsilon(event, 1e-5, ADD)
        taken.append(time.process_time() - start)
    assert min(taken) < 0.02


def test_slow_scipy_modules_are_not_loaded() -> None:
    code = (
        "import sys, privplan.accountant.engines.rdp, privplan.accountant.engines.gdp;"
        "print([m for m in ('scipy.optimize', 'scipy.stats', 'torch') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
