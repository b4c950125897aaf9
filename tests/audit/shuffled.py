"""Logs with shuffled messages, and the enumeration of a small shuffle."""

from __future__ import annotations

from typing import Any, Final

from privplan.accountant import events as ev
from privplan.accountant.records import Reach

from .ledgers import Records, audited, evidence
from .shuffling import SMALL, mixing, sent

EACH: Final = Reach("each", knows_sample=True, selection="oblivious")


NAMES: Final = {
    *("reach-contradicted", "reach-missing", "reach-assumed", "visible-messages"),
    *("protocol-mismatch", "missing-protocol"),
}


def hazards(records: Records) -> set[str]:
    return {hazard.id for hazard in audited(records).hazards} & NAMES


def supported(records: Records, observer: str) -> ev.Event:
    found = evidence(records)
    (kind,) = found.kinds
    return found.seen(kind, observer).supported


def small(reaches: dict[str, Reach] | None = None, **given: Any) -> Records:
    told = {"model": Reach("sum"), "analyzer": SMALL, "shuffler": EACH}
    fields = {"users": 100, "values": 60, "security": mixing(100), "delta": 1e-4, **given}
    return sent(told | (reaches or {}), **fields)
