"""Which design a run of `fedpower` has, from its configuration and the number of columns."""

from __future__ import annotations

from typing import Final

from ...accountant.sensitivity.gram import MAX_DIMENSION
from ..frame.design import Design
from .settings import FedPowerSettings

ONE_SHOT: Final = "one-shot"
POWER: Final = "power"


def chosen_design(table: FedPowerSettings, *, unit: str, dimension: int) -> Design:
    """Return the design of a run whose data have `dimension` columns, and why.

    >>> table = FedPowerSettings(rank=5, row_norm=1.0)
    >>> chosen_design(table, unit="record", dimension=64).name
    'one-shot'
    >>> chosen_design(table, unit="record", dimension=7000).name
    'power'
    """
    values = dimension * (dimension + 1) // 2
    if table.design != "auto":
        return Design(table.design, f'design = "{table.design}" in [fedpower]')
    if unit == "entry":
        return Design(POWER, "a Gram release has no bound for entries")
    if values > table.most_values:
        return Design(
            POWER, f"a Gram matrix has {values:,} numbers, more than {table.most_values:,}"
        )
    if dimension > MAX_DIMENSION:
        return Design(POWER, f"a Gram matrix has at most {MAX_DIMENSION:,} columns")
    return Design(
        ONE_SHOT, f"a Gram matrix has {values:,} numbers, not more than {table.most_values:,}"
    )
