"""What systems state to every observer, coalitions too, is what the facts of their logs support."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from privplan.accountant import events as ev
from privplan.accountant.records import Normaliser, Planned, Population, RunOpen
from privplan.accountant.sensitivity.uldp import CLEAR_WEIGHTS, PRIVATE_COALITION
from privplan.audit.derivation.event_order import compared
from privplan.fl.observers.assumptions import HONEST_SERVER, OTHER_SILOS_RECORDS
from privplan.fl.running.preparation import prepare
from privplan.fl.running.prepared_run import PreparedRun
from privplan.fl.settings.toml_file import parse

from ..cases import for_each
from ..sweeps import sweep
from .ledgers import (
    SIGMA,
    Records,
    also,
    audited,
    changed,
    evidence,
    intents,
    masks,
    opening,
    part,
    releases,
    run_of,
    sealing,
    upper,
    weighted,
)

SILOS, USERS = 5, 20


def prepared(
    system: str,
    *,
    aggregation: str = "plain",
    weighting: str = "",
    rate: float = 1.0,
    neighbours: str = "add-remove",
    colluders: int = 0,
    dropouts: int = 0,
) -> PreparedRun:
    """Return a run that may begin."""
    lines = [
        f'[run]\nsystem = "{system}"\nrounds = 2',
        f'[data]\nname = "breast-cancer"\nusers = {USERS}\nsilos = {SILOS}',
        f'[privacy]\nnoise_multiplier = 5.0\nneighbours = "{neighbours}"',
        f"sampling_rate = {rate}" if rate < 1.0 else "",
        f'[training]\nweighting = "{weighting}"' if weighting else "",
        f'[security]\naggregation = "{aggregation}"',
        f"colluders = {colluders}" if colluders else "",
        f"dropouts = {dropouts}" if dropouts else "",
        "[uldp]\ngroup_records = 4" if system == "uldp-group" else "",
    ]
    return prepare(parse("\n".join(lines).encode(), "run.toml"))


class EndOfRound(Exception):
    """Nothing is drawn: the intent is known."""


class Shut:
    """A gate that keeps the intent that it was to open."""

    intent: Any

    def open(self, intent: Any) -> None:
        """Keep the intent, and let nothing be drawn."""
        self.intent = intent
        raise EndOfRound


def log_of(own: PreparedRun) -> Records:
    """Return a log of its rounds, by the code that states them; nothing is trained."""
    system: Any = own.system
    promise = system.promise
    gate = Shut()
    with pytest.raises(EndOfRound):
        system.round(1, system.initial(), gate)
    intent = gate.intent
    records = run_of(
        intent,
        {"model": promise.event, **promise.views},
        2,
        silos=SILOS,
        neighbours=own.settings.privacy.neighbours,
        group=own.settings.privacy.group,
    )
    opened = changed(
        records,
        RunOpen,
        system=system.name,
        population=Population(USERS, SILOS),
        aggregation=own.opening.aggregation,
        security=own.opening.security,
        configuration=own.settings.to_json(),
    )
    constant = Normaliser("constant", divisor(system))
    made = intents(model_in=None)(releases(normaliser=constant, values=31)(opened))
    return sealing(own.settings.sealed_items()["train"])(made)


def divisor(system: Any) -> float:
    """Return the public constant that a system divides its sums by."""
    if system.name == "uldp-group":
        return float(system.constant)
    return float(SILOS) if system.name == "uldp-naive" else system.rate * USERS * SILOS


def cases() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    systems: list[tuple[str, str, tuple[float, ...]]] = [
        ("uldp-avg", "records", (1.0, 0.5)),
        ("uldp-avg", "uniform", (1.0, 0.5)),
        ("uldp-sgd", "records", (1.0,)),
        ("uldp-naive", "", (1.0,)),
        ("uldp-group", "", (1.0,)),
    ]
    sums = [("plain", 0), ("masked", 0), ("masked", 1)]
    for (system, weighting, rates), (aggregation, dropouts) in itertools.product(systems, sums):
        if system == "uldp-group" and dropouts:
            continue  # each record has a silo's noise to itself
        relations = ("add-remove",) if system == "uldp-group" else ("add-remove", "replace-one")
        for rate, neighbours, colluders in itertools.product(rates, relations, (0, 1, 2)):
            found.append(
                {
                    "system": system,
                    "weighting": weighting,
                    "aggregation": aggregation,
                    "dropouts": dropouts,
                    "rate": rate,
                    "neighbours": neighbours,
                    "colluders": colluders,
                }
            )
    return found


def named(case: dict[str, Any]) -> str:
    return "-".join(str(value) for value in case.values())


CASES = {named(case): case for case in cases()}


@for_each("name", sweep(sorted(CASES), quick=12))
def test_every_view_is_what_the_facts_support(name: str) -> None:
    case = CASES[name]
    own = prepared(**case)
    log = log_of(own)
    found = evidence(log)
    (kind,) = found.kinds
    stated = {"model": own.opening.plan.events["model"], **kind.stated}
    for observer in stated:
        assert found.seen(kind, observer).verdict == "same", observer
    told = case["colluders"]
    coalitions = {f"server+{told}", f"server+{told}-with-records"} if told else set()
    assert coalitions <= set(stated)
    assert ("silo-with-records" in stated) >= (case["weighting"] == "records")
    assert set(stated) == set(found.observers)
    assert audited(log).ok
    if case["weighting"] == "records":
        holding = [name for name in stated if name.endswith("-with-records")]
        assert {kind.stated[name] for name in holding} == {CLEAR_WEIGHTS}
        assert all(math.isinf(upper(log, name)) for name in holding)


def test_private_weighting_admits_no_coalition() -> None:
    log = weighted(rule="records", aggregation="private-weighting")
    rows = {row.observer: row.total for row in audited(log).rows}
    for name in ("server+1", "server+1-with-records"):
        assert math.isinf(rows[name].upper)
        assert rows[name].refusal == PRIVATE_COALITION.reason
    assert math.isfinite(rows["silo-with-records"].upper)
    bold = intents(views=lambda old: {**old, "server+1": old["server"]})(log)
    assert "event-mismatch" in {hazard.id for hazard in audited(bold).hazards}
    assert math.isinf(upper(bold, "server+1"))


# --- facts that do not carry a coalition ----------------------------------------------------------


@for_each("rule", ["uniform", "records"])
def test_more_colluders_than_the_masks_bear_see_every_update(rule: str) -> None:
    """A stated number for three is derived from facts for two: the masks may be off."""
    three = weighted(rule=rule, aggregation="masked", colluders=3)
    two = opening(security=part(colluders=2))(three)
    plain = weighted(rule=rule, colluders=3)
    (own,) = evidence(two).kinds
    seen = evidence(two).seen(own, "server+3")
    (open_kind,) = evidence(plain).kinds
    assert compared(seen.supported, evidence(plain).seen(open_kind, "server+3").supported) == "same"
    if rule == "records":  # of even weights each update shows no more than all of them
        assert upper(two, "server+3") > upper(three, "server+3") * 1.01
        assert "event-mismatch" in {hazard.id for hazard in audited(two).hazards}
    assert upper(two, "server+3") >= upper(three, "server+3")


@for_each("rule", ["uniform", "records"])
@for_each(("silos", "dropouts"), [(5, 0), (5, 1), (6, 2)])
def test_more_colluders_never_lower_a_number_of_shares(
    rule: str, silos: int, dropouts: int
) -> None:
    """By records each colluder takes a share of the noise away; uniform weights go with it."""
    numbers = [
        upper(
            weighted(
                rule=rule, aggregation="masked", silos=silos, dropouts=dropouts, colluders=colluders
            ),
            f"server+{colluders}",
        )
        for colluders in range(1, silos - dropouts - 1)
    ]
    silo = upper(weighted(rule=rule, aggregation="masked", silos=silos, dropouts=dropouts), "silo")
    assert numbers[0] == pytest.approx(silo, rel=1e-9)
    if rule == "records":
        assert numbers == sorted(numbers)
        assert numbers[-1] > numbers[0]


@for_each("drawn_by", ["server", "shared-secret"])
@for_each("aggregation", ["plain", "masked"])
def test_a_coalition_knows_the_sample(aggregation: str, drawn_by: str) -> None:
    given: dict[str, Any] = {"rate": 0.1, "drawn_by": drawn_by, "aggregation": aggregation}
    log = weighted(colluders=1, **given)
    (own,) = evidence(log).kinds
    assert not isinstance(evidence(log).seen(own, "server+1").supported, ev.Poisson)
    bold = intents(views=lambda old: {**old, "server+1": ev.Poisson(0.1, old["server+1"])})(log)
    found = {hazard.id: hazard for hazard in audited(bold).hazards}
    assert found["known-sample"].says.startswith("The server with a silo that holds nothing")
    assert upper(bold, "server+1") >= upper(log, "server+1") * (1 - 1e-12)


def test_a_coalition_of_all_silos_holds_everything() -> None:
    log = intents(views=lambda old: {**old, "server+5": SUM})(weighted(rule="records"))
    assert math.isinf(upper(log, "server+5"))
    four = intents(views=lambda old: {**old, "server+4": old["server"]})(weighted(rule="records"))
    assert upper(four, "server+4") == pytest.approx(upper(four, "server"), rel=1e-9)


SUM = ev.Gaussian(SIGMA)


def test_a_record_of_a_user_is_not_hidden_by_weights_of_users() -> None:
    """Where one record is the unit, a silo without it may hold others of the same user."""
    log = weighted(rule="records", views=False)
    finer = opening(claim=part(unit="record"))(log)
    assert math.isinf(upper(finer, "silo"))
    assert math.isfinite(upper(finer, "model"))
    even = opening(claim=part(unit="record"))(weighted(rule="uniform", views=False))
    assert math.isfinite(upper(even, "silo"))


def test_an_earlier_log_that_speaks_of_any_silo_is_read_for_both_kinds() -> None:
    """It stated half of the noise for `silo`, whichever it was; the row is for one without."""
    log = weighted(rule="records")
    half = ev.Gaussian(SIGMA * math.sqrt(4 / 5) / 2)

    def earlier(old: dict[str, ev.Event]) -> dict[str, ev.Event]:
        return {"server": old["server"], "silo": half}

    def planned(old: Planned) -> Planned:
        events = {who: event for who, event in old.events.items() if who != "silo-with-records"}
        return replace(old, events={**events, "silo": ev.Repeat(20, half)})

    old = also(intents(views=earlier), opening(plan=planned))(log[:-1])
    assert upper(old, "silo") == pytest.approx(upper(log, "silo"), rel=1e-9)
    assert math.isinf(upper(old, "silo-with-records"))
    # One that is stated to have less noise than both is believed to protect less.
    both = intents(views=lambda views: {**views, "silo": half})(log[:-1])
    assert upper(both, "silo") > 1.5 * upper(log, "silo")


# --- verdicts -------------------------------------------------------------------------------------


def test_the_verdict_is_about_the_worst_of_those_that_are_named() -> None:
    log = weighted(rule="records", aggregation="masked", colluders=2)
    log = opening(security=part(server="malicious"))(log)  # as silos choose it here
    worst = audited(log).worst
    assert worst is not None
    assert worst.row.observer == "silo"
    assert (worst.below, worst.named) == (2, 3)
    beyond = [row.observer for row in worst.beyond]
    assert beyond == ["silo-with-records", "server+2", "server+2-with-records"]
    masked = {"security": {"aggregation": "masked", "colluders": 2}}
    asked = opening(configuration={**masked, "privacy": {"observers": ["model", "server+2"]}})(log)
    found = audited(asked)
    assert found.worst is not None
    assert found.worst.row.observer == "server+2"
    assert (found.worst.below, found.worst.named) == (1, 2)
    assert found.within_claim  # the claim's observer alone decides that
    assert f"{upper(log, 'server+2'):.5g}"[:4] in found.worst.text
    everybody = opening(configuration={**masked, "privacy": {"observers": ["silo-with-records"]}})(
        log
    )
    unproven = audited(everybody)
    assert unproven.worst is not None
    assert unproven.worst.text.startswith("no guarantee before a silo that holds some")
    assert unproven.within_claim


@for_each(
    ("observers", "row", "said"),
    [
        (["silo-with-records"], "silo", "epsilon"),
        (["silo", "silo-with-records"], "silo", "epsilon"),
        (["model", "silo-with-records"], "model", ", of 2 observers asked for"),
        (["model", "server"], "model", ", of 2 observers asked for; 1 other has the same"),
    ],
)
def test_an_observer_without_a_row_of_its_own_is_judged_by_the_row_that_covers_it(
    observers: list[str], row: str, said: str
) -> None:
    log = opening(configuration={"privacy": {"observers": observers}})(weighted())
    found = audited(log)
    assert "silo-with-records" not in [one.observer for one in found.rows]
    assert found.worst is not None
    assert found.worst.row.observer == row
    assert said in found.worst.text
    assert found.worst.named == len({name.removesuffix("-with-records") for name in observers})


@for_each("given", [[], ["modle"], "model", {"model": 1}, None])
def test_names_that_are_none_leave_the_usual_ones(given: object) -> None:
    log = opening(configuration={"privacy": {"observers": given}})(weighted(rule="records"))
    assert audited(log).observers == ("model", "server", "silo")


def test_rows_of_coalitions_name_who_is_in_them() -> None:
    log = weighted(rule="records", aggregation="masked", colluders=2, dropouts=1)
    rows = json.loads(json.dumps(audited(log).to_json()))["observers"]
    told = [row for row in rows if "colluders" in row]
    about = [
        {key: row[key] for key in ("observer", "colluders", "dropouts", "holds")} for row in told
    ]
    same = {"observer": "server", "colluders": 2, "dropouts": 1}
    assert about == [{**same, "holds": False}, {**same, "holds": True}]
    assert [len(row["rests_on"]) for row in told] == [4, 0]  # these masks trust the server
    assert all("colluders" not in row for row in rows if row not in told)


# --- what numbers rest on -------------------------------------------------------------------------


def rests_on(log: Records) -> dict[str, tuple[str, ...]]:
    return {row.observer: row.rests_on for row in audited(log).rows}


def test_numbers_of_weights_in_the_clear_rest_on_counts_that_nobody_learns() -> None:
    for aggregation in ("plain", "masked"):
        found = rests_on(weighted(rule="records", aggregation=aggregation))
        assert all("N_u" in found[who][0] for who in ("model", "server", "silo"))
        assert found["silo-with-records"] == ()
        report = audited(weighted(rule="records", aggregation=aggregation))
        assert any('weighting = "uniform"' in one for one in report.relief)
        even = rests_on(weighted(aggregation=aggregation))
        assert not any("N_u" in one for each in even.values() for one in each)
        assert not audited(weighted(aggregation=aggregation)).relief


def test_numbers_of_private_weighting_rest_on_parties_that_follow_it() -> None:
    found = rests_on(weighted(rule="records", aggregation="private-weighting"))
    for observer in ("model", "server", "silo", "silo-with-records"):
        assert found[observer][0] == "every silo and the server follow the protocol"
        assert found[observer][1:] == (OTHER_SILOS_RECORDS,) * (observer == "silo-with-records")


def test_masks_rest_on_silos_that_tell_nothing_or_no_more_than_is_stated() -> None:
    trusting = weighted(aggregation="masked")
    assert rests_on(trusting)["server"] == ("no silo tells the server what it knows", HONEST_SERVER)
    alone = rests_on(opening(security=part(server="malicious"))(trusting))
    assert alone["server"] == ("no silo tells the server what it knows",)
    assert alone["model"] == ()
    told = rests_on(weighted(aggregation="masked", colluders=2, dropouts=1))
    assert any("2 silos tell" in one for one in told["server+2"])
    assert any("1 of the other silos is missing" in one for one in told["server+2"])


def test_masks_for_one_party_less_are_no_masks_for_a_coalition() -> None:
    log = weighted(rule="records", aggregation="masked", colluders=2)
    broken = opening(security=replace(masks(5, 5, 2), degree=2, threshold=1))(log)
    plain = weighted(rule="records", colluders=2)
    assert upper(broken, "server+2") >= upper(plain, "server+2") * (1 - 1e-9)
