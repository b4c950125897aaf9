"""What is seen of units in a noisy sum of uniformly weighted rows, one in each silo.

    (sum - what the observer takes off)_j / the noise that is left in it

The sum is read where it arrives, and not off a model: a model is a function of it, so that whoever
sees the model sees no more.  In the clear the server sees the parts of the sum; all units are in
all parts alike, so their sum says as much.
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
"""Least share of a canary's row, of length 1, that lies in its own column."""


def canary_sum(asked: RehearsalRequest) -> CanaryObservations:
    """Rehearse a `fl.frame.user_sum.UserSum`: units enter by equal directions in all silos.

    A canary is a record with one feature that is ten clips long, all others and its label 0.  The
    `row` of it must have nearly all of its length in the number at the place of that feature, as
    the mean of records has: a square of the feature beside it would be longer, and the clip would
    cut away what is looked for.  A carrier, named in a declaration as it is; raises as
    `canary_rows`, and `Unsupported` for a system with another `row`.
    """
    from ..frame.user_sum import clip_of

    def view(system: System, columns: IntArray) -> View:
        return _view(cast("UserSum", system), columns, asked)

    return canary_rows(asked, clip=clip_of(asked.settings), view=view, everywhere=True)


def _view(system: UserSum, columns: IntArray, asked: RehearsalRequest) -> View:
    _require_direction(system)
    mechanism = system.mechanism(system.promise.noise_multiplier)
    alone = asked.observer == SILO and asked.silos > 1
    left = (asked.silos - 1) / asked.silos if alone else 1.0
    std = mechanism.std * math.sqrt(left)
    watching = system.aggregator = RecordingAggregator(system.aggregator)

    def look(_: Parameters, __: Parameters) -> FloatArray:
        assert watching.sum is not None
        steps = watching.sum.total - watching.sent[OBSERVER_SILO] if alone else watching.sum.total
        seen: FloatArray = mechanism.units(steps)[columns] / std
        return seen

    return View(system.clip * left / std, look)


def _require_direction(system: UserSum) -> None:
    """Raise `Unsupported` where a canary's row does not keep the direction of its record."""
    from ..frame.user_sum import UserRecords

    federation = system.setup.federation
    if not len(federation.features):  # no unit is in
        return
    features = federation.features[:1].astype(np.float64)
    row = system.row(UserRecords(features, federation.labels[:1]))
    at, length = int(np.abs(features[0]).argmax()), float(np.linalg.norm(row))
    kept = abs(float(row[at])) / length if length > 0.0 else 0.0
    if not kept >= MIN_ROW_SHARE_IN_COLUMN:
        raise Unsupported(
            f"`canary_sum` cannot rehearse {system.name}: {kept:.2g} of a canary's row lies in the "
            f"direction of its record, and {MIN_ROW_SHARE_IN_COLUMN} is needed.",
            "A canary has one large feature, and is looked for at its place in the row: what else "
            "the row has is noise to it, or takes its place under the clip.",
            "Bound the rest of what `row` returns, or give the system a carrier of its own, as "
            '"To add an attack" in CONTRIBUTING.md says.',
        )
