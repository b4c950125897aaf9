"""Runs with correlated noise, through the front door: engines, groups, samples, other libraries."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from dp_accounting import dp_event as dp
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp import RdpAccountant
from scipy.stats import norm

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.composition import Composition
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.odometer import Odometer
from privplan.accountant.sensitivity.matrix import sensitivity_bounds

from ..cases import for_each
from .strategies import by_signs

SINGLE = ev.SingleParticipation()
TWICE = ev.SeparatedParticipation(2, 1)
DIFFERENCES = ev.DenseStrategy([[1, 0], [-1, 1]])
RELATIONS = ("add-remove", "zero-out", "replace-one")


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the closed form for N(0, 1) against N(mu, 1)."""
    at = mu / 2 - epsilon / mu
    return float(norm.cdf(at) - math.exp(epsilon) * norm.cdf(at - mu))


@for_each("relation", RELATIONS)
def test_a_run_is_a_gaussian_over_its_sensitivity(relation: str) -> None:
    run = ev.MatrixGaussian(3.0, DIFFERENCES, TWICE)
    whole = ev.Gaussian(3.0 / math.sqrt(5.0))
    for delta in (1e-10, 1e-5, 0.1):
        found = pp.account(run, delta=delta, neighbours=relation)
        expected = pp.account(whole, delta=delta, neighbours=relation)
        assert found.engine == "gdp"
        assert found.epsilon.lower <= expected.epsilon.upper
        assert expected.epsilon.lower <= found.epsilon.upper
        assert found.epsilon.upper == pytest.approx(expected.epsilon.upper, rel=1e-9)
        assert found.epsilon.gap <= 1e-9 * found.epsilon.upper


@pytest.mark.quick(3)
@for_each("seed", range(4))
@for_each("engine", ["gdp", "pld", "rdp"])
def test_every_engine_holds_for_small_strategies(engine: str, seed: int) -> None:
    generator = np.random.default_rng(seed)
    steps = int(generator.integers(2, 6))
    rows = np.tril(generator.standard_normal((steps, steps)).round(2), -1) + np.eye(steps)
    participation = ev.SeparatedParticipation(int(generator.integers(1, 4)), 1)
    noise = float(generator.uniform(2.0, 8.0))
    run = ev.MatrixGaussian(noise, ev.DenseStrategy(rows.tolist()), participation)
    attained = by_signs(rows, participation) / noise
    for relation, mu in (("add-remove", attained), ("replace-one", 2 * attained)):
        found = pp.account(run, epsilon=1.0, neighbours=relation, engine=engine).delta
        assert found.upper >= gaussian_delta(mu, 1.0) * (1 - 1e-9)
        if engine != "rdp" and sensitivity_bounds(run.strategy, participation).exact:
            assert found.lower > 0.0


def test_between_bounds_where_the_sensitivity_is() -> None:
    rows = np.random.default_rng(5).standard_normal((60, 60)).tolist()
    strategy, often = ev.DenseStrategy(rows), ev.SeparatedParticipation(6, 5)
    sensitivity = sensitivity_bounds(strategy, often)
    assert not sensitivity.exact
    found = pp.account(ev.MatrixGaussian(50.0, strategy, often), delta=1e-5)
    for end, bound in (
        (found.epsilon.lower, sensitivity.bounds.lower),
        (found.epsilon.upper, sensitivity.bounds.upper),
    ):
        assert gaussian_delta(bound / 50.0, end) == pytest.approx(1e-5, rel=1e-6)
    first = found.derivation[0]
    assert "at least" in first.statement
    rounds = "every unit contributes in at most 6 rounds, any two at least 5 apart"
    assert rounds in first.conditions
    assert any(rounds in warning for warning in found.warnings)
    assert any("only known between bounds" in warning for warning in found.warnings)


