"""What is said of an answer that is wide, and the lower ends of random searches."""

from __future__ import annotations

import math
import re
from functools import partial

import numpy as np
import pytest
from scipy.stats import norm

from privplan.accountant import events as ev
from privplan.accountant.account import account, bounds_on_epsilon
from privplan.accountant.calibrate import calibrate
from privplan.accountant.composition import Composition
from privplan.accountant.engines.base import Answer
from privplan.accountant.engines.pld.ask.best_of_runs import RunCount, best_of_lower
from privplan.accountant.engines.pld.ask.caveats import with_caveats
from privplan.accountant.errors import EnginesDisagree
from privplan.accountant.event_tree import rewritten
from privplan.accountant.guarantee import Bounds

from ..cases import for_each

GAUSSIAN = ev.Gaussian(1.0)
SMALL = ev.Poisson(0.1, ev.Gaussian(3.0))
RATE = 256 / 60_000


def capped(cap, noise=1.0):
    return ev.Repeat(2340, ev.TruncatedPoisson(RATE, cap, 60_000, ev.Gaussian(noise)))


def small_capped(noise, cap=11):
    return ev.Repeat(50, ev.TruncatedPoisson(0.1, cap, 100, ev.Gaussian(noise)))


def plain(noise=1.0):
    return ev.Repeat(2340, ev.Poisson(RATE, ev.Gaussian(noise)))


def caps_in(warning):
    """The numbers of the caps that a warning says cost nearly nothing."""
    named = re.search(r"caps? of ([\d, and]+?) would keep", warning, re.IGNORECASE).group(1)
    return [int(number.replace(",", "")) for number in named.split(" and ")]


@for_each(
    "event",
    [
        ev.TruncatedGeometricSelection(1.0, 1e-5, 3),
        ev.TruncatedDiscreteGaussian(2.0, 1, 3),
        ev.Repeat(7, ev.Approximate(1.0, 1e-4)),
    ],
    ids=lambda event: event.type,
)
def test_where_no_epsilon_is_proven_the_least_delta_that_has_one_is_named(event):
    (warning,) = [each for each in account(event, delta=1e-6).warnings if "From delta" in each]
    named = float(re.search(r"From delta (\S+) on", warning)[1])
    assert math.isfinite(account(event, delta=named).epsilon.upper)
    # One that is a hundredth less has none: it is below what any epsilon leaves.
    assert account(event, epsilon=1000.0).delta.lower > 0.99 * named
    assert math.isinf(account(event, delta=0.99 * named).epsilon.upper)


def test_a_release_that_protects_nobody_has_no_such_delta():
    assert not any(
        "From delta" in each for each in account(ev.NoGuarantee("x"), delta=0.1).warnings
    )


@for_each(("most", "said"), [(10, False), (20, True)])
def test_more_rounds_than_fit_are_named_with_how_many_fit(most, said):
    strategy = ev.ToeplitzStrategy(100, [1.0, 0.5])
    run = ev.MatrixGaussian(4.0, strategy, ev.SeparatedParticipation(most, 10))
    fits = ev.MatrixGaussian(4.0, strategy, ev.SeparatedParticipation(10, 10))
    found = account(run, delta=1e-5)
    assert found.epsilon == account(fits, delta=1e-5).epsilon
    assert any("at most 10 fit" in each and "Give 10" in each for each in found.warnings) == said


@for_each(
    ("run", "sampled", "cap", "relation"),
    [
        (capped, plain(), 260, "add-remove"),
        (partial(small_capped, 3.0), ev.Repeat(50, SMALL), 12, "zero-out"),
    ],
)
def test_the_cap_that_is_named_costs_nearly_nothing_and_about_the_next_lower_one_does(
    run, sampled, cap, relation
):
    ask = partial(account, delta=1e-5, neighbours=relation, engine="pld")
    (warning,) = ask(run(cap)).warnings
    assert f"cap of {cap} units" in warning
    assert "Poisson sampling" in warning
    (named,) = caps_in(warning)
    most = 1.01 * ask(sampled).epsilon.upper
    at = ask(run(named))
    assert at.epsilon.upper <= most
    assert not at.warnings
    assert bounds_on_epsilon(run(named - 3), delta=1e-5, neighbours=relation).upper > most


