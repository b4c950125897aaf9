"""The carrier of a `UserSum`: canaries with one equal row in every silo, seen in the noisy sum.

    (sum - what the observer takes off)_j / the noise that is left in it

The sum is read where it arrives rather than off a model, which is a function of it.  In the clear
the server sees every silo's part of the sum; as every unit is in all parts alike, their sum tells
as much.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import Unsupported
from ..observers.names import SILO
from .injection import canary_rows
from .memory_log import RecordingAggregator
from .request import OBSERVER_SILO, CanaryObservations, RehearsalRequest
from .view import View

if TYPE_CHECKING:
    from ..frame.model import Parameters
    from ..frame.system import System
    from ..frame.user_sum import UserSum


MIN_ROW_SHARE_IN_COLUMN: Final = 0.9
"""The least share of a canary's row, scaled to norm 1, that lies in its own column."""


def canary_sum(request: RehearsalRequest) -> CanaryObservations:
    """Rehearse a `fl.frame.user_sum.UserSum`: units enter by equal directions in all silos.

    A canary is a record with one feature that is ten clips long, all others and its label 0.  The
    `row` of it must have nearly all of its length in the number at the place of that feature, as
    the mean of records has: a square of the feature beside it would be longer, and the clip would
    cut away what is looked for.  A carrier, named in a declaration as it is; raises as
    `canary_rows`, and `Unsupported` for a system with another `row`.
    """
    from ..frame.user_sum import clip_of

    def view(system: System, columns: IntArray) -> View:
        return _view(cast("UserSum", system), columns, request)

    return canary_rows(request, clip=clip_of(request.settings), view=view, everywhere=True)


def _view(system: UserSum, columns: IntArray, request: RehearsalRequest) -> View:
    _require_direction(system)
    mechanism = system.mechanism(system.promise.noise_multiplier)
    alone = request.observer == SILO and request.silos > 1
    # A silo takes off what it sent, with its 1 / |S| of the noise and of each unit's row.
    left = (request.silos - 1) / request.silos if alone else 1.0
    std = mechanism.std * math.sqrt(left)
    recorder = system.aggregator = RecordingAggregator(system.aggregator)

    def look(_: Parameters, __: Parameters) -> FloatArray:
        assert recorder.sum is not None
        total = recorder.sum.total
        steps = total - recorder.sent[OBSERVER_SILO] if alone else total
        seen: FloatArray = mechanism.units(steps)[columns] / std
        return seen

    return View(system.clip * left / std, look)


def _require_direction(system: UserSum) -> None:
    """Raise `Unsupported` where a canary's row does not keep the direction of its record."""
    from ..frame.user_sum import UserRecords

    federation = system.setup.federation
    if not len(federation.features):  # no unit is in
        return
    # A canary's own record shows how much of its length the system's `row` keeps.
    features = federation.features[:1].astype(np.float64)
    row = system.row(UserRecords(features, federation.labels[:1]))
    column, length = int(np.abs(features[0]).argmax()), float(np.linalg.norm(row))
    share = abs(float(row[column])) / length if length > 0.0 else 0.0
    if not share >= MIN_ROW_SHARE_IN_COLUMN:
        raise Unsupported(
            f"`canary_sum` cannot rehearse {system.name}: {share:.2g} of a canary's row lies in "
            f"the direction of its record, and {MIN_ROW_SHARE_IN_COLUMN} is needed.",
            "A canary has one large feature, and is looked for at its place in the row: what else "
            "the row has is noise to it, or takes its place under the clip.",
            "Bound the rest of what `row` returns, or give the system a carrier of its own, as "
            '"To add an attack" in CONTRIBUTING.md says.',
        )
