"""What each observer sees under masks and private weighting, from the facts of a log alone."""

from __future__ import annotations

import math
from typing import Any

import pytest

from privplan.accountant import events as ev
from privplan.accountant.records import Contribution, Noise, Sampling, Weights
from privplan.accountant.sensitivity.uldp import CLEAR_WEIGHTS
from privplan.audit.derivation.event_order import compared

from ..cases import for_each
from ..sweeps import sweep
from .ledgers import (
    CLIP,
    SIGMA,
    Change,
    also,
    audited,
    epsilon,
    evidence,
    intents,
    masks,
    naive,
    opening,
    part,
    releases,
    upper,
    weighing,
    weighted,
)
from .protocols import (
    OBSERVERS,
    SAMPLED,
    SUM,
    TRANSFER,
    close,
    hazards,
    private,
    security,
    supported,
)

INSIDE = SIGMA * math.sqrt(4 / 5)  # a silo of five, without its own noise


EVENTS: dict[tuple[str, str], tuple[ev.Event, ev.Event, ev.Event]] = {
    # aggregation, who draws: server, silo that has nothing of the user, silo that has something
    ("plain", "server"): (ev.Gaussian(SIGMA / math.sqrt(5)), ev.Gaussian(INSIDE), CLEAR_WEIGHTS),
    ("plain", "shared-secret"): (
        ev.Poisson(0.1, ev.Gaussian(SIGMA / math.sqrt(5))),
        ev.Gaussian(INSIDE),
        CLEAR_WEIGHTS,
    ),
    ("masked", "server"): (SUM, ev.Gaussian(INSIDE), CLEAR_WEIGHTS),
    ("masked", "shared-secret"): (SAMPLED, ev.Gaussian(INSIDE), CLEAR_WEIGHTS),
    ("private-weighting", "server"): (
        SUM,
        ev.Poisson(0.1, ev.Gaussian(INSIDE)),
        ev.Gaussian(INSIDE / 2),
    ),
    ("private-weighting", "shared-secret"): (SAMPLED, ev.Gaussian(INSIDE), ev.Gaussian(INSIDE / 2)),
    ("private-weighting", TRANSFER): (
        SAMPLED,
        ev.Poisson(0.1, ev.Gaussian(INSIDE)),
        ev.Gaussian(INSIDE / 2),
    ),
}


@for_each(("aggregation", "drawn_by"), EVENTS)
def test_each_observer_has_the_event_of_what_it_sees(aggregation: str, drawn_by: str) -> None:
    log = weighted(rule="records", rate=0.1, aggregation=aggregation, drawn_by=drawn_by)
    assert close(supported(log, "model"), SAMPLED)
    for observer, event in zip(OBSERVERS[1:], EVENTS[aggregation, drawn_by], strict=True):
        assert close(supported(log, observer), event), observer
    assert audited(log).ok


@for_each(("drawn_by", "server", "silo"), [("server", 10.00, 0.8627), (TRANSFER, 0.758, 0.8627)])
def test_known_numbers_of_private_weighting(drawn_by: str, server: float, silo: float) -> None:
    log = private(100, rate=0.1, drawn_by=drawn_by)
    assert upper(log) == pytest.approx(0.758, abs=0.006)
    assert upper(log, "server") == pytest.approx(server, abs=0.006)
    assert upper(log, "silo") == pytest.approx(silo, abs=0.0002)  # dp_accounting's PLD: 0.86269
    assert upper(log, "silo-with-records") == pytest.approx(28.37, abs=0.02)


@for_each("neighbours", ["add-remove", "replace-one"])
def test_whoever_holds_a_part_of_the_user_has_no_sample(neighbours: str) -> None:
    log = private(rate=0.1, drawn_by=TRANSFER, neighbours=neighbours)
    assert not isinstance(supported(log, "silo-with-records"), ev.Poisson)
    assert isinstance(supported(log, "silo"), ev.Poisson)
    bold = intents(views=lambda old: {**old, "silo-with-records": old["silo"]})(log)
    assert "known-sample" in hazards(bold)
    assert upper(bold, "silo-with-records") >= upper(log, "silo-with-records") * (1 - 1e-12)


