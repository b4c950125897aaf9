"""A log's owner who wants a smaller number, and edits some of what is stated: a random search.

Whatever is edited, no number falls below what the unedited facts support, unless something says so:
a hazard of severity error, or an assumption beside that very number.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, Final

import pytest

from privplan.accountant.mechanisms import LaplaceMessages, Shuffled
from privplan.accountant.records import Reach, RoundIntent, RunOpen, Security
from privplan.audit.budget.order import TOLERANCE

from ..sweeps import sweep
from .ledgers import Records, audited, evidence, grouped, intents, naive, weighted
from .shuffling import mixing
from .test_many_draws import epoch
from .test_messages_audited import EACH, of_mechanism
from .test_reaches import shared, stating

SHUFFLED: Final = LaplaceMessages(1.0, 4.0, shuffled=Shuffled(400))


def messages() -> Records:
    assert SHUFFLED.shuffled is not None
    mixed = SHUFFLED.shuffled.reach()
    reaches = {"model": Reach("sum"), "analyzer": mixed, "shuffler": EACH}
    return of_mechanism(SHUFFLED, draws=2, values=2, reaches=reaches)


HONEST: Final[dict[str, Callable[[], Records]]] = {
    "plain": lambda: stating(weighted(2)),
    "plain-silent": lambda: weighted(2),
    "plain-records-sampled": lambda: stating(weighted(2, rule="records", rate=0.5)),
    "masked": lambda: stating(weighted(2, aggregation="masked", dropouts=1, colluders=1)),
    "masked-records": lambda: stating(weighted(2, rule="records", aggregation="masked")),
    "private": lambda: stating(
        weighted(2, rule="records", aggregation="private-weighting", rate=0.5)
    ),
    "naive": lambda: stating(naive(2)),
    "grouped": lambda: stating(grouped(2, steps=3)),
    "shares": lambda: stating(shared()),
    "epoch": lambda: epoch(draws=59),
    "shuffled": messages,
}

# What an owner may write in place of what is there.  Noise's deviation, the clip and the rate are
# left alone: those are the facts themselves, on which no other one bears.
REACHES: Final = [
    Reach(sees, holds, colluders, dropouts, knows, users=users)
    for sees, users in (
        *(("sum", None), ("each", None), ("sum-less-own", None), ("one-share", None)),
        *(("nothing", None), ("shuffled", 50), ("shuffled", 400)),
    )
    for holds in ("nothing", "part")
    for colluders in (0, 1)
    for dropouts in (0, 1)
    for knows in (False, True)
]
INTENT: Final[dict[str, dict[str, list[Any]]]] = {
    "contribution": {
        "terms": ["unit", "silo-delta", "whole", "message"],
        "unit": ["user", "record", "silo"],
    },
    "noise": {"draws": [1, 2, 59, 118], "tolerated_dropouts": [0, 1, 2], "shares": [1, 2, 5, 400]},
    "sampling": {
        "method": ["none", "poisson", "fixed-size", "shuffled"],
        "of": ["user", "record", "silo"],
        "drawn_by": ["nobody", "server", "silos", "shared-secret", "oblivious-transfer"],
        "most_draws": [None, 1, 2],
        "moves_others": [None, False, True],
        "chosen_by": [None, "each-silo", "all-silos"],
    },
    "weights": {"rule": ["none", "uniform", "records"]},
}
SECURITY: Final[dict[str, list[Any]]] = {
    "protocol": ["pairwise-masks", "private-weighting", "additive-shares", "shuffler"],
    "parties": [1, 4, 5, 400, 10**6],
    "fewest": [1, 2, 4, 5, 400],
    "colluders": [0, 1, 2, 5],
    "ring_bits": [0, 64],
    "key_bits": [0, 256, 3072],
    "slots": [0, 10],
    "chosen": [0, 2],
    "server": ["malicious", "honest-but-curious"],
}
AGGREGATIONS: Final = ("plain", "masked", "private-weighting", "shares", "shuffle")
PROTOCOLS: Final = (None, mixing(50), mixing(400, key_bits=256), Security("shuffler", 5, 5))


def edited(log: Records, seed: int) -> tuple[Records, str]:
    """Return a log with 1 to 3 edits, and what they were."""
    own, words = random.Random(seed), []
    for _ in range(own.randint(1, 3)):
        kind = own.choice(("reach", "reach", "intent", "intent", "intent", "security", "opening"))
        if kind == "reach":
            names = (*evidence(log).observers, "analyzer", "client", "peer", "coordinator")
            name, reach = own.choice(names), own.choice((None, *REACHES))

            def told(old: Any, name: str = name, reach: Reach | None = reach) -> Any:
                kept = {who: one for who, one in (old or {}).items() if who != name}
                return kept if reach is None else {**kept, name: reach}

            log, word = intents(reaches=told)(log), f"{name} {reach}"
        elif kind == "intent":
            part = own.choice(sorted(INTENT))
            key = own.choice(sorted(INTENT[part]))
            value = own.choice(INTENT[part][key])
            log, word = [_part(one, part, key, value) for one in log], f"{part}.{key} {value}"
        elif kind == "security":
            key = own.choice(sorted(SECURITY))
            value = own.choice(SECURITY[key])
            log, word = [_secured(one, key, value) for one in log], f"{key} {value}"
        else:
            aggregation, security = own.choice(AGGREGATIONS), own.choice(PROTOCOLS)
            keep = own.random() < 0.5
            log = [
                replace(one, aggregation=aggregation, security=one.security if keep else security)  # type: ignore[arg-type]
                if isinstance(one, RunOpen)
                else one
                for one in log
            ]
            word = f"{aggregation} {'as before' if keep else security}"
        words.append(word)
    return log, "; ".join(words)


def _part(record: Any, part: str, key: str, value: Any) -> Any:
    if not isinstance(record, RoundIntent):
        return record
    return replace(record, **{part: replace(getattr(record, part), **{key: value})})


def _secured(record: Any, key: str, value: Any) -> Any:
    if not isinstance(record, RunOpen) or record.security is None:
        return record
    return replace(record, security=replace(record.security, **{key: value}))


@cache
def honest(name: str) -> tuple[Records, dict[str, float]]:
    log = HONEST[name]()
    found = evidence(log)
    return log, {who: found.settled(who).upper for who in found.observers}


def lowered(name: str, seed: int) -> str:
    """Return which number fell and nothing says so; an empty text where none did."""
    log, before = honest(name)
    spoilt, words = edited(log, seed)
    found = evidence(spoilt)
    fell = [
        (who, least, found.settled(who).upper)
        for who, least in before.items()
        if who in found.observers and found.settled(who).upper < least * (1 - TOLERANCE)
    ]
    fell = [one for one in fell if not any(t.startswith("assumed") for t in found.assumed(one[0]))]
    if not fell or audited(spoilt).errors:
        return ""
    return f"{name} {seed}: {fell} by {words}"


@pytest.mark.parametrize("start", sweep(range(0, 2000, 10), quick=3))
@pytest.mark.parametrize("name", HONEST)
def test_no_edit_lowers_a_number_unseen(name: str, start: int) -> None:
    found = [lowered(name, seed) for seed in range(start, start + 10)]
    assert not any(found), "\n".join(filter(None, found))


def test_the_honest_logs_raise_no_error_by_themselves() -> None:
    """Else the search would pass whatever is edited."""
    for name in HONEST:
        assert not audited(honest(name)[0]).errors, name