def test_hidden_bins_have_no_lower_end_from_a_fixed_one() -> None:
    known = ev.MatrixGaussian(2.0, ev.TreeStrategy(8, 2), ev.EpochParticipation(2))
    hidden = ev.MatrixGaussian(2.0, ev.TreeStrategy(8, 2), ev.BallsInBins(4))
    upper = pp.account(known, delta=1e-5).epsilon.upper
    found = pp.account(hidden, delta=1e-5).epsilon
    assert found.upper <= upper * (1 + 1e-3)
    assert found.lower < upper


def test_replace_one_says_why_it_is_twice() -> None:
    found = pp.account(
        ev.MatrixGaussian(2.0, DIFFERENCES, TWICE), delta=1e-5, neighbours="replace-one"
    )
    assert any("opposite ones" in each for each in found.derivation[0].conditions)


def test_a_run_that_is_repeated_draws_fresh_noise() -> None:
    run = ev.MatrixGaussian(4.0, ev.TreeStrategy(8, 2), SINGLE)
    found = pp.account(ev.Compose([ev.Repeat(3, run), ev.Gaussian(2.0)]), epsilon=1.0)
    mu = math.sqrt(3 * 4 / 16 + 1 / 4)
    assert found.engine == "gdp"
    assert found.delta.upper == pytest.approx(gaussian_delta(mu, 1.0), rel=1e-9)
    mixed = pp.account(ev.Compose([run, ev.Laplace(2.0)]), delta=1e-5)
    plain = pp.account(ev.Compose([ev.Gaussian(2.0), ev.Laplace(2.0)]), delta=1e-5)
    assert mixed.epsilon.upper == pytest.approx(plain.epsilon.upper, rel=1e-3)
    assert mixed.epsilon.lower > 0.0


def test_a_group_moves_as_many_times_as_much() -> None:
    run = ev.MatrixGaussian(6.0, DIFFERENCES, TWICE)
    grouped = pp.account(ev.Group(3, run), delta=1e-5)
    alone = pp.account(ev.MatrixGaussian(2.0, DIFFERENCES, TWICE), delta=1e-5)
    assert grouped.unit == "group of 3 records"
    assert grouped.epsilon.upper == pytest.approx(alone.epsilon.upper, rel=1e-12)


@for_each("inside", [lambda run: run, lambda run: ev.Repeat(1, run)])
@for_each("engine", [None, "gdp", "pld", "rdp"])
def test_a_sample_around_a_run_is_refused_with_what_can_be_asked(inside, engine) -> None:
    event = ev.Poisson(0.1, inside(ev.MatrixGaussian(6.0, DIFFERENCES, TWICE)))
    with pytest.raises(Unsupported) as caught:
        pp.account(event, delta=1e-5, engine=engine)
    assert "Repeat(ceil(T / b), Poisson(q b, Gaussian))" in caught.value.next_step
    assert "choice of the engine" not in str(caught.value)


def test_a_sample_at_rate_1_is_the_run() -> None:
    run = ev.MatrixGaussian(6.0, DIFFERENCES, TWICE)
    assert Composition.of(ev.Poisson(1.0, run)) == Composition.of(run)


@for_each("engine", ["google", "microsoft"])
def test_other_libraries_are_not_asked_for_what_they_lack(engine: str) -> None:
    with pytest.raises(Unsupported, match="matrix-gaussian"):
        pp.account(ev.MatrixGaussian(6.0, DIFFERENCES, TWICE), delta=1e-5, engine=engine)


def test_what_does_not_fit_is_refused_by_the_front_door() -> None:
    odd = ev.MatrixGaussian(1.0, ev.TreeStrategy(9, 2), ev.EpochParticipation(3)).to_json()
    odd["strategy"]["steps"] = 8
    with pytest.raises(InvalidInput, match=r"`participation.epochs`"):
        ev.from_json(json.dumps(odd))


def test_at_delta_0_no_loss_is_bounded() -> None:
    found = pp.account(ev.MatrixGaussian(1.0, DIFFERENCES, SINGLE), delta=0.0)
    assert math.isinf(found.epsilon.lower)


