"""Which items the releases of DELM's systems seal, by phase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..declarations.declaration import TRAIN, Read
from ..declarations.sealed_items import NOISE, RECOMPUTED, RELEASE
from ..statistics.sealed_items import BEYOND, CLIPPED, DROPPED, ROWS, of_statistics
from .settings import LINEAR_MODELS, NO_PCA, ONCE, WISHART

COEFFICIENTS: Final = "coefficients"
"""`fl.delm.linear.COEFFICIENTS`, which loads numpy."""

PCA: Final = "pca"
"""`fl.delm.pca_terms.PCA`, which loads numpy."""


def of_linear(read: Read) -> Mapping[str, tuple[str, ...]]:
    """Return what `delm-linear` seals."""
    return {COEFFICIENTS: of_statistics(read)[RELEASE]}


def of_schemes(read: Read) -> Mapping[str, tuple[str, ...]]:
    """Return what the published schemes seal: of a model that is not linear, nothing."""
    linear = read("training", "model") in LINEAR_MODELS
    items = {rounds_phase(read): of_statistics(read)[RELEASE] if linear else ()}
    if read("delm", "pca") == NO_PCA:
        return items
    about_noise = (RECOMPUTED,) if read("delm", "pca") == WISHART else NOISE
    return {PCA: (*about_noise, ROWS, CLIPPED, DROPPED, BEYOND), **items}


def phases_of(read: Read) -> tuple[str, ...]:
    """Return the phases of the published schemes, in their order."""
    rounds = rounds_phase(read)
    return (rounds,) if read("delm", "pca") == NO_PCA else (PCA, rounds)


def rounds_phase(read: Read) -> str:
    """Return the phase of the training."""
    return COEFFICIENTS if read("delm", "objective") == ONCE else TRAIN
