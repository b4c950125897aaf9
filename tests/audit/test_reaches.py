"""What is stated to reach an observer counts only as far as everything else that is stated fits."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from privplan.accountant import events as ev
from privplan.accountant.records import Reach, RoundIntent, RunRecover
from privplan.audit.derivation.believed_reach import believed_reach
from privplan.audit.derivation.event_order import covers, simplified
from privplan.audit.derivation.protocol_consistency import reliable_facts
from privplan.audit.derivation.round_facts import RoundFacts
from privplan.audit.derivation.run_setting import RunSetting
from privplan.audit.derivation.sampling import route_of
from privplan.audit.derivation.sums import see_less_own
from privplan.audit.derivation.supported_event import supported
from privplan.audit.evidence.epsilon_total import total
from privplan.fl.observers.reaches import reaches_of

from ..cases import for_each
from .ledgers import (
    DELTA,
    SECURE,
    Records,
    also,
    audited,
    evidence,
    intents,
    masks,
    naive,
    opening,
    part,
    upper,
    weighted,
)
from .reaching import NAMES, drawn

FROZEN: Final = json.loads((Path(__file__).parent / "earlier" / "views.json").read_text())
"""What was derived for facts of a seed before anything could state what reaches whom."""

REACH_HAZARDS: Final = {
    *("reach-contradicted", "reach-of-nobody"),
    *("reach-missing", "reach-assumed"),
}


def said(event: ev.Event) -> object:
    return event.reason if isinstance(event, ev.NoGuarantee) else event.to_json()


def with_reaches(facts: RoundFacts, **reaches: Reach) -> RoundFacts:
    named = {name.replace("_", "-").replace("--", "+"): one for name, one in reaches.items()}
    return replace(facts, reaches=tuple(sorted(named.items())))


def table_of(facts: RoundFacts, setting: RunSetting) -> dict[str, Reach]:
    return reaches_of(NAMES, route_of(*reliable_facts(facts, setting)))


def hazards(records: Records) -> set[str]:
    return {hazard.id for hazard in audited(records).hazards}


# --- the table is the old reading -----------------------------------------------------------------


@for_each("seed", sorted(FROZEN, key=int))
def test_facts_without_reaches_are_read_as_before(seed: str) -> None:
    facts, setting = drawn(int(seed))
    for name, expected in FROZEN[seed].items():
        observer, _, unsampled = name.partition(" ")
        found = supported(facts, setting, observer, sampled=not unsampled)
        assert said(found) == expected, name


@for_each("start", range(0, 400, 50))
def test_stating_what_the_table_says_changes_nothing(start: int) -> None:
    for seed in range(start, start + 50):
        facts, setting = drawn(seed)
        stated = replace(facts, reaches=tuple(sorted(table_of(facts, setting).items())))
        for name in NAMES:
            assert supported(stated, setting, name) == supported(facts, setting, name)


# --- nothing that is stated makes a number smaller ------------------------------------------------


def every_reach() -> list[Reach]:
    return [
        Reach(sees, holds, colluders, dropouts, knows, also=beside)
        for sees, holds, colluders, dropouts, knows, beside in itertools.product(
            ("sum", "each", "sum-less-own", "one-share", "nothing", "shuffled"),
            ("nothing", "part"),
            (0, 2),
            (0, 1),
            (False, True),
            ((), ("identities",)),
        )
    ]


def numbers(event: ev.Event, setting: RunSetting, known: dict[object, float]) -> float:
    key = simplified(event), setting.neighbours
    if key not in known:
        found = total({event: 1}, delta=1e-5, neighbours=setting.neighbours)
        known[key] = found.upper
    return known[key]


LOGS: Final[dict[str, Records]] = {
    "plain": weighted(1),
    "plain-records": weighted(1, rule="records"),
    "plain-sampled": weighted(1, rate=0.5),
    "masked": weighted(1, aggregation="masked", dropouts=1, colluders=1),
    "masked-records": weighted(1, rule="records", aggregation="masked"),
    "unstated-masks": opening(security=None)(weighted(1, aggregation="masked")),
    "private": weighted(
        1,
        rule="records",
        aggregation="private-weighting",
        rate=0.5,
        drawn_by="oblivious-transfer",
    ),
    "naive": naive(1),
}
OBSERVERS: Final = (
    *("model", "server", "silo", "silo-with-records", "server+1", "server+1-with-records"),
    *("peer", "client", "coordinator", "shuffler", "analyzer"),
)


@pytest.mark.quick(3)
@for_each("name", LOGS)
def test_no_statement_lowers_a_number_but_by_an_assumption(name: str) -> None:
    """Every observer is said to see whatever a reach can say, true or false."""
    found = evidence(LOGS[name])
    (kind,), setting = found.kinds, found.setting
    known: dict[object, float] = {}
    for observer in OBSERVERS:
        alone = supported(kind.facts, setting, observer)
        for reach in every_reach():
            facts = replace(kind.facts, reaches=((observer, reach),))
            event = supported(facts, setting, observer)
            if covers(simplified(event), simplified(alone), 0.0):
                continue
            one = believed_reach(facts, setting, observer)
            assert one is not None
            if not one.assumed:
                before, after = (numbers(own, setting, known) for own in (alone, event))
                assert after >= before * (1 - 1e-9), (observer, reach, alone, event)


@pytest.mark.quick(3)
@for_each("name", LOGS)
def test_a_weaker_reach_never_has_a_smaller_number(name: str) -> None:
    found = evidence(LOGS[name])
    (kind,), setting = found.kinds, found.setting
    known: dict[object, float] = {}

    def number(observer: str, reach: Reach) -> float:
        facts = replace(kind.facts, reaches=((observer, reach),))
        return numbers(supported(facts, setting, observer), setting, known)

    for observer, reach in itertools.product(("server", "silo", "server+1"), every_reach()):
        if reach.also or reach.sees == "shuffled":
            continue
        here = number(observer, reach)
        weaker = [
            replace(reach, colluders=reach.colluders + 1),
            replace(reach, dropouts=reach.dropouts + 1),
            replace(reach, knows_sample=True),
            replace(reach, holds="part"),
        ]
        for other in weaker:
            fits = believed_reach(
                replace(kind.facts, reaches=((observer, other),)), setting, observer
            )
            # A statement that fits at last is not punished any more for not fitting.
            worse = believed_reach(
                replace(kind.facts, reaches=((observer, reach),)), setting, observer
            )
            assert fits is not None
            assert worse is not None
            if worse.contradicted or worse.assumed:
                continue
            assert number(observer, other) >= here * (1 - 1e-9), (observer, reach, other)


# --- each false statement is found ----------------------------------------------------------------


def stating(records: Records, **reaches: Reach) -> Records:
    """Return a log whose intents state the table's reaches, and these in their place."""
    (kind,) = evidence(records).kinds
    setting = evidence(records).setting
    table = {
        name: one
        for name, one in table_of(kind.facts, setting).items()
        if name in evidence(records).observers
    }
    named = {name.replace("_", "-"): one for name, one in reaches.items()}
    return intents(reaches={**table, **named})(records)


