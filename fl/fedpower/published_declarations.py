"""The declarations of FedPower's three algorithms as they were published."""

from __future__ import annotations

from typing import Final

from ..declarations.declaration import Declaration

PUBLISHED_KEYS: Final = (
    "synchronise_every",
    "divide_by_rows",
    "entry_clip",
    "largest_element",
    "as_published",
)
"""Keys that only the published algorithms have a use for."""

PUBLISHED: Final[tuple[Declaration, ...]] = ()
