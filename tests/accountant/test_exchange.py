"""Events travel to dp_accounting and back, or are refused by name."""

import math
import re

import pytest
from dp_accounting import dp_event as dp
from dp_accounting.pld import PLDAccountant
from dp_accounting.privacy_accountant import NeighboringRelation
from hypothesis import given, settings
from hypothesis import strategies as st

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported, with_article
from privplan.accountant.events.dp_accounting_exchange import from_dp_event, to_dp_event

from ..cases import for_each

noises = st.floats(1e-6, 1e6)
rates = st.floats(0.0, 1.0)
counts = st.integers(1, 10**6)
sizes = st.tuples(counts, counts).map(sorted)
gaussians = st.builds(ev.Gaussian, noises)
SINGLE = ev.SingleParticipation()
simple = st.one_of(
    gaussians,
    st.builds(ev.Laplace, noises),
    st.builds(ev.ZCDP, st.floats(0.0, 100.0)),
    st.builds(
        lambda noise, steps: ev.MatrixGaussian(noise, ev.TreeStrategy(steps, 2), SINGLE),
        noises,
        counts,
    ),
    st.builds(lambda rate, size, s: ev.TruncatedPoisson(rate, *size, s), rates, sizes, gaussians),
)
SEARCHES = ["poisson", "geometric", "logarithmic"]
exact = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.builds(ev.Poisson, rates, inner),
        st.builds(lambda size, event: ev.FixedSize(*size, event), sizes, inner),
        st.builds(ev.Repeat, counts, inner),
        st.builds(ev.Compose, st.lists(inner, max_size=3)),
        st.builds(ev.BestOf, st.sampled_from(SEARCHES), st.floats(1.0, 100.0), inner),
    ),
    max_leaves=6,
)


@settings(max_examples=60)
@given(exact)
def test_there_and_back_is_exact(event: ev.Event) -> None:
    assert from_dp_event(to_dp_event(event)) == event
    assert ev.from_dp_event(event.to_dp_event()) == event


@settings(max_examples=60)
@given(st.floats(1e-3, 1e3), st.integers(1, 100))
def test_discrete_laplace_keeps_its_distribution(parameter: float, sensitivity: int) -> None:
    theirs = dp.DiscreteLaplaceDpEvent(parameter, sensitivity)
    ours = from_dp_event(theirs)
    assert isinstance(ours, ev.DiscreteLaplace)
    # exp(-a |z|) there is exp(-|z| / (noise * sensitivity)) here
    assert ours.noise_multiplier * ours.sensitivity == pytest.approx(1 / parameter, rel=1e-15)
    back = to_dp_event(ours)
    assert back.noise_parameter == pytest.approx(parameter, rel=1e-15)
    assert back.sensitivity == sensitivity


def test_most_parameters_of_discrete_laplace_come_back_to_the_last_bit() -> None:
    given_ = [index / 97 for index in range(1, 400)]
    back = [to_dp_event(from_dp_event(dp.DiscreteLaplaceDpEvent(a, 3))) for a in given_]
    kept = sum(event.noise_parameter == a for event, a in zip(back, given_, strict=True))
    assert kept > 0.75 * len(given_)


@settings(max_examples=60)
@given(st.floats(1e-6, 30.0), st.integers(2, 1000))
def test_randomized_response_keeps_its_odds(epsilon: float, categories: int) -> None:
    theirs = to_dp_event(ev.RandomizedResponse(epsilon, categories))
    share = theirs.noise_parameter / categories
    assert math.log1p((1 - theirs.noise_parameter) / share) == pytest.approx(epsilon, abs=1e-9)
    back = from_dp_event(theirs)
    assert isinstance(back, ev.RandomizedResponse)
    assert back.categories == categories
    assert back.epsilon == pytest.approx(epsilon, abs=1e-9)


