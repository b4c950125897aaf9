"""Which items each release of Uldp-FL's systems seals, as the configuration alone decides it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..declarations.declaration import TRAIN, Read
from ..declarations.sealed_items import NOISE, NORMS

_JOINED_USERS: Final = "joined"


def of_naive(_: Read) -> Mapping[str, tuple[str, ...]]:
    """Return what ULDP-NAIVE seals."""
    return {TRAIN: (*NORMS, *NOISE)}


def of_group(_: Read) -> Mapping[str, tuple[str, ...]]:
    """Return what ULDP-GROUP seals."""
    return {TRAIN: (*NOISE, "taking_part")}


def of_weighted(read: Read) -> Mapping[str, tuple[str, ...]]:
    """Return what ULDP-AVG and ULDP-SGD seal: who joined, where a party draws that."""
    if read("security", "aggregation") != "private-weighting":
        return {TRAIN: (*NORMS, *NOISE, _JOINED_USERS)}
    if read("uldp", "as_published"):
        return {TRAIN: (*NORMS, _JOINED_USERS)}
    drawn = read("privacy", "sampling_rate") < 1.0 and read("security", "slots") is None
    return {TRAIN: (*NORMS, *NOISE, _JOINED_USERS) if drawn else (*NORMS, *NOISE)}
