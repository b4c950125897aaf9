"""Canaries in FedAvg: users who move their silo's model, without clip, sample or noise."""

from __future__ import annotations

import math

import numpy as np

from ..canaries import NORM, Asked, Floats, Indices, Seen, View, canary_training
from ..frame.system import Parameters, System


def carry(asked: Asked) -> Seen:
    """Return what who sees the model sees of each unit, in the length of what it sends."""
    # Nothing is clipped, so a unit may move the model as far as it likes: by anything.
    clip = asked.settings.training.clip
    clip = clip if math.isfinite(clip) else 1.0
    length = asked.settings.training.global_rate * NORM * clip

    def view(_: System, columns: Indices) -> View:
        def look(before: Parameters, after: Parameters) -> Floats:
            return np.asarray((after[columns] - before[columns]) / length)

        return View(0.0, look)

    return canary_training(asked, clip=clip, view=view)