@for_each("name", sorted(set(LOGS) - {"unstated-masks"}))
def test_honest_statements_raise_nothing(name: str) -> None:
    log = stating(LOGS[name])
    assert not hazards(log) & REACH_HAZARDS
    assert hazards(log) == hazards(LOGS[name])
    for row, before in zip(audited(log).rows, audited(LOGS[name]).rows, strict=True):
        assert row.total.upper == before.total.upper
        assert row.rests_on == before.rests_on


EACH = Reach("each")
FALSE: Final[dict[str, tuple[str, dict[str, Reach]]]] = {
    "plain-server-sum": ("plain-records", {"server": Reach("sum")}),
    "plain-server-shuffled": ("plain-records", {"server": Reach("shuffled", users=50)}),
    "plain-server-less-own": ("plain-records", {"server": Reach("sum-less-own")}),
    "masks-unstated": ("unstated-masks", {"server": Reach("sum")}),
    "masks-unstated-nothing": ("unstated-masks", {"analyzer": Reach("nothing")}),
    "sample-known": ("plain-sampled", {"server": EACH}),
    "silo-sees-sum": ("plain", {"silo": Reach("sum")}),
    "silo-sees-nothing": ("plain", {"silo": Reach("nothing")}),
    "silo-sample": ("plain-sampled", {"silo": Reach("sum-less-own")}),
    "colluders": ("masked", {"server+1": Reach("sum", dropouts=1)}),
    "dropouts": ("masked", {"server": Reach("sum")}),
    "holds": ("plain-records", {"silo-with-records": Reach("sum-less-own")}),
    "shuffled-model": ("plain", {"model": Reach("shuffled", users=50)}),
    "field-of-another": ("plain", {"model": Reach("sum", users=10)}),
}


