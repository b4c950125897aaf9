"""Canaries for a Gram release: of `fedpower-one-shot`, and of `fedpower` where it chooses that.

They are those of private statistics, of rows without labels.  A row of norm R attains the bound,
R^2, in a plane of two columns that are its alone.  Of data whose columns the configuration does not
fix, releases of `USUAL_COLUMNS` are rehearsed: a bound does not depend on them.  What such canaries
do not find is not excluded (`fl.statistics.canaries`).

A power iteration that `fedpower` chooses is refused: a rehearsal has other columns, for which
another design, or other rounds, would be chosen; `fedpower-power` is rehearsed by its own name.
"""

from __future__ import annotations

from typing import Final

from ...accountant.errors import Unsupported
from ..canaries import CanaryObservations, RehearsalRequest
from ..settings.schema import Settings
from ..statistics.canaries import releases_work, simulate_releases
from ..statistics.settings import ReleaseSettings
from ..tables.record_shape import shape_in
from .planner import ONE_SHOT, chosen_design
from .run_terms import gram_settings
from .settings import FedPowerSettings

USUAL_COLUMNS: Final = 64
"""Columns of a release that is rehearsed, where the configuration does not fix them."""


def simulate(request: RehearsalRequest) -> CanaryObservations:
    """Return what an observer sees of units that are in or out, in Gram releases.

    Raises `Unsupported` where the run is a power iteration, whose rounds follow from its data's
    columns, and as `simulate_one_shot`.
    """
    _require_one_shot(request.settings)
    return simulate_one_shot(request)


def work(settings: Settings, silos: int, canaries: int) -> int:
    """Return the work of all releases, as `fl.canaries.Work` says."""
    _require_one_shot(settings)
    return work_of_one_shot(settings, silos, canaries)


def simulate_one_shot(request: RehearsalRequest) -> CanaryObservations:
    """Return what an observer sees of units that are in or out, in releases of a Gram matrix.

    A carrier; raises as `fl.statistics.canaries.simulate`.
    """
    table, features = _release(request.settings)
    # Records have labels, of which nothing is released.
    return simulate_releases(request, table, features=features, classes=2)


def work_of_one_shot(settings: Settings, silos: int, canaries: int) -> int:
    """Return the work of all releases, as `fl.canaries.Work` says."""
    table, features = _release(settings)
    return releases_work(settings, table, silos, canaries, features=features, classes=0)


def _release(settings: Settings) -> tuple[ReleaseSettings, int]:
    """Return what a rehearsed release releases, and the columns of its data."""
    table, shape = settings.of(FedPowerSettings), shape_in(settings.data)
    # Fewer columns than directions are refused, whatever is released.
    usual = max(USUAL_COLUMNS, table.columns)
    return gram_settings(table), usual if shape is None else shape[0]


def _require_one_shot(settings: Settings) -> None:
    table, unit = settings.of(FedPowerSettings), settings.privacy.unit or "record"
    columns = max(_release(settings)[1], table.columns)
    if chosen_design(table, unit=unit, dimension=columns).name != ONE_SHOT:
        raise Unsupported(
            "A run of fedpower that multiplies in rounds is not rehearsed by this name.",
            "How many rounds it has follows from the columns of its data, and a rehearsal has "
            "others.",
            'Rehearse the same with system = "fedpower-power" and its rounds; or judge the noise '
            "by the tier residual.",
        )
