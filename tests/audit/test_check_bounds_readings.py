"""Both ends of what is proven hold in every reading that a description leaves open."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from scipy.stats import norm

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.accountant.composition import Composition
from privplan.audit.check.checked_run import CheckedRun
from privplan.audit.check.completions.subjects import completions
from privplan.audit.check.events import run_events
from privplan.audit.description.merging import describe
from privplan.audit.description.tables import reading_of_names

from ..cases import for_each
from .small_runs import (
    BY_EPOCHS,
    EPOCH,
    NO_RATE,
    PLAIN,
    at_least,
    at_most,
    lower,
    of_event,
    proof,
    run,
    says,
    upper,
)

LAPLACE = ev.Repeat(100, ev.Poisson(0.01, ev.Laplace(1.0)))


@for_each(
    ("facts", "truth"),
    [
        ({"sampling.method": "shuffled"}, ev.ShuffledBatches(100, ev.Laplace(1.0))),
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
    ],
)
def test_facts_beside_a_stated_event_change_what_it_proves(
    facts: Mapping[str, object], truth: ev.Event
) -> None:
    result = of_event(LAPLACE, {"sampling.method": "poisson", **facts})
    assert upper(result) >= at_least(truth)
    assert lower(result) <= at_most(truth)
    assert not result.verdict.startswith("holds")


@for_each(
    "facts",
    [
        {"schedule.steps": 1000},
        {"schedule.steps": 50},
        {"noise.noise_multiplier": 3.0},
        {"sampling.rate": 0.005},
        {"noise.family": "gaussian"},
    ],
)
def test_facts_that_an_event_contradicts_are_named(facts: Mapping[str, object]) -> None:
    result = of_event(LAPLACE, {"sampling.method": "poisson", **facts})
    assert not result.verdict.startswith("holds")
    assert "contradiction" in {each.id for each in result.causes}


@for_each(
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
    assert result.proven is None or result.proven.upper > at_least(LAPLACE)


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


@for_each(
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
    assert upper(with_release) >= at_least(ev.Gaussian(0.5), "replace-one")


@for_each("rate", [0.01, 0.1])
def test_accumulated_poisson_batches_may_all_have_a_record(rate: float) -> None:
    result = run({"sampling.rate": rate, "schedule.accumulation": 8, "schedule.steps": 50})
    separate = ev.Repeat(50, ev.Group(8, ev.Poisson(rate, ev.Gaussian(1.0))))
    together = ev.Repeat(50, ev.Poisson(8 * rate, ev.Gaussian(1.0)))
    assert upper(result) >= max(at_least(separate), at_least(together))
    parts = ev.Repeat(50, ev.Group(8, ev.Poisson(rate / 8, ev.Gaussian(1.0))))
    assert lower(result) <= at_most(parts)


def test_a_rate_of_all_accumulated_batches_says_on_what_it_rests() -> None:
    facts = {"schedule.accumulation_of": "one-sample", "schedule.epochs": 1}
    result = run({"schedule.accumulation": 8, **facts})
    assert upper(result) == pytest.approx(0.718, abs=1e-3)
    assert says(result, "parts of one sample")


@for_each(
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
    assert upper(result) >= at_least(truth)


@for_each(("relation", "moved"), [("zero-out", 1.0), ("add-remove", 1.0)])
def test_accumulated_shuffled_batches_are_as_many_epochs(relation: str, moved: float) -> None:
    facts = {"sampling.method": "shuffled", "claim.neighbours": relation, "sampling.batch": 100}
    result = run({**facts, "schedule.accumulation": 8}, NO_RATE)
    epochs = ev.Repeat(8, ev.ShuffledBatches(13, ev.Gaussian(moved)))
    assert upper(result) >= at_least(epochs, relation)
    assert says(result, "the last batches of an epoch with the next")


def test_rho_of_accumulated_batches() -> None:
    facts = {"claim.rho": 51, "sampling.rate": 0.1, "schedule.accumulation": 8}
    assert upper(proof(facts)) == pytest.approx(64 * 50)
    shuffled = run({**EPOCH, **facts, "sampling.rate": 0.01, "claim.rho": 3})
    assert upper(shuffled) >= 4.0
    full = run({"claim.rho": 1, "sampling.method": "full", "schedule.accumulation": 4}, NO_RATE)
    assert upper(full) == pytest.approx(16 * 50)


@for_each("relation", ["add-remove", "replace-one", "zero-out"])
def test_a_microbatch_moves_two_norms_from_the_sample_without_it(relation: str) -> None:
    result = run({"schedule.microbatches": 4, "claim.neighbours": relation})
    assert upper(result) >= at_least(ev.Repeat(100, ev.Poisson(0.01, ev.Gaussian(0.5))))
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
    assert upper(proof(facts)) >= epsilon


@for_each(
    ("what", "pays"),
    [("clip count", True), ("Quantile", True), ("test accuracy", False), ("discounts", False)],
)
def test_only_the_count_of_a_clip_pays_for_it(what: str, pays: bool) -> None:
    release = {"what": what, "noise_multiplier": 500.0, "count": 1}
    for claim in ({"claim.epsilon": 1.0}, {"claim.rho": 51}):
        result = run({"noise.clip_source": "adaptive", "releases": [release], **claim})
        assert math.isfinite(upper(result)) == pays
        assert result.verdict.startswith("holds") == pays


def test_a_release_of_all_data_in_some_steps_is_not_sampled_with_them() -> None:
    release = {"what": "test accuracy", "noise_multiplier": 2.0, "count": 50}
    apart = {**release, "of_batch": False}
    result = run({"noise.clip_source": "adaptive", "releases": [apart]})
    assert lower(result) >= at_least(ev.Repeat(50, ev.Gaussian(2.0)))
    # In as many releases as steps it may be that of their batches, for the lower end alone.
    in_each_step = run({"releases": [{**release, "count": 100}]})
    assert upper(in_each_step) >= at_least(ev.Repeat(100, ev.Gaussian(2.0)))


@for_each("method", ["with-replacement", "weighted", "poisson"])
def test_releases_move_under_the_stated_relation(method: str) -> None:
    release = {"what": "a mean", "noise_multiplier": 1.0, "count": 100}
    facts = {
        "claim.neighbours": "replace-one",
        "sampling.method": method,
        "noise.noise_multiplier": 50.0,
        "schedule.steps": 1,
        "releases": [release],
    }
    truth = at_least(ev.Repeat(100, ev.Gaussian(1.0)), "replace-one")
    assert upper(proof(facts)) >= truth


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
    assert upper(result) >= at_least(truth, "zero-out")
    assert says(result, "whole passes")
    assert upper(proof({**facts, "claim.rho": 5}, BY_EPOCHS)) == pytest.approx(50.0)


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


@for_each("more", [{}, {"schedule.records_per_epoch": 510}])
def test_a_loader_may_drop_its_last_batch(more: Mapping[str, object]) -> None:
    """One batch of 510 of 1,000 records: the others are dropped."""
    facts = {**EPOCH, "data.records": 1000, "sampling.batch": 510, "schedule.epochs": 1}
    result = run({**facts, "claim.epsilon": 4.3, **more}, BY_EPOCHS)
    dropped = account(ev.FixedSize(510, 1000, ev.Gaussian(1.0)), delta=1e-5, neighbours="zero-out")
    assert 3.0 < lower(result) <= dropped.epsilon.upper
    assert result.verdict == "unproven"
    kept = ev.ShuffledBatches(2, ev.Gaussian(1.0))
    assert upper(result) >= at_least(kept, "zero-out")


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
    assert 0.0 < lower(proof(facts, BY_EPOCHS)) <= epsilon


def test_a_phase_may_begin_within_a_pass() -> None:
    """Two phases of 15 and 25 steps over passes of 10 touch 2 + 4 passes, and complete 1 + 1."""
    phases = [[1.0, 0.1, 15], [2.0, 0.1, 25]]
    facts = {**PLAIN, **EPOCH, "schedule.phases": phases}
    left_out = ("noise.noise_multiplier", "sampling.rate", "schedule.steps")
    plain = {key: value for key, value in facts.items() if key not in left_out}
    checked = CheckedRun.of(describe([reading_of_names(plain, "by hand")]))
    pinned = completions(checked, "shuffled", "most")[0].run
    (upper_event,) = run_events(pinned, "shuffled", 1e-5).upper
    (lower_event, *_) = run_events(pinned, "shuffled", 1e-5).lower[0]
    assert [leaf.count for leaf in Composition.of(upper_event.event)] == [3, 4]
    assert sum(leaf.count for leaf in Composition.of(lower_event.event)) == 1
