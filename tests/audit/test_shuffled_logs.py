"""Messages, and a shuffler: events are built from facts, and what is said beside them is not."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.records import Noise, Reach, Sampling

from ..cases import for_each
from .ledgers import Records, audited, evidence, upper
from .shuffled import EACH, hazards, small, supported
from .shuffling import DOUBLE, FLAME_DELTA, SMALL, mixing, sent

PRINTED: Final = {"model": Reach("sum"), "analyzer": DOUBLE, "shuffler": EACH}


def local_number(count: int, event: ev.Event, delta: float = FLAME_DELTA) -> float:
    return pp.account(ev.Repeat(count, event), delta=delta, neighbours="replace-one").epsilon.upper


# --- FLAME's Double, as printed -------------------------------------------------------------------


def test_double_as_printed_is_derived_from_its_facts() -> None:
    log = sent(PRINTED, security=mixing(1000))
    event = ev.SampledShuffle(
        *(1000, 7850, 157, 333), "coordinate", "oblivious", "refuse", ev.Laplace(4.0)
    )
    assert supported(log, "analyzer") == event
    accounted = pp.account(event, delta=FLAME_DELTA, neighbours="replace-one")
    assert accounted.epsilon.upper == pytest.approx(0.1572, abs=5e-5)
    assert upper(log, "analyzer") == accounted.epsilon.upper
    assert supported(log, "shuffler") == ev.Repeat(157, ev.Laplace(4.0))
    assert upper(log, "shuffler") == local_number(157, ev.Laplace(4.0))
    assert 40 < upper(log, "shuffler") < 40.5
    assert upper(log) <= upper(log, "analyzer")
    assert not hazards(log)


def test_what_a_log_concludes_is_not_looked_at() -> None:
    """The stated event says more users and dimensions than the facts do."""
    wishful = ev.SampledShuffle(
        *(10**6, 7850, 1, 10**6), "coordinate", "oblivious", "refuse", ev.Laplace(4.0)
    )
    log = sent(PRINTED, security=mixing(1000), event=wishful, views={"analyzer": wishful})
    assert upper(log, "analyzer") == upper(sent(PRINTED, security=mixing(1000)), "analyzer")
    assert "event-mismatch" in {hazard.id for hazard in audited(log).hazards}


HONEST: Final = upper(small(), "analyzer")


WORST: Final = local_number(6, ev.Laplace(4.0), 1e-4)


@for_each(
    ("reach", "given"),
    [
        ({"users": 1000}, {}),  # more than there are
        ({"users": 101}, {"users": 200}),  # more than send one
        ({"dimensions": 600}, {}),  # more than were released
        ({"chosen": 1}, {"reaches": {"shuffler": replace(EACH, dimensions=60, chosen=6)}}),
        ({"padded_to": 400}, {"reaches": {"model": SMALL}}),
        ({"overflow": "cap"}, {"reaches": {"model": SMALL}}),
        ({"colluders": 0}, {"security": mixing(100, colluders=5)}),
        ({"padded_to": None}, {}),
        ({"users": None}, {}),
        ({}, {"aggregation": "plain"}),
        ({}, {"aggregation": "masked"}),
        ({}, {"security": mixing(100, fewest=1)}),
        ({}, {"security": mixing(500)}),
        ({}, {"security": replace(mixing(100), server="malicious")}),
        ({}, {"noise": Noise("laplace", 4.0, 7, 4.0, grid=2.0**-24)}),
    ],
)
def test_a_false_statement_counts_as_each_message(
    reach: dict[str, Any], given: dict[str, Any]
) -> None:
    told = given.pop("reaches", {}) | {"analyzer": replace(SMALL, **reach)}
    log = small(told, **given)
    assert "reach-contradicted" in hazards(log)
    assert upper(log, "analyzer") >= WORST * (1 - 1e-9) > HONEST
    assert not audited(log).ok


def test_terms_that_share_their_noise_are_not_mixed() -> None:
    log = small(terms="unit")
    assert "reach-contradicted" in hazards(log)
    assert upper(log, "analyzer") >= upper(small(reaches=None, terms="unit", aggregation="plain"))
    assert not any(isinstance(supported(log, who), ev.SampledShuffle) for who in PRINTED)


@pytest.mark.quick(4)
@for_each(
    "fields",
    [
        {"granularity": "tuple"},
        {"selection": "data-dependent"},
        {"users": 2},  # of few users, more places are dummies: the protocol's number counts
        {"users": 50},
        {"padded_to": 12},
        {"colluders": 5},
        {"dropouts": 90},
        {"knows_sample": True},
    ],
)
def test_a_statement_of_more_never_helps(fields: dict[str, Any]) -> None:
    log = small({"analyzer": replace(SMALL, **fields)})
    assert upper(log, "analyzer") >= HONEST * (1 - 1e-9)
    assert upper(log, "analyzer") >= upper(log)


def test_data_that_choose_coordinates_are_seen_by_who_sees_index_sets() -> None:
    chosen = replace(SMALL, selection="data-dependent", padded_to=100)
    log = small({"analyzer": chosen, "shuffler": replace(EACH, selection=None)})
    assert math.isinf(upper(log, "shuffler"))
    assert "depends on its data" in evidence(log).spent_total("shuffler").refusal


# --- a shuffler that is trusted, or blind ---------------------------------------------------------


def test_a_shuffler_without_a_protocol_is_assumed() -> None:
    log = small(security=None)
    report = audited(log)
    rows = {row.observer: row for row in report.rows}
    assert set(report.errors) <= {"event-mismatch"}  # it states hardly any loss
    assert rows["analyzer"].total.upper == HONEST
    assert any(one.startswith("assumed: the shuffler") for one in rows["analyzer"].rests_on)
    assert any(one.startswith("assumed: the shuffler") for one in rows["model"].rests_on)
    assert "reach-assumed" in hazards(log)
    assert rows["shuffler"].total.upper == WORST


BLIND: Final = Reach("nothing", knows_sample=True, also=("identities", "sizes"))


def test_who_mixes_ciphertexts_knows_their_order() -> None:
    log = small(
        {"shuffler": BLIND, "analyzer": Reach("shuffled", users=100)},
        security=mixing(100, key_bits=256),
        values=1,
    )
    assert upper(log) < upper(log, "shuffler") == local_number(1, ev.Laplace(4.0), 1e-4)
    assert not hazards(log)
    open_ = small({"shuffler": BLIND})
    assert "reach-contradicted" in hazards(open_)
    assert upper(open_, "shuffler") == WORST
    passing = small(
        {"coordinator": BLIND, "analyzer": Reach("shuffled", users=100)},
        security=mixing(100, key_bits=256),
        values=1,
    )  # it knows a ciphertext again
    assert upper(passing, "coordinator") == upper(log, "shuffler")
    weak = small({"shuffler": BLIND}, security=mixing(100, key_bits=1024))
    assert "reach-contradicted" in hazards(weak)
    trusted = small({"shuffler": BLIND}, security=None)
    assert "reach-assumed" in hazards(trusted)
    assert any(one.startswith("assumed: the shuffler holds") for one in row(trusted, "shuffler"))


@for_each("observer", ["shuffler", "coordinator"])
@for_each("sees", ["nothing", "sum"])
def test_who_adds_dummies_knows_them(observer: str, sees: Any) -> None:
    """What is released hides a unit among them, and before the shuffler they hide nobody."""
    blind = replace(BLIND, sees=sees)
    encrypted = small({observer: blind}, security=mixing(100, key_bits=256))
    assert upper(encrypted) == HONEST
    assert upper(encrypted, observer) == WORST
    for none in ({observer: blind}, {}):
        assert upper(small(none, security=None), observer) == WORST
    assert upper(small({}, security=mixing(100, key_bits=256)), observer) == WORST


@for_each("rounds", [1, 2])
def test_a_draw_for_each_message_is_one_round_of_coordinates(rounds: int) -> None:
    """`LaplaceMessages.noise` announces as many draws as a unit sends messages."""
    log = small(noise=Noise("laplace", 4.0, draws=6, grid=2.0**-24), rounds=rounds)
    once = small(rounds=rounds)
    for observer in ("analyzer", "shuffler", "model"):
        assert upper(log, observer) == upper(once, observer)


@for_each("draws", [2, 5, 7, 12])
def test_draws_that_are_not_the_messages_contradict(draws: int) -> None:
    log = small(noise=Noise("laplace", 4.0, draws=draws, grid=2.0**-24))
    assert "reach-contradicted" in hazards(log)
    assert upper(log, "analyzer") >= WORST


SHARED: Final = Noise("gaussian", math.sqrt(50) * 3.0, 50, 3.0, 0, 1, 2.0**-24)


@for_each(
    ("draws", "told", "whole"),
    [
        (1, None, True),
        (6, None, False),  # which may be six of any number of coordinates
        (6, Reach("sum"), False),
        (6, Reach("sum", dimensions=60, chosen=6), False),
        (1, Reach("sum", dimensions=60, chosen=1), False),
        (6, Reach("sum", dimensions=6, chosen=6), True),
        (6, Reach("sum", dimensions=60, chosen=60), False),
    ],
)
def test_a_sum_has_the_noise_of_who_surely_sends_to_it(
    draws: int, told: Reach | None, whole: bool
) -> None:
    log = sent(
        None if told is None else {"model": told},
        users=50,
        values=6 if whole else 60,
        aggregation="plain",
        norm="l2",
        noise=replace(SHARED, draws=draws),
    )
    share = 3.0 * (math.sqrt(50) if whole else 1.0)
    least = 60 if told is not None and told.chosen == 60 else draws
    assert upper(log) == pytest.approx(local_number(least, ev.Gaussian(share)), rel=1e-6)


def test_draws_of_which_nothing_is_said_are_not_mixed() -> None:
    log = sent(
        None,
        users=100,
        values=60,
        security=mixing(100),
        noise=Noise("laplace", 4.0, draws=6, grid=2.0**-24),
        delta=1e-4,
    )
    for observer in ("model", "analyzer", "shuffler"):
        assert upper(log, observer) == WORST


def row(records: Records, observer: str) -> tuple[str, ...]:
    (found,) = (one for one in audited(records).rows if one.observer == observer)
    return found.rests_on


@for_each(
    ("also", "analyzer", "neighbours"),
    [
        (("index-sets",), replace(SMALL, selection="data-dependent", padded_to=100), "replace-one"),
        (("sizes",), replace(SMALL, selection="data-dependent", padded_to=100), "replace-one"),
        (("identities",), SMALL, "add-remove"),
        (("sizes",), SMALL, "add-remove"),
    ],
)
def test_what_is_seen_beside_ciphertexts_may_depend_on_data(
    also: Any, analyzer: Reach, neighbours: str
) -> None:
    log = small(
        {"analyzer": analyzer, "shuffler": replace(BLIND, also=also)},
        security=mixing(100, key_bits=256),
        neighbours=neighbours,
    )
    assert math.isinf(upper(log, "shuffler"))


def test_identities_show_a_sample_that_should_hide() -> None:
    drawn = Sampling("poisson", "user", 0.5, "shared-secret")
    log = small(
        {"shuffler": replace(BLIND, knows_sample=False)},
        security=mixing(100, key_bits=256),
        sampling=drawn,
    )
    assert "reach-contradicted" in hazards(log)
    assert upper(log, "shuffler") >= upper(log)
    assert upper(log, "shuffler") >= WORST
