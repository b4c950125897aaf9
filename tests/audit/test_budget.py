"""Budgets derived from the facts of a log: known numbers, observers, what is never believed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from privplan.accountant import events as ev
from privplan.accountant.records import (
    Contribution,
    Noise,
    Population,
    RoundIntent,
    RunClose,
    RunOpen,
    Sampling,
    Weights,
)
from privplan.accountant.sensitivity import uldp

from ..cases import for_each
from .ledgers import (
    CLIP,
    SIGMA,
    Records,
    also,
    audited,
    changed,
    epsilon,
    evidence,
    grouped,
    intents,
    naive,
    opening,
    part,
    releases,
    upper,
    weighted,
)

# --- known numbers ------------------------------------------------------------------------------


@for_each(("rounds", "exact"), [(50, 6.57), (100, 10.00), (200, 15.46)])
def test_uldp_avg_before_the_model(rounds: int, exact: float) -> None:
    assert upper(weighted(rounds)) == pytest.approx(exact, abs=0.006)


@for_each(("rate", "exact"), [(0.1, 0.758), (0.3, 2.53), (0.5, 4.49), (0.7, 6.59)])
def test_sampled_users_but_not_before_the_server_that_draws(rate: float, exact: float) -> None:
    records = weighted(100, rate=rate)
    assert upper(records) == pytest.approx(exact, abs=0.006)
    assert upper(records, "server") == pytest.approx(10.00, abs=0.006)
    shared = weighted(100, rate=rate, drawn_by="shared-secret", views=False)
    assert upper(shared, "server") == pytest.approx(exact, abs=0.006)
    assert upper(shared, "silo") == pytest.approx(8.72, abs=0.006)


@for_each(
    ("silos", "rule", "exact"),
    [(5, "uniform", 8.72), (2, "uniform", 6.57), (5, "records", 11.48), (2, "records", 15.46)],
)
def test_a_silo_that_subtracts_its_noise(silos: int, rule: str, exact: float) -> None:
    records = weighted(100, silos=silos, rule=rule)
    assert upper(records, "silo") == pytest.approx(exact, abs=0.006)


def test_the_server_sees_each_silo() -> None:
    """The worst user is wholly in one silo: mu = sqrt(S) / sigma in each round."""
    noise = ev.Repeat(100, ev.Gaussian(SIGMA / math.sqrt(5)))
    records = weighted(100, rule="records")
    assert upper(records, "server") == pytest.approx(epsilon(noise), rel=1e-6)
    assert upper(weighted(100), "server") == pytest.approx(10.00, abs=0.006)
    masked = weighted(100, rule="records", aggregation="masked")
    assert upper(masked, "server") == pytest.approx(10.00, abs=0.006)
    said = opening(aggregation="masked")(weighted(100, rule="records", views=False))
    assert upper(said, "server") == upper(records, "server")  # by no protocol


@for_each("neighbours", ["add-remove", "replace-one"])
def test_naive_as_published(neighbours: str) -> None:
    report = audited(naive(neighbours=neighbours))
    assert report.claim is not None
    assert report.claim.epsilon == 10.73
    assert report.total.upper == pytest.approx(24.38, abs=0.005)
    silo = uldp.naive_release(SIGMA, rounds=100, silos=5, seen=4, neighbours=neighbours)
    (row,) = [row for row in report.rows if row.observer == "silo"]
    assert row.total.upper == pytest.approx(epsilon(silo.event, neighbours), rel=1e-6)


def test_groups_of_records() -> None:
    records = grouped(size=3)
    whole = ev.Repeat(150, ev.Poisson(0.05, ev.Gaussian(SIGMA)))
    for observer in ("model", "server", "silo", "silo-with-records"):
        assert upper(records, observer) == pytest.approx(epsilon(ev.Group(3, whole)), rel=1e-9)
    report = audited(records, groups=(1, 5))
    assert [row.size for row in report.groups] == [1, 5]
    assert report.groups[0].total.upper == pytest.approx(epsilon(whole), rel=1e-9)
    assert report.groups[1].total.upper == pytest.approx(epsilon(ev.Group(5, whole)), rel=1e-9)


@for_each("chosen_by", [None, "all-silos"])
def test_records_that_are_chosen_by_what_others_hold_tell_a_silo_of_them(
    chosen_by: str | None,
) -> None:
    """The silo that holds some sees, without noise, whether its own are among the chosen ones."""
    report = audited(grouped(size=2, chosen_by=chosen_by))
    rows = {row.observer: row.total for row in report.rows}
    assert list(rows) == ["model", "server", "silo", "silo-with-records"]
    assert rows["silo-with-records"].upper == math.inf
    assert "how many lie elsewhere" in rows["silo-with-records"].refusal
    assert rows["silo"].upper == upper(grouped(size=2), "silo")
    assert report.ok  # the promise is not for that silo


def test_what_one_round_does_not_state_is_proven_for_none() -> None:
    records = grouped(size=2)
    first = records[1]
    assert isinstance(first, RoundIntent)
    records[1] = replace(first, sampling=replace(first.sampling, chosen_by=None))
    assert upper(records, "silo-with-records") == math.inf
    assert upper(records, "silo") == upper(grouped(size=2), "silo")


def test_who_chose_records_says_nothing_where_users_are_clipped_as_a_whole() -> None:
    records = weighted(20, rate=0.3)
    stated = [
        replace(one, sampling=replace(one.sampling, chosen_by="each-silo"))
        if isinstance(one, RoundIntent)
        else one
        for one in records
    ]
    for observer in ("model", "server", "silo"):
        assert upper(stated, observer) == upper(records, observer)


def test_a_log_of_the_uldp_package_agrees_for_other_silos_and_relations() -> None:
    for silos in (2, 3, 7):
        for neighbours in ("add-remove", "replace-one"):
            for rule in ("uniform", "records"):
                report = audited(weighted(10, silos=silos, rule=rule, neighbours=neighbours))
                assert report.ok, report.hazards
                for row in report.rows:
                    if row.stated is not None:
                        assert row.total.upper == pytest.approx(row.stated, rel=1e-6)


# --- what is counted ----------------------------------------------------------------------------


def test_every_intent_is_spent_released_or_not() -> None:
    records = weighted(20)
    cut = [*records[:20], records[21]]  # eleven rounds, the last two without a release
    report = audited(cut)
    assert report.spent == 11
    assert report.released == 9
    assert report.dangling == (19, 20)
    assert not report.complete
    assert report.total.upper == pytest.approx(epsilon(ev.Repeat(11, ev.Gaussian(SIGMA))), rel=1e-6)


def test_the_whole_plan_counts_where_a_run_was_ended_early() -> None:
    records = weighted(20)
    early = [*records[:21], replace(records[-1], rounds=10)]  # type: ignore[type-var]
    assert upper(early) == pytest.approx(upper(records), rel=1e-9)
    running = audited(records[:21])
    assert running.total.upper < upper(records)
    assert running.planned is not None
    assert running.planned.upper == pytest.approx(upper(records), rel=1e-9)


def test_more_draws_cost_more_and_never_less() -> None:
    twice = upper(intents(noise=part(draws=2))(weighted(10)))
    assert twice == pytest.approx(upper(weighted(20)), rel=1e-9)
    assert upper(releases(draws=2)(weighted(10))) == pytest.approx(twice, rel=1e-9)
    assert upper(intents(noise=part(draws=0))(weighted(10))) >= upper(weighted(10))


def test_stated_epsilons_and_events_change_no_number_downwards() -> None:
    honest = upper(weighted())
    for event in (ev.Gaussian(500.0), ev.Pure(1e-9), ev.Compose(()), ev.Poisson(1e-9, ev.Pure(0))):
        assert upper(intents(event=event)(weighted())) >= honest * (1 - 1e-12)
    low = changed(weighted(), RunClose, epsilon={"model": 1e-3})
    assert upper(low) == honest


def test_a_weaker_statement_is_believed() -> None:
    records = intents(event=ev.Gaussian(4.0))(weighted())
    plan = opening(plan=lambda old: replace(old, events={"model": ev.Repeat(20, ev.Gaussian(4.0))}))
    assert upper(plan(records)) == pytest.approx(epsilon(ev.Repeat(20, ev.Gaussian(4.0))), rel=1e-9)


def test_a_larger_sensitivity_is_believed_and_a_smaller_one_is_not() -> None:
    doubled = epsilon(ev.Repeat(20, ev.Gaussian(2.5)))
    assert upper(intents(sensitivity=2 * CLIP)(weighted(views=False))) == pytest.approx(
        doubled, rel=1e-6
    )
    for observer in ("server", "silo"):
        larger = upper(intents(sensitivity=2 * CLIP)(weighted(views=False)), observer)
        assert larger > upper(weighted(), observer) * 1.5
    assert upper(intents(sensitivity=0.01 * CLIP)(weighted())) == upper(weighted())


def test_the_weakest_of_std_and_shares_counts() -> None:
    half = intents(noise=part(share_std=SIGMA * CLIP / math.sqrt(5) / 2))
    assert upper(half(weighted(views=False))) == pytest.approx(
        epsilon(ev.Repeat(20, ev.Gaussian(2.5))), rel=1e-6
    )
    small = intents(noise=part(std=SIGMA * CLIP / 2))
    assert upper(small(weighted(views=False))) == pytest.approx(
        epsilon(ev.Repeat(20, ev.Gaussian(2.5))), rel=1e-6
    )


def test_tolerated_dropouts_are_missing() -> None:
    tolerant = part(tolerated_dropouts=2, share_std=SIGMA * CLIP / math.sqrt(3) * (1 + 1e-15))
    records = intents(noise=tolerant)(weighted())
    assert upper(records) == pytest.approx(upper(weighted()), rel=1e-9)
    gone = also(intents(noise=tolerant), releases(shares=3))(weighted())
    assert upper(gone) == pytest.approx(upper(weighted()), rel=1e-9)
    assert "dropouts" not in {hazard.id for hazard in audited(gone).hazards}
    for lost in (2, 1, 0):
        fewer = upper(releases(shares=lost)(records))
        assert fewer > upper(weighted())
        assert math.isinf(fewer) == (lost == 0)


def test_what_is_clipped_as_a_whole_protects_its_parts() -> None:
    """One record of a user moves the user's clipped vector across the ball."""
    records = opening(claim=part(unit="record"))(weighted(views=False))
    assert upper(records) == pytest.approx(epsilon(ev.Repeat(20, ev.Gaussian(2.5))), rel=1e-6)
    for unit in ("silo", "record"):
        other = opening(claim=part(unit="silo"))(
            intents(contribution=part(unit=unit))(weighted(views=False))
        )
        assert math.isinf(upper(other)) == (unit == "record")
    user = opening(claim=part(unit="user"))(
        intents(contribution=part(unit="silo"))(weighted(views=False))
    )
    assert math.isinf(upper(user))  # a user may be in several silos


