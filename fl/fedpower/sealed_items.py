"""Which items a noisy product seals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..declarations.declaration import Read
from ..declarations.sealed_items import NOISE, RELEASE

ROWS: Final = "rows"
CLIPPED: Final = "clipped"
DROPPED: Final = "dropped"
"""By silo, the rows that are there, those longer than the row norm, and those beyond the cap of a
silo."""


def of_products(_: Read) -> Mapping[str, tuple[str, ...]]:
    """Return what each product seals, whatever the configuration says."""
    return {RELEASE: (*NOISE, ROWS, CLIPPED, DROPPED)}
