"""Canaries in FedAvg: users who move their silo's model, without clip, sample or noise."""

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
    """Return what an observer of the model sees of each unit, in units of the unit's own row."""
    # Nothing is clipped, so any length of a canary's row will do.
    clip = request.settings.training.clip
    clip = clip if math.isfinite(clip) else 1.0
    length = request.settings.training.global_rate * CANARY_NORM_IN_CLIPS * clip

    def view(_: System, columns: IntArray) -> View:
        def look(before: Parameters, after: Parameters) -> FloatArray:
            return np.asarray((after[columns] - before[columns]) / length)

        return View(0.0, look)

    return canary_training(request, clip=clip, view=view)
