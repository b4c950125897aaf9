"""Truncated negative binomial numbers of runs, against their series and dp_accounting."""

from __future__ import annotations

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from dp_accounting.rdp import RdpAccountant
from scipy.special import gammaln

from privplan import account
from privplan import events as ev
from privplan.accountant.engines.pld.ask.best_of_runs import RunCount
from privplan.accountant.errors import InvalidInput
from privplan.accountant.events.run_counts import log_inverse_success

from ..cases import for_each

SHAPES = (-0.9, -0.5, 0.0, 1e-9, 0.5, 1.0, 3.0)
ORDERS = np.array([1.2, 1.7, 2.0, 3.0, 5.0, 9.0, 20.0])
GAUSSIAN = ev.Gaussian(3.0)


def masses(shape: float, success: float) -> np.ndarray:
    """P(K = k) for k = 0, 1, ..., from the terms of the binomial series."""
    k = np.arange(1, 200_000)
    logs = k * math.log1p(-success) + gammaln(k + shape) - gammaln(k + 1.0)
    weights = np.exp(logs - logs.max())
    return np.concatenate(([0.0], weights / weights.sum()))


@for_each("shape", SHAPES)
@for_each("success", [0.9, 0.3, 0.01])
def test_the_mean_is_that_of_the_series(shape: float, success: float) -> None:
    series = masses(shape, success)
    assert ev.negative_binomial_mean(shape, success) == pytest.approx(
        float(np.arange(series.size) @ series), rel=1e-9
    )


@for_each("shape", SHAPES)
@for_each("mean", [1.0 + 1e-9, 1.5, 10.0, 1e4])
def test_the_success_probability_of_a_mean_is_rounded_down(shape: float, mean: float) -> None:
    log_inverse = log_inverse_success(shape, mean)
    back = ev.negative_binomial_mean(shape, math.exp(-log_inverse)) if log_inverse < 700 else mean
    assert mean * (1.0 - 1e-13) <= back <= mean * (1.0 + 1e-9)
    assert log_inverse_success(shape, mean * (1.0 + 1e-6)) > log_inverse


def test_the_mean_of_known_laws() -> None:
    assert ev.negative_binomial_mean(1.0, 0.1) == pytest.approx(10.0, rel=1e-14)
    assert ev.negative_binomial_mean(0.0, 0.1) == pytest.approx(9.0 / math.log(10.0), rel=1e-14)
    # Papernot and Steinke: shape -1/2 has mean sqrt(1/g) (1 + sqrt g) / 2.
    assert ev.negative_binomial_mean(-0.5, 0.01) == pytest.approx(10.0 * 1.1 / 2.0, rel=1e-14)
    assert ev.negative_binomial_mean(2.0, 1.0) == 1.0


@for_each("shape", SHAPES)
def test_the_lower_end_knows_the_law_of_its_series(shape: float) -> None:
    mean = 4.0 if shape > -0.9 else 1.3  # next to -1 the series of a larger mean is too long
    number = RunCount.of(ev.BestOf("negative-binomial", mean, GAUSSIAN, shape))
    series = masses(shape, math.exp(-log_inverse_success(shape, mean)))
    x = np.array([1e-9, 1e-4, 0.03, 0.5, 1.0])
    k = np.arange(series.size)
    hit = np.array([-np.expm1(k * np.log1p(-each)) @ series if each < 1.0 else 1.0 for each in x])
    assert number.hit(x) == pytest.approx(hit, rel=1e-6)
    assert number.miss(x) == pytest.approx(1.0 - hit, abs=1e-9)


@for_each(("shape", "name"), [(1.0, "geometric"), (0.0, "logarithmic")])
@for_each("mean", [1.0, 2.5, 40.0])
def test_shapes_with_a_name_give_the_same_numbers(shape: float, name: str, mean: float) -> None:
    for run in (GAUSSIAN, ev.Pure(0.3)):
        named = account(ev.BestOf(name, mean, run), delta=1e-6).epsilon
        shaped = account(ev.BestOf("negative-binomial", mean, run, shape), delta=1e-6).epsilon
        assert (named.lower, named.upper) == (shaped.lower, shaped.upper)


@for_each("shape", [0.25, 0.5, 3.0])  # theirs stops at 0
def test_it_is_at_most_what_dp_accounting_says(shape: float) -> None:
    event = ev.BestOf("negative-binomial", 10.0, ev.Gaussian(4.0), shape)
    ours = account(event, delta=1e-6)
    theirs = RdpAccountant()
    theirs.compose(RepeatAndSelectDpEvent(dp_accounting.GaussianDpEvent(4.0), 10.0, shape))
    assert ours.epsilon.upper <= theirs.get_epsilon(1e-6) * (1.0 + 1e-6)
    assert ours.epsilon.upper >= 0.9 * theirs.get_epsilon(1e-6)
    assert 0.0 < ours.epsilon.lower < ours.epsilon.upper
    assert ev.from_dp_event(ev.to_dp_event(event)) == event


def test_the_bound_grows_with_shape_and_mean() -> None:
    def upper(shape: float, mean: float) -> float:
        event = ev.BestOf("negative-binomial", mean, GAUSSIAN, shape)
        return account(event, delta=1e-6).epsilon.upper

    by_shape = [upper(shape, 10.0) for shape in SHAPES]
    assert by_shape == sorted(by_shape)
    assert upper(0.5, 2.0) < upper(0.5, 20.0)
    # A single run, for sure, costs what one run does, up to the conversion of Renyi curves.
    assert upper(0.5, 1.0) == pytest.approx(
        account(GAUSSIAN, delta=1e-6, engine="rdp").epsilon.upper, rel=1e-9
    )


@for_each(("shape", "mean"), [(0.5, 0.9), (-1.0 + 1e-12, 50.0)])
def test_a_mean_that_no_such_law_has_is_refused(shape: float, mean: float) -> None:
    with pytest.raises(InvalidInput, match="mean"):
        account(ev.BestOf("negative-binomial", mean, GAUSSIAN, shape), delta=1e-6)
