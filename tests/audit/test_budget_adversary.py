"""Logs made so that a trusting reader would print less than the truth, by slight changes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.records import Contribution, Noise, RunOpen, Sampling, StreamRange, Weights
from privplan.audit.derivation.event_order import compared, weaker_of
from privplan.audit.evidence.observed_rounds import tally

from ..cases import for_each
from .ledgers import (
    CLIP,
    SIGMA,
    Change,
    Records,
    also,
    audited,
    changed,
    closing,
    epsilon,
    evidence,
    intents,
    naive,
    opening,
    part,
    releases,
    upper,
    weighted,
)


def hazards(records: Records) -> dict[str, str]:
    return {hazard.id: hazard.severity for hazard in audited(records).hazards}


def stated_as(event: ev.Event) -> Change:
    """State an event in every round, and no plan and no end that could disagree."""

    def change(records: Records) -> Records:
        plan = part(events={"model": ev.Repeat(len(records) // 2 - 1, event)})
        return intents(event=event, views={})(changed(records[:-1], RunOpen, plan=plan))

    return change


def ended_early(records: Records) -> Records:
    """End a run of 20 rounds after 10."""
    return [*records[:21], replace(records[-1], rounds=10)]  # type: ignore[type-var]


# --- noise on a grid ----------------------------------------------------------------------------


def discrete_epsilon(steps: int, shift: int, delta: float) -> float:
    """Return the exact epsilon of one discrete Gaussian of parameter `steps`, moved by `shift`."""
    at = np.arange(-20 * steps, 20 * steps + 1)
    weights = np.exp(-(at**2) / 2.0 / steps**2)
    moved = np.exp(-((at - shift) ** 2) / 2.0 / steps**2)
    own, other = weights / weights.sum(), moved / moved.sum()

    def excess(at_epsilon: float) -> float:
        return float(np.maximum(own - math.exp(at_epsilon) * other, 0.0).sum()) - delta

    return float(brentq(excess, 0.0, 60.0, xtol=1e-12))


@for_each(("steps", "shift"), [(80, 40), (80, 80), (128, 32), (1024, 512)])
def test_noise_on_a_grid_is_discrete_and_its_number_is_never_below_that(
    steps: int, shift: int
) -> None:
    noise = Noise("gaussian", float(steps), 1, float(steps), 0, 1, 1.0)
    own = intents(noise=noise, contribution=Contribution(float(shift), "l2", "user"))
    log, excess = own(weighted(1, silos=1, views=False)), []
    for delta in np.geomspace(1e-7, 1e-3, 12):
        truth = discrete_epsilon(steps, shift, delta)
        found = upper(opening(claim=part(delta=float(delta)))(log))
        continuous = pp.account(ev.Gaussian(steps / shift), delta=float(delta)).epsilon.upper
        assert truth <= found <= continuous * 1.02
        excess.append(truth / continuous - 1.0)
    assert max(excess) > 1e-8  # it is not the continuous one


def test_a_fine_grid_costs_next_to_nothing_and_a_coarse_one_has_no_number() -> None:
    records = weighted(views=False)
    share = SIGMA * CLIP / math.sqrt(5)
    fine = upper(intents(noise=part(grid=share / 2.0**20))(records))
    assert 1e-12 < fine / upper(intents(noise=part(grid=0.0))(records)) - 1.0 < 1e-10
    assert math.isinf(upper(intents(noise=part(grid=share / 79.0))(records)))
    assert audited(records).supported


@for_each("observer", ["model", "server", "silo"])
def test_the_grid_counts_before_everybody(observer: str) -> None:
    grid = SIGMA * CLIP / math.sqrt(5) / 100.0
    coarse = intents(noise=part(grid=grid))(weighted(views=False))
    assert upper(coarse, observer) > upper(weighted(views=False), observer) * 1.001


# --- what is left of a plan ---------------------------------------------------------------------


def test_what_is_left_of_a_plan_is_as_weak_as_what_was_made() -> None:
    weak = intents(noise=part(std=SIGMA * CLIP / 2.0))
    assert upper(weak(ended_early(weighted()))) == pytest.approx(upper(weak(weighted())), rel=1e-9)


def test_whom_the_plan_forgets_has_the_rest_of_it_too() -> None:
    def silent(records: Records) -> Records:
        plan = part(events={"model": ev.Repeat(20, ev.Gaussian(SIGMA))})
        return opening(plan=plan)(records)

    whole = silent(weighted(rule="records", views=False))
    early = ended_early(whole)
    assert upper(early, "server") == pytest.approx(upper(whole, "server"), rel=1e-9)
    unread = opening(plan=part(events={"model": ev.Repeat(20, ev.Gaussian(6.0))}))(early)
    assert math.isinf(upper(unread, "server"))


def test_a_method_as_published_that_ends_early_has_its_whole_plan() -> None:
    whole = naive(20)
    assert upper(ended_early(whole)) == pytest.approx(upper(whole), rel=1e-9)


def test_planned_events_are_counted_whether_or_not_they_are_seen() -> None:
    best = ev.BestOf("fixed", 3, ev.Gaussian(2.0))
    assert tally([(best, 2), (ev.Gaussian(2.0), 1)]) == {ev.Gaussian(2.0): 7}


def test_more_rounds_before_the_server_cost_no_less_than_before_the_model() -> None:
    found = evidence(intents(event=ev.Gaussian(1.0))(weighted(views=False))[:21])
    assert found.with_more("server", 5).upper == found.with_more("model", 5).upper


# --- events that only look weaker ---------------------------------------------------------------


def test_less_discrete_noise_is_not_weaker() -> None:
    stated, true = ev.DiscreteGaussian(0.40, 1), ev.DiscreteGaussian(0.45, 1)
    assert epsilon(stated) < epsilon(true)
    assert weaker_of(stated, true) == true
    assert compared(stated, true) == "different"
    log = also(
        intents(
            noise=Noise("discrete-gaussian", 0.45, 1, 0.45, 0, 1, 1.0),
            contribution=Contribution(1.0, "l2", "user"),
            sensitivity=1.0,
        ),
        releases(values=1),
        stated_as(stated),
    )(weighted(1, silos=1))
    assert upper(log) == pytest.approx(epsilon(true), rel=1e-6)


def test_a_higher_rate_of_capped_samples_is_not_weaker() -> None:
    low, high = (ev.TruncatedPoisson(rate, 9, 50, ev.Gaussian(2.0)) for rate in (0.1, 0.2))
    assert compared(high, low) == compared(low, high) == "different"


# --- facts that contradict each other -----------------------------------------------------------


@for_each(
    "sampling",
    [
        Sampling("fixed-size", "user", 1e-4, "server", 5, 50_000),
        Sampling("truncated-poisson", "user", 1e-4, "server", 9, 50_000),
        Sampling("poisson", "user", 1e-4, "server", 5, 50_000),
    ],
    ids=lambda one: str(one.method),
)
def test_a_sample_of_more_than_there_are_hides_nobody(sampling: Sampling) -> None:
    log = intents(sampling=sampling)(weighted(views=False))
    assert math.isinf(upper(log))
    assert not audited(log).ok


@for_each("shares", [2, 4, 5, 6])
def test_unweighted_terms_count_whatever_the_number_of_shares(shares: int) -> None:
    share = SIGMA * CLIP / math.sqrt(shares)
    log = intents(
        weights=Weights("none", 1.0), noise=part(shares=shares, share_std=math.nextafter(share, 1))
    )(weighted(views=False))
    assert "unweighted-terms" in hazards(log)
    assert upper(log) >= epsilon(ev.Repeat(20, ev.Gaussian(1.0)))


def test_masks_hide_nothing_from_who_adds_the_noise() -> None:
    one = intents(noise=Noise("gaussian", SIGMA * CLIP, 1, SIGMA * CLIP, 0, 1, 2.0**-24))
    masked = weighted(views=False, aggregation="masked")
    assert math.isinf(upper(one(masked), "server"))
    assert upper(masked, "server") == upper(masked)


def test_who_sees_messages_sees_who_sent_none() -> None:
    log = also(
        intents(
            noise=Noise("randomized-response", 0.0),
            sampling=Sampling("poisson", "user", 0.1, "shared-secret"),
        ),
        stated_as(ev.Poisson(0.1, ev.RandomizedResponse(1.0, 4))),
    )(weighted(views=False))
    assert upper(log, "server") >= epsilon(ev.Repeat(20, ev.RandomizedResponse(1.0, 4)))


def test_a_record_lies_in_one_silo_however_silos_are_weighted() -> None:
    log = also(
        opening(claim=part(unit="record")), intents(contribution=Contribution(CLIP, "l2", "record"))
    )(weighted(views=False))
    assert upper(log, "server") >= epsilon(ev.Repeat(20, ev.Gaussian(SIGMA / math.sqrt(5)))) * 0.999


def test_a_group_of_records_is_no_group_of_users_from_below() -> None:
    log = opening(claim=part(group=8))(weighted())
    assert audited(log).total.epsilon.lower <= upper(weighted()) <= upper(log)


def test_the_noise_of_a_sum_is_the_least_that_any_number_says() -> None:
    log = intents(noise=part(std=SIGMA * CLIP / 10.0))(weighted(views=False))
    assert upper(log, "server") >= epsilon(ev.Repeat(20, ev.Gaussian(SIGMA / 10.0))) * 0.999


# --- what a log leaves unsaid -------------------------------------------------------------------


def weight_that_moves(records: Records) -> Records:
    return [
        replace(one, weights=Weights("uniform", 1.0 - one.round / 100.0))  # type: ignore[type-var,attr-defined]
        if one.type == "round.intent"
        else one
        for one in records
    ]


@for_each(
    ("change", "hazard"),
    [
        (weight_that_moves, "adaptive-clip"),
        (intents(views={}), "off-plan"),
        (closing(events={"model": ev.Repeat(10, ev.Gaussian(SIGMA))}), "close-under-reports"),
        (closing(events={"model": ev.Repeat(20, ev.Gaussian(6.0))}), "close-under-reports"),
        (releases(streams=(StreamRange("ab" * 16, 0, 69),)), "unrecorded-randomness"),
    ],
)
def test_slight_changes_are_seen(change: Callable[[Records], Records], hazard: str) -> None:
    records = weighted(1) if hazard == "unrecorded-randomness" else weighted()
    assert not hazards(records)
    assert hazard in hazards(change(records))


def test_a_round_takes_a_byte_for_each_value_of_each_share() -> None:
    enough = releases(streams=(StreamRange("ab" * 16, 0, 70),))(weighted(1))
    assert not hazards(enough)


def test_nothing_proven_supports_no_claim_not_even_an_infinite_one() -> None:
    log = opening(claim=part(epsilon=math.inf))(intents(noise=part(std=0.0))(weighted()))
    assert audited(log).supported is False
