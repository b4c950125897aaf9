"""Logs of runs that release products A^T A Z: by the mechanism itself, through its gate."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.mechanisms import Gate, NoisyProduct, RoundDescription
from privplan.accountant.odometer import Odometer
from privplan.accountant.randomness import Streams
from privplan.accountant.sensitivity.product import ProductBound
from privplan.accountant.sensitivity.release import up

from .grams import Kept, security
from .ledgers import DELTA, SECURE, Records, epsilon, masks

SIGMA = 5.0

_BOUND = ("dimension", "rank", "row_norm", "divisor", "unit", "rows", "largest_change")


def noisy(
    relation: str = "add-remove", *, sigma: float = SIGMA, shares: int = 5, **changes: Any
) -> NoisyProduct:
    """Return the mechanism of five silos that share the noise, changed as asked."""
    bound = {"dimension": 6, "rank": 3, "row_norm": 2.0, "divisor": 10.0}
    bound |= {name: changes.pop(name) for name in _BOUND if name in changes}
    return NoisyProduct.with_multiplier(
        sigma,
        product=ProductBound(**bound),
        relation=relation,
        most_rows=1000,
        shares=shares,
        **changes,
    )


def event_of_shares(mechanism: NoisyProduct, relation: str, shares: int) -> ev.Event:
    """Return the event of a sum with so many shares, by the formula, a little too weak."""
    times = 2.0 if relation == "replace-one" else 1.0
    variance = mechanism.share_std**2 - 64.0 * mechanism.grid**2
    moved = mechanism.sensitivity(relation)
    return ev.Gaussian(times * math.sqrt(variance * shares) / moved * (1 - 1e-12))


def views_of(
    mechanism: NoisyProduct, relation: str, aggregation: str, colluders: int
) -> dict[str, ev.Event]:
    """Return what each observer sees beside the model, where all noise stays."""
    silos = mechanism.shares
    sure = silos - mechanism.tolerated_dropouts
    seen = {"server": event_of_shares(mechanism, relation, 1 if aggregation == "plain" else sure)}
    if silos > 1:
        seen |= dict.fromkeys(("silo", "client"), event_of_shares(mechanism, relation, sure - 1))
    if colluders:
        left = event_of_shares(mechanism, relation, sure - colluders)
        seen[f"server+{colluders}"] = left
    return seen


def product_log(
    mechanism: NoisyProduct,
    relation: str = "add-remove",
    *,
    unit: str | None = None,
    aggregation: str = "plain",
    colluders: int = 0,
    rounds: int = 2,
    views: dict[str, ev.Event] | None = None,
    model: ev.Event | None = None,
    reaches: dict[str, records.Reach] | None = None,
    facts: records.Security | None = None,
) -> Records:
    """Return the log of a run that promises what is proven of the mechanism's own event.

    `views`, `model`, `reaches` and `facts` replace what the run states of its observers and of its
    protocol.
    """
    beside = views_of(mechanism, relation, aggregation, colluders) if views is None else views
    base = mechanism.event(relation)
    seen = {"model": base if model is None else model, **beside}
    whole: dict[str, ev.Event] = {name: ev.Repeat(rounds, event) for name, event in seen.items()}
    proven = {name: epsilon(event, relation) for name, event in whole.items()}
    own = security(aggregation, mechanism.shares, mechanism.tolerated_dropouts, colluders)
    opened = records.RunOpen(
        "run-1",
        "fedpower-power",
        records.Claim(unit or mechanism.product.unit, relation, DELTA, proven["model"]),  # type: ignore[arg-type]
        records.Planned(rounds, whole),
        records.Population(100, mechanism.shares, records=1000),
        SECURE,
        aggregation=aggregation,  # type: ignore[arg-type]
        security=own if facts is None else facts,
    )
    kept = Kept(opened)
    odometer = Odometer(1e6, DELTA, relation, unit=opened.claim.unit, currency="rdp", like=base)
    gate = Gate(odometer, kept, Streams.seeded(1))
    values = mechanism.product.values
    for number in range(1, rounds + 1):
        about = RoundDescription(number, "release", views=beside)
        with gate.open(mechanism.intent(about, relation)) as ticket:
            released = np.zeros(values, np.int64)
            for silo in range(mechanism.shares):
                total = np.zeros(values, np.int64)
                released += mechanism.share_steps(ticket, total, f"noise/{silo}")
            ticket.close(
                aggregate=released.tobytes(),
                values=values,
                normaliser=records.Normaliser("constant", mechanism.product.divisor),
            )
    kept.append(records.RunClose(rounds, "finished", whole, proven, DELTA, "gdp"))
    return [
        replace(each, event=seen["model"], reaches=reaches)
        if isinstance(each, records.RoundIntent)
        else each
        for each in kept.records
    ]


def removal(parties: int, colluders: int = 0, key_bits: int = 3072) -> records.Security:
    """Return the facts of masked sums from which noise is taken off under a Paillier key."""
    return replace(masks(parties, parties, colluders), key_bits=key_bits)


RESTS_ON = (
    "the server follows the protocol: it draws anew, evenly, whose noise stays, and tells nobody",
)


def utility_log(
    mechanism: NoisyProduct,
    relation: str = "add-remove",
    *,
    colluders: int = 0,
    rounds: int = 2,
    key_bits: int = 3072,
) -> Records:
    """Return the log of Algorithm 2: the noise of one silo stays, of those that all have added."""
    once = event_of_shares(mechanism, relation, 1)

    def known(count: int) -> ev.Event:
        exact = ev.Approximate(0.0, up(Fraction(count, mechanism.shares)))
        return ev.Compose((once, exact))

    views = {"server": once, "silo": known(1), "client": known(1)}
    if colluders:
        views[f"server+{colluders}"] = known(colluders)
    told = dict.fromkeys(("model", "server", "silo", "client"), 0)
    if colluders:
        told[f"server+{colluders}"] = colluders
    reaches = {
        name: records.Reach("one-share", colluders=count, rests_on=RESTS_ON)
        for name, count in told.items()
    }
    return product_log(
        mechanism,
        relation,
        aggregation="masked",
        rounds=rounds,
        views=views,
        model=once,
        reaches=reaches,
        facts=removal(mechanism.shares, colluders, key_bits),
    )