@for_each("method", ["fixed-size", "truncated-poisson", "shuffled"])
def test_other_samplers(method: str) -> None:
    drawn = Sampling(method, "user", 0.1, "shared-secret", 5, 50)  # type: ignore[arg-type]
    base = ev.Gaussian(SIGMA)
    expected: ev.Event = {
        "fixed-size": ev.FixedSize(5, 50, base),
        "truncated-poisson": ev.TruncatedPoisson(0.1, 5, 50, base),
        "shuffled": ev.Gaussian(SIGMA / 2),  # another unit takes the place of one that goes
    }[method]
    records = intents(sampling=drawn, event=expected)(weighted(views=False))
    records = opening(plan=lambda old: replace(old, events={"model": ev.Repeat(20, expected)}))(
        records
    )
    assert upper(records) == pytest.approx(epsilon(ev.Repeat(20, expected)), rel=1e-6)
    known = intents(sampling=replace(drawn, drawn_by="server"))(records)
    assert upper(known, "server") == pytest.approx(
        epsilon(ev.Repeat(20, ev.Gaussian(SIGMA / 2))), rel=1e-6
    )


def test_terms_that_stay_lie_farther_from_the_rounds_without_their_unit() -> None:
    """Sampled silo updates under replace-one: 2C away from the model that never saw the user."""
    records = intents(sampling=Sampling("poisson", "user", 0.2, "shared-secret"))(
        naive(10, neighbours="replace-one")
    )
    both = ev.Repeat(10, ev.Poisson(0.2, ev.Gaussian(SIGMA / 2)))
    assert upper(records) == pytest.approx(epsilon(both, "replace-one"), rel=1e-6)
    one = ev.Repeat(10, ev.Poisson(0.2, ev.Gaussian(SIGMA / 2)))
    gone = intents(sampling=Sampling("poisson", "user", 0.2, "shared-secret"))(naive(10))
    assert upper(gone) == pytest.approx(epsilon(one), rel=1e-6)