def test_a_cap_is_named_when_delta_is_asked_for_too():
    (warning,) = account(small_capped(3.0), epsilon=1.0).warnings
    (named,) = caps_in(warning)
    at = float(re.search(r"at delta ([\d.e-]+)", warning).group(1))
    poisson = bounds_on_epsilon(ev.Repeat(50, SMALL), delta=at)
    assert bounds_on_epsilon(small_capped(3.0, named), delta=at).upper <= 1.0101 * poisson.upper


def test_several_caps_are_raised_together():
    small, other = small_capped(3.0), ev.TruncatedPoisson(0.2, 22, 100, ev.Gaussian(6.0))
    event = ev.Compose([small, ev.Repeat(30, other)])
    (warning,) = account(event, delta=1e-5).warnings
    first, second = caps_in(warning)
    assert first > 11
    assert second > 22
    raised = {small.event: small_capped(3.0, first).event}
    raised[other] = ev.TruncatedPoisson(0.2, second, 100, ev.Gaussian(6.0))
    better = rewritten(event, lambda each: raised.get(each, each))
    poisson = [(50, SMALL), (30, ev.Poisson(0.2, ev.Gaussian(6.0)))]
    plainly = ev.Compose([ev.Repeat(count, sampled) for count, sampled in poisson])
    most = 1.01 * bounds_on_epsilon(plainly, delta=1e-5).upper
    assert bounds_on_epsilon(better, delta=1e-5).upper <= most


def test_a_cap_that_costs_nothing_is_not_spoken_of():
    for cap in (340, 60_000):
        assert account(capped(cap), delta=1e-5, engine="pld").warnings == ()


def test_calibration_speaks_of_the_cap():
    (warning,) = calibrate(small_capped, epsilon=1.0, delta=1e-5).guarantee.warnings
    assert caps_in(warning)[0] > 11


WIDE = [
    (ev.Repeat(3, ev.RandomAllocation(50, 1, GAUSSIAN)), "replace-one", "random allocation"),
    (ev.RandomAllocation(20, 8, ev.Gaussian(0.6)), "add-remove", "part of the run"),
    (ev.Shuffle(1000, ev.Laplace(2.0)), "replace-one", "shuffled messages"),
    (ev.Repeat(9, ev.ShuffledBatches(30, GAUSSIAN)), "zero-out", "random order"),
    (ev.BestOf("geometric", 10, GAUSSIAN), "add-remove", "random number of runs"),
]


@for_each(("event", "relation", "words"), WIDE)
def test_a_wide_answer_says_by_how_much_and_why(event, relation, words):
    found = account(event, delta=1e-5, neighbours=relation)
    ratio = found.epsilon.upper / found.epsilon.lower
    assert ratio > 1.1
    (warning,) = [text for text in found.warnings if "apart by a factor" in text]
    assert f"factor of {ratio:.3g}:" in warning
    assert words in warning


def test_runs_of_which_nothing_is_known_from_below_have_no_lower_end():
    found = account(ev.BestOf("poisson", 10, ev.ZCDP(0.1)), delta=1e-5)
    assert found.epsilon.lower == 0.0
    assert any("The lower end is 0: none is known" in text for text in found.warnings)


@for_each(
    ("event", "relation"),
    [
        (ev.Repeat(10, ev.Poisson(0.1, GAUSSIAN)), "add-remove"),
        (ev.Repeat(3, ev.RandomAllocation(50, 1, GAUSSIAN)), "add-remove"),
        (ev.RandomAllocation(5, 5, GAUSSIAN), "replace-one"),
        (ev.Pure(1.0), "add-remove"),
        (ev.FixedSize(5, 50, GAUSSIAN), "add-remove"),
    ],
)
def test_an_answer_that_is_not_wide_for_these_causes_says_nothing(event, relation):
    assert account(event, delta=1e-5, neighbours=relation).warnings == ()


