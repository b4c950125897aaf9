"""Canaries in FedAvg: users who move their silo's model, without clip, sample or noise."""

from __future__ import annotations

import math

import numpy as np

from ...accountant.errors import InvalidInput
from ...fl.system import Parameters, build
from .coins import Floats, flip
from .federation import canary_federation
from .local import NORM, CanaryLocal
from .rehearsal import Asked, Seen, require_observer
from .watch import conduct, made


def carry(asked: Asked) -> Seen:
    """Return what who sees the model sees of each unit, in the length of what it sends."""
    if asked.real:
        raise InvalidInput(
            "Nobody trains beside the canaries of fedavg.",
            "Without noise there is nothing that other users could change.",
            "Leave `real` out.",
        )
    coins = flip(asked.canaries, asked.rng())
    present = np.ones((asked.canaries, asked.silos), np.int64)
    federation = canary_federation(np.where(coins.into[:, None], present, 0))
    # Nothing is clipped, so a unit may move the model as far as it likes: by anything.
    clip = asked.settings.training.clip
    clip = clip if math.isfinite(clip) else 1.0
    local, streams = CanaryLocal(coins, federation, clip=clip), asked.streams()
    system = build(asked.settings, federation, local, streams)
    require_observer(system.plan(), asked.observer)
    length = asked.settings.training.global_rate * NORM * clip
    rounds = made(system, asked.rounds)
    seen: Floats = np.empty((rounds, asked.canaries))

    def each(number: int, before: Parameters, after: Parameters) -> None:
        moved = (after[local.columns] - before[local.columns]) / length
        seen[number - 1] = moved * coins.sign(number)

    conduct(system, streams, rounds=asked.rounds, each=each)
    return Seen(
        coins=coins.into,
        observations=seen,
        shift=0.0,
        rate=1.0,
        plan=system.plan(),
        opening=system.opening(),
        made=rounds,
    )