@for_each("name", FALSE)
def test_a_statement_that_other_facts_contradict_is_found(name: str) -> None:
    log, reaches = FALSE[name]
    (observer,) = reaches
    spoilt = stating(LOGS[log], **reaches)
    report = audited(spoilt)
    assert "reach-contradicted" in {hazard.id for hazard in report.hazards}
    assert not report.ok
    each = stating(LOGS[log], **{observer: replace(reaches[observer], sees="each", users=None)})
    assert upper(spoilt, observer) >= upper(LOGS[log], observer)
    assert upper(spoilt, observer) >= upper(each, observer) * (1 - 1e-9)


def test_an_observer_that_nobody_knows_has_no_number() -> None:
    log = stating(LOGS["plain"], bystander=Reach("nothing"))
    assert "reach-of-nobody" in hazards(log)
    assert math.isinf(upper(log, "bystander"))


@for_each("stated", [False, True])
def test_nobody_knows_what_a_stranger_sees_of_a_sum(stated: bool) -> None:
    """Not even where nobody is ever absent, so that one message alone would have a number."""
    found = evidence(opening(claim=part(neighbours="replace-one"))(LOGS["plain"]))
    (kind,) = found.kinds
    facts = with_reaches(kind.facts, bystander=EACH) if stated else kind.facts
    assert isinstance(supported(facts, found.setting, "bystander"), ev.NoGuarantee)
    server = supported(kind.facts, found.setting, "server")
    assert not isinstance(server, ev.NoGuarantee)


def test_who_sees_nothing_but_the_release_rests_on_what_the_model_does() -> None:
    seen = {"model": Reach("sum", rests_on=("nobody looks",)), "server": Reach("nothing")}
    rows = {row.observer: row for row in audited(stating(LOGS["plain-records"], **seen)).rows}
    assert "assumed: nobody looks" in rows["server"].rests_on


def silent_in(records: Records, rounds: set[int]) -> Records:
    return [
        replace(one, reaches=None) if isinstance(one, RoundIntent) and one.round in rounds else one
        for one in records
    ]


def test_a_reach_that_is_missing_in_a_round_counts_as_each() -> None:
    log = stating(weighted(4, rule="records", aggregation="masked"))
    assert not hazards(log) & REACH_HAZARDS
    found = silent_in(log, {2})
    assert "reach-missing" in hazards(found)
    assert upper(found, "server") > upper(log, "server")
    assert upper(found) == upper(log)
    dropped = [
        replace(one, reaches={**one.reaches, "server": EACH})
        if isinstance(one, RoundIntent) and one.round == 2
        else one
        for one in log
    ]
    assert upper(found, "server") == upper(dropped, "server")