def test_randomized_response_costs_its_epsilon_over_there() -> None:
    accountant = PLDAccountant(NeighboringRelation.REPLACE_ONE)
    accountant.compose(to_dp_event(ev.RandomizedResponse(1.5, 4)))
    # the true value is 1.5, so the divergence at 1.49 is (1 - e^(1.49 - 1.5)) P[true value]
    truth = math.exp(1.5) / (math.exp(1.5) + 3)
    assert accountant.get_delta(1.49) == pytest.approx(-math.expm1(-0.01) * truth, rel=0.02)
    assert accountant.get_delta(1.5001) == 0.0


def test_discrete_laplace_costs_its_epsilon_over_there() -> None:
    accountant = PLDAccountant()
    accountant.compose(to_dp_event(ev.DiscreteLaplace(0.5, 3)))
    assert accountant.get_epsilon(0.0) == pytest.approx(2.0, abs=2e-4)


NOISE = dp.GaussianDpEvent(1.0)
OURS = ev.Gaussian(1.0)


@for_each(
    ("theirs", "ours"),
    [
        (dp.NoOpDpEvent(), ev.Compose([])),
        (dp.ComposedDpEvent([]), ev.Compose([])),
        (dp.SampledWithoutReplacementDpEvent(50, 5, NOISE), ev.FixedSize(5, 50, OURS)),
        (dp.SampledWithReplacementDpEvent(50, 5, NOISE), ev.WithReplacement(5, 50, OURS)),
        (dp.LaplaceDpEvent(0.0), ev.NoGuarantee("the noise multiplier is 0")),
        (
            dp.TruncatedSubsampledGaussianDpEvent(1000, 0.01, 20, 1.5),
            ev.TruncatedPoisson(0.01, 20, 1000, ev.Gaussian(1.5)),
        ),
        (dp.RepeatAndSelectDpEvent(NOISE, 10, math.inf), ev.BestOf("poisson", 10.0, OURS)),
        (dp.RepeatAndSelectDpEvent(NOISE, 10, 1), ev.BestOf("geometric", 10.0, OURS)),
        (
            dp.RepeatAndSelectDpEvent(NOISE, 10, 0.5),
            ev.BestOf("negative-binomial", 10.0, OURS, 0.5),
        ),
        (dp.ZCDpEvent(0.5), ev.ZCDP(0.5)),
        (
            dp.SingleEpochTreeAggregationDpEvent(2.0, [4, 9, 1]),
            ev.MatrixGaussian(2.0, ev.TreeStrategy(9, 2), ev.SingleParticipation()),
        ),
    ],
)
def test_import(theirs: dp.DpEvent, ours: ev.Event) -> None:
    assert from_dp_event(theirs) == ours


def test_no_guarantee() -> None:
    assert isinstance(to_dp_event(ev.NoGuarantee("a fixed seed")), dp.NonPrivateDpEvent)
    assert isinstance(from_dp_event(dp.NonPrivateDpEvent()), ev.NoGuarantee)


@for_each(
    "event",
    [
        ev.Pure(1.0),
        ev.Approximate(1.0, 1e-5),
        ev.Local(1.0),
        ev.Exponential(1.0),
        ev.DiscreteGaussian(1.0, 3),
        ev.Group(2, ev.Gaussian(1.0)),
        ev.MatrixGaussian(1.0, ev.TreeStrategy(8, 3), ev.SingleParticipation()),
        ev.MatrixGaussian(1.0, ev.TreeStrategy(8, 2), ev.EpochParticipation(2)),
        ev.Shuffle(100, ev.Laplace(1.0)),
        ev.ShuffledBatches(10, ev.Gaussian(1.0)),
        ev.BestOf("fixed", 10, ev.Gaussian(1.0)),
        ev.RandomizedResponse(1000.0, 2),
    ],
)
def test_export_refuses_and_names_the_part(event: ev.Event) -> None:
    part = re.escape(f"`event.events[1].event`, {with_article(event.type)},")
    with pytest.raises(Unsupported, match=part):
        to_dp_event(ev.Compose([ev.Gaussian(1.0), ev.Repeat(2, event)]))
    with pytest.raises(Unsupported, match=r"`event\.event`, a laplace"):
        to_dp_event(ev.TruncatedPoisson(0.1, 5, 10, ev.Laplace(1.0)))


