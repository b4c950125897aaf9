"""Canaries for one noisy Gram matrix: those of private statistics, of rows without labels.

A row of norm R attains the bound, R^2, in a plane of two columns that are its alone.  Of data whose
columns the configuration does not fix, releases of `USUAL_COLUMNS` are rehearsed: a bound does not
depend on them.  What such canaries do not find is not excluded (`fl.statistics.canaries`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..canaries import CanaryObservations, RehearsalRequest
from ..statistics.canaries import releases_work, simulate_releases
from ..tables.record_shape import shape_in
from .gram_terms import gram_settings
from .settings import FedPowerSettings

if TYPE_CHECKING:
    from ..settings.schema import Settings

USUAL_COLUMNS: Final = 64
"""Columns of a release that is rehearsed, where the configuration does not fix them."""


def simulate(request: RehearsalRequest) -> CanaryObservations:
    """Return what an observer sees of units that are in or out, in releases of a Gram matrix.

    A carrier; raises as `fl.statistics.canaries.simulate`.
    """
    table, features = (
        gram_settings(request.settings.of(FedPowerSettings)),
        _columns(request.settings),
    )
    # Records have labels, of which nothing is released.
    return simulate_releases(request, table, features=features, classes=2)


def work(settings: Settings, silos: int, canaries: int) -> int:
    """Return the work of all releases, as `fl.canaries.rehearsal_cost.Work` says."""
    table, features = gram_settings(settings.of(FedPowerSettings)), _columns(settings)
    return releases_work(settings, table, silos, canaries, features=features, classes=0)


def _columns(settings: Settings) -> int:
    shape = shape_in(settings.data)
    # Fewer columns than directions are refused, whatever is released.
    most = max(USUAL_COLUMNS, settings.of(FedPowerSettings).columns)
    return most if shape is None else shape[0]
