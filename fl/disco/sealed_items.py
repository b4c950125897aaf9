"""What DISCO's peers release beside a model, and which items each release seals: public facts."""

from __future__ import annotations

from collections.abc import Mapping

from ..declarations.declaration import TRAIN, Read
from ..declarations.sealed_items import NOISE, NORMS
from .settings import AS_PUBLISHED_NOISE, COUNT_PHASE, QUANTILE


def sealed(read: Read) -> Mapping[str, tuple[str, ...]]:
    """Return what is sealed of every sum of updates, and of every count.

    Noise as published is scaled by what it is to hide: there is no stated noise to compare it with.
    """
    if read("disco", "noise") == AS_PUBLISHED_NOISE:
        return {TRAIN: NORMS}
    items = {TRAIN: (*NORMS, *NOISE)}
    return {COUNT_PHASE: NOISE, **items} if read("disco", "clip") == QUANTILE else items


def beside(read: Read) -> tuple[str, ...]:
    """Return what a round releases beside its model: the count that moves the clip."""
    return (COUNT_PHASE,) if read("disco", "clip") == QUANTILE else ()