def test_calibration_is_that_of_a_gaussian_times_the_sensitivity() -> None:
    found = pp.calibrate(
        lambda noise: ev.MatrixGaussian(noise, DIFFERENCES, TWICE), epsilon=2.0, delta=1e-5
    )
    whole = pp.calibrate(ev.Gaussian, epsilon=2.0, delta=1e-5)
    assert found.guarantee.epsilon.upper <= 2.0
    assert found.value == pytest.approx(math.sqrt(5.0) * whole.value, rel=1e-4)


@for_each("currency", ["zcdp", "gdp"])
def test_an_odometer_pays_for_the_run_at_once(currency) -> None:
    run = ev.MatrixGaussian(6.0, DIFFERENCES, TWICE)
    alike = ev.Gaussian(6.0 / math.sqrt(5.0))
    paid = []
    for event in (run, alike):
        odometer = Odometer(3.0, 1e-5, "add-remove", currency=currency)
        odometer.spend(event)
        paid.append(odometer.spent().epsilon.upper)
    assert paid[0] == pytest.approx(paid[1], rel=1e-9)
    assert paid[0] >= pp.account(run, delta=1e-5).epsilon.lower


def sampled(iterations: int, bands: int, rate: float, noise: float) -> ev.Event:
    """Return a run of b bands under cyclic Poisson sampling, at `rate` of all units a round."""
    rounds = math.ceil(iterations / bands)
    return ev.Repeat(rounds, ev.Poisson(rate * bands, ev.Gaussian(noise)))


@for_each("bands", [1, 4])
def test_banded_noise_under_cyclic_sampling_as_jax_privacy_documents_it(bands: int) -> None:
    """jax_privacy 8967688, accounting.py: epsilon 3.77, noise 9.66, 155 iterations, delta 1e-6."""

    def run(noise: float, iterations: int) -> ev.Event:
        return sampled(iterations * bands, bands, 0.1 / bands, noise)

    assert round(pp.account(run(3.0, 512), delta=1e-6).epsilon.upper, 2) == 3.77
    found = pp.calibrate(lambda noise: run(noise, 512), epsilon=1.0, delta=1e-6)
    assert round(found.value, 2) == 9.66
    assert pp.account(run(3.0, 155), delta=1e-6).epsilon.upper <= 2.0
    assert pp.account(run(3.0, 156), delta=1e-6).epsilon.lower > 2.0


def test_without_sampling_both_ways_to_banded_noise_agree() -> None:
    """Every unit of a part in each of its rounds: orthogonal columns of one norm."""
    bands, rounds = 3, 5
    strategy = ev.ToeplitzStrategy(bands * rounds, [1.0, -0.5, 0.25])
    run = ev.MatrixGaussian(4.0, strategy, ev.SeparatedParticipation(rounds, bands))
    length = math.sqrt(1.0 + 0.25 + 0.0625)
    parts = sampled(bands * rounds, bands, 1.0 / bands, 4.0 / length)
    ours, theirs = (pp.account(each, delta=1e-6).epsilon.upper for each in (run, parts))
    assert ours == pytest.approx(theirs, rel=1e-9)


@for_each("counts", [1, 7, 8, [5, 100, 2]])
def test_trees_against_dp_accounting(counts) -> None:
    theirs = dp.SingleEpochTreeAggregationDpEvent(5.0, counts)
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_SPECIAL)
    epsilon = float(accountant.compose(theirs).get_epsilon(1e-5))
    ours = ev.from_dp_event(theirs)
    by_rdp = pp.account(ours, delta=1e-5, neighbours="zero-out", engine="rdp").epsilon.upper
    assert by_rdp == pytest.approx(epsilon, rel=2e-3)
    assert pp.account(ours, delta=1e-5, neighbours="zero-out").epsilon.upper < epsilon