def test_the_server_never_has_less_than_the_model() -> None:
    records = intents(event=ev.Gaussian(1.0))(weighted(views=False))
    assert upper(records, "server") == upper(records) > upper(weighted())


def test_a_rate_below_what_the_batches_say_is_not_believed() -> None:
    low = intents(sampling=part(batch=15, population=50))(weighted(100, rate=0.1))
    assert upper(low) == pytest.approx(2.53, abs=0.006)


def test_observers_of_whom_nothing_is_known_have_no_guarantee() -> None:
    records = intents(views=lambda old: {**old, "analyst": ev.Gaussian(5.0)})(weighted())
    assert math.isinf(upper(records, "analyst"))
    assert not audited(opening(claim=part(observer="analyst"))(weighted())).supported


def test_noise_by_one_party_hides_nothing_from_the_server() -> None:
    one = intents(noise=Noise("gaussian", SIGMA * CLIP, 1, 0.0, 0, 1, 2.0**-24))
    records = one(weighted(views=False))
    assert upper(records) == pytest.approx(upper(weighted()), rel=1e-10)
    assert math.isinf(upper(records, "server"))
    assert math.isinf(upper(records, "silo"))
    three = intents(noise=part(shares=3, share_std=SIGMA * CLIP))(weighted(views=False))
    assert math.isinf(upper(three, "server"))


