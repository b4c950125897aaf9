"""One table of what reaches whom, and what a system may not state of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.accountant.records import Reach, Sampling, Security
from privplan.fl.observers.assumptions import Circumstances, assumptions_of
from privplan.fl.observers.names import OBSERVERS, observer_name
from privplan.fl.observers.reaches import Route, is_encrypted, reach_of, reaches_of
from privplan.fl.observers.stated_reaches import checked_reaches, inconsistent_fields
from privplan.fl.observers.words import phrase

from ..audit.shuffling import SMALL
from ..cases import for_each

MASKS = Security("pairwise-masks", 5, 5, 5, 4, 64, colluders=2)
MIXING = Security("shuffler", 100, 100, colluders=3)
SEEN = {
    "plain": ("sum", "each", "each", "sum-less-own", "sum-less-own", "each", "each", "each"),
    "masked": ("sum", "sum", "sum", "sum-less-own", "sum-less-own", "sum-less-own", "each", "sum"),
    "private-weighting": (
        *("sum", "sum", "sum", "sum-less-own", "sum-less-own", "sum-less-own"),
        *("each", "sum"),
    ),
    "shares": (
        *("sum", "sum", "nothing", "sum-less-own", "sum-less-own", "sum-less-own"),
        *("each", "sum"),
    ),
    "shuffle": (
        *("shuffled", "shuffled", "each", "each", "shuffled", "each"),
        *("each", "shuffled"),
    ),
}
NAMES = ("model", "server", "coordinator", "silo", "client", "peer", "shuffler", "analyzer")


@for_each("aggregation", SEEN)
def test_what_reaches_whom_by_aggregation(aggregation: str) -> None:
    security = MIXING if aggregation == "shuffle" else None
    route = Route(aggregation, 5, security)
    found = reaches_of(NAMES, route)
    assert tuple(found[name].sees for name in NAMES) == SEEN[aggregation]
    held = reach_of("silo-with-records", route)
    assert held is not None
    assert held == replace(found["silo"], holds="part")


def test_masks_bear_as_many_colluders_as_they_say() -> None:
    for count, sees in ((1, "sum"), (2, "sum"), (3, "each")):
        reach = reach_of(f"server+{count}-with-records", Route("masked", 5, MASKS, dropouts=1))
        assert reach == Reach(sees, "part", count, 1)  # type: ignore[arg-type]
    plain = reach_of("server+1", Route("plain", 5))
    assert plain == Reach("each", colluders=1)


def test_a_client_of_a_shuffler_knows_one_message_more_and_peers_are_counted() -> None:
    route = Route("shuffle", 1, MIXING)
    assert reach_of("analyzer", route) == Reach("shuffled", colluders=3, users=100)
    assert reach_of("client", route) == Reach("shuffled", colluders=4, users=100)
    peers = Security("additive-shares", 5, 5, ring_bits=64, colluders=2)
    assert reach_of("peer", Route("shares", 5, peers)) == Reach("sum-less-own", colluders=2)
    assert reach_of("bystander", Route("plain", 5)) is None
    assert set(reaches_of((*OBSERVERS, "bystander"), Route("plain", 5))) == set(OBSERVERS)


@for_each("observer", ["silo", "silo-with-records", "peer"])
def test_a_silo_knows_all_messages_of_its_users(observer: str) -> None:
    route = Route("shuffle", 2, MIXING)
    holds: Any = "part" if observer.endswith("records") else "nothing"
    assert reach_of(observer, route) == Reach("each", holds)
    sender = replace(route, unit="silo")
    assert reach_of(observer, sender) == Reach("shuffled", holds, colluders=4, users=100)


@for_each(("bits", "blind"), [(0, False), (256, True), (1024, False), (3072, True)])
def test_a_shuffler_of_ciphertexts_sees_who_sends_and_how_much(bits: int, blind: bool) -> None:
    security = replace(MIXING, key_bits=bits)
    assert is_encrypted(security) == blind
    reach = reach_of("shuffler", Route("shuffle", 1, security))
    assert reach is not None
    assert reach.sees == ("nothing" if blind else "each")
    assert reach.also == (("identities", "sizes") if blind else ())


@for_each(
    ("drawn_by", "aggregation", "unit", "knowing"),
    [
        ("server", "plain", "user", {"server", "silo", "silo-with-records", "server+1"}),
        ("shared-secret", "plain", "user", {"silo", "silo-with-records", "server+1"}),
        ("silos", "plain", "record", set()),
        ("server", "private-weighting", "user", {"server", "silo-with-records", "server+1"}),
        ("oblivious-transfer", "private-weighting", "user", {"silo-with-records", "server+1"}),
    ],
)
def test_who_knows_the_sample(
    drawn_by: Any, aggregation: str, unit: Any, knowing: set[str]
) -> None:
    route = Route(aggregation, 5, None, 0, Sampling("poisson", unit, 0.5, drawn_by), unit)
    names = ("model", "server", "silo", "silo-with-records", "server+1")
    found = reaches_of(names, route)
    assert {name for name in names if found[name].knows_sample} == knowing
    nobody = reaches_of(names, replace(route, sampling=Sampling()))
    assert not any(reach.knows_sample for reach in nobody.values())


def test_what_can_be_so_is_kept() -> None:
    reaches = {"model": Reach("sum"), "analyzer": SMALL, "server+2": Reach("each", colluders=2)}
    assert checked_reaches(reaches, "toy", "toys") == reaches
    by_fields = {"model": {"sees": "sum"}}
    assert checked_reaches(by_fields, "toy", "toys") == {"model": Reach("sum")}


@for_each(
    ("fields", "field"),
    [
        *(({"users": None}, "users"), ({"users": 0}, "users")),
        ({"users": 3, "colluders": 3}, "colluders"),
        *(({"users": 3, "dropouts": 2, "colluders": 1}, "colluders"), ({"chosen": 61}, "chosen")),
        *(({"chosen": 0}, "chosen"), ({"chosen": None}, "chosen")),
        *(({"dimensions": None}, "dimensions"), ({"padded_to": None}, "padded_to")),
        *(({"padded_to": 0}, "padded_to"), ({"granularity": None}, "granularity")),
        *(({"selection": None}, "selection"), ({"overflow": None}, "overflow")),
        *(({"dimensions": None, "chosen": None}, "padded_to"), ({"sees": "sum"}, "users")),
        ({"sees": "each", "users": None, "padded_to": None}, "granularity"),
    ],
)
def test_fields_that_do_not_go_together_are_refused_by_name(
    fields: dict[str, Any], field: str
) -> None:
    bad = replace(SMALL, **fields)
    assert field in dict(inconsistent_fields(bad))
    with pytest.raises(InvalidInput) as refused:
        checked_reaches({"model": Reach("sum"), "analyzer": bad}, "toy", "toys")
    for word in ("'toy'", "'toys'", f"reaches.analyzer.{next(inconsistent_fields(bad))[0]}"):
        assert word in refused.value.what


@for_each(
    ("reaches", "word"),
    [
        *(({"analyser": Reach("sum")}, "analyzer"), ({"": Reach("sum")}, "Known")),
        *(({7: Reach("sum")}, "7"), ({"model": "sum"}, "reaches.model")),
        *(({"model": None}, "reaches.model"), ({"model": {"sees": "all"}}, "Reach.sees")),
        ({"model": {"sees": "sum", "colluders": -1}}, "Reach.colluders"),
        ({"model": {"sees": "sum", "user": 1}}, "reaches.model"),
        *(({"model": {}}, "reaches.model"), ([("model", Reach("sum"))], "by observer")),
    ],
)
def test_what_is_no_reach_is_refused_by_name(reaches: Any, word: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        checked_reaches(reaches, "toy", "toys")
    assert "'toy'" in refused.value.what
    assert "'toys'" in refused.value.what
    assert word in str(refused.value)


@for_each("name", ["peer", "client", "coordinator", "shuffler", "analyzer"])
def test_new_observers_have_a_phrase_and_say_what_they_rest_on(name: str) -> None:
    assert observer_name(observer=name) == name
    assert phrase(name) != name
    for aggregation in ("plain", "shares", "shuffle"):
        told = assumptions_of(name, Circumstances(aggregation, "uniform", 5))
        # Who sees every message in the clear is told nothing more by anybody.
        sees_all = aggregation == "plain" and name in ("peer", "coordinator")
        assert bool(told) != sees_all
        assert all("tell" in one for one in told)
