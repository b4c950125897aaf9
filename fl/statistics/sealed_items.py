"""Which items a release of private statistics seals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..declarations.declaration import Read
from ..declarations.sealed_items import NOISE, RELEASE

ROWS: Final = "rows"
CLIPPED: Final = "clipped"
DROPPED: Final = "dropped"
BEYOND: Final = "rows_beyond"
"""By silo, the rows that are there, those longer than the row norm, and those beyond the cap of
their unit; and how many more rows than `most_rows` all silos have."""


def of_statistics(_: Read) -> Mapping[str, tuple[str, ...]]:
    """Return what the release seals, whatever the configuration says."""
    return {RELEASE: (*NOISE, ROWS, CLIPPED, DROPPED, BEYOND)}
