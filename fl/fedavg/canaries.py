"""Canary rehearsal of FedAvg, which neither clips nor samples users nor adds noise."""

from __future__ import annotations

import math

import numpy as np

from ...accountant.arrays import FloatArray, IntArray
from ..canaries import (
    CANARY_NORM_IN_CLIPS,
    CanaryObservations,
    RehearsalRequest,
    View,
    canary_training,
)
from ..frame.model import Parameters
from ..frame.system import System


def simulate(request: RehearsalRequest) -> CanaryObservations:
    """Return what an observer of the released models sees of each canary in each round.

    An observation is the change of the model in the canary's coordinate, divided by the global rate
    and the length of the canary's row.  The claimed shift is 0, as FedAvg claims no privacy.
    """
    # Nothing is clipped, so the length of a canary's row may be any.
    clip = request.settings.training.clip
    clip = clip if math.isfinite(clip) else 1.0
    length = request.settings.training.global_rate * CANARY_NORM_IN_CLIPS * clip

    def view(_: System, columns: IntArray) -> View:
        def look(before: Parameters, after: Parameters) -> FloatArray:
            return np.asarray((after[columns] - before[columns]) / length)

        return View(0.0, look)

    return canary_training(request, clip=clip, view=view)
