"""Of which release a sealed item is: what its committed value says itself.

    value  =  what was sealed of the noise, and {format, run, intent, aggregate}

A commitment alone says that an item was not changed, not that it belongs where it stands.  One that
names the run, the `seq` of its intent and the digest of the noisy sum fits nowhere else.  Whoever
owns the run can still make an item anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

KEY: Final = "release"
"""The field of a sealed value that says of which release it is; earlier versions had none."""

FORMAT: Final = 2
"""Changes when what stands under `KEY` does."""


def of_release(run_id: str, intent: int, aggregate: str | None) -> dict[str, object]:
    """Return what a sealed value says of its release; all of it stands in the log as well."""
    return {"format": FORMAT, "run": run_id, "intent": intent, "aggregate": aggregate}


def bound(
    items: Mapping[str, object], run_id: str, intent: int, aggregate: str | None
) -> dict[str, object]:
    """Return sealed items of which every one that is an object says of which release it is."""
    # Inside the committed value: it cannot be moved to another release and still open.
    release = of_release(run_id, intent, aggregate)
    return {
        name: {**value, KEY: release} if isinstance(value, Mapping) else value
        for name, value in items.items()
    }


def is_foreign(value: object, run_id: str, intent: int, aggregate: str | None) -> bool:
    """Return whether a sealed value says that it is of another release than this one."""
    # Items of earlier versions state nothing: they are not foreign, only unbound.
    stated = value.get(KEY) if isinstance(value, Mapping) else None
    return stated is not None and stated != of_release(run_id, intent, aggregate)


def is_bound(value: object) -> bool:
    """Return whether a sealed value says of which release it is."""
    return isinstance(value, Mapping) and KEY in value


def intent_of(value: object, run_id: str) -> int | None:
    """Return of which intent of a run a sealed value says that it is; None where it does not."""
    stated = value.get(KEY) if isinstance(value, Mapping) else None
    if not isinstance(stated, Mapping) or stated.get("run") != run_id:
        return None
    intent = stated.get("intent")
    return intent if type(intent) is int else None
