"""Canaries for `fedpower`: those of the design that a run has, by its public facts.

A Gram release is rehearsed as it is.  A power iteration is refused: a rehearsal has other columns,
for which another design, or other rounds, would be chosen; `fedpower-power` is rehearsed by its
own name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...accountant.errors import Unsupported
from ..tables.record_shape import shape_in
from . import one_shot_canaries
from .planner import ONE_SHOT, chosen_design
from .settings import FedPowerSettings

if TYPE_CHECKING:
    from ..canaries import CanaryObservations, RehearsalRequest
    from ..settings.schema import Settings


def simulate(request: RehearsalRequest) -> CanaryObservations:
    """Return what an observer sees of units that are in or out, in Gram releases.

    Raises `Unsupported` where the run is a power iteration, whose rounds follow from its data's
    columns, and as `one_shot_canaries.simulate`.
    """
    _require_one_shot(request.settings)
    return one_shot_canaries.simulate(request)


def work(settings: Settings, silos: int, canaries: int) -> int:
    """Return the work of all releases, as `fl.canaries.rehearsal_cost.Work` says."""
    _require_one_shot(settings)
    return one_shot_canaries.work(settings, silos, canaries)


def _require_one_shot(settings: Settings) -> None:
    table = settings.of(FedPowerSettings)
    shape = shape_in(settings.data)
    columns = one_shot_canaries.USUAL_COLUMNS if shape is None else shape[0]
    columns = max(columns, table.columns)
    unit = settings.privacy.unit or "record"
    if chosen_design(table, unit=unit, dimension=columns).name == ONE_SHOT:
        return
    raise Unsupported(
        "A run of fedpower that multiplies in rounds is not rehearsed by this name.",
        "How many rounds it has follows from the columns of its data, and a rehearsal has others.",
        'Rehearse the same with system = "fedpower-power" and its rounds; or judge the noise by '
        "the tier residual.",
    )
