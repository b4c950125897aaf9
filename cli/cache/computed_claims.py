"""Keeps the computed table of claims between runs; see `store`."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, cast

from . import store

if TYPE_CHECKING:
    from ...accountant.claims.table import Claim, Noise

LIBRARIES: Final = ("numpy", "scipy")


def recall(system: str, version: str | None) -> tuple[Claim, ...] | None:
    """Return the claims of a system that code of this version computed, or None."""
    from ...accountant.claims.table import Claim

    try:
        rows = cast("list[dict[str, Any]]", store.read(f"claims-{system}", version, "claims"))
        return tuple(Claim(**row) for row in rows)
    except Exception:  # whatever is wrong with a cache, the answer is to compute
        return None


def keep(system: str, claims: Sequence[Claim], version: str | None) -> None:
    """Keep the claims of a system; do nothing if that fails.

    `version` is what it was before the code was loaded that computed them; if the source files
    have changed since, nobody knows which code it was, and nothing is kept.
    """
    with contextlib.suppress(Exception):
        # The code may have been edited while it computed; then the version says nothing of it.
        if current() == version:
            rows = [asdict(claim) for claim in claims]
            store.write(f"claims-{system}", version, "claims", rows)


def recall_noise(system: str, version: str | None) -> tuple[Noise, ...] | None:
    """Return the noise of a system that code of this version computed, or None."""
    from ...accountant.claims.table import Noise

    try:
        lines = cast("list[dict[str, Any]]", store.read(f"noise-{system}", version, "noise"))
        return tuple(Noise(**line) for line in lines)
    except Exception:  # whatever is wrong with a cache, the answer is to compute
        return None


def keep_noise(system: str, lines: Sequence[Noise], version: str | None) -> None:
    """Keep the noise of a system as `keep` does its claims."""
    with contextlib.suppress(Exception):
        if current() == version:
            store.write(f"noise-{system}", version, "noise", [asdict(line) for line in lines])


def current() -> str | None:
    """Return a digest of all that the numbers depend on; None if it cannot be told."""
    from ... import accountant

    return store.version_of([accountant], LIBRARIES)