@for_each(
    "theirs",
    [
        dp.UnsupportedDpEvent(),
        dp.ZCDpEvent(0.5, xi=0.1),
        dp.MixtureOfGaussiansDpEvent(1.0, [1.0], [0.5]),
    ],
)
def test_import_refuses_and_names_the_part(theirs: dp.DpEvent) -> None:
    name = type(theirs).__name__
    with pytest.raises(Unsupported, match=rf"`event\.events\[0\]`, {with_article(name)},"):
        from_dp_event(dp.ComposedDpEvent([theirs]))


def test_import_refuses_a_class_that_only_borrows_a_name() -> None:
    class GaussianDpEvent(dp.DpEvent):
        noise_multiplier = 1.0

    with pytest.raises(Unsupported, match="GaussianDpEvent"):
        from_dp_event(GaussianDpEvent())


@for_each(
    ("theirs", "field"),
    [
        (dp.GaussianDpEvent("x"), "noise_multiplier"),  # type: ignore[arg-type]
        (dp.GaussianDpEvent(-1.0), "noise_multiplier"),
        (dp.GaussianDpEvent(False), "noise_multiplier"),
        (dp.LaplaceDpEvent(math.nan), "noise_multiplier"),
        (dp.PoissonSampledDpEvent(1.7, dp.GaussianDpEvent(1.0)), "rate"),
        (dp.SelfComposedDpEvent(dp.GaussianDpEvent(1.0), 0), "count"),
        (dp.SelfComposedDpEvent(dp.GaussianDpEvent(1.0), 1.5), "count"),  # type: ignore[arg-type]
        (dp.DiscreteLaplaceDpEvent(0.0, 1), "noise_parameter"),
        (dp.DiscreteLaplaceDpEvent(1.0, 0), "sensitivity"),
        (dp.RandomizedResponseDpEvent(0.0, 2), "noise_parameter"),
        (dp.RandomizedResponseDpEvent(1.2, 2), "noise_parameter"),
        (dp.RandomizedResponseDpEvent(0.5, 1), "num_buckets"),
        (dp.ZCDpEvent(-1.0), "rho"),
        (dp.SampledWithoutReplacementDpEvent(5, 6, dp.GaussianDpEvent(1.0)), "batch"),
        (dp.RepeatAndSelectDpEvent(dp.GaussianDpEvent(1.0), 0.5, 1), "mean"),
        (dp.RepeatAndSelectDpEvent(dp.GaussianDpEvent(1.0), 2.0, "x"), "shape"),  # type: ignore[arg-type]
        (dp.ComposedDpEvent(3), "events"),  # type: ignore[arg-type]
        (dp.SelfComposedDpEvent("gaussian", 2), "event.events[0].event"),  # type: ignore[arg-type]
    ],
)
def test_import_checks_what_dp_accounting_does_not(theirs: dp.DpEvent, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        from_dp_event(dp.ComposedDpEvent([theirs]))
    assert f"`{field}`" in caught.value.what
    assert "event.events[0]" in caught.value.what


def test_nesting_is_bounded_both_ways() -> None:
    theirs: dp.DpEvent = dp.GaussianDpEvent(1.0)
    ours: ev.Event = ev.Gaussian(1.0)
    for _ in range(ev.MAX_DEPTH + 1):
        theirs, ours = dp.SelfComposedDpEvent(theirs, 1), ev.Repeat(1, ours)
    with pytest.raises(InvalidInput, match="levels deep"):
        from_dp_event(theirs)
    with pytest.raises(InvalidInput, match="levels deep"):
        to_dp_event(ours)


@for_each(("epsilon", "categories"), [(2.5, 10**17), (1.0, 2**53 + 1)])
def test_a_response_whose_epsilon_would_be_lost_is_not_exported(epsilon, categories):
    with pytest.raises(Unsupported, match="would not give its epsilon back"):
        to_dp_event(ev.RandomizedResponse(epsilon, categories))