@for_each("aggregation", ["plain", "masked"])
def test_silos_that_train_on_the_sample_know_it(aggregation: str) -> None:
    def bold(event: ev.Event) -> ev.Event:
        return ev.Poisson(0.1, event)

    log = weighted(rate=0.1, aggregation=aggregation)
    found = intents(views=lambda old: {**old, "silo": bold(old["silo"])})(log)
    assert "known-sample" in hazards(found)
    assert upper(found, "silo") >= upper(log, "silo")


@for_each("unit", ["record", "user"])
def test_only_users_hide_from_silos(unit: str) -> None:
    log = private(rate=0.1, views=False)
    drawn = intents(sampling=Sampling("poisson", unit, 0.1, "server"))(log)  # type: ignore[arg-type]
    assert isinstance(supported(drawn, "silo"), ev.Poisson) == (unit == "user")


MADE = (
    ("plain", "server", 0, 0),
    ("plain", "server", 0, 1),
    ("plain", "shared-secret", 0, 3),
    ("masked", "server", 0, 0),
    ("masked", "server", 2, 0),
    ("masked", "server", 1, 2),
    ("masked", "shared-secret", 1, 0),
    ("masked", "shared-secret", 0, 3),
    ("private-weighting", "server", 0, 0),
    ("private-weighting", TRANSFER, 0, 0),
    ("private-weighting", "shared-secret", 0, 0),
)


RUNS = [
    (silos, rule, *one)
    for one in MADE
    for silos in (2, 3, 5)
    for rule in ("uniform", "records")
    if one[2] + one[3] <= silos - 2 and (one[0], rule) != ("private-weighting", "uniform")
]


@for_each(("rate", "neighbours"), [(1.0, "add-remove"), (0.3, "replace-one")])
@for_each(("silos", "rule", "aggregation", "drawn_by", "dropouts", "colluders"), RUNS)
def test_what_systems_state_is_what_their_facts_support(
    silos: int,
    rule: str,
    aggregation: str,
    drawn_by: str,
    dropouts: int,
    colluders: int,
    rate: float,
    neighbours: str,
) -> None:
    sums = pytest.importorskip("privplan.fl.aggregation.weighted_sum")
    given: dict[str, Any] = {"aggregation": aggregation, "neighbours": neighbours, "rule": rule}
    given |= {"silos": silos, "rate": rate, "drawn_by": drawn_by}
    log = weighted(dropouts=dropouts, colluders=colluders, **given)
    stated = sums.weighted_views(
        SIGMA, tolerated_dropouts=dropouts, coalitions=(colluders,) if colluders else (), **given
    )
    for observer, event in stated.items():
        assert compared(event, supported(log, observer)) == "same", observer
    told = colluders or (1 if aggregation == "private-weighting" else 0)
    coalitions = {f"server+{told}", f"server+{told}-with-records"} if told else set()
    assert set(stated) == {*OBSERVERS[: 3 + (rule == "records")], *coalitions}
    assert set(evidence(log).observers) == set(stated)


# --- missing silos ------------------------------------------------------------------------------


def exact(silos: int, missing: int, left: int, weight: float) -> float:
    """Return the noise multiplier of a sum of `left` shares, each made for `missing` fewer."""
    share = SIGMA * CLIP / math.sqrt(silos - missing)
    return share * math.sqrt(left) / (CLIP * weight)


@for_each(("silos", "missing"), [(5, 0), (5, 1), (5, 3), (3, 1)])
@for_each("rule", ["uniform", "records"])
def test_the_least_noise_counts_that_may_arrive(silos: int, missing: int, rule: str) -> None:
    log = weighted(silos=silos, rule=rule, aggregation="masked", dropouts=missing)
    assert close(supported(log, "server"), SUM)
    assert close(supported(log, "model"), SUM)
    outside = 1 - 1 / silos if rule == "uniform" else 1.0
    left = exact(silos, missing, silos - missing - 1, outside)
    assert close(supported(log, "silo"), ev.Gaussian(left))
    for arrived in range(silos - missing, silos + 1):  # whoever is there, each with its weight
        others = (arrived - 1) / silos if rule == "uniform" else 1.0
        assert exact(silos, missing, arrived - 1, others) >= left * (1 - 1e-12)


def test_a_silo_that_may_be_left_alone_has_no_noise_to_hide_behind() -> None:
    log = weighted(silos=2, aggregation="masked", dropouts=1, views=False)
    assert isinstance(supported(log, "silo"), ev.NoGuarantee)


