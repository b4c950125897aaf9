"""Logs of rounds in which every user sends messages of its own through a shuffler."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from privplan.accountant import events as ev
from privplan.accountant.records import (
    Claim,
    Contribution,
    Noise,
    Planned,
    Population,
    Reach,
    RoundIntent,
    RunClose,
    RunOpen,
    Security,
    Weights,
)

from .ledgers import SECURE, Records, release

FLAME_DELTA = 0.01 / 1000**1.1
DOUBLE = Reach(
    "shuffled",
    users=1000,
    dimensions=7850,
    chosen=157,
    padded_to=333,
    granularity="coordinate",
    selection="oblivious",
    overflow="refuse",
)
"""FLAME's Double as printed: 157 of 7,850 coordinates, each padded to 333 messages."""

SMALL = replace(DOUBLE, users=100, dimensions=60, chosen=6, padded_to=40)


def mixing(users: int, *, fewest: int = 0, colluders: int = 0, key_bits: int = 0) -> Security:
    """Return the facts of a shuffler that mixes the messages of so many users."""
    return Security("shuffler", users, fewest or users, key_bits=key_bits, colluders=colluders)


def sent(
    reaches: dict[str, Reach] | None,
    *,
    users: int = 1000,
    scale: float = 4.0,
    bound: float = 1.0,
    family: str = "laplace",
    norm: str = "l1",
    event: ev.Event | None = None,
    values: int = 7850,
    rounds: int = 1,
    neighbours: str = "replace-one",
    security: Security | None = None,
    aggregation: str = "shuffle",
    delta: float = FLAME_DELTA,
    views: dict[str, ev.Event] | None = None,
    terms: str = "message",
    **intent: Any,
) -> Records:
    """Return the log of a run that promises no number, in which each user sends messages.

    Without `event` it states hardly any loss, so that what the facts prove is the worse.
    """
    noise = intent.pop("noise", Noise(family, scale, grid=2.0**-24))  # type: ignore[arg-type]
    stated = event or ev.Pure(1e-9)
    own = RoundIntent(
        1,
        "train",
        stated,
        Contribution(bound, norm, "user", terms),  # type: ignore[arg-type]
        noise,
        (2.0 if neighbours == "replace-one" else 1.0) * bound,
        Weights(),
        views=views or {},
        reaches=reaches,
        **intent,
    )
    opened = RunOpen(
        "run-1",
        "messages",
        Claim("user", neighbours, delta, None),  # type: ignore[arg-type]
        Planned(rounds, {"model": ev.Repeat(rounds, stated)}),
        Population(users, 1),
        SECURE,
        aggregation,  # type: ignore[arg-type]
        security,
    )
    records: Records = [opened]
    for number in range(1, rounds + 1):
        records.append(replace(own, round=number))
        records.append(
            replace(release(number, len(records) - 1, noise), values=values, normaliser=None)
        )
    records.append(
        RunClose(rounds, "finished", opened.plan.events, {"model": math.inf}, delta, "pld")
    )
    return records
