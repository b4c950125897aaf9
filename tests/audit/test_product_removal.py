"""Sums of products from which the noise of all silos but one is taken off."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from scipy import stats

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.records import Reach, RunOpen
from privplan.accountant.sensitivity.fedpower_views import revealed_probability
from privplan.audit.budget import BudgetReport
from privplan.fl.observers.assumptions import HONEST_SERVER

from ..cases import for_each
from .ledgers import audited, intents, masks, opening, part, upper, weighted
from .products import RESTS_ON, noisy, product_log, removal, utility_log

SILOS = 5
LOG = utility_log(noisy(shares=SILOS), colluders=2, rounds=3)


def errors(report: BudgetReport) -> set[str]:
    return {hazard.id for hazard in report.hazards if hazard.severity == "error"}


def hazards(report: BudgetReport) -> dict[str, str]:
    return {hazard.id: hazard.says for hazard in report.hazards}


@for_each("relation", ["add-remove", "replace-one"])
def test_model_and_server_see_one_share(relation: str) -> None:
    mechanism = noisy(relation, shares=SILOS)
    report = audited(utility_log(mechanism, relation, rounds=3))
    assert errors(report) == set()
    times = 2.0 if relation == "replace-one" else 1.0
    once = ev.Gaussian(times * mechanism.share_std / mechanism.sensitivity(relation))
    own = pp.account(ev.Repeat(3, once), delta=1e-5, neighbours=relation).epsilon.upper
    for observer in ("model", "server"):
        assert upper(utility_log(mechanism, relation, rounds=3), observer) == pytest.approx(
            own, rel=1e-6
        )


@for_each(("observer", "known"), [("client", 1), ("silo", 1), ("server+2", 2)])
def test_who_knows_shares_has_a_delta_of_them_in_every_round(observer: str, known: int) -> None:
    least = revealed_probability(SILOS, 3, known)
    for delta, finite in ((least - 1e-6, False), (least + 1e-6, True)):
        changed = opening(claim=part(delta=delta))(LOG)
        assert math.isfinite(upper(changed, observer)) is finite


def test_the_event_is_the_mixture_by_hand() -> None:
    """Exact with probability p, else Gaussian: delta(eps) is p + (1 - p) delta_G(eps)."""
    share, mu, eps = 0.2, 0.5, 1.0
    gauss = stats.norm.cdf(mu / 2 - eps / mu) - math.exp(eps) * stats.norm.cdf(-mu / 2 - eps / mu)
    event = ev.Compose((ev.Gaussian(1 / mu), ev.Approximate(0.0, share)))
    found = pp.account(event, epsilon=eps, neighbours="add-remove").delta
    assert found.upper >= share + (1 - share) * gauss - 1e-12
    assert found.upper == pytest.approx(share + (1 - share) * gauss, rel=1e-3)


def test_the_number_of_rounds_and_of_silos_is_said() -> None:
    said = hazards(audited(LOG))["noise-may-be-known"]
    assert f"{float(1 - Fraction(3, 5) ** 3):.3g}" in said
    assert "server+2" in said
    assert "3 more" in said  # silo, client, and the server with two that hold records
    small = hazards(audited(utility_log(noisy(shares=100), rounds=4)))["noise-may-be-known"]
    assert f"{revealed_probability(100, 4):.3g}" in small


def test_where_all_noise_stays_nothing_is_said_of_it() -> None:
    for aggregation in ("plain", "masked"):
        report = audited(product_log(noisy(), aggregation=aggregation))
        assert not {"noise-may-be-known", "weak-removal-key"} & set(hazards(report))


def test_what_it_rests_on_stands_beside_every_number_though_no_reach_says_it() -> None:
    silent = intents(
        reaches=lambda reaches: {
            name: replace(reach, rests_on=()) for name, reach in reaches.items()
        }
    )(LOG)
    for log in (LOG, silent):
        report = audited(log)
        for row in report.rows:
            if math.isfinite(row.total.upper):
                assert any(RESTS_ON[0] in text for text in row.rests_on)
        assert any("draws anew and evenly" in text for text in report.assumptions)
    assert not any("draws anew" in text for text in audited(product_log(noisy())).assumptions)


def test_no_server_is_said_to_restore_masks_where_no_silo_may_be_missing() -> None:
    for row in audited(LOG).rows:
        assert HONEST_SERVER not in row.rests_on
    masked = replace(masks(SILOS, SILOS), server="honest-but-curious")
    others = audited(product_log(noisy(), aggregation="masked", facts=masked))
    assert any(HONEST_SERVER in row.rests_on for row in others.rows)


@for_each("bits", [0, 512, 2047, 2048])
def test_a_key_that_can_be_factored_is_found(bits: int) -> None:
    report = audited(utility_log(noisy(shares=SILOS), key_bits=bits))
    assert ("weak-removal-key" in errors(report)) is (0 < bits < 2048)
    assert ("protocol-mismatch" in errors(report)) is (bits == 0)  # no key: no such protocol


@for_each(
    "facts",
    [
        {"key_bits": 0},
        {"server": "malicious"},
        {"fewest": SILOS - 1, "threshold": SILOS - 1},
    ],
)
def test_a_protocol_that_cannot_take_noise_off_gives_the_server_no_number(facts: Any) -> None:
    changed = opening(security=replace(removal(SILOS), **facts))(LOG)
    report = audited(changed)
    assert "protocol-mismatch" in errors(report)
    assert upper(changed, "server") == math.inf
    assert upper(changed, "client") == math.inf
    assert upper(changed) >= upper(LOG) * (1 - 1e-12)


def test_without_masks_nobody_but_the_model_has_a_number() -> None:
    plain = opening(aggregation="plain", security=None)(LOG)
    assert upper(plain, "server") == upper(plain, "silo") == math.inf
    assert upper(plain) >= upper(LOG) * (1 - 1e-12)


@for_each("sees", ["sum", "sum-less-own", "nothing"])
@for_each("observer", ["model", "server", "silo", "client", "server+2"])
def test_one_observer_does_not_see_noise_that_another_sees_taken_off(
    observer: str, sees: Any
) -> None:
    """The reach of one is changed, and the others still say what was done."""
    changed = intents(
        reaches=lambda reaches: {**reaches, observer: Reach(sees, colluders=2 * ("+" in observer))}
    )(LOG)
    assert upper(changed, observer) >= upper(LOG, observer) * (1 - 1e-12)
    silent = intents(
        reaches=lambda reaches: {name: one for name, one in reaches.items() if name != observer}
    )(LOG)
    assert upper(silent, observer) >= upper(LOG, observer) * (1 - 1e-12)


def test_a_key_alone_says_that_noise_is_taken_off() -> None:
    """Of a log that states no reaches the facts of the protocol count."""
    silent = intents(reaches=None)(LOG)
    for observer in ("model", "server", "silo", "client", "server+2"):
        assert upper(silent, observer) >= upper(LOG, observer) * (1 - 1e-12)


def test_one_share_under_masks_without_a_key_is_no_sum_with_all_noise() -> None:
    stated = intents(reaches=lambda _: {"model": Reach("one-share")})(
        product_log(noisy(), aggregation="masked")
    )
    honest = product_log(noisy(), aggregation="masked")
    assert "protocol-mismatch" in errors(audited(stated))
    assert upper(stated) > upper(honest)
    assert upper(stated, "server") == math.inf


def test_a_missing_party_leaves_nothing() -> None:
    for observer in ("model", "server", "client"):
        changed = intents(
            reaches=lambda reaches, observer=observer: {
                **reaches,
                observer: replace(reaches[observer], dropouts=1),
            }
        )(LOG)
        assert upper(changed, observer) == math.inf


def test_masks_of_other_sums_may_state_a_key_that_nobody_uses() -> None:
    """Earlier versions checked nothing there: only products have noise taken off."""
    records = weighted(3, aggregation="masked")
    own = next(each for each in records if isinstance(each, RunOpen)).security
    assert own == masks(5, 5)
    keyed = opening(security=replace(masks(5, 5), key_bits=3072))(records)
    assert upper(keyed, "silo") == upper(records, "silo")
