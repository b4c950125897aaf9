"""Logs of runs that release Gram matrices: by the mechanism itself, through its gate."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from privplan.accountant import events as ev
from privplan.accountant.mechanisms import Gate, RoundDescription
from privplan.accountant.mechanisms.gram_noise import NoisyGram
from privplan.accountant.odometer import Odometer
from privplan.accountant.randomness import Streams
from privplan.accountant.records import (
    Claim,
    Planned,
    Population,
    Record,
    RunClose,
    RunOpen,
    Security,
)
from privplan.accountant.sensitivity.gram import GramBound

from .ledgers import DELTA, SECURE, Records, epsilon, masks

SIGMA = 5.0


class Kept:
    """A recorder that keeps records in a list."""

    def __init__(self, *records: Record) -> None:
        self.records: Records = list(records)

    def append(self, record: Record) -> int:
        self.records.append(record)
        return len(self.records) - 1

    def seal(self, _: Mapping[str, object]) -> dict[str, str]:
        return {}

    def settle(self) -> None:
        pass


def gram(**facts: Any) -> GramBound:
    """Return the facts of a small matrix with three classes, changed as asked."""
    return GramBound(**{"dimension": 6, "classes": 3, **facts})


def noisy(relation: str = "add-remove", *, sigma: float = SIGMA, **changes: Any) -> NoisyGram:
    """Return the mechanism of five silos that share the noise, changed as asked."""
    facts = {
        name: changes.pop(name)
        for name in ("dimension", "classes", "label_weight", "rows", "trace", "by_class")
        if name in changes
    }
    given = {"gram": gram(**facts), "bits": 17, "shares": 5, "relation": relation, **changes}
    return NoisyGram.with_multiplier(sigma, **given)


def event_of_shares(
    mechanism: NoisyGram, relation: str, shares: int, *, apart: bool = False
) -> ev.Event:
    """Return the event of a sum with so many shares, by the formula, a little too weak.

    `apart`: each silo's sum is seen, where a unit that is replaced may go from one to another.
    """
    times = 2.0 if relation == "replace-one" else 1.0
    moved = mechanism.sensitivity(relation)
    if apart and relation == "replace-one":
        both = 2.0 if mechanism.family == "laplace" else math.sqrt(2.0)
        moved = max(moved, both * mechanism.sensitivity("add-remove"))
    if mechanism.family == "laplace":
        return ev.Laplace(times * mechanism.std / moved * (1 - 1e-12))
    variance = mechanism.share_std**2 - 64.0 * mechanism.grid**2
    return ev.Gaussian(times * math.sqrt(variance * shares) / moved * (1 - 1e-12))


def views(
    mechanism: NoisyGram, relation: str, *, silos: int, aggregation: str, colluders: int
) -> dict[str, ev.Event]:
    """Return what each observer sees beside the model."""
    sure = mechanism.shares - mechanism.tolerated_dropouts

    def of(shares: int, *, apart: bool = False) -> ev.Event:
        return event_of_shares(mechanism, relation, shares, apart=apart)

    apart = aggregation == "plain"
    seen = {} if aggregation == "shares" else {"server": of(1 if apart else sure, apart=apart)}
    if silos > 1:
        seen["peer" if aggregation == "shares" else "silo"] = of(sure - 1)
    if colluders:
        for name in (f"server+{colluders}", f"server+{colluders}-with-records"):
            seen[name] = of(sure - colluders)
    return seen


def security(aggregation: str, silos: int, dropouts: int, colluders: int) -> Security | None:
    """Return the facts of a protocol that fits."""
    if aggregation == "masked":
        return masks(silos, silos - dropouts, colluders)
    if aggregation == "shares":
        return Security("additive-shares", silos, silos, ring_bits=64)
    return None


def gram_log(
    mechanism: NoisyGram,
    relation: str = "add-remove",
    *,
    unit: str | None = None,
    aggregation: str = "plain",
    colluders: int = 0,
    rounds: int = 1,
    group: int = 1,
    seed: int = 1,
) -> Records:
    """Return the log of a run that promises what is proven of the mechanism's own event."""
    options = (unit, aggregation, colluders, rounds, group, seed)
    return list(_made_once(mechanism, relation, *options))


@functools.cache
def _made_once(
    mechanism: NoisyGram,
    relation: str,
    unit: str | None,
    aggregation: str,
    colluders: int,
    rounds: int,
    group: int,
    seed: int,
) -> Records:
    silos, promised = mechanism.shares, unit or mechanism.unit
    beside = views(mechanism, relation, silos=silos, aggregation=aggregation, colluders=colluders)
    seen = {"model": mechanism.event(relation), **beside}
    whole: dict[str, ev.Event] = {name: ev.Repeat(rounds, event) for name, event in seen.items()}
    if group > 1:
        whole = {name: ev.Group(group, event) for name, event in whole.items()}
    proven = {name: epsilon(event, relation) for name, event in whole.items()}
    opened = RunOpen(
        "run-1",
        "statistics",
        Claim(promised, relation, DELTA, proven["model"], "model", group),  # type: ignore[arg-type]
        Planned(rounds, whole),
        Population(100, silos, records=1000),
        SECURE,
        aggregation=aggregation,  # type: ignore[arg-type]
        security=security(aggregation, silos, mechanism.tolerated_dropouts, colluders),
    )
    kept = Kept(opened)
    event = mechanism.event(relation)
    odometer = Odometer(1e6, DELTA, relation, unit=promised, currency="rdp", like=event)
    gate = Gate(odometer, kept, Streams.seeded(seed))
    for number in range(1, rounds + 1):
        about = RoundDescription(number, "release", views=beside)
        with gate.open(mechanism.intent(about, relation)) as ticket:
            released = np.zeros(mechanism.gram.values, np.int64)
            for silo in range(silos):
                total = np.zeros(mechanism.gram.values, np.int64)
                released += mechanism.share_steps(ticket, total, f"noise/{silo}")
            ticket.close(aggregate=released.tobytes(), values=released.size)
    kept.append(RunClose(rounds, "finished", whole, proven, DELTA, "gdp"))
    return kept.records
