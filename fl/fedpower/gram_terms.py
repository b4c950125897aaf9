"""The public facts of one Gram release, from the table `[fedpower]`, for a run and an audit."""

from __future__ import annotations

from ...accountant.errors import InvalidInput
from ..statistics.run_terms import RunTerms
from ..statistics.settings import StatisticsSettings
from .settings import FedPowerSettings


def gram_settings(table: FedPowerSettings) -> StatisticsSettings:
    """Return the settings of private statistics that release the Gram matrix alone."""
    return StatisticsSettings(
        row_norm=table.row_norm,
        intercept=0.0,
        silo_rows=table.silo_rows,
        most_rows=table.most_rows,
        fit="none",
    )


def gram_terms(
    table: FedPowerSettings,
    *,
    unit: str,
    relation: str,
    dimension: int,
    users: int,
    silos: int,
    dropouts: int = 0,
) -> RunTerms:
    """Return what decides one Gram release of rows of `dimension` columns, without labels.

    Raises `InvalidInput` for more directions than columns, and as `RunTerms`.
    """
    require_directions(table, dimension)
    return RunTerms(
        settings=gram_settings(table),
        unit=unit,
        relation=relation,
        features=dimension,
        classes=0,
        users=users,
        silos=silos,
        dropouts=dropouts,
    )


def require_directions(table: FedPowerSettings, dimension: int) -> None:
    """Raise `InvalidInput` for more columns of an iterate than the data have."""
    if table.columns <= dimension:
        return
    extra = table.oversampling
    raise InvalidInput(
        f"`rank` is {table.rank:,}"
        + (f" and `oversampling` {extra:,}" if extra else "")
        + f"; the data have {dimension:,} columns.",
        "There are no more directions than columns.",
        "Lower them in [fedpower].",
    )
