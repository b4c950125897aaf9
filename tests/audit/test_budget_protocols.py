"""What each observer sees under masks and private weighting, from the facts of a log alone."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.mechanisms import About, FineGaussian
from privplan.accountant.records import (
    Contribution,
    Noise,
    RoundIntent,
    RunOpen,
    Sampling,
    Security,
    Weights,
)
from privplan.accountant.sensitivity.uldp import CLEAR_WEIGHTS
from privplan.audit.budget import audit_budget
from privplan.audit.derivation.event_order import compared
from privplan.fl.log.canonical import LOG

from ..sweeps import sweep
from .ledgers import (
    CLIP,
    DELTA,
    FINE,
    LIMIT,
    SIGMA,
    Change,
    Records,
    also,
    audited,
    changed,
    evidence,
    intents,
    masks,
    naive,
    opening,
    part,
    releases,
    run_of,
    upper,
    weighing,
    weighted,
    written,
)

TRANSFER = "oblivious-transfer"
OBSERVERS = ("model", "server", "silo", "silo-with-records")
PROTOCOLS = {"masked": "pairwise-masks", "private-weighting": "private-weighting"}


def epsilon(event: ev.Event, neighbours: str = "add-remove") -> float:
    return pp.account(event, delta=DELTA, neighbours=neighbours).epsilon.upper


def private(rounds: int = 20, **options: Any) -> Records:
    return weighted(rounds, rule="records", aggregation="private-weighting", **options)


def security(**fields: object) -> Change:
    return opening(security=part(**fields))


def hazards(records: Records) -> dict[str, str]:
    return {one.id: one.severity for one in audited(records).hazards}


def supported(records: Records, observer: str) -> ev.Event:
    """Return what the facts of a round support, whatever is stated."""
    own = evidence(records)
    return own.seen(own.kinds[0], observer).supported


# --- who sees what ------------------------------------------------------------------------------

SUM, SAMPLED = ev.Gaussian(SIGMA), ev.Poisson(0.1, ev.Gaussian(SIGMA))
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
    ("private-weighting", "shared-secret"): (
        SAMPLED,
        ev.Gaussian(INSIDE),
        ev.Gaussian(INSIDE / 2),
    ),
    ("private-weighting", TRANSFER): (
        SAMPLED,
        ev.Poisson(0.1, ev.Gaussian(INSIDE)),
        ev.Gaussian(INSIDE / 2),
    ),
}


def close(left: ev.Event, right: ev.Event) -> bool:
    """Return whether events are of one shape and nearly of one noise."""
    if isinstance(left, ev.NoGuarantee):
        return left == right
    if isinstance(left, ev.Poisson) and isinstance(right, ev.Poisson):
        return left.rate == right.rate and close(left.event, right.event)
    both = isinstance(left, ev.Gaussian) and isinstance(right, ev.Gaussian)
    return both and math.isclose(left.noise_multiplier, right.noise_multiplier, rel_tol=1e-9)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("aggregation", "drawn_by"), EVENTS)
def test_each_observer_has_the_event_of_what_it_sees(aggregation: str, drawn_by: str) -> None:
    log = weighted(rule="records", rate=0.1, aggregation=aggregation, drawn_by=drawn_by)
    assert close(supported(log, "model"), SAMPLED)
    for observer, event in zip(OBSERVERS[1:], EVENTS[aggregation, drawn_by], strict=True):
        assert close(supported(log, observer), event), observer
    assert audited(log).ok


@pytest.mark.parametrize(
    ("drawn_by", "server", "silo"), [("server", 10.00, 0.8627), (TRANSFER, 0.758, 0.8627)]
)
def test_known_numbers_of_private_weighting(drawn_by: str, server: float, silo: float) -> None:
    log = private(100, rate=0.1, drawn_by=drawn_by)
    assert upper(log) == pytest.approx(0.758, abs=0.006)
    assert upper(log, "server") == pytest.approx(server, abs=0.006)
    assert upper(log, "silo") == pytest.approx(silo, abs=0.0002)  # dp_accounting's PLD: 0.86269
    assert upper(log, "silo-with-records") == pytest.approx(28.37, abs=0.02)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_whoever_holds_a_part_of_the_user_has_no_sample(neighbours: str) -> None:
    log = private(rate=0.1, drawn_by=TRANSFER, neighbours=neighbours)
    assert not isinstance(supported(log, "silo-with-records"), ev.Poisson)
    assert isinstance(supported(log, "silo"), ev.Poisson)
    bold = intents(views=lambda old: {**old, "silo-with-records": old["silo"]})(log)
    assert "known-sample" in hazards(bold)
    assert upper(bold, "silo-with-records") >= upper(log, "silo-with-records") * (1 - 1e-12)


@pytest.mark.parametrize("aggregation", ["plain", "masked"])
def test_silos_that_train_on_the_sample_know_it(aggregation: str) -> None:
    def bold(event: ev.Event) -> ev.Event:
        return ev.Poisson(0.1, event)

    log = weighted(rate=0.1, aggregation=aggregation)
    found = intents(views=lambda old: {**old, "silo": bold(old["silo"])})(log)
    assert "known-sample" in hazards(found)
    assert upper(found, "silo") >= upper(log, "silo")


@pytest.mark.parametrize("unit", ["record", "user"])
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


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("rate", [1.0, 0.3])
@pytest.mark.parametrize(
    ("silos", "rule", "aggregation", "drawn_by", "dropouts", "colluders"), RUNS
)
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
        SIGMA,
        tolerated_dropouts=dropouts,
        coalitions=(colluders,) if colluders else (),
        **given,
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


@pytest.mark.parametrize(("silos", "missing"), [(5, 0), (5, 1), (5, 3), (3, 1)])
@pytest.mark.parametrize("rule", ["uniform", "records"])
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


@pytest.mark.parametrize("name", sweep(list(UNFIT), quick=6))
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


# --- the oblivious transfer ---------------------------------------------------------------------


@pytest.mark.parametrize(("slots", "chosen", "rate"), [(10, 1, 0.1), (3, 1, 1 / 3), (10, 5, 0.5)])
def test_the_rate_is_that_of_the_slots(slots: int, chosen: int, rate: float) -> None:
    log = security(slots=slots, chosen=chosen)(private(rate=0.1, drawn_by=TRANSFER))
    for observer in ("model", "server", "silo"):
        event = supported(log, observer)
        assert isinstance(event, ev.Poisson)
        assert event.rate == pytest.approx(rate, rel=1e-15)
        assert event.rate * slots >= chosen
    assert ("rate-mismatch" in hazards(log)) == (rate > 0.1)
    assert upper(log) >= upper(private(rate=0.1, drawn_by=TRANSFER)) * (1 - 1e-12)


def test_a_rate_above_that_of_the_slots_is_believed() -> None:
    log = security(slots=100, chosen=1)(private(rate=0.1, drawn_by=TRANSFER))
    assert upper(log) == upper(private(rate=0.1, drawn_by=TRANSFER))
    assert "rate-mismatch" not in hazards(log)
    lower = evidence(log).spent_total("model").epsilon.lower
    assert lower < 0.5 * upper(log)  # it may have been the lower one


@pytest.mark.parametrize(("slots", "chosen"), [(0, 0), (10, 0), (1, 1), (10, 11), (0, 5)])
def test_a_transfer_that_cannot_be_draws_everybody(slots: int, chosen: int) -> None:
    log = security(slots=slots, chosen=chosen)(private(rate=0.1, drawn_by=TRANSFER))
    for observer in ("model", "server", "silo"):
        assert not isinstance(supported(log, observer), ev.Poisson)
    assert {"protocol-mismatch", "rate-mismatch"} <= hazards(log).keys()


def test_a_transfer_draws_each_user_by_itself() -> None:
    fixed = Sampling("fixed-size", "user", 0.1, "oblivious-transfer", 5, 50)
    log = intents(sampling=fixed)(private(rate=0.1, drawn_by=TRANSFER, views=False))
    for observer in OBSERVERS:
        assert not isinstance(supported(log, observer), (ev.FixedSize, ev.Poisson))


# --- what noise does not cover ------------------------------------------------------------------

UNCOVERED: dict[str, Change] = {
    "multiples": security(noise="multiples"),
    "the grid of the digits": intents(noise=part(grid=2.0**-18)),
    "a grid of one weight": intents(noise=part(grid=CLIP / (2**53))),
    "no grid": intents(noise=part(grid=0.0)),
    "counts above the limit": security(count_cap=9),
    "no counts": security(count_cap=0),
    "no limit": security(count_limit=0),
    "a limit that nobody means": security(count_limit=2**63 - 1),
}


@pytest.mark.parametrize("name", UNCOVERED)
def test_noise_that_leaves_a_part_uncovered_proves_nothing_to_anybody(name: str) -> None:
    log = UNCOVERED[name](private(rate=0.1))
    for observer in OBSERVERS:
        assert math.isinf(upper(log, observer))
        assert evidence(log).spent_total(observer).epsilon.lower == 0.0
    assert hazards(log)["noise-in-multiples"] == "error"


def test_the_published_form_says_so_itself() -> None:
    nothing = ev.NoGuarantee("Protocol 1 as published")
    intent = intents(event=nothing, views={})(private(1))[1]
    assert isinstance(intent, RoundIntent)
    seen: dict[str, ev.Event] = {"model": nothing}
    records = changed(
        run_of(intent, seen, 100, silos=5, claimed=10.73),
        RunOpen,
        aggregation="private-weighting",
        security=replace(weighing(5), noise="multiples"),
        as_published=True,
    )
    report = audited(records)
    assert {one.id: one.severity for one in report.hazards} == {
        "as-published": "warning",
        "noise-in-multiples": "error",
    }
    assert math.isinf(report.total.upper)
    assert report.supported is False
    assert not report.ok


def test_a_grid_just_fine_enough_is_accepted_and_none_that_is_coarser() -> None:
    most = CLIP / math.lcm(*range(1, LIMIT + 1))
    assert math.isfinite(upper(intents(noise=part(grid=most * (1 - 1e-9)))(private())))
    assert math.isinf(upper(intents(noise=part(grid=most * (1 + 1e-9)))(private())))


@pytest.mark.parametrize(
    ("aggregation", "facts"),
    [
        ("masked", {"server": "malicious", "threshold": 2}),
        ("masked", {"server": "malicious", "fewest": 2, "threshold": 2}),
        ("masked", {"colluders": 4}),
        ("masked", {"colluders": 2**63 - 1}),
        ("masked", {"colluders": 3, "threshold": 3}),
        ("masked", {"server": "malicious", "colluders": 3, "threshold": 4}),
        ("private-weighting", {"server": "malicious"}),
        ("private-weighting", {"colluders": 1}),
    ],
)
def test_a_protocol_does_not_hold_off_whom_it_cannot(
    aggregation: str, facts: dict[str, object]
) -> None:
    log = weighted(rule="records", aggregation=aggregation)
    assert "protocol-mismatch" not in hazards(log)
    forged = security(**facts)(log)
    assert hazards(forged)["protocol-mismatch"] == "error"
    assert upper(forged, "server") > upper(log, "server")


@pytest.mark.parametrize("silos", [0, 1])
@pytest.mark.parametrize("aggregation", ["plain", *PROTOCOLS])
def test_who_added_shares_of_the_noise_was_there(aggregation: str, silos: int) -> None:
    log = weighted(rule="records", aggregation=aggregation, views=False)
    alone = opening(population=part(silos=silos))(log)
    seen = evidence(alone)
    assert {"server", "silo"} <= set(seen.observers)
    assert math.isinf(upper(alone, "server"))
    assert math.isinf(upper(alone, "silo"))


@pytest.mark.parametrize("missing", range(5))
@pytest.mark.parametrize("parties", [2, 3, 5, 7])
def test_masks_as_they_are_chosen_hold_together(parties: int, missing: int) -> None:
    from privplan.fl.aggregation.masked_sums import Masked

    if parties - missing < 2:
        return
    log = weighted(rule="records", aggregation="masked", silos=parties, dropouts=missing)
    chosen = Masked(parties, dropouts=missing).security
    assert "protocol-mismatch" not in hazards(opening(security=chosen)(log))


@pytest.mark.parametrize("value", [math.inf, 1e300, 5e-324, 0.0, -1.0])
@pytest.mark.parametrize("field", ["grid", "bound", "std", "share_std"])
@pytest.mark.parametrize("aggregation", list(PROTOCOLS))
def test_absurd_numbers_prove_nothing_and_are_no_traceback(
    aggregation: str, field: str, value: float
) -> None:
    log = weighted(2, rule="records", aggregation=aggregation)
    change = {"contribution" if field == "bound" else "noise": part(**{field: value})}
    harmless = field == "grid" and 0.0 <= value < 1e-300  # as fine as can be, or of floats
    harmless &= value > 0.0 or aggregation == "masked"
    assert math.isinf(upper(intents(**change)(log))) != harmless


def test_a_single_share_is_no_smaller_than_numbers_can_be() -> None:
    log = intents(noise=part(shares=1, share_std=1e-200))(weighted(2, silos=1))
    assert math.isinf(upper(log))
    assert "unusable-facts" in hazards(log)


def test_a_run_without_noise_has_no_noise_and_nothing_else_to_say_of_its_protocol() -> None:
    log = intents(noise=Noise("none", 0.0))(weighted(aggregation="masked", views=False))
    assert "no-noise" in hazards(log)
    assert "protocol-mismatch" not in hazards(log)


def test_a_key_that_silos_can_break_hides_no_counts_from_them() -> None:
    log = security(key_bits=1024)(private(rate=0.1))
    for observer in OBSERVERS:
        assert math.isinf(upper(log, observer)) == observer.startswith("silo")
    assert hazards(log)["weak-key"] == "error"


# --- mechanisms on a fine grid ------------------------------------------------------------------


@pytest.mark.parametrize("limit", [12, 41, 100, 250])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_noise_on_a_fine_grid_is_what_its_mechanism_states(limit: int, neighbours: str) -> None:
    """From 1e-9 to 1e-112 of the noise; the number does not change by the grid."""
    mechanism = FineGaussian(
        bound=CLIP,
        std=SIGMA * CLIP,
        multiple=math.lcm(*range(1, limit + 1)),
        shares=5,
        weights=Weights("records", 1.0),
    )
    intent = mechanism.intent(About(1, "train"), neighbours)
    assert 0.0 < intent.noise.grid <= 1e-5 * intent.noise.std / limit
    log = also(
        security(count_limit=limit, count_cap=(limit - 1) // 5),
        intents(noise=intent.noise, sensitivity=intent.sensitivity, weights=intent.weights),
    )(private(neighbours=neighbours))
    assert close(intent.event, SUM)
    assert close(supported(log, "model"), SUM)
    assert close(supported(log, "server"), SUM)
    assert audited(log).ok
    assert upper(log, "silo") == pytest.approx(
        upper(private(neighbours=neighbours), "silo"), rel=1e-12
    )


def test_from_below_weights_do_not_quite_sum_to_one() -> None:
    """A user of 40 counts and a dummy moves the sum by 40/41 of the clip, and nobody by more."""
    found = evidence(private(100)).spent_total("model").epsilon
    most = epsilon(ev.Repeat(100, ev.Gaussian(SIGMA * 41 / 40)))
    assert 0.99 * most < found.lower < most < found.upper
    few = evidence(
        also(
            security(count_limit=6, count_cap=1),
            intents(noise=part(grid=2.0**-18 / 60)),
        )(private(100))
    )
    assert few.spent_total("model").epsilon.lower < epsilon(
        ev.Repeat(100, ev.Gaussian(SIGMA * 6 / 5))
    )


# --- logs of before, and hostile ones -----------------------------------------------------------


def test_a_log_from_before_there_were_protocols_is_read(tmp_path: Any) -> None:
    records = weighted(5)
    folder = written(tmp_path / "now", records)
    assert '"security"' not in (folder / LOG).read_text()
    assert audit_budget(folder).ok


def test_a_log_with_a_protocol_is_read_as_it_was_written(tmp_path: Any) -> None:
    folder = written(tmp_path / "run", private(5, rate=0.1, drawn_by=TRANSFER))
    report = audit_budget(folder)
    assert report.ok
    told = ("server+1", "server+1-with-records")
    assert [row.observer for row in report.rows] == [*OBSERVERS, *told]
    assert all(row.total.upper == pytest.approx(row.stated, rel=1e-6) for row in report.rows)


NUMBERS = st.one_of(
    st.sampled_from([0, 1, 2, 4, 5, 6, 10, 32, 40, 41, 64, 2048, 3072, 10**6, 2**63 - 1]),
    st.integers(0, 2**63 - 1),
)
NAMES = (
    "parties",
    "fewest",
    "threshold",
    "degree",
    "ring_bits",
    "key_bits",
    "count_limit",
    "count_cap",
    "records_per_count",
    "slots",
    "chosen",
)


STATED = st.tuples(
    st.sampled_from(["plain", "masked", "private-weighting"]),
    st.sampled_from(list(PROTOCOLS.values())),
    st.sampled_from(["every-residue", "multiples"]),
    st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, NUMBERS)),
    st.sampled_from([0.0, 2.0**-24, FINE]),
)
"""What a run may state of its protocol, and of its noise."""


def no_number_is_smaller(
    aggregation: str, protocol: str, noise: str, values: dict[str, int], grid: float
) -> None:
    """Assert it.  The best log is one whose sample nobody knows; changes of its facts only cost."""
    best = private(2, rate=0.1, drawn_by=TRANSFER)
    base = weighing(5, 10, 1) if protocol == "private-weighting" else masks(5, 5)
    own = Security(
        **{
            **{name: getattr(base, name) for name in NAMES},
            **values,
            "protocol": protocol,
            "noise": noise,
        }  # type: ignore[arg-type]
    )
    log = also(
        opening(aggregation=aggregation, security=own), intents(noise=part(grid=grid), views={})
    )(best)
    report = audited(log)
    json.dumps(report.to_json())
    for observer in OBSERVERS:
        assert upper(log, observer) >= upper(best, observer) * (1 - 1e-9)
        assert evidence(log).spent_total(observer).epsilon.lower <= upper(log, observer)


@settings(max_examples=12, deadline=None)
@given(STATED)
def test_no_protocol_whatever_it_states_makes_a_number_smaller(stated: Any) -> None:
    no_number_is_smaller(*stated)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(STATED)
def test_no_protocol_of_many_makes_a_number_smaller(stated: Any) -> None:
    no_number_is_smaller(*stated)