KINDS = ("geometric", "logarithmic", "poisson")


def generating(kind, mean):
    """E[x^K] by its series, K the number of runs."""
    k = np.arange(0, 4000)
    if kind == "poisson":
        logs = k * math.log(mean) - mean - np.array([math.lgamma(n + 1.0) for n in k])
        masses = np.exp(logs)
    elif kind == "geometric":
        masses = np.where(k > 0, (1.0 - 1.0 / mean) ** (k - 1.0) / mean, 0.0)
    else:
        low, high = 1e-12, 1.0
        for _ in range(200):
            g = 0.5 * (low + high)
            low, high = (g, high) if (1.0 / g - 1.0) / -math.log(g) > mean else (low, g)
        masses = np.zeros(k.size)
        masses[1:] = (1.0 - g) ** k[1:] / k[1:] / -math.log(g)
    assert (masses * k).sum() == pytest.approx(mean, rel=1e-6)
    return lambda x: (masses * np.power.outer(x, k)).sum(axis=-1)


@for_each("kind", KINDS)
@for_each("mean", [2.0, 30.0])
def test_the_number_of_runs_has_the_law_of_its_series(kind, mean):
    x = np.array([1e-9, 1e-4, 0.03, 0.5, 1.0])
    series = 1.0 - generating(kind, mean)(1.0 - x)
    number = RunCount.of(ev.BestOf(kind, mean, GAUSSIAN))
    assert number.hit(x) == pytest.approx(series, rel=1e-6, abs=1e-13)
    rest = series[-1] - series
    assert number.miss(x) == pytest.approx(rest, rel=1e-6, abs=1e-13)
    assert -math.expm1(number.log_any_run) == pytest.approx(
        float(generating(kind, mean)(np.zeros(1))[0]), abs=1e-12
    )


def best_test(f, noise, epsilon):
    """What the best half line beyond loss 0 shows, as the first choice and as the last."""
    x = np.linspace(0.5, 1.0 + 6.0 * noise, 60)
    p, q = (f(norm.cdf(x, centre, noise)) for centre in (1.0, 0.0))
    none = f(np.zeros(1))
    order = math.exp(epsilon)
    return (1.0 - p - order * (1.0 - q)).max(), (q - none - order * (p - none)).max()


@pytest.mark.quick(3)
@for_each("kind", KINDS)
@for_each("mean", [2.0, 30.0])
@for_each("noise", [0.8, 3.0])
def test_a_search_shows_no_more_than_the_largest_or_least_or_any_of_its_runs(kind, mean, noise):
    """The exact laws of the largest and the least of K outputs, and of one by chance."""
    event = ev.BestOf(kind, mean, ev.Gaussian(noise))
    x = np.linspace(-9.0 * noise, 1.0 + 9.0 * noise, 301)
    f = generating(kind, mean)
    made = 1.0 - float(f(np.zeros(1))[0])
    laws = []
    for below in (norm.cdf, norm.sf):
        p, q = (f(below(x, centre, noise)) for centre in (1.0, 0.0))
        laws.append([np.abs(np.diff(each)) for each in (p, q)])
    laws.append([made * np.diff(norm.cdf(x, centre, noise)) for centre in (1.0, 0.0)])
    for epsilon in (0.2, 1.0, 2.0):
        exact = max(
            np.maximum(one - math.exp(epsilon) * other, 0.0).sum()
            for p, q in laws
            for one, other in ((p, q), (q, p))
        )
        lower, step = best_of_lower(Composition.of(event), "add-remove", epsilon=epsilon)
        assert lower <= exact * (1 + 1e-3)
        assert lower >= 0.85 * max(best_test(f, noise, epsilon)) - 1e-12
        found = account(event, epsilon=epsilon)
        assert found.delta.lower == lower
        assert step in found.derivation
        back, _ = best_of_lower(Composition.of(event), "add-remove", delta=max(exact, 1e-12))
        assert back <= epsilon * (1 + 5e-3)