def test_no_more_shares_than_the_protocol_insists_on() -> None:
    log = weighted(aggregation="masked", dropouts=1, views=False)
    fewer = security(fewest=3, threshold=3)(log)
    assert "fewest-below-noise" in hazards(fewer)
    assert close(supported(fewer, "server"), ev.Gaussian(exact(5, 1, 3, 1.0)))
    assert upper(fewer) == pytest.approx(
        epsilon(ev.Repeat(20, ev.Gaussian(exact(5, 1, 3, 1.0)))), rel=1e-6
    )
    nobody = security(fewest=0)(log)
    assert math.isinf(upper(nobody))
    arrived = releases(shares=5)(fewer)  # what arrived is no promise
    assert upper(arrived) == upper(fewer)


def test_silo_updates_under_masks_count_all_terms_and_the_noise_that_is_left() -> None:
    log = also(
        opening(aggregation="masked", security=masks(5, 4)),
        intents(noise=part(tolerated_dropouts=1, share_std=SIGMA * CLIP * 5 / 2 * (1 + 1e-15))),
    )(naive(10))
    assert close(supported(log, "server"), ev.Gaussian(SIGMA / 2))
    assert supported(log, "server") == supported(log, "model")
    share = SIGMA * CLIP * 5 / 2
    assert close(supported(log, "silo"), ev.Gaussian(share * math.sqrt(3) / (2 * CLIP * 4)))


# --- facts that are no protocol -----------------------------------------------------------------

UNFIT: dict[str, tuple[str, Change]] = {
    "no protocol": ("masked", opening(security=None)),
    "another protocol": ("masked", opening(security=weighing(5))),
    "no silos": ("masked", security(parties=0)),
    "one silo more": ("masked", security(parties=6)),
    "one is enough": ("masked", security(fewest=1)),
    "more than there are": ("masked", security(fewest=6)),
    "no ring": ("masked", security(ring_bits=0)),
    "one alone restores a mask": ("masked", security(threshold=1)),
    "more restore it than hold it": ("masked", security(threshold=5, degree=3)),
    "more hold it than there are": ("masked", security(threshold=5, degree=5)),
    "noise by one party": (
        "masked",
        intents(noise=Noise("gaussian", SIGMA * CLIP, 1, SIGMA * CLIP, 0, 1, 2.0**-24)),
    ),
    "no private weights": ("private-weighting", opening(security=None)),
    "masks for weights": ("private-weighting", opening(security=masks(5, 5))),
    "even weights": ("private-weighting", intents(weights=Weights("uniform"))),
    "whole silos": (
        "private-weighting",
        intents(contribution=Contribution(CLIP, "l2", "user", "silo-delta")),
    ),
    "one may be missing": ("private-weighting", security(fewest=4)),
    "records in units of nothing": ("private-weighting", security(records_per_count=0)),
    "a transfer of nothing": (
        "private-weighting",
        intents(sampling=Sampling("poisson", "user", 0.1, "oblivious-transfer")),
    ),
}


@for_each("name", sweep(list(UNFIT), quick=6))
def test_without_a_protocol_the_server_sees_every_update(name: str) -> None:
    aggregation, change = UNFIT[name]
    log = weighted(rule="records", rate=0.1, aggregation=aggregation, views=False)
    broken = change(log)
    open_log = opening(aggregation="plain", security=None)(broken)
    assert hazards(broken).keys() & {"missing-protocol", "protocol-mismatch"}
    assert not audited(broken).ok
    for observer in OBSERVERS:
        worst = max(upper(open_log, observer), upper(log, observer))
        assert upper(broken, observer) >= worst * (1 - 1e-9), observer


def test_a_protocol_that_the_aggregation_does_not_name_changes_nothing() -> None:
    log = opening(security=masks(5, 5))(weighted(rule="records"))
    assert "protocol-mismatch" in hazards(log)
    assert upper(log, "server") == upper(weighted(rule="records"), "server")


def test_a_transfer_belongs_to_private_weighting() -> None:
    drawn = Sampling("poisson", "user", 0.1, "oblivious-transfer")
    for aggregation in ("plain", "masked"):
        log = intents(sampling=drawn)(weighted(rate=0.1, aggregation=aggregation, views=False))
        for observer in OBSERVERS:
            assert not isinstance(supported(log, observer), ev.Poisson), observer
