"""Logs with protocols, and what is asked of them."""

from __future__ import annotations

import math
from typing import Any

from privplan.accountant import events as ev

from .ledgers import SIGMA, Change, Records, audited, evidence, opening, part, weighted

TRANSFER = "oblivious-transfer"


OBSERVERS = ("model", "server", "silo", "silo-with-records")


def private(rounds: int = 20, **options: Any) -> Records:
    return weighted(rounds, rule="records", aggregation="private-weighting", **options)


def security(**fields: object) -> Change:
    return opening(security=part(**fields))


def hazards(records: Records) -> dict[str, str]:
    return {hazard.id: hazard.severity for hazard in audited(records).hazards}


def supported(records: Records, observer: str) -> ev.Event:
    """Return what the facts of a round support, whatever is stated."""
    own = evidence(records)
    return own.seen(own.kinds[0], observer).supported


# --- who sees what ------------------------------------------------------------------------------

SUM, SAMPLED = ev.Gaussian(SIGMA), ev.Poisson(0.1, ev.Gaussian(SIGMA))


def close(left: ev.Event, right: ev.Event) -> bool:
    """Return whether events are of one shape and nearly of one noise."""
    if isinstance(left, ev.NoGuarantee):
        return left == right
    if isinstance(left, ev.Poisson) and isinstance(right, ev.Poisson):
        return left.rate == right.rate and close(left.event, right.event)
    both = isinstance(left, ev.Gaussian) and isinstance(right, ev.Gaussian)
    return both and math.isclose(left.noise_multiplier, right.noise_multiplier, rel_tol=1e-9)  # type: ignore[attr-defined]