@for_each("kind", ["geometric", "poisson"])
def test_a_search_over_compositions_has_a_lower_end_above_that_of_one_run(kind):
    run = ev.Repeat(100, ev.Poisson(0.05, GAUSSIAN))
    found = account(ev.BestOf(kind, 40, run), delta=1e-5).epsilon
    assert bounds_on_epsilon(run, delta=1e-5).lower * 1.1 < found.lower < found.upper
    once, _ = best_of_lower(Composition.of(ev.BestOf(kind, 1, run)), "add-remove", delta=1e-5)
    made = 1.0 - math.exp(-1.0) if kind == "poisson" else 1.0
    assert once >= bounds_on_epsilon(run, delta=1e-5 / made).lower * (1 - 1e-6)


def test_searches_among_other_releases_count_as_one_run_each():
    search, other = ev.BestOf("geometric", 5, ev.Laplace(2.0)), ev.Gaussian(4.0)
    found = account(ev.Compose([ev.Repeat(2, search), other]), delta=1e-5).epsilon
    single = account(ev.Compose([ev.Repeat(2, ev.Laplace(2.0)), other]), delta=1e-5).epsilon
    assert found.lower == pytest.approx(single.lower, rel=1e-6)
    assert found.upper > single.upper
    seldom = ev.Repeat(50, ev.BestOf("poisson", 0.01, ev.Laplace(2.0)))
    assert account(seldom, delta=1e-5).epsilon.lower == 0.0


def test_a_search_inside_the_best_of_several_has_no_lower_end():
    inner = ev.BestOf("geometric", 5, GAUSSIAN)
    assert (
        best_of_lower(Composition.of(ev.BestOf("fixed", 3, inner)), "add-remove", delta=1e-5)
        is None
    )
    assert best_of_lower(Composition.of(GAUSSIAN), "add-remove", delta=1e-5) is None


def test_a_lower_end_above_the_upper_one_is_an_error():
    event = ev.BestOf("geometric", 10, GAUSSIAN)
    with pytest.raises(EnginesDisagree, match="shows at least"):
        with_caveats(
            event, Composition.of(event), Answer(Bounds(0.0, 1.0), ()), "add-remove", delta=1e-5
        )


def test_events_are_rewritten_from_the_inside_out_and_else_left_alone():
    event = ev.Compose([ev.Repeat(3, ev.Poisson(0.1, GAUSSIAN)), ev.Group(2, ev.Laplace(1.0))])
    assert rewritten(event, lambda each: each) is event
    coarser = rewritten(event, lambda each: ev.Gaussian(2.0) if each == GAUSSIAN else each)
    assert coarser == ev.Compose(
        [ev.Repeat(3, ev.Poisson(0.1, ev.Gaussian(2.0))), ev.Group(2, ev.Laplace(1.0))]
    )
    assert Composition.of(coarser)[0].event.event == ev.Gaussian(2.0)


@for_each("mean", [1e-16, 1.7e-16, 1.5e-15, 1e-10, 1e-7])
def test_a_search_that_hardly_ever_runs_shows_no_more_than_that_it_ran(mean: float) -> None:
    """Delta is at most P(K >= 1), and that at most the mean number of runs."""
    found = account(ev.BestOf("poisson", mean, ev.Gaussian(0.05)), epsilon=1.0).delta
    assert found.lower <= mean


def test_a_cap_is_not_blamed_for_the_looseness_of_another_engine() -> None:
    """RDP proves 6.4 here and pld 2.7: what the cap costs is the latter's distance to 1.8."""
    event = ev.Repeat(1000, ev.TruncatedPoisson(0.01, 650, 60_000, ev.Gaussian(1.0)))
    loose = account(event, delta=1e-5, engine="rdp")
    tight = account(event, delta=1e-5, engine="pld")
    (said,) = (text for text in loose.warnings if "cap of 650" in text)
    (also,) = (text for text in tight.warnings if "cap of 650" in text)
    assert loose.epsilon.upper > 2.0 * tight.epsilon.upper
    assert said == also
