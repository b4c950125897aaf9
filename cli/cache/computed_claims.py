"""Keeps the computed table of claims between runs; see `store`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from . import store

if TYPE_CHECKING:
    from ...accountant.claims.table import Claim, Noise

LIBRARIES: Final = ("numpy", "scipy")


def recall(system: str, version: str | None) -> tuple[Claim, ...] | None:
    """Return the claims of a system that code of this version computed, or None."""
    from ...accountant.claims.table import Claim

    return store.recall(f"claims-{system}", version, "claims", Claim)


def keep(system: str, claims: Sequence[Claim], version: str | None) -> None:
    """Keep the claims of a system, as `store.keep` does."""
    store.keep(f"claims-{system}", version, "claims", claims, current)


def recall_noise(system: str, version: str | None) -> tuple[Noise, ...] | None:
    """Return the noise of a system that code of this version computed, or None."""
    from ...accountant.claims.table import Noise

    return store.recall(f"noise-{system}", version, "noise", Noise)


def keep_noise(system: str, lines: Sequence[Noise], version: str | None) -> None:
    """Keep the noise of a system, as `store.keep` does."""
    store.keep(f"noise-{system}", version, "noise", lines, current)


def current() -> str | None:
    """Return a digest of all that the numbers depend on; None if it cannot be told."""
    from ... import accountant

    return store.version_of([accountant], LIBRARIES)
