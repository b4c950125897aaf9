"""What is proven about described runs, against values that are known otherwise."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final

import numpy as np
import pytest
from scipy import stats

from privplan.accountant import events as ev
from privplan.accountant.account import account, bounds_on_epsilon
from privplan.accountant.amplification.occurrences import presence
from privplan.audit.check.kept_records import most_occurrences

from ..cases import for_each
from .described import checked, errors
from .small_runs import at_most, lower, upper


def test_the_rate_of_records_does_not_hide_a_silo() -> None:
    result = checked({"claim.unit": "silo"})
    assert upper(result) == pytest.approx(at_most(ev.Repeat(3516, ev.Gaussian(1.3))))
    assert result.verdict == "unproven"


GROUPED: Final = {
    "claim.unit": "user",
    "noise.clip_bounds": "record",
    "sampling.sampled": "records",
}


def test_users_with_several_records_are_groups() -> None:
    result = checked({**GROUPED, "data.records_per_user": 4})
    event = ev.Group(4, ev.Repeat(3516, ev.Poisson(256 / 60000, ev.Gaussian(1.3))))
    assert upper(result) == pytest.approx(at_most(event))


def test_users_of_batches_of_records_need_a_count() -> None:
    result = checked({"claim.unit": "user"})
    assert (result.verdict, result.missing[0].key) == ("unverifiable", "data.records_per_user")


def test_clients_that_are_sampled_as_a_whole_hide_a_user() -> None:
    facts = {
        "claim.unit": "user",
        "data.users": 10000,
        "sampling.clients_rate": 0.01,
        "noise.noise_multiplier": 1.0,
        "schedule.steps": 1000,
        "claim.epsilon": 2,
    }
    left_out = ("schedule.epochs", "sampling.batch", "data.records")
    result = checked(facts, without=left_out)
    event = ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(1.0)))
    assert upper(result) == pytest.approx(at_most(event))


def test_two_draws_are_never_counted_together() -> None:
    twice = checked({"sampling.clients_rate": 0.1, "schedule.steps": 3516})
    # Of the records of a tenth of all clients, whom their others show, a batch is ten times more.
    event = ev.Repeat(3516, ev.Poisson(2560 / 60000, ev.Gaussian(1.3)))
    assert upper(twice) == pytest.approx(at_most(event))
    assert lower(twice) < 0.1
    told = {"sampling.clients_rate": 0.1, "schedule.steps": 3516, "sampling.rate": 256 / 60000}
    assert upper(checked(told, without=("sampling.batch",))) == upper(checked())


def test_other_releases_are_composed() -> None:
    release = {"what": "histogram", "noise_multiplier": 2.0, "count": 3}
    event = ev.Compose(
        (ev.Repeat(3516, ev.Poisson(256 / 60000, ev.Gaussian(1.3))), ev.Repeat(3, ev.Gaussian(2.0)))
    )
    assert upper(checked({"releases": [release]})) == pytest.approx(at_most(event))


def test_a_release_whose_noise_is_not_said_is_asked_for() -> None:
    result = checked({"releases": [{"what": "histogram", "count": 1}]})
    assert (result.verdict, result.missing[0].key) == ("unverifiable", "releases")
    assert lower(result) == lower(checked())


def test_phases_are_composed() -> None:
    phases = [[1.1, 0.004, 500], [2.0, 0.01, 300]]
    left_out = ("schedule.steps", "sampling.batch", "noise.noise_multiplier")
    event = ev.Compose(
        (
            ev.Repeat(500, ev.Poisson(0.004, ev.Gaussian(1.1))),
            ev.Repeat(300, ev.Poisson(0.01, ev.Gaussian(2.0))),
        )
    )
    assert upper(checked({"schedule.phases": phases}, without=left_out)) == pytest.approx(
        at_most(event)
    )


def test_epochs_are_rounded_outward() -> None:
    """Batches of 256 of 2,600 records: an epoch has 11, or 10 where a loader drops its last one."""
    facts = {
        "data.records": 2600,
        "sampling.method": "shuffled",
        "claim.neighbours": "zero-out",
    }
    partial, single, double = (
        checked({**facts, "schedule.steps": steps}, without=("schedule.epochs",))
        for steps in (11 + 5, 11, 20)
    )
    assert upper(partial) == upper(double)
    assert lower(partial) == lower(single)


def test_draws_with_replacement() -> None:
    most, tail = most_occurrences(256, 60000, 3516, 1e-5)
    assert tail <= 1e-6
    assert most == 3
    assert tail == pytest.approx(3516 * stats.binom.sf(3, 256, 1 / 60000))
    assert presence(256, 60000) == pytest.approx(1 - (1 - 1 / 60000) ** 256)
    assert presence(3, 1) == 1.0


@for_each("neighbours", ["add-remove", "zero-out", "replace-one"])
def test_a_run_that_draws_with_replacement_proves_its_event(neighbours: str) -> None:
    facts = {"sampling.method": "with-replacement", "claim.neighbours": neighbours}
    result = checked({**facts, "schedule.steps": 100}, without=("schedule.epochs",))
    event = ev.Repeat(100, ev.WithReplacement(256, 60000, ev.Gaussian(1.3)))
    truth = account(event, delta=1e-5, neighbours=neighbours).epsilon
    assert (lower(result), upper(result)) == pytest.approx((truth.lower, truth.upper), rel=1e-6)


def test_more_occurrences_only_move_the_sum_farther() -> None:
    """One batch of 4 from 3 records with replacement: its exact delta lies within both events."""
    noise, batch, records, epsilon = 1.0, 4, 3, 0.5
    grid = np.linspace(-12.0, 20.0, 200_001)
    step = grid[1] - grid[0]
    away = stats.norm.pdf(grid, 0.0, noise)
    occurrences = stats.binom.pmf(np.arange(batch + 1), batch, 1 / records)
    there = sum(
        weight * stats.norm.pdf(grid, shift, noise) for shift, weight in enumerate(occurrences)
    )
    exact = float(np.maximum(there - math.exp(epsilon) * away, 0.0).sum() * step)
    below = ev.Poisson(presence(batch, records), ev.Gaussian(noise))
    assert account(below, epsilon=epsilon).delta.lower <= exact + 1e-9
    above = ev.Gaussian(noise / (2 * batch))
    assert account(above, epsilon=epsilon).delta.upper >= exact - 1e-9


def test_digits_that_were_printed_leave_the_lower_end_open() -> None:
    """Noise .973 that was printed as .97 proves less than .97 does: no claim becomes false."""
    event = ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(0.9745)))
    true = at_most(event)
    facts = {
        "claim.epsilon": true,
        "data.records": 60000,
        "sampling.batch": 600,
        "schedule.steps": 1000,
    }
    left_out = ("schedule.epochs",)
    printed = checked({**facts, "noise.noise_multiplier": Decimal("0.97")}, without=left_out)
    exact = checked({**facts, "noise.noise_multiplier": 0.97}, without=left_out)
    assert (printed.verdict, exact.verdict) == ("unverifiable", "false")
    assert not errors(printed)


@for_each(("relation", "farthest"), [("add-remove", 1.0), ("zero-out", 1.0), ("replace-one", 4.0)])
def test_rho_and_mu_of_poisson_samples(relation: str, farthest: float) -> None:
    """Under replace-one both samples may lack the unit, so at large orders it moves one norm."""
    squared = 3516 / 1.3**2
    without = ("claim.epsilon", "claim.delta")
    rho = checked({"claim.rho": squared / 2, "claim.neighbours": relation}, without=without)
    mu = checked({"claim.mu": 1.0, "claim.neighbours": relation}, without=without)
    assert lower(rho) == pytest.approx(squared / 2)
    assert upper(rho) == pytest.approx(farthest * squared / 2)
    assert upper(mu) == pytest.approx(math.sqrt(farthest * squared))
    assert mu.verdict == "false"


def test_the_limit_of_a_sampled_curve_is_that_without_sampling() -> None:
    """D_alpha / alpha of a sampled Gaussian tends to 1 / (2 z^2) from below."""
    noise, rate = 1.3, 0.01
    for alpha, share in ((64, 0.7), (4096, 0.99)):
        orders = np.arange(alpha + 1)
        logs = stats.binom.logpmf(orders, alpha, rate) + orders * (orders - 1) / (2 * noise**2)
        divergence = float(np.logaddexp.reduce(logs)) / (alpha - 1)
        ratio = divergence / alpha * 2 * noise**2
        assert share < ratio <= 1.0


def test_rho_of_laplace_noise_is_not_known() -> None:
    result = checked(
        {"claim.rho": 1.0, "noise.family": "laplace"}, without=("claim.epsilon", "claim.delta")
    )
    assert result.verdict == "unproven"


@for_each("method", ["shuffled", "fixed-size", None])
def test_a_false_claim_is_held_against_the_weakest_relation(method: str | None) -> None:
    """Nobody said the relation: what is false is so under each; what is proven names its own."""
    facts = {"claim.epsilon": Decimal("0.01"), "sampling.method": method}
    if method is None:
        del facts["sampling.method"]
    without = ("claim.neighbours",) if method else ("claim.neighbours", "sampling.method")
    result = checked(facts, without=without)
    each = [
        lower(checked({**facts, "claim.neighbours": relation}, without=without))
        for relation in ("add-remove", "zero-out")
    ]
    assert result.verdict == "false"
    assert lower(result) == pytest.approx(each[0], rel=1e-9)
    between = {**facts, "claim.epsilon": repr(0.5 * (min(each) + max(each)))}
    if max(each) > 1.01 * min(each):
        assert checked(between, without=without).verdict != "false"


@for_each("event", [ev.ShuffledBatches(5, ev.Gaussian(1.0)), ev.Gaussian(2.0)])
def test_bounds_without_words_are_those_of_account(event: ev.Event) -> None:
    for delta in (0.0, 1e-5):
        assert bounds_on_epsilon(event, delta=delta) == account(event, delta=delta).epsilon
    search = ev.BestOf("geometric", 10.0, event)
    assert bounds_on_epsilon(search, delta=1e-5) == account(search, delta=1e-5).epsilon
