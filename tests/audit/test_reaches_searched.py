"""Random facts and reaches, from a seed: no number is below the exact delta of what is seen.

Each case is a round that is small enough for the law of what its observer sees: up to five messages
of a bit (`views`), or normal laws on a line.  Its facts state it truly, and the number that they
support is compared with the exact one at several epsilons.

Covered: messages that are mixed, seen each, or hidden; Poisson and fixed-size samples, known or
not; colluders, missing messages, units of two records, two draws, by coordinate or together; with a
protocol or trusted; each observer.  Sums of silos' terms and of messages with Gaussian noise.  Not
covered: coordinates that are sampled and padded (`tests/accountant/test_capped_enumerated.py`),
other noise, shuffled batches, private weighting, and oblivious transfers.
"""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass
from typing import Any, Final

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import PrivplanError
from privplan.accountant.records import Contribution, Noise, Reach, Sampling, Security, Weights
from privplan.audit.derivation.round_facts import RoundFacts
from privplan.audit.derivation.run_setting import RunSetting
from privplan.audit.derivation.supported_event import supported

from ..cases import for_each
from ..sweeps import sweep
from .views import ODDS, World, delta_of, gaussian_delta, mixture_delta

ORDERS: Final = (1.05, 1.3, 1.8, 2.5)
RESPONSE: Final = ev.RandomizedResponse(math.log(ODDS) * (1 + 1e-15), 2)
SEEDS: Final = [range(40), *(range(start, start + 80) for start in range(40, 2600, 80))]


def promised(event: ev.Event, neighbours: Any, group: int = 1) -> list[float]:
    """Return the deltas of an event at the logs of `ORDERS`; 1 where there is none."""
    if isinstance(event, ev.NoGuarantee):
        return [1.0] * len(ORDERS)
    whole = event if group == 1 else ev.Group(group, event)
    return [_promised(whole, order, neighbours) for order in ORDERS]


def _promised(event: ev.Event, order: float, neighbours: Any) -> float:
    epsilon = math.nextafter(math.log(order), 0.0)
    try:
        return pp.account(event, epsilon=epsilon, neighbours=neighbours).delta.upper
    except PrivplanError:
        return 1.0


def below(true: list[float], event: ev.Event, neighbours: str, group: int = 1) -> bool:
    """Return whether an event promises less than is true."""
    least = promised(event, neighbours, group)
    return any(t > p * (1 + 1e-9) + 1e-12 for t, p in zip(true, least, strict=True))


# --- messages -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One round as it is stated, and as it is."""

    facts: RoundFacts
    setting: RunSetting
    observer: str
    world: World

    @property
    def event(self) -> ev.Event:
        return supported(self.facts, self.setting, self.observer)


