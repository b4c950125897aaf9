"""A log's owner who wants a smaller number, and edits some of what is stated: a search.

Whatever is edited, no number falls below what is true of the unedited log, unless something says
so: a hazard of severity error, or an assumption beside that very number.  What is true stands here,
worked out by hand from what each log says; what the log concludes is written anew to fit the edits.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.mechanisms import LaplaceMessages, ShuffledRound
from privplan.accountant.records import Planned, Reach, RoundIntent, RunClose, RunOpen, Security
from privplan.audit.evidence import evidence as evidences
from privplan.audit.evidence.epsilon_total import EpsilonTotal, total

from ..sweeps import sweep
from .ledgers import Records, audited, evidence, grouped, intents, naive, weighted
from .shuffling import mixing
from .test_many_draws import SIGMA as EPOCH_SIGMA
from .test_many_draws import epoch
from .test_messages_audited import EACH, of_mechanism
from .test_reaches import shared, stating
from .test_reaches_by_hand import gaussian, masked_messages


@pytest.fixture(autouse=True, scope="module")
def _each_sum_once() -> Iterator[None]:
    """Account for equal events once: most edits leave most numbers as they are."""
    known: dict[object, EpsilonTotal] = {}

    def once(counts: Any, *, lower: Any = None, **given: Any) -> EpsilonTotal:
        key = frozenset(counts.items()), frozenset((lower or {}).items()), *given.values()
        if key not in known:
            known[key] = total(counts, lower=lower, **given)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidences, "total", once)
        yield


def messages(mixed: ShuffledRound, *, draws: int, values: int, colluders: int = 0) -> Records:
    """Return the log of one round of messages, of whose senders some tell all they know."""
    reaches = {
        "model": Reach("sum"),
        "analyzer": mixed.reach(colluders=colluders),
        "shuffler": EACH,
    }
    return of_mechanism(
        LaplaceMessages(1.0, 4.0, shuffled=mixed.without(colluders) if colluders else mixed),
        draws=draws,
        values=values,
        reaches=reaches,
        users=mixed.users,
        security=mixing(mixed.users, colluders=colluders),
    )


@dataclass(frozen=True)
class Honest:
    """A log, and by observer the event that is true of all its rounds together.

    A number stands for Gaussian noise on a sum that moves by so many deviations in all.
    """

    log: Callable[[], Records]
    true: dict[str, ev.Event | float]


NONE: Final = math.inf
LEEWAY: Final = 1e-7  # for noise on a grid, which counts for a little less
HALF: Final = ev.Repeat(2, ev.Poisson(0.5, ev.Gaussian(5.0)))
TENTH: Final = ev.Repeat(2, ev.Poisson(0.1, ev.Gaussian(5.0)))
GROUP: Final = ev.Group(2, ev.Repeat(6, ev.Poisson(0.05, ev.Gaussian(5.0))))
PAIR: Final = math.sqrt(2)  # of two rounds
ROOT: Final = math.sqrt(5)  # of five silos
LAPLACE: Final = ev.Laplace(4.0)
MIXED: Final = ev.Repeat(2, ev.Shuffle(30, LAPLACE))
COORDINATES: Final = ev.SampledShuffle(9, 3, 2, 12, "coordinate", "oblivious", "refuse", LAPLACE)

# Two rounds of noise 5 on a clip of 1: the sum moves by 1/5.  A silo of 5 has 1 / sqrt 5 of the
# noise, and where weights are even a fifth of the unit; without a silo's share 4/5 is left of both.
EVEN: Final = {"model": PAIR / 5, "server": PAIR / 5, "silo": PAIR / 5 * math.sqrt(0.8)}
BY_RECORDS: Final = {"silo": PAIR / 5 / math.sqrt(0.8), "silo-with-records": NONE}
# Of 5 silos, each with half of the noise, one may be missing, and one more is known.
KNOWN: Final = PAIR / 5 * 0.8 * 2 / math.sqrt(3)
LOGS: Final[dict[str, Honest]] = {
    "plain": Honest(lambda: stating(weighted(2)), EVEN),
    "plain-silent": Honest(lambda: weighted(2), EVEN),
    "plain-missing": Honest(
        lambda: stating(weighted(2, dropouts=1)),
        {**dict.fromkeys(("model", "server"), PAIR / 5), "silo": KNOWN},
    ),
    "plain-secret": Honest(
        lambda: stating(weighted(2, rate=0.1, drawn_by="shared-secret")),
        {"model": TENTH, "server": TENTH, "silo": EVEN["silo"]},
    ),
    "plain-records-sampled": Honest(
        lambda: stating(weighted(2, rule="records", rate=0.5)),
        {"model": HALF, "server": PAIR / 5 * ROOT, **BY_RECORDS},
    ),
    "masked": Honest(
        lambda: stating(weighted(2, aggregation="masked", dropouts=1, colluders=1)),
        {**dict.fromkeys(("model", "server"), PAIR / 5), "silo": KNOWN, "server+1": KNOWN},
    ),
    "masked-records": Honest(
        lambda: stating(weighted(2, rule="records", aggregation="masked")),
        {**dict.fromkeys(("model", "server"), PAIR / 5), **BY_RECORDS},
    ),
    "masked-messages": Honest(
        lambda: stating(masked_messages()),
        {
            **dict.fromkeys(("model", "server"), 4 / 3 / math.sqrt(7)),
            **dict.fromkeys(("silo", "server+1"), 4 / 3 / math.sqrt(6)),
            "server+2": 4 / 3 / math.sqrt(5),
        },
    ),
    # The server draws the sample; what a user has elsewhere moves by twice the clip where the
    # weights of who holds some are hidden.
    "private": Honest(
        lambda: stating(weighted(2, rule="records", aggregation="private-weighting", rate=0.5)),
        {
            "model": HALF,
            "server": PAIR / 5,
            "silo": ev.Repeat(2, ev.Poisson(0.5, ev.Gaussian(5 * math.sqrt(0.8)))),
            "silo-with-records": PAIR / 5 * 2 / math.sqrt(0.8),
            "server+1": NONE,
        },
    ),
    # A silo's update points elsewhere, so it moves by two clips.
    "naive": Honest(lambda: stating(naive(2)), {who: 2 * shift for who, shift in EVEN.items()}),
    "grouped": Honest(
        lambda: stating(grouped(2, size=2, steps=3)),
        dict.fromkeys(("model", "server", "silo", "silo-with-records"), GROUP),
    ),
    "shares": Honest(
        lambda: stating(shared()), {"model": PAIR / 5, "peer": PAIR / 5 / math.sqrt(0.8)}
    ),
    "epoch": Honest(lambda: epoch(draws=59), {"model": 1 / EPOCH_SIGMA}),
    "shuffled": Honest(
        lambda: messages(ShuffledRound(40), draws=2, values=2, colluders=10),
        {"model": MIXED, "analyzer": MIXED, "shuffler": ev.Repeat(2, LAPLACE)},
    ),
    "coordinates": Honest(
        lambda: messages(ShuffledRound(12, 3, 2, 15), draws=2, values=3, colluders=3),
        {"model": COORDINATES, "analyzer": COORDINATES, "shuffler": ev.Repeat(2, LAPLACE)},
    ),
}

# What an owner may write in place of what is there.  Noise's deviation, the clip and the rate are
# left alone: those are the facts themselves, on which no other one bears.
SEEN: Final[tuple[tuple[Any, int | None], ...]] = (
    *(("sum", None), ("each", None), ("sum-less-own", None), ("one-share", None)),
    *(("nothing", None), ("shuffled", 40)),
)
REACHES: Final = [
    Reach(sees, holds, colluders, dropouts, knows, users=users)
    for sees, users in SEEN
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
    "noise": {"draws": [1, 2, 59, 118], "tolerated_dropouts": [0, 1, 2], "shares": [1, 2, 5, 40]},
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
    "parties": [1, 4, 5, 40, 10**6],
    "fewest": [1, 2, 4, 5, 40],
    "colluders": [0, 1, 2, 5],
    "ring_bits": [0, 64],
    "key_bits": [0, 256, 3072],
    "slots": [0, 10],
    "chosen": [0, 2],
    "server": ["malicious", "honest-but-curious"],
}
AGGREGATIONS: Final = ("plain", "masked", "private-weighting", "shares", "shuffle")
PROTOCOLS: Final = (None, mixing(20), mixing(40, key_bits=256), Security("shuffler", 5, 5))


SEEDS: Final = [range(4), *(range(start, start + 40) for start in range(4, 2004, 40))]
BY_RECORDS_IN_THE_CLEAR: Final = ("plain-records-sampled", "masked-records")
"""Logs whose rule of weights is a fact on which no other bears, as the clip is."""

STRANGERS: Final = ("analyzer", "client", "peer", "coordinator")


def edited(name: str, seed: int) -> tuple[Records, str]:
    """Return a log with 1 to 3 edits, and what they were."""
    log, words = truth(name)[0], []
    own = random.Random(seed)
    for _ in range(own.randint(1, 3)):
        kind = own.choice(("reach", "reach", "intent", "intent", "intent", "security", "opening"))
        if kind == "reach":
            who = own.choice((*LOGS[name].true, *STRANGERS))
            reach = own.choice((None, *REACHES))
            log, word = told(log, who, reach), f"{who} {reach}"
        elif kind == "intent":
            part = own.choice(sorted(INTENT))
            key = own.choice(sorted(INTENT[part]))
            spread = name in BY_RECORDS_IN_THE_CLEAR and key == "rule"
            value = own.choice(["none"] if spread else INTENT[part][key])
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


def told(log: Records, who: str, reach: Reach | None) -> Records:
    """Return a log that states a reach of one observer, or none."""

    def stated(old: dict[str, Reach] | None) -> dict[str, Reach]:
        kept = {name: one for name, one in (old or {}).items() if name != who}
        return kept if reach is None else {**kept, who: reach}

    return intents(reaches=stated)(log)


def _part(record: Any, part: str, key: str, value: Any) -> Any:
    if not isinstance(record, RoundIntent):
        return record
    return replace(record, **{part: replace(getattr(record, part), **{key: value})})


def _secured(record: Any, key: str, value: Any) -> Any:
    if not isinstance(record, RunOpen) or record.security is None:
        return record
    return replace(record, security=replace(record.security, **{key: value}))


@cache
def truth(name: str) -> tuple[Records, dict[str, float]]:
    """Return an honest log, and the epsilon that is true before each observer."""
    log = LOGS[name].log()
    (opened,) = (one for one in log if isinstance(one, RunOpen))
    given: dict[str, Any] = {
        "delta": opened.claim.delta,
        "neighbours": opened.claim.neighbours,
    }

    def number(event: ev.Event | float) -> float:
        if isinstance(event, float):
            return gaussian(event, given["delta"]) if math.isfinite(event) else event
        return pp.account(event, **given).epsilon.upper

    return log, {who: number(event) for who, event in LOGS[name].true.items()}


def concluded(log: Records) -> Records:
    """Return a log that concludes what its facts support before the model, and nothing else."""
    found = evidence(log)
    (kind,) = found.kinds
    event = found.seen(kind, "model").supported
    if isinstance(event, ev.NoGuarantee):
        return log
    planned = {"model": found.grouped(ev.Repeat(len(kind.spent), event))}
    upper = found.spent_total("model").upper

    def anew(one: Any) -> Any:
        if isinstance(one, RoundIntent):
            return replace(one, event=event, views={})
        if isinstance(one, RunOpen):
            return replace(one, plan=Planned(len(kind.spent), planned))
        if isinstance(one, RunClose):
            return replace(one, events=planned, epsilon={"model": upper})
        return one

    return [anew(one) for one in log]


def lowered(name: str, log: Records, words: str) -> str:
    """Return which number fell and nothing says so; an empty text where none did."""
    log = concluded(log)
    found = evidence(log)
    fell = [
        (who, least, found.spent_total(who).upper)
        for who, least in truth(name)[1].items()
        if who in found.observers and found.spent_total(who).upper < least * (1 - LEEWAY)
    ]
    fell = [one for one in fell if not any(t.startswith("assumed") for t in found.assumed(one[0]))]
    if not fell or audited(log).errors:
        return ""
    return f"{name}: {fell} by {words}"


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("seeds", sweep(SEEDS, quick=1), ids=str)
def test_no_edits_lower_a_number_unseen(name: str, seeds: range) -> None:
    found = [lowered(name, *edited(name, seed)) for seed in seeds]
    assert not any(found), "\n".join(filter(None, found))


@pytest.mark.parametrize("name", LOGS)
def test_no_single_statement_lowers_a_number_unseen(name: str) -> None:
    """Each observer in turn is said to see anything else, or to know less than it does."""
    log, true = truth(name)
    (intent, *_) = (one for one in log if isinstance(one, RoundIntent))
    found = []
    for who in true:
        stated = (intent.reaches or {}).get(who, Reach("each", knows_sample=True))
        others = [
            None,
            *(replace(stated, sees=sees, users=users) for sees, users in SEEN),
            replace(stated, colluders=0),
            replace(stated, dropouts=0),
            replace(stated, knows_sample=False),
            replace(stated, holds="nothing"),
            replace(stated, colluders=0, dropouts=0, knows_sample=False, holds="nothing"),
        ]
        for other in dict.fromkeys(others):
            if other != stated:
                found.append(lowered(name, told(log, who, other), f"{who} {other}"))
    assert not any(found), "\n".join(filter(None, found))


@pytest.mark.parametrize("name", LOGS)
def test_what_is_true_is_what_an_honest_log_supports(name: str) -> None:
    """Else the search would compare with numbers that are too small, or pass for an error."""
    log, true = truth(name)
    assert not audited(concluded(log)).errors
    found = evidence(concluded(log))
    for who, least in true.items():
        assert found.spent_total(who).upper == pytest.approx(least, rel=LEEWAY), who