def test_rounds_of_an_earlier_version_lack_nothing() -> None:
    """A run that was begun before reaches were stated, and resumed since."""
    log = stating(weighted(4, rule="records", aggregation="masked"))
    cut = next(i for i, one in enumerate(log) if isinstance(one, RoundIntent) and one.round == 3)
    resumed = [*log[:cut], RunRecover(0, (), 3, SECURE), *log[cut:]]
    resumed = [
        replace(one, intent=one.intent + 1) if i > cut and hasattr(one, "streams") else one
        for i, one in enumerate(resumed)
    ]
    assert upper(silent_in(resumed, {1, 2}), "server") == upper(log, "server")
    assert "reach-missing" not in hazards(silent_in(resumed, {1, 2}))
    assert "reach-missing" in hazards(silent_in(resumed, {4}))
    assert "reach-missing" in hazards(silent_in(resumed, {1, 2, 3}))


# --- assumptions ----------------------------------------------------------------------------------


def test_a_server_that_is_said_to_see_nothing_is_assumed_to() -> None:
    plain = intents(views={})(LOGS["plain-records"])
    log = stating(plain, server=Reach("nothing"))
    report = audited(log)
    (row,) = (one for one in report.rows if one.observer == "server")
    assert any(text.startswith("assumed: the server") for text in row.rests_on)
    assert row.to_json()["rests_on"] == list(row.rests_on)
    assert "reach-assumed" in {hazard.id for hazard in report.hazards}
    assert upper(log, "server") == upper(log) < upper(plain, "server")
    by_server = intents(views={})(LOGS["plain-sampled"])
    sampled = stating(by_server, server=Reach("nothing", knows_sample=True))
    assert upper(sampled, "server") == upper(by_server, "server") > upper(sampled)


def test_what_a_reach_says_that_it_rests_on_stands_beside_the_number() -> None:
    told = Reach("sum", dropouts=0, rests_on=("nobody\x1b[2J looks", " "), also=("times",))
    log = stating(LOGS["masked-records"], server=told)
    (row,) = (one for one in audited(log).rows if one.observer == "server")
    assert "assumed: nobody [2J looks" in row.rests_on
    assert any("depends on no data" in text for text in row.rests_on)
    assert "reach-assumed" in hazards(log)


# --- who sees what is released --------------------------------------------------------------------


@for_each("name", sorted(set(LOGS) - {"unstated-masks"}))
def test_with_a_stated_reach_only_who_takes_its_own_off_is_below_the_model(name: str) -> None:
    """Its number is for what lies elsewhere, and its view, without its own part, is the release."""
    told = Reach("sum-less-own", dropouts=1, knows_sample=True)
    log = stating(LOGS[name], client=told, analyzer=Reach("one-share", knows_sample=True))
    found = evidence(log)
    elsewhere = {"silo", "silo-with-records", "client", "peer"}
    for observer in found.observers:
        if observer not in elsewhere and "+" not in observer:
            assert found.spent_total(observer).upper >= found.spent_total("model").upper


def test_a_silo_keeps_its_number_whether_its_reach_is_stated_or_not() -> None:
    """Of even weights a silo that has nothing of a user sees less than the model's number says."""
    old = LOGS["plain"]
    new = stating(old)
    assert upper(new, "silo") == upper(old, "silo") < upper(old)
    assert not audited(new).errors
    (silo,) = (one for one in audited(new).rows if one.observer == "silo")
    assert silo.stated == pytest.approx(silo.total.upper, rel=1e-9)


@for_each("sees", ["sum", "each", "one-share", "nothing", "shuffled"])
def test_a_silo_that_is_said_to_see_anything_else_has_the_models_number(sees: Any) -> None:
    """Then its number is for units that may lie with it, as the model's is."""
    users = 50 if sees == "shuffled" else None
    log = stating(LOGS["plain"], silo=Reach(sees, users=users))
    assert upper(log, "silo") >= upper(log)


def test_a_silo_of_rounds_that_are_silent_has_the_models_number() -> None:
    log = stating(weighted(4))
    assert upper(log, "silo") < upper(log)
    assert upper(silent_in(log, {2}), "silo") >= upper(log)


def test_a_promise_before_a_silo_is_held_against_what_it_sees() -> None:
    """It is for what others hold of a unit, of which the model's number is not."""
    for change in (lambda log: log, stating):
        log = change(opening(claim=part(observer="silo"))(LOGS["plain"]))
        own = evidence(log).spent_total("silo").upper
        promised = opening(claim=part(epsilon=own * 1.0001))(log)
        assert audited(promised).supported
        assert audited(promised).total.upper == own == upper(LOGS["plain"], "silo")
        assert audited(opening(claim=part(epsilon=own * 0.99))(log)).supported is False