def messages(seed: int) -> Case:
    """Return a round of up to five messages, and what its observer truly sees."""
    draw = random.Random(seed)
    flaw = draw.choice(("none", "told", "lost", "knows", "group", "seen", "all"))
    honest = flaw not in ("seen", "all")  # who sees a mix: else mixes and samples seldom hide
    group = draw.choice((1, 2)) if flaw in ("group", "all") else 1
    users = draw.randint(group + 1, 5)
    draws = draw.choice((1, 1, 1, 2)) if users <= 4 else 1
    told = min(draw.choice((0, 1, 1, 2)), (users - group) // group)
    lost = int(draw.random() < 0.5 and (told + 1) * group < users)
    unit: Any = "record" if group > 1 else "user"
    told = told if flaw in ("told", "group", "all") else 0
    lost = lost if flaw in ("lost", "group", "all") else 0
    sampling, knows = _sample(draw, unit, users, honest=flaw not in ("knows", "all"))
    security = _protocol(draw, users, (sampling.batch or users) - lost, told)
    observer = (
        "analyzer"
        if honest
        else draw.choice(
            ("analyzer", "analyzer", "model", "client", "server", "coordinator", "shuffler", "silo")
        )
    )
    stated = draw.choice((users, users, max(users - 1, told + lost + 1)))
    mixed = Reach(
        "shuffled",
        users=stated,
        granularity=draw.choice(("coordinate", "coordinate", None, "tuple")),
        colluders=told,
        dropouts=lost,
        knows_sample=knows,
    )
    sees: Any = draw.choice(
        ["shuffled"]
        if honest
        else (*["shuffled"] * 4, "nothing", "nothing", "sum", "sum-less-own", "one-share", "each")
    )
    also: Any = tuple(draw.sample(("identities", "sizes", "times"), draw.choice((0, 0, 0, 1, 2))))
    also = () if honest else also
    before = Reach(sees, colluders=told, dropouts=lost, knows_sample=knows)
    if sees == "shuffled":
        before = mixed
    if observer == "client" and sees == "shuffled":  # which counts itself
        before = Reach(**{**vars(before), "colluders": told + 1})
    reaches = {"analyzer": mixed, observer: Reach(**{**vars(before), "also": also})}
    facts = RoundFacts(
        Contribution(1.0, "l1", unit, "message"),
        Noise("randomized-response", 0.0, draws=draws),
        Weights(draw.choice(("none", "uniform"))),
        sampling,
        0.0,
        RESPONSE,
        *(1, draws, draws, 1),
        single=True,
        reaches=tuple(sorted(reaches.items())),
        width=draws,
    )
    neighbours: Any = draw.choice(("replace-one", "replace-one", "zero-out"))
    setting = RunSetting(
        *("user", neighbours, group, 1, "shuffle", False, users),
        users if group > 1 else None,
        security,
    )
    known = told + (observer == "client")
    by_sender = observer in ("shuffler", "silo", "coordinator") or sees == "each"
    world = World(
        users,
        sampling.method,  # type: ignore[arg-type]
        sampling.rate,
        sampling.batch or 0,
        min(known * group, users - group),
        lost if known * group + lost + group <= users else 0,
        knows_sample=_knows(sampling, observer, known) or knows or "identities" in also,
        fewest=0 if security is None else security.fewest,
        each=by_sender,
        draws=draws,
        together=mixed.granularity != "coordinate",
        group=group,
    )
    return Case(facts, setting, observer, world)


def _sample(draw: random.Random, unit: Any, users: int, *, honest: bool) -> tuple[Sampling, bool]:
    method = draw.choice(("none", "poisson", "fixed-size"))
    if method == "none":
        return Sampling(), False
    by: Any = "shared-secret" if honest else draw.choice(("shared-secret", "server", "silos"))
    knows = not honest and draw.random() < 0.5
    if method == "poisson":
        return Sampling("poisson", unit, draw.choice((0.25, 0.5, 0.75)), by), knows
    batch = draw.randint(1, users)
    return Sampling("fixed-size", unit, batch / users, by, batch, users), knows


def _protocol(draw: random.Random, users: int, most: int, told: int) -> Security | None:
    if draw.random() < 0.5:
        return None
    fewest = max(min(draw.randint(2, users), most), 1)
    keys = draw.choice((0, 256))
    return Security("shuffler", users, fewest, key_bits=keys, colluders=told)


def _knows(sampling: Sampling, observer: str, known: int) -> bool:
    """Return whether an observer knows who was drawn whatever is stated."""
    if sampling.method == "none":
        return False
    if sampling.drawn_by == "server":
        return observer != "model" or known > 0
    return observer not in ("model", "analyzer", "server") or known > 0


def lowered(seed: int) -> str:
    case = messages(seed)
    neighbours = case.setting.neighbours
    if isinstance(case.event, ev.NoGuarantee):
        return ""
    true = [delta_of(case.world, neighbours, order) for order in ORDERS]
    if not below(true, case.event, neighbours, case.setting.group):
        return ""
    least = promised(case.event, neighbours, case.setting.group)
    return f"{seed}: {case.observer} {case.event}: {true} beside {least}; {case.world}"


@for_each("seeds", sweep(SEEDS, quick=1), ids=str, items=4)
def test_no_number_of_messages_is_below_the_exact_one(seeds: range) -> None:
    assert not "\n".join(filter(None, map(lowered, seeds)))


def test_the_search_of_messages_meets_what_it_is_for() -> None:
    """Rounds whose number counts on a mix, or on a sample of one, and those that have none."""
    events = [repr(messages(seed).event) for seed in range(400)]
    assert sum("Shuffle(" in event for event in events) > 80
    assert sum("Poisson(" in event or "FixedSize(" in event for event in events) > 20
    assert sum("NoGuarantee" in event for event in events) < 200
    summed = [repr(sums(seed).event) for seed in range(400)]
    assert sum("NoGuarantee" in event for event in summed) < 320
    assert sum("Poisson(" in event for event in summed) > 8


# --- numbers with Gaussian noise ------------------------------------------------------------------


@for_each("neighbours", ["replace-one", "zero-out"])
@for_each(
    ("users", "batch"), sweep([(n, b) for n in (3, 2, 4, 6) for b in range(1, n + 1)], quick=2)
)
@for_each("sees", ["sum", "sum-less-own"])
def test_a_sum_of_messages_of_a_sample_is_no_less_than_exact(
    users: int, batch: int, sees: Any, neighbours: Any
) -> None:
    """Of some numbers in [-1, 1], with noise of 2 each, a hidden batch is summed."""
    deviation = 2.0
    shares = max(batch, 2)
    facts = RoundFacts(
        Contribution(1.0, "l2", "user", "message"),
        Noise("gaussian", deviation * math.sqrt(shares), shares, deviation),
        Weights(),
        Sampling("fixed-size", "user", batch / users, "shared-secret", batch, users),
        0.0,
        ev.Gaussian(1.0),
        *(shares, 1, 1, shares),
        single=False,
        reaches=(("model", Reach(sees)),),
        width=1,
    )
    setting = RunSetting("user", neighbours, 1, 1, "plain", False, users)
    event = supported(facts, setting, "model")
    pairs = [(1.0, -1.0)] if neighbours == "replace-one" else [(1.0, 0.0)]
    true = [
        max(
            mixture_delta(_summed(*law, deviation), _summed(*beside, deviation), order, 1000)
            for here, there in pairs
            for ones in range(users)
            for law, beside in itertools.permutations(
                [(here, ones, users, batch), (there, ones, users, batch)]
            )
        )
        for order in ORDERS[1:3]
    ]
    least = promised(event, neighbours)[1:3]
    assert all(t <= p * (1 + 1e-9) + 1e-12 for t, p in zip(true, least, strict=True))


def _summed(
    value: float, ones: int, users: int, batch: int, deviation: float
) -> list[tuple[float, float, float]]:
    """Return the law of a sum of the unit's number and others' at 1 or -1, of a hidden batch."""
    values = [value] + [1.0] * ones + [-1.0] * (users - 1 - ones)
    spread = deviation * math.sqrt(batch)
    means = [sum(sample) for sample in itertools.combinations(values, batch)]
    return [(means.count(mean) / len(means), mean, spread) for mean in sorted(set(means))]


@dataclass(frozen=True)
class Sums:
    """One sum of silos' terms with shares of the noise, as it is stated; all of it is true."""

    facts: RoundFacts
    setting: RunSetting
    observer: str

    @property
    def event(self) -> ev.Event:
        return supported(self.facts, self.setting, self.observer)


def sums(seed: int) -> Sums:
    """Return a sum of two to six silos, and one observer of it."""
    draw = random.Random(seed)
    silos = draw.randint(2, 6)
    lost = draw.choice((0, 0, 1)) if silos > 3 else 0
    told = draw.choice((0, 0, 1, 2))
    share = draw.choice((0.7, 1.5, 3.0))
    terms: Any = draw.choice(("unit", "unit", "unit", "silo-delta"))
    rule: Any = draw.choice(("none", "uniform", "records"))
    by: Any = draw.choice(("server", "shared-secret"))
    drawn = draw.random() < 0.4
    rate = draw.choice((0.1, 0.5))
    sees: Any = draw.choice(("sum", "each", "sum-less-own", "one-share", "nothing"))
    reach = Reach(
        sees,
        holds=draw.choice(("nothing", "nothing", "part")),  # type: ignore[arg-type]
        colluders=told,
        dropouts=lost + draw.choice((0, 0, 1)),
        knows_sample=drawn and draw.random() < 0.3,
    )
    observer = draw.choice(("server", "silo", "client", "coordinator", "model", "peer"))
    aggregation = draw.choice(("plain", "masked", "shares"))
    fewest = silos - lost
    security = None
    if aggregation == "masked":
        borne = min(told, max(fewest - 2, 0))
        security = Security(
            *("pairwise-masks", silos, fewest, fewest, silos - 1, 64), colluders=borne
        )
    elif aggregation == "shares":
        security = Security("additive-shares", silos, silos, ring_bits=64, colluders=told)
    facts = RoundFacts(
        Contribution(1.0, "l2", "user", terms),
        Noise("gaussian", share * math.sqrt(fewest), silos, share, lost),
        Weights(rule),
        Sampling("poisson", "user", rate, by) if drawn else Sampling(),
        0.0,
        ev.Gaussian(1.0),
        *(fewest, 1, 1, silos),
        single=draw.random() < 0.3,
        reaches=((observer, reach),),
        width=1,
    )
    neighbours: Any = draw.choice(("add-remove", "replace-one", "zero-out"))
    setting = RunSetting("user", neighbours, 1, silos, aggregation, False, 50, None, security)
    return Sums(facts, setting, observer)


def exact(case: Sums, order: float) -> float:
    """Return delta over the silos in which the unit may lie: none that is known, or missing."""
    (_, reach), *_ = case.facts.reaches or ()
    known = reach.colluders + (reach.sees == "sum-less-own")
    spread = range(1, case.setting.silos - known + 1)
    shifts = [_shift(case, reach, holders, known) for holders in spread]
    return max((_on_sample(case, reach, shift, order) for shift in shifts if shift), default=0.0)


def _shift(case: Sums, reach: Reach, holders: int, known: int) -> float:
    """Return how far the unit moves what is seen, in deviations; 0 where no noise is left."""
    facts, silos = case.facts, case.setting.silos
    apart = facts.contribution.terms == "silo-delta"  # which may point elsewhere
    term = 2.0 if case.setting.neighbours == "replace-one" or apart else 1.0
    if not apart and facts.weights.rule != "none":
        term /= silos if facts.weights.rule == "uniform" else holders
    left = silos - known - min(reach.dropouts, silos - known - holders)
    if left < 1:
        return 0.0
    if reach.sees == "each":
        return term * math.sqrt(holders) / facts.noise.share_std
    shares = 1 if reach.sees == "one-share" else left
    return term * holders / (facts.noise.share_std * math.sqrt(shares))


def _on_sample(case: Sums, reach: Reach, shift: float, order: float) -> float:
    drawn, rate = case.facts.sampling, case.facts.sampling.rate
    if drawn.method == "none":
        return gaussian_delta(shift, order)
    trains = case.observer in ("silo", "client", "peer")
    if reach.knows_sample or (drawn.drawn_by == "shared-secret" and trains):
        return rate * gaussian_delta(shift, order)
    out, there = [(1 - rate, 0.0, 1.0)], [(rate, shift, 1.0)]
    if case.setting.neighbours == "replace-one" and case.facts.contribution.terms == "unit":
        sides = [[*out, (rate, side * shift / 2, 1.0)] for side in (1, -1)]
        return mixture_delta(*sides, order, 400)
    pair = [*out, *there], [(1.0, 0.0, 1.0)]
    return max(mixture_delta(*pair, order, 400), mixture_delta(*reversed(pair), order, 400))


def shifted(seed: int) -> str:
    """Return what is wrong with the number of a random sum, or nothing."""
    case = sums(seed)
    if isinstance(case.event, ev.NoGuarantee):
        return ""
    true = [exact(case, order) for order in ORDERS]
    if not below(true, case.event, case.setting.neighbours):
        return ""
    least = promised(case.event, case.setting.neighbours)
    return f"{seed}: {case.event}: {true} beside {least}; {case}"


@for_each("seeds", sweep(SEEDS, quick=1), ids=str, items=4)
def test_no_number_of_a_sum_is_below_the_exact_one(seeds: range) -> None:
    assert not "\n".join(filter(None, map(shifted, seeds)))
