"""What is seen of units in a noisy sum of uniformly weighted rows, one in each silo.

    (sum - what the observer takes off)_j / the noise that is left in it

The sum is read where it arrives, and not off a model: a model is a function of it, so that whoever
sees the model sees no more.  In the clear the server sees the parts of the sum; all units are in
all parts alike, so their sum says as much.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

from ..observers import SILO
from .asked import OWN, Asked, Seen
from .coins import Floats, Indices
from .entering import canary_rows
from .view import View
from .watch import Watching

if TYPE_CHECKING:
    from ..system import Parameters, System
    from ..user_sum import UserSum


def canary_sum(asked: Asked) -> Seen:
    """Rehearse a `fl.user_sum.UserSum`: units enter by a row of the same direction in each silo.

    Its `row` must begin with what keeps the direction of a record, as the mean of records does, and
    be 0 elsewhere for features and labels of 0.  A carrier; raises as `canary_rows`.
    """
    from ..user_sum import clip_of

    def view(system: System, columns: Indices) -> View:
        return _view(cast("UserSum", system), columns, asked)

    return canary_rows(asked, clip=clip_of(asked.settings), view=view, everywhere=True)


def _view(system: UserSum, columns: Indices, asked: Asked) -> View:
    mechanism = system.mechanism(system.promise.noise_multiplier)
    alone = asked.observer == SILO and asked.silos > 1
    left = (asked.silos - 1) / asked.silos if alone else 1.0
    std = mechanism.std * math.sqrt(left)
    watching = system.aggregator = Watching(system.aggregator)

    def look(_: Parameters, __: Parameters) -> Floats:
        assert watching.sum is not None
        steps = watching.sum.total - watching.sent[OWN] if alone else watching.sum.total
        seen: Floats = mechanism.units(steps)[columns] / std
        return seen

    return View(system.clip * left / std, look)
