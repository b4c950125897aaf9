"""What mechanisms of messages and a shuffler state is what an audit derives from their facts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import PrivplanError
from privplan.accountant.mechanisms import (
    GaussianMessages,
    LaplaceMessages,
    Messages,
    ResponseMessages,
    RoundDescription,
    ShuffledRound,
)
from privplan.accountant.records import (
    Claim,
    Planned,
    Population,
    Reach,
    RoundRelease,
    RunClose,
    RunOpen,
    Security,
)
from privplan.audit.derivation.event_order import EVENT_TOLERANCE_RELATIVE, covers, simplified
from privplan.audit.derivation.protocol_consistency import contradictions
from privplan.fl.aggregation.share_sums import ShareAggregator
from privplan.fl.shuffling import Shuffling, Terms

from ..cases import for_each
from .ledgers import (
    SECURE,
    Records,
    audited,
    changed,
    evidence,
    intents,
    opening,
    part,
    raised,
    release,
)
from .shuffling import mixing
from .test_reaches import shared

USERS: Final = 400
DELTA: Final = 1e-6
EACH: Final = Reach("each", knows_sample=True, selection="oblivious")
FALSE: Final = {"reach-contradicted", "reach-missing", "event-mismatch", "missing-protocol"}


def of_mechanism(
    mechanism: Messages,
    *,
    draws: int = 1,
    values: int = 1,
    neighbours: str = "replace-one",
    security: Security | None = None,
    reaches: Mapping[str, Reach] | None = None,
    users: int = USERS,
) -> Records:
    """Return the log of one round of messages, stated by the mechanism that draws them."""
    told = dict(reaches or {"model": Reach("sum"), "shuffler": EACH})
    event: ev.Event = ev.NoGuarantee("no event")
    views: dict[str, ev.Event] = {}
    if neighbours != "add-remove":
        event = mechanism.event(neighbours, draws=draws)
        views = {"analyzer": event, "shuffler": mechanism.local_event(neighbours, draws)}
    about = RoundDescription(
        1, "train", views=views, event_override=event, draws=draws, reaches=told
    )
    intent = mechanism.intent(about, neighbours)
    opened = RunOpen(
        "run-1",
        "messages",
        Claim("user", neighbours, DELTA, None),  # type: ignore[arg-type]
        Planned(1, {"model": event, **views}),
        Population(users, 1),
        SECURE,
        "shuffle",
        security or mixing(users),
    )
    made = replace(release(1, 1, intent.noise), values=values, normaliser=None)
    closed = RunClose(1, "finished", opened.plan.events, {"model": math.inf}, DELTA, "pld")
    return [opened, intent, made, closed]


def derived(records: Records, observer: str = "analyzer") -> ev.Event:
    found = evidence(records)
    (kind,) = found.kinds
    return found.seen(kind, observer).supported


def same(one: ev.Event, other: ev.Event) -> bool:
    """Return whether each covers the other, but for the grid of the noise."""
    return covers(one, other, EVENT_TOLERANCE_RELATIVE) and covers(
        other, one, EVENT_TOLERANCE_RELATIVE
    )


PLAIN: Final = ShuffledRound(USERS)
SAMPLED: Final = ShuffledRound(USERS, 60, 6, 120)
WHOLE: Final = ShuffledRound(USERS, 6, 6, 450)
MADE: Final[dict[str, tuple[Messages, int, int]]] = {
    "laplace": (LaplaceMessages(1.0, 4.0, shuffled=PLAIN), 1, 1),
    "laplace-many": (LaplaceMessages(1.5, 4.0, shuffled=PLAIN), 5, 5),
    "gaussian": (GaussianMessages(1.0, 3.0, shuffled=PLAIN), 1, 1),
    "gaussian-many": (GaussianMessages(1.0, 3.0, shuffled=PLAIN), 4, 4),
    "response": (ResponseMessages(1.0, 4, shuffled=PLAIN), 1, 4),
    "response-many": (ResponseMessages(1.0, 4, shuffled=PLAIN), 3, 12),
    "sampled": (LaplaceMessages(1.0, 4.0, shuffled=SAMPLED), 6, 60),
    "sampled-capped": (LaplaceMessages(1.0, 4.0, shuffled=replace(SAMPLED, overflow="cap")), 6, 60),
    "sampled-response": (ResponseMessages(0.5, 2, shuffled=SAMPLED), 6, 60),
    "whole": (LaplaceMessages(1.0, 4.0, shuffled=WHOLE), 6, 6),
}


def mixed_by(mechanism: Messages, *, colluders: int = 0) -> Reach:
    assert mechanism.shuffled is not None
    return mechanism.shuffled.reach(colluders=colluders)


@pytest.mark.quick(4)
@for_each("neighbours", ["replace-one", "zero-out"])
@for_each("name", MADE)
def test_what_a_mechanism_of_messages_states_is_derived(name: str, neighbours: str) -> None:
    mechanism, draws, values = MADE[name]
    if "response" in name and neighbours != "replace-one":
        return
    reaches = {"model": Reach("sum"), "analyzer": mixed_by(mechanism), "shuffler": EACH}
    log = of_mechanism(
        mechanism, draws=draws, values=values, neighbours=neighbours, reaches=reaches
    )
    assert same(derived(log), mechanism.event(neighbours, draws=draws))
    assert same(derived(log, "shuffler"), mechanism.local_event(neighbours, draws))
    assert not raised(log, FALSE)
    other = replace(log[2], streams=release(2, 1, log[1].noise).streams)  # type: ignore[attr-defined,type-var]
    again = [*log[:3], other, log[3]]  # two releases under one intent
    assert same(simplified(derived(again)), simplified(ev.Repeat(2, derived(log))))


@pytest.mark.quick(2)
@for_each("name", sorted(set(MADE) - {"sampled-response", "sampled-capped"}))
def test_colluders_are_taken_off_as_the_mechanism_does(name: str) -> None:
    mechanism, draws, values = MADE[name]
    assert mechanism.shuffled is not None
    left = replace(mechanism, shuffled=mechanism.shuffled.without(9))  # type: ignore[type-var]
    reaches = {"analyzer": mixed_by(mechanism, colluders=9), "shuffler": EACH}
    log = of_mechanism(
        left, draws=draws, values=values, security=mixing(USERS, colluders=9), reaches=reaches
    )
    assert same(derived(log), left.event("replace-one", draws=draws))
    assert not raised(log, FALSE)


@for_each("name", sorted(set(MADE) - {"whole", "sampled-response"}))
def test_presence_is_visible_so_messages_support_nothing_where_a_unit_may_be_absent(
    name: str,
) -> None:
    """Dummies stand in for who is absent, so padding alone hides presence from the analyzer."""
    mechanism, draws, values = MADE[name]
    reaches = {"analyzer": mixed_by(mechanism), "shuffler": EACH}
    log = of_mechanism(
        mechanism, draws=draws, values=values, neighbours="add-remove", reaches=reaches
    )
    assert isinstance(derived(log, "shuffler"), ev.NoGuarantee)
    padded = name.startswith("sampled")
    assert isinstance(derived(log), ev.SampledShuffle if padded else ev.NoGuarantee)
    for aggregation in ("plain", "masked"):
        seen = opening(aggregation=aggregation)(log)
        for observer in ("model", "server", "analyzer", "silo", "peer", "client"):
            assert isinstance(derived(seen, observer), ev.NoGuarantee)


def test_vectors_have_their_local_event_however_they_are_mixed() -> None:
    vectors = GaussianMessages(1.0, 3.0, dimensions=8)
    reaches = {"analyzer": Reach("shuffled", users=USERS, granularity="coordinate"), "model": EACH}
    log = of_mechanism(vectors, values=8, reaches=reaches)
    assert same(derived(log), vectors.local_event("replace-one"))
    for draws in (2, 7):
        many = intents(noise=part(draws=draws))(log)
        assert same(derived(many), ev.Repeat(draws, vectors.local_event("replace-one")))


@for_each("granularity", [None, "tuple"])
def test_messages_that_stay_together_are_not_mixed_one_by_one(granularity: Any) -> None:
    mechanism, draws, values = MADE["laplace-many"]
    reaches = {"analyzer": replace(mixed_by(mechanism), granularity=granularity)}
    log = of_mechanism(mechanism, draws=draws, values=values, reaches=reaches)
    assert same(derived(log), mechanism.local_event("replace-one", draws))


# --- which users, colluders and places are the worst case -----------------------------------------


def epsilon(event: ev.Event, neighbours: str) -> float:
    try:
        return pp.account(event, delta=1e-4, neighbours=neighbours).epsilon.upper
    except PrivplanError:
        return math.inf


SIZES: Final = ((60, 6, 40), (60, 6, 22), (20, 10, 90), (9, 3, 55), (5, 5, 130))
INNER: Final = (ev.Laplace(4.0), ev.RandomizedResponse(1.0, 2))
OVERFLOWS: Final = ("refuse", "cap")
RELATIONS: Final = ("replace-one", "add-remove")
GRID: Final = [
    (*SIZES[size], INNER[inner], OVERFLOWS[overflow], RELATIONS[relation])
    for size, inner, overflow, relation in itertools.product(*map(range, (5, 2, 2, 2)))
    if (size + inner + overflow + relation) % 2 == 0
]
"""Half of all, in which any three of the four meet in every way."""


@pytest.mark.quick(2)
@for_each(("dimensions", "chosen", "padded", "inner", "overflow", "neighbours"), GRID, items=8)
def test_most_users_and_most_colluders_are_the_worst_case(
    dimensions: int, chosen: int, padded: int, inner: ev.Event, overflow: str, neighbours: str
) -> None:
    """Whatever fewer users send, of whom fewer tell, the event of the most of both has no less."""

    def number(users: int, told: int) -> float:
        sizes = (users - told, dimensions, chosen, padded - told)
        event = ev.SampledShuffle(*sizes, "coordinate", "oblivious", overflow, inner)
        return epsilon(event, neighbours)

    worst = number(120, 10)
    for users, told in ((120, 0), (40, 10), (90, 4)):
        assert number(users, told) <= worst * (1 + 1e-9)


def test_the_event_of_an_audit_is_that_of_the_most_of_both() -> None:
    mechanism, draws, values = MADE["sampled"]
    own = mixed_by(mechanism)
    for stated, dropouts, fewest in ((100, 0, 400), (399, 50, 200), (400, 50, 400)):
        reaches = {"analyzer": replace(own, users=stated, colluders=9, dropouts=dropouts)}
        security = mixing(USERS, fewest=fewest, colluders=9)
        log = of_mechanism(
            mechanism, draws=draws, values=values, security=security, reaches=reaches
        )
        event = derived(log)
        assert isinstance(event, ev.SampledShuffle)
        assert (event.users, event.padded_to, event.chosen) == (391, 111, 6)


@for_each("colluders", [120, 121, 300])
def test_colluders_who_fill_every_place_leave_the_local_event(colluders: int) -> None:
    mechanism, draws, values = MADE["sampled"]
    reaches = {"analyzer": mixed_by(mechanism, colluders=colluders)}
    given: dict[str, Any] = {"draws": draws, "values": values, "reaches": reaches}
    log = of_mechanism(mechanism, security=mixing(USERS, colluders=colluders), **given)
    assert same(derived(log), mechanism.local_event("replace-one", draws))
    absent = of_mechanism(
        mechanism, security=mixing(USERS, colluders=colluders), neighbours="add-remove", **given
    )
    assert isinstance(derived(absent), ev.NoGuarantee)


# --- the facts that protocols state ---------------------------------------------------------------


def shuffled_by_the_protocol(**changes: Any) -> Records:
    terms = Terms(USERS, 60, 6, padded_to=120)
    mechanism = LaplaceMessages(1.0, 4.0, shuffled=terms.shuffled())
    return of_mechanism(
        mechanism,
        draws=6,
        values=60,
        security=replace(Shuffling(terms).security, **changes),
        reaches={"model": Reach("sum"), "analyzer": mixed_by(mechanism), "shuffler": EACH},
    )


def test_what_the_shuffler_states_is_accepted() -> None:
    log = shuffled_by_the_protocol()
    found = evidence(log)
    assert contradictions(found.kinds[0].facts, found.setting) == ()
    assert not raised(log, {*FALSE, "protocol-mismatch"})


CHANGED: Final[list[dict[str, Any]]] = [
    {"protocol": "pairwise-masks"},
    {"protocol": "additive-shares"},
    {"protocol": "private-weighting"},
    {"parties": USERS + 1},
    {"fewest": USERS + 1},
    {"fewest": 1},
    {"colluders": USERS - 1},
    {"threshold": 3},
    {"degree": 3},
    {"ring_bits": 64},
    {"count_limit": 3},
    {"count_cap": 3},
    {"records_per_count": 1},
    {"slots": 3},
    {"chosen": 1},
    {"noise": "multiples"},
    {"server": "malicious"},
]


@for_each("change", CHANGED, ids=str)
def test_each_changed_fact_of_a_shuffler_is_refused(change: dict[str, Any]) -> None:
    log = shuffled_by_the_protocol(**change)
    report = audited(log)
    assert report.errors
    honest = evidence(shuffled_by_the_protocol()).spent_total("analyzer").upper
    assert evidence(log).spent_total("analyzer").upper > honest


def test_what_shares_state_is_accepted() -> None:
    real = ShareAggregator(5, colluders=1).security
    log = opening(security=real)(shared())
    found = evidence(log)
    assert contradictions(found.kinds[0].facts, found.setting) == ()
    assert not raised(log, {*FALSE, "protocol-mismatch"})


@for_each(
    "change",
    [
        {"key_bits": 256},
        *(one for one in CHANGED if not {"protocol", "ring_bits", "parties", "fewest"} & set(one)),
        {"ring_bits": 0},
        {"parties": 6},
        {"fewest": 4},
        {"protocol": "shuffler"},
    ],
    ids=str,
)
def test_each_changed_fact_of_shares_is_refused(change: dict[str, Any]) -> None:
    honest = opening(security=ShareAggregator(5).security)(shared())
    bad = opening(security=replace(ShareAggregator(5).security, **change))(shared())
    assert audited(bad).errors
    assert evidence(bad).spent_total("peer").upper > evidence(honest).spent_total("peer").upper


def test_fewer_releases_and_more_draws_never_help() -> None:
    mechanism, draws, values = MADE["sampled"]
    reaches = {"analyzer": mixed_by(mechanism), "shuffler": EACH}
    log = of_mechanism(mechanism, draws=draws, values=values, reaches=reaches)
    own = {who: evidence(log).spent_total(who).upper for who in ("analyzer", "shuffler", "model")}
    more = [
        changed(log, RoundRelease, draws=7),
        changed(log, RoundRelease, draws=13),
        intents(noise=part(draws=1))(log),
        intents(noise=part(draws=60))(log),
    ]
    for other in more:
        for who, least in own.items():
            assert evidence(other).spent_total(who).upper >= least * (1 - 1e-9)
