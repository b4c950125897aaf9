"""Both ends of what is proven hold in every reading that a description leaves open."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from scipy.stats import norm

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.audit.check.check_result import CheckResult
from privplan.audit.check.checking import check_readings
from privplan.audit.check.front import DP_EVENT_FORMAT, event_reading
from privplan.audit.description.tables import reading_of_names

PLAIN: Mapping[str, object] = {
    "claim.delta": 1e-5,
    "claim.unit": "record",
    "claim.neighbours": "add-remove",
    "noise.noise_multiplier": 1.0,
    "noise.clip_source": "constant",
    "data.records": 10000,
    "sampling.method": "poisson",
    "sampling.rate": 0.01,
    "schedule.steps": 100,
}
FULL: Mapping[str, object] = {"sampling.method": "full", "schedule.steps": 1}
EPOCH: Mapping[str, object] = {"sampling.method": "shuffled", "claim.neighbours": "zero-out"}
NO_RATE = ("sampling.rate",)
BY_EPOCHS = ("sampling.rate", "schedule.steps")


def run(facts: Mapping[str, object], without: tuple[str, ...] = ()) -> CheckResult:
    plain = {key: value for key, value in PLAIN.items() if key not in without}
    return check_readings([reading_of_names({**plain, **facts}, "by hand")])


def of_event(event: ev.Event, facts: Mapping[str, object]) -> CheckResult:
    """Return the verdict about a file that states an event, and no sampler."""
    claim = {key: PLAIN[key] for key in ("claim.delta", "claim.unit", "claim.neighbours")}
    said = reading_of_names({**claim, "claim.epsilon": 0.4, **facts}, "by hand")
    return check_readings([event_reading(event, DP_EVENT_FORMAT), said])


def upper(result: CheckResult) -> float:
    assert result.proven is not None
    return result.proven.upper


def lower(result: CheckResult) -> float:
    assert result.proven is not None
    return result.proven.lower


def true_epsilon(event: ev.Event, relation: str = "add-remove") -> float:
    """Return a certified lower end of an event that the run may be."""
    return account(event, delta=1e-5, neighbours=relation).epsilon.lower


def says(result: CheckResult, words: str) -> bool:
    return any(words in sentence for sentence in result.conditions)


LAPLACE = ev.Repeat(100, ev.Poisson(0.01, ev.Laplace(1.0)))


@pytest.mark.parametrize(
    ("facts", "truth"),
    [
        (
            {"sampling.method": "shuffled"},
            ev.ShuffledBatches(100, ev.Laplace(1.0)),
        ),
        (
            {"schedule.accumulation": 8},
            ev.Repeat(100, ev.Group(8, ev.Poisson(0.01, ev.Laplace(1.0)))),
        ),
        ({"schedule.microbatches": 8}, ev.Repeat(100, ev.Poisson(0.01, ev.Laplace(0.5)))),
        (
            {"releases": [{"what": "a sum", "noise_multiplier": 0.1, "count": 100}]},
            ev.Repeat(100, ev.Gaussian(0.1)),
        ),
        (
            {"aggregation.expected_replies": 100, "aggregation.replies": 25},
            ev.Repeat(100, ev.Poisson(0.01, ev.Laplace(0.5))),
        ),
        ({"schedule.restarts": 3}, ev.Repeat(300, ev.Poisson(0.01, ev.Laplace(1.0)))),
        ({"tuning.runs": 3}, ev.Repeat(300, ev.Poisson(0.01, ev.Laplace(1.0)))),
        ({"schedule.steps": 1000}, ev.Repeat(1000, ev.Poisson(0.01, ev.Laplace(1.0)))),
    ],
)
def test_facts_beside_a_stated_event_change_what_it_proves(
    facts: Mapping[str, object], truth: ev.Event
) -> None:
    result = of_event(LAPLACE, {"sampling.method": "poisson", **facts})
    assert upper(result) >= true_epsilon(truth)
    assert lower(result) <= account(truth, delta=1e-5).epsilon.upper
    assert not result.verdict.startswith("holds")


@pytest.mark.parametrize(
    "facts",
    [
        {"sampling.method": "with-replacement"},
        {"sampling.method": "poisson", "sampling.clients_rate": 0.1},
        {"sampling.method": "poisson", "claim.unit": "silo", "data.silos": 5},
    ],
)
def test_what_a_stated_event_cannot_say_proves_nothing_small(facts: Mapping[str, object]) -> None:
    result = of_event(LAPLACE, facts)
    assert not result.verdict.startswith("holds")
    assert result.proven is None or result.proven.upper > true_epsilon(LAPLACE)


def test_a_stated_event_alone_holds_by_its_stated_sampler() -> None:
    assert of_event(LAPLACE, {"sampling.method": "poisson"}).verdict.startswith("holds")
    open_sampler = of_event(LAPLACE, {"claim.epsilon": 2.1})
    assert (open_sampler.verdict, open_sampler.missing[0].key) == (
        "unverifiable",
        "sampling.method",
    )
    user = of_event(LAPLACE, {"sampling.method": "poisson", "claim.unit": "user"})
    assert says(user, "clipped as a whole")


WHOLE = ev.Compose((ev.FixedSize(10, 1000, ev.Laplace(1.0)), ev.Pure(0.1)))


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"sampling.method": "poisson"},
        {"sampling.method": "fixed-size", "schedule.accumulation": 4},
        {"sampling.method": "fixed-size", "schedule.microbatches": 4},
        {"sampling.method": "fixed-size", "claim.unit": "silo"},
        {"sampling.method": "fixed-size", "sampling.clients_rate": 0.5},
    ],
)
def test_an_event_that_is_no_sum_of_draws_leaves_the_rest_open(facts: dict[str, object]) -> None:
    result = of_event(WHOLE, {"claim.epsilon": 60, **facts})
    assert not result.verdict.startswith("holds")
    assert result.proven is not None
    assert (result.proven.lower, result.proven.upper) == (0.0, math.inf)


def test_releases_stand_beside_an_event_that_is_no_sum_of_draws() -> None:
    release = {"what": "a sum", "noise_multiplier": 0.5, "count": 1}
    facts = {"sampling.method": "fixed-size", "claim.neighbours": "replace-one"}
    assert of_event(WHOLE, {**facts, "claim.epsilon": 2.2}).verdict.startswith("holds")
    with_release = of_event(WHOLE, {**facts, "releases": [release]})
    assert upper(with_release) >= true_epsilon(ev.Gaussian(0.5), "replace-one")


@pytest.mark.parametrize("rate", [0.01, 0.1])
def test_accumulated_poisson_batches_may_all_have_a_record(rate: float) -> None:
    result = run({"sampling.rate": rate, "schedule.accumulation": 8, "schedule.steps": 50})
    separate = ev.Repeat(50, ev.Group(8, ev.Poisson(rate, ev.Gaussian(1.0))))
    together = ev.Repeat(50, ev.Poisson(8 * rate, ev.Gaussian(1.0)))
    assert upper(result) >= max(true_epsilon(separate), true_epsilon(together))
    parts = ev.Repeat(50, ev.Group(8, ev.Poisson(rate / 8, ev.Gaussian(1.0))))
    assert lower(result) <= account(parts, delta=1e-5).epsilon.upper


def test_a_rate_of_all_accumulated_batches_says_on_what_it_rests() -> None:
    result = run({"schedule.accumulation": 8, "schedule.epochs": 1})
    assert upper(result) == pytest.approx(0.718, abs=1e-3)
    assert says(result, "parts of one sample")


@pytest.mark.parametrize(
    ("method", "truth"),
    [
        ("fixed-size", ev.Repeat(10, ev.Group(4, ev.Poisson(0.1, ev.Gaussian(0.5))))),
        ("weighted", ev.Repeat(10, ev.Gaussian(0.125))),
        ("full", ev.Repeat(10, ev.Gaussian(0.25))),
    ],
)
def test_accumulated_batches_of_other_samplers(method: str, truth: ev.Event) -> None:
    facts = {"sampling.method": method, "schedule.accumulation": 4, "schedule.steps": 10}
    result = run(facts, NO_RATE) if method == "full" else run({**facts, "sampling.rate": 0.1})
    assert upper(result) >= true_epsilon(truth)


@pytest.mark.parametrize(("relation", "moved"), [("zero-out", 1.0), ("add-remove", 1.0)])
def test_accumulated_shuffled_batches_are_as_many_epochs(relation: str, moved: float) -> None:
    facts = {"sampling.method": "shuffled", "claim.neighbours": relation, "sampling.batch": 100}
    result = run({**facts, "schedule.accumulation": 8}, NO_RATE)
    epochs = ev.Repeat(8, ev.ShuffledBatches(13, ev.Gaussian(moved)))
    assert upper(result) >= true_epsilon(epochs, relation)
    assert says(result, "two epochs")


def test_rho_of_accumulated_batches() -> None:
    facts = {"claim.rho": 51, "sampling.rate": 0.1, "schedule.accumulation": 8}
    assert upper(run(facts)) == pytest.approx(64 * 50)
    shuffled = run({**EPOCH, **facts, "sampling.rate": 0.01, "claim.rho": 3})
    assert upper(shuffled) >= 4.0
    full = run({"claim.rho": 1, "sampling.method": "full", "schedule.accumulation": 4}, NO_RATE)
    assert upper(full) == pytest.approx(16 * 50)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one", "zero-out"])
def test_a_microbatch_moves_two_norms_from_the_sample_without_it(relation: str) -> None:
    result = run({"schedule.microbatches": 4, "claim.neighbours": relation})
    assert upper(result) >= true_epsilon(ev.Repeat(100, ev.Poisson(0.01, ev.Gaussian(0.5))))
    assert says(result, "one microbatch alone")


def test_a_microbatch_may_be_of_either_side() -> None:
    """Clipped with others of one side, with zero and without: three sums, by quadrature."""
    rate, noise, epsilon = 0.3, 2.0, 0.4
    grid = np.linspace(-30.0, 30.0, 60001)
    absent, value, zero = (norm.pdf(grid, shift, noise) for shift in (0.0, 2.0, -1.0))
    first, second = (1 - rate) * absent + rate * value, (1 - rate) * absent + rate * zero
    exact = float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum() * (grid[1] - grid[0]))
    facts = {
        "claim.neighbours": "zero-out",
        "noise.noise_multiplier": noise,
        "sampling.rate": rate,
        "schedule.steps": 1,
        "schedule.microbatches": 4,
        "claim.delta": exact,
    }
    assert upper(run(facts)) >= epsilon


@pytest.mark.parametrize(
    ("what", "pays"),
    [("clip count", True), ("Quantile", True), ("test accuracy", False), ("discounts", False)],
)
def test_only_the_count_of_a_clip_pays_for_it(what: str, pays: bool) -> None:
    release = {"what": what, "noise_multiplier": 500.0, "count": 1}
    for claim in ({"claim.epsilon": 1.0}, {"claim.rho": 51}):
        result = run({"noise.clip_source": "adaptive", "releases": [release], **claim})
        assert math.isfinite(upper(result)) == pays
        assert result.verdict.startswith("holds") == pays


def test_an_unrelated_release_is_never_sampled_with_the_steps() -> None:
    release = {"what": "test accuracy", "noise_multiplier": 2.0, "count": 100}
    result = run({"noise.clip_source": "adaptive", "releases": [release]})
    assert lower(result) >= true_epsilon(ev.Repeat(100, ev.Gaussian(2.0)))


@pytest.mark.parametrize("method", ["with-replacement", "weighted", "poisson"])
def test_releases_move_under_the_stated_relation(method: str) -> None:
    release = {"what": "a mean", "noise_multiplier": 1.0, "count": 100}
    facts = {
        "claim.neighbours": "replace-one",
        "sampling.method": method,
        "noise.noise_multiplier": 50.0,
        "schedule.steps": 1,
        "releases": [release],
    }
    truth = true_epsilon(ev.Repeat(100, ev.Gaussian(1.0)), "replace-one")
    assert upper(run(facts)) >= truth


def test_an_epoch_of_more_records_than_there_are_is_several_passes() -> None:
    facts = {
        **EPOCH,
        "data.records": 100,
        "sampling.batch": 50,
        "schedule.epochs": 10,
        "schedule.records_per_epoch": 1000,
    }
    truth = ev.Repeat(100, ev.ShuffledBatches(2, ev.Gaussian(1.0)))
    result = run(facts, BY_EPOCHS)
    assert upper(result) >= true_epsilon(truth, "zero-out")
    assert says(result, "whole passes")
    assert upper(run({**facts, "claim.rho": 5}, BY_EPOCHS)) == pytest.approx(50.0)


def test_an_epoch_of_fewer_records_is_less_than_a_pass() -> None:
    facts = {
        "sampling.method": "shuffled",
        "data.records": 60000,
        "sampling.batch": 60,
        "schedule.epochs": 10,
        "schedule.records_per_epoch": 6000,
        "claim.epsilon": 15,
    }
    for counted in ({}, {"schedule.steps": 1000}):
        result = run({**facts, **counted}, BY_EPOCHS)
        single = account(ev.ShuffledBatches(1000, ev.Gaussian(1.0)), delta=1e-5)
        assert lower(result) <= single.epsilon.upper
        assert result.verdict == "unproven"


@pytest.mark.parametrize("more", [{}, {"schedule.records_per_epoch": 510}])
def test_a_loader_may_drop_its_last_batch(more: Mapping[str, object]) -> None:
    """One batch of 510 of 1,000 records: the others are dropped."""
    facts = {**EPOCH, "data.records": 1000, "sampling.batch": 510, "schedule.epochs": 1}
    result = run({**facts, "claim.epsilon": 4.3, **more}, BY_EPOCHS)
    dropped = account(ev.FixedSize(510, 1000, ev.Gaussian(1.0)), delta=1e-5, neighbours="zero-out")
    assert 3.0 < lower(result) <= dropped.epsilon.upper
    assert result.verdict == "unproven"
    kept = ev.ShuffledBatches(2, ev.Gaussian(1.0))
    assert upper(result) >= true_epsilon(kept, "zero-out")


def test_steps_tell_whether_a_last_batch_was_dropped() -> None:
    facts = {**EPOCH, "data.records": 1000, "sampling.batch": 510, "schedule.epochs": 3}
    kept = run({**facts, "schedule.steps": 6}, NO_RATE)
    dropped = run({**facts, "schedule.steps": 3}, NO_RATE)
    assert lower(kept) > lower(dropped)


def test_a_presence_bound_is_below_the_exact_delta() -> None:
    """Dropped with probability .3 in each of two passes of one batch, by quadrature."""
    kept, epsilon = 0.7, 1.0
    grid = np.linspace(-9.0, 10.0, 1901)
    step = grid[1] - grid[0]
    away, there = norm.pdf(grid), norm.pdf(grid, 1.0)
    mixed = (1 - kept) * away + kept * there
    first, second = np.multiply.outer(mixed, mixed), np.multiply.outer(away, away)
    exact = float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum() * step**2)
    facts = {
        **EPOCH,
        "data.records": 10,
        "sampling.batch": 7,
        "schedule.epochs": 2,
        "claim.delta": exact,
    }
    assert 0.0 < lower(run(facts, BY_EPOCHS)) <= epsilon


def test_the_deviation_of_laplace_noise_is_not_its_scale() -> None:
    noise = {"noise.family": "laplace", "noise.std": 1.0, "noise.clip": 1.0, "claim.delta": 0}
    left_out = ("sampling.rate", "noise.noise_multiplier")
    result = run({**FULL, **noise, "claim.epsilon": 1.2}, left_out)
    assert lower(result) == pytest.approx(math.sqrt(2.0))
    assert result.verdict == "false"
    pure = run({**FULL, **noise, "noise.family": "pure"}, left_out)
    assert pure.proven is None


def test_an_unknown_sampler_may_be_a_rarer_one() -> None:
    facts = {"data.records": 10, "sampling.rate": 0.5, "schedule.steps": 5, "claim.epsilon": 30}
    result = run(facts, ("sampling.method",))
    with_replacement = ev.Repeat(5, ev.Group(5, ev.Poisson(0.1, ev.Gaussian(0.5))))
    assert upper(result) >= true_epsilon(with_replacement)
    assert upper(result) >= true_epsilon(ev.Repeat(5, ev.Gaussian(0.5)))
    assert result.verdict == "unverifiable"
    assert says(result, "rawn with replacement")


def test_no_mu_of_discrete_noise_is_known() -> None:
    """At noise 1 the total variation is that of a mu of 1.044 or more."""
    integers = np.arange(-60, 61)
    masses = np.exp(-(integers**2) / 2.0)
    masses /= masses.sum()
    variation = 0.5 * float(np.abs(masses - np.roll(masses, 1)).sum())
    needed = 2.0 * norm.ppf(0.5 * (1.0 + variation))
    noise = {"noise.family": "discrete-gaussian", "noise.clip": 1.0}
    result = run({**FULL, **noise, "claim.mu": 1.01}, NO_RATE)
    assert upper(result) >= needed > 1.01
    assert lower(result) == 0.0
    rho = run({**FULL, **noise, "claim.rho": 0.51}, NO_RATE)
    assert (lower(rho), upper(rho)) == (pytest.approx(0.5), pytest.approx(0.5))


def integer_delta(scale: float, shifts: tuple[int, ...], epsilon: float) -> float:
    """Return delta of discrete Gaussian noise on a vector that moves by `shifts`."""
    integers = np.arange(-40, 41)
    masses = np.exp(-(integers**2) / (2.0 * scale**2))
    masses /= masses.sum()
    losses, weights = np.zeros(1), np.ones(1)
    for shift in shifts:
        each = ((integers - shift) ** 2 - integers**2) / (2.0 * scale**2)
        losses = np.round(np.add.outer(losses, each).ravel(), 9)
        weights = np.multiply.outer(weights, masses).ravel()
        losses, index = np.unique(losses, return_inverse=True)
        weights = np.bincount(index, weights=weights)
    return float((weights * np.maximum(0.0, -np.expm1(epsilon - losses))).sum())


@pytest.mark.parametrize(("delta", "epsilon"), [(1e-2, 5.93), (1e-5, 9.937)])
def test_discrete_noise_on_vectors(delta: float, epsilon: float) -> None:
    assert integer_delta(1.0, (1, 1, 1, 1), epsilon) > delta
    facts = {
        **FULL,
        "noise.family": "discrete-gaussian",
        "noise.noise_multiplier": 0.5,
        "noise.clip": 2.0,
        "claim.delta": delta,
    }
    result = run(facts, NO_RATE)
    assert upper(result) >= epsilon
    assert integer_delta(1.0, (2,), lower(result)) >= delta * (1.0 - 1e-3)
    sampled = run({**facts, "sampling.method": "poisson", "sampling.rate": 0.5})
    assert upper(sampled) >= upper(result)


def test_a_silo_of_records_says_what_is_clipped() -> None:
    facts = {"claim.unit": "silo", "data.silos": 5, "sampling.batch": 100, "schedule.steps": 10}
    result = run({**facts, "claim.epsilon": 100}, NO_RATE)
    assert says(result, "A silo takes part as a whole")
    rate_alone = run({"claim.unit": "silo", "data.silos": 5}, ("data.records",))
    assert upper(rate_alone) >= true_epsilon(ev.Repeat(100, ev.Gaussian(1.0)))


def test_batches_of_users_may_be_of_their_records() -> None:
    users = {
        "claim.unit": "user",
        "data.users": 10,
        "data.records": 20,
        "data.records_per_user": 2,
        "sampling.method": "fixed-size",
        "schedule.steps": 20,
    }
    event = ev.Group(2, ev.Repeat(20, ev.FixedSize(5, 20, ev.Gaussian(1.0))))
    proves = account(event, delta=1e-5).epsilon.upper
    assert upper(run({**users, "sampling.rate": 0.25})) >= proves


def divergence(order: float, rate: float) -> float:
    """Return the Renyi divergence of a Poisson sample with a record from one with its opposite."""
    grid = np.linspace(-30.0, 30.0 + order, 200001)
    absent = math.log1p(-rate) + norm.logpdf(grid)
    first = np.logaddexp(absent, math.log(rate) + norm.logpdf(grid, 1.0))
    second = np.logaddexp(absent, math.log(rate) + norm.logpdf(grid, -1.0))
    exponents = order * first + (1.0 - order) * second
    log_sum = float(np.logaddexp.reduce(exponents)) + math.log(grid[1] - grid[0])
    return log_sum / (order - 1.0)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_rho_of_poisson_samples_under_replace_one(rate: float) -> None:
    """By quadrature rho is one norm's, 1/2, at these rates, and never four times as much."""
    ratios = [divergence(order, rate) / order for order in (1.01, 1.5, 2.0, 4.0, 16.0, 64.0)]
    assert 0.4 < max(ratios) < 0.51
    facts = {
        "claim.rho": 0.6,
        "claim.neighbours": "replace-one",
        "sampling.rate": rate,
        "schedule.steps": 1,
    }
    result = run(facts)
    assert (lower(result), upper(result)) == (pytest.approx(0.5), pytest.approx(2.0))
    assert result.verdict == "unproven"
    filled = run({**facts, "sampling.method": "fixed-size"})
    assert lower(filled) == pytest.approx(2.0)