def test_laplace_and_discrete_noise() -> None:
    def with_noise(family: str, std: float, bound: float, norm: str, grid: float) -> Records:
        return intents(
            noise=Noise(family, std, 1, std, 0, 1, grid),  # type: ignore[arg-type]
            contribution=Contribution(bound, norm, "user"),  # type: ignore[arg-type]
            sensitivity=bound,
            event=ev.NoGuarantee("unknown"),
        )(changed(weighted(views=False), RunOpen, as_published=True))

    laplace = ev.Repeat(20, ev.Laplace(5.0))
    assert upper(with_noise("laplace", 0.5, 0.1, "l1", 2.0**-24)) == pytest.approx(epsilon(laplace))
    discrete = ev.Repeat(20, ev.DiscreteLaplace(5.0, 3))
    assert upper(with_noise("discrete-laplace", 15.0, 3.0, "l1", 1.0)) == pytest.approx(
        epsilon(discrete)
    )
    vector = with_noise("discrete-gaussian", 15.0, 3.0, "l2", 1.0)
    assert upper(vector) == pytest.approx(epsilon(ev.Repeat(20, ev.ZCDP(0.02))))
    fine = with_noise("discrete-gaussian", 150.0, 30.0, "l2", 1.0)
    near = ev.Repeat(20, ev.Gaussian(math.sqrt(150.0**2 - 64) / 30))
    assert upper(fine) == pytest.approx(epsilon(near), rel=1e-9)
    one = ev.Repeat(20, ev.DiscreteGaussian(5.0, 3))
    assert upper(releases(values=1)(vector)) == pytest.approx(epsilon(one))


# --- from below ---------------------------------------------------------------------------------


def test_the_lower_end_is_near_where_the_facts_say_enough() -> None:
    for records in (weighted(), weighted(rate=0.3), weighted(neighbours="replace-one")):
        found = evidence(records).spent_total("model").epsilon
        assert 0.99 * found.upper < found.lower <= found.upper


@for_each(
    "change",
    [
        intents(weights=Weights("records", 0.5)),
        intents(contribution=part(terms="silo-delta")),
        intents(contribution=part(terms="whole")),
        opening(claim=part(unit="record")),
        releases(clip_enforced=False),
        intents(sampling=Sampling("fixed-size", "user", 0.1, "silos", 5, 50)),
        intents(noise=part(draws=2)),
    ],
)
def test_and_nothing_where_they_do_not(change: Callable[[Records], Records]) -> None:
    assert evidence(change(weighted())).spent_total("model").epsilon.lower == 0.0


def test_a_model_does_not_show_the_steps_inside_a_silo() -> None:
    assert evidence(grouped(size=2, steps=1)).spent_total("model").epsilon.lower == 0.0
    alone = changed(grouped(size=2, steps=1), RunOpen, population=Population(50, 1))
    assert evidence(alone).spent_total("model").epsilon.lower > 0.0


def test_only_what_was_released_counts_from_below() -> None:
    records = weighted(20)
    none = [record for record in records if not hasattr(record, "intent")]
    assert evidence(none).spent_total("model").epsilon.lower == 0.0
    half = evidence(records[:21]).spent_total("model").epsilon
    dangling = evidence([*records[:21], records[21]]).spent_total("model").epsilon
    assert dangling.upper > half.upper
    assert dangling.lower == half.lower


def test_extra_noise_lowers_only_the_lower_end() -> None:
    more = releases(shares=20)(weighted())
    assert upper(more) == upper(weighted())
    assert evidence(more).spent_total("model").epsilon.lower < 0.7 * upper(weighted())