# --- shares among peers ---------------------------------------------------------------------------


def shared(**fields: Any) -> Records:
    """Return the log of a run whose silos are peers that sum without a server."""
    log = weighted(2, rule="none", silos=5, views=False)
    peers = replace(masks(5, 5), protocol="additive-shares", threshold=0, degree=0, ring_bits=64)
    return also(
        opening(aggregation="shares", security=replace(peers, **fields)),
        intents(contribution=part(unit="silo")),
        opening(claim=part(unit="silo")),
    )(log)


@for_each("told", [1, 2])
@for_each("stated", [False, True])
def test_colluders_who_hide_nothing_from_themselves_make_no_number_smaller(
    told: int, stated: bool
) -> None:
    """Of even weights less lies elsewhere as more tell: the most of none and all of them counts."""
    log = weighted(2, silos=5, views=False)
    peers = replace(masks(5, 5), protocol="additive-shares", threshold=0, degree=0, ring_bits=64)
    alone = opening(aggregation="shares", security=peers)(log)
    some = opening(security=replace(peers, colluders=told))(alone)
    if stated:
        some = stating(some, peer=Reach("sum-less-own", colluders=told))
    assert upper(some, "peer") == upper(alone, "peer")
    (kind,), setting = evidence(some).kinds, evidence(some).setting
    facts, setting = reliable_facts(kind.facts, setting)
    fewer = see_less_own(facts, setting, Reach("sum-less-own", colluders=told))
    least = total({fewer: 2}, delta=DELTA, neighbours=setting.neighbours)
    assert least.upper < upper(alone, "peer")


def test_peers_see_the_sum_less_their_own() -> None:
    log = shared()
    found = evidence(log)
    assert found.observers == ("model", "peer")
    (kind,) = found.kinds
    peer = found.seen(kind, "peer").supported
    model = found.seen(kind, "model").supported
    assert isinstance(peer, ev.Gaussian)
    assert isinstance(model, ev.Gaussian)
    assert peer.noise_multiplier == pytest.approx(model.noise_multiplier * math.sqrt(4 / 5))
    told = shared(colluders=2)
    assert upper(told, "peer") > upper(log, "peer")
    assert upper(log, "coordinator") == upper(log)
    assert not hazards(stating(log, coordinator=Reach("nothing"), peer=Reach("sum-less-own"))) & {
        *REACH_HAZARDS,
        "protocol-mismatch",
        "missing-protocol",
    }


@for_each(
    "fields",
    [
        {"parties": 4},
        {"fewest": 4},
        {"colluders": 3},
        {"ring_bits": 48},
        {"server": "malicious"},
        {"protocol": "pairwise-masks"},
        {"protocol": "shuffler"},
    ],
)
def test_shares_whose_facts_do_not_fit_hide_nothing(fields: dict[str, Any]) -> None:
    log, bad = shared(), shared(**fields)
    assert "protocol-mismatch" in hazards(bad)
    assert upper(bad, "peer") > upper(log, "peer")
    lied = intents(reaches={"peer": Reach("sum-less-own")})(bad)
    assert "reach-contradicted" in hazards(lied)
    assert upper(lied, "peer") >= upper(bad, "peer")


def test_a_name_for_the_aggregation_hides_no_row() -> None:
    """A run of silos that is said to be shuffled, or shared, still has a server that sees them."""
    plain = weighted(1, rule="records", views=False)
    for aggregation in ("shares", "shuffle"):
        bold = opening(aggregation=aggregation)(plain)
        rows = {row.observer: row.total.upper for row in audited(bold).rows}
        assert rows["server"] == upper(plain, "server")
        assert rows["silo"] >= upper(plain, "silo")
        assert "missing-protocol" in hazards(bold)
