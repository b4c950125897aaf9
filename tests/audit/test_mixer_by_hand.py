"""What facts support before a shuffler that sees sums and knows its dummies, at digits' size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from privplan.accountant import events as ev
from privplan.accountant.amplification.shuffling.mixer import mixer_event
from privplan.accountant.records import Noise, Reach, RoundIntent, Sampling, Weights

from ..cases import for_each
from .ledgers import audited, evidence
from .shuffled import supported
from .shuffling import DOUBLE, FLAME_DELTA, Records, mixing, sent

DIGITS: Final = replace(DOUBLE, dimensions=650, chosen=65)
MIXER: Final = Reach(
    "sum",
    also=("identities", "index-sets", "dummies", "sizes"),
    dimensions=650,
    chosen=65,
    selection="oblivious",
)
GRID: Final = 2.0**-21
NOISE: Final = Noise("laplace", 0.5, 1, 0.5, draws=65, grid=GRID)
LOCAL: Final = ev.Repeat(65, ev.Laplace(0.5))


def log(reaches: dict[str, Reach] | None = None, **given: Any) -> Records:
    told = {"model": DIGITS, "analyzer": DIGITS, "shuffler": MIXER, **(reaches or {})}
    fields = {"security": mixing(1000, key_bits=256), "noise": NOISE, "values": 650, **given}
    weights = fields.pop("weights", Weights())
    records = sent(told, scale=0.5, **fields)
    return [
        replace(line, weights=weights) if isinstance(line, RoundIntent) else line
        for line in records
    ]


def by_sums(users: int = 1000, padded_to: int = 333, grid: float = GRID) -> ev.Event:
    event = mixer_event(
        ev.Laplace(0.5),
        **{"users": users, "dimensions": 650, "chosen": 65, "padded_to": padded_to},
        coarseness=grid,
    )
    assert event is not None
    return event


def test_the_facts_of_digits_support_its_number() -> None:
    records = log(rounds=5, delta=FLAME_DELTA)
    assert supported(records, "shuffler") == by_sums()
    total = evidence(records).total("shuffler")
    assert total.upper == pytest.approx(38.62, abs=0.01)
    assert not {"reach-contradicted", "reach-assumed"} & {h.id for h in audited(records).hazards}


def test_each_draw_beyond_the_announced_ones_is_a_round_more() -> None:
    records = log()
    records[2] = replace(records[2], draws=66)  # type: ignore[type-var]
    assert supported(records, "shuffler") == ev.Repeat(2, by_sums())


@for_each(
    ("given", "users", "padded_to"),
    [
        ({"security": mixing(1000, fewest=900, key_bits=256)}, 900, 333),
        ({"security": mixing(1000, key_bits=4096)}, 1000, 333),
        ({"analyzer": replace(DIGITS, users=900), "model": replace(DIGITS, users=900)}, 900, 333),
        ({"shuffler": replace(MIXER, colluders=10)}, 990, 323),
        ({"shuffler": replace(MIXER, dropouts=10)}, 990, 333),
        ({"shuffler": replace(MIXER, colluders=10, dropouts=10)}, 980, 323),
        (
            {
                "security": mixing(1000, colluders=10, key_bits=256),
                "analyzer": replace(DIGITS, colluders=10),
                "model": replace(DIGITS, colluders=10),
            },
            *(990, 323),
        ),
        (
            {
                "analyzer": replace(DIGITS, padded_to=200, overflow="cap"),
                "model": replace(DIGITS, padded_to=200, overflow="cap"),
            },
            *(1000, 200),
        ),
        ({"shuffler": replace(MIXER, dimensions=None, chosen=None, selection=None)}, 1000, 333),
        ({"shuffler": replace(MIXER, also=("dummies",))}, 1000, 333),
    ],
)
def test_the_least_of_what_is_stated_hides(
    given: dict[str, Any], users: int, padded_to: int
) -> None:
    reaches = {name: reach for name, reach in given.items() if isinstance(reach, Reach)}
    others = {name: fact for name, fact in given.items() if not isinstance(fact, Reach)}
    assert supported(log(reaches, **others), "shuffler") == by_sums(users, padded_to)


def test_a_coarser_grid_costs_more() -> None:
    records = log(noise=replace(NOISE, grid=2.0**-12))
    assert supported(records, "shuffler") == by_sums(grid=2.0**-12)
    finer = log(noise=replace(NOISE, grid=0.0))
    assert supported(finer, "shuffler") == by_sums()  # counted as the mechanism's at least


KNOWN: Final = replace(DIGITS, also=("dummies",))
WORDS: Final = Noise("randomized-response", 0.0, draws=65)
EACH_CASES: Final[dict[str, tuple[dict[str, Reach], dict[str, Any]]]] = {
    "no word of dummies": ({"shuffler": replace(MIXER, also=("index-sets",))}, {}),
    "nothing": ({"shuffler": Reach("nothing", also=("dummies",))}, {}),
    "another's dimensions": ({"shuffler": replace(MIXER, dimensions=65)}, {}),
    "another's choice": ({"shuffler": replace(MIXER, chosen=130)}, {}),
    "more values": ({}, {"values": 651}),
    "tuples": (
        {name: replace(DIGITS, granularity="tuple") for name in ("model", "analyzer")},
        {},
    ),
    "no mix": ({"model": Reach("sum"), "analyzer": replace(MIXER, also=())}, {}),
    "one who mixes more": ({"analyzer": replace(DIGITS, padded_to=900)}, {}),
    "more users than parties": (
        {name: replace(DIGITS, users=2000) for name in ("model", "analyzer")},
        {},
    ),
    "uniform weights": ({}, {"weights": Weights("uniform")}),
    "a key that can be broken": ({}, {"security": mixing(1000, key_bits=1024)}),
    "no protocol": ({}, {"security": None}),
    "a sum in the clear": ({}, {"aggregation": "plain"}),
    "a coordinator": ({"coordinator": MIXER}, {}),
    "Gaussian noise": ({}, {"noise": replace(NOISE, family="gaussian"), "norm": "l2"}),
}


@for_each("name", EACH_CASES)
def test_else_it_counts_as_who_sees_each_message(name: str) -> None:
    reaches, given = EACH_CASES[name]
    records = log(reaches, **given)
    observer = "coordinator" if name == "a coordinator" else "shuffler"
    event = supported(records, observer)
    messages = event.event if isinstance(event, ev.Repeat) else event
    assert isinstance(messages, (ev.Laplace, ev.Gaussian, ev.Repeat)), event
    assert event.count >= 65


@for_each("observer", ["model", "analyzer", "client"])
def test_dummies_that_others_know_hide_nobody_from_them(observer: str) -> None:
    told = replace(KNOWN, colluders=1) if observer == "client" else KNOWN
    event = supported(log({observer: told}), observer)
    # The model is made of what the analyzer sees, which counts beside it.
    assert LOCAL in (event.events if isinstance(event, ev.Compose) else [event])


def test_data_that_choose_are_seen() -> None:
    chosen = {
        name: replace(reach, selection="data-dependent")
        for name, reach in (("model", DIGITS), ("analyzer", DIGITS), ("shuffler", MIXER))
    }
    assert isinstance(supported(log(chosen), "shuffler"), ev.NoGuarantee)
    alone = replace(MIXER, selection="data-dependent")
    assert isinstance(supported(log({"shuffler": alone}), "shuffler"), ev.NoGuarantee)


def test_a_sample_of_users_is_not_covered() -> None:
    drawn = Sampling("poisson", "user", 0.5, "shared-secret", population=1000)
    event = supported(log(sampling=drawn), "shuffler")
    assert not isinstance(event, ev.Compose)


def test_where_all_is_sent_it_has_the_analyzers_number() -> None:
    everything = Reach("shuffled", users=1000, granularity="coordinate")
    mixer = Reach("sum", also=("identities", "dummies", "sizes"))
    own = {"model": everything, "analyzer": everything, "shuffler": mixer}
    records = log(own, values=65)
    event = ev.Repeat(65, ev.Shuffle(1000, ev.Laplace(0.5)))
    assert supported(records, "shuffler") == supported(records, "analyzer") == event
    fewer = log({**own, "shuffler": replace(mixer, colluders=10)}, values=65)
    assert supported(fewer, "shuffler") == ev.Repeat(65, ev.Shuffle(990, ev.Laplace(0.5)))
    wider = log(own, values=66)
    assert supported(wider, "shuffler") == LOCAL
