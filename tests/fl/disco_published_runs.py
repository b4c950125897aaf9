"""Updates that are given, and systems of DISCO as published that are made of them, for tests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from privplan.fl.disco.published import PublishedDisco
from privplan.fl.disco.settings import DiscoSettings

TABLE: Final = DiscoSettings(noise="as_published")
SEED: Final = 5
PEERS: Final = 4
SIZES: Final = (6, 3)


class Scripted:
    """Training with given updates of every round, (rounds, peers, D), in tensors of `SIZES`."""

    def __init__(self, updates: Any) -> None:
        self.updates = np.asarray(updates)
        self.model = SimpleNamespace(parts={"weight": (2, 3), "bias": (3,)})

    def initial(self) -> Any:
        return np.linspace(-1.0, 1.0, self.updates.shape[-1])

    def silo_deltas(self, _: Any, number: int) -> Any:
        return self.updates[number - 1].copy()


def moving(rounds: int = 5, peers: int = PEERS) -> Any:
    """Return updates whose tensors are below the clip in some rounds, and above it in others."""
    rng = np.random.default_rng(0)
    sizes = rng.choice([0.02, 0.1, 0.6], size=(rounds, peers, len(SIZES)))
    return rng.normal(size=(rounds, peers, sum(SIZES))) * np.repeat(sizes, SIZES, axis=2) * 0.3


def built(
    tiny: Any, made_of: Any, updates: Any, *, table: DiscoSettings = TABLE, **privacy: Any
) -> PublishedDisco:
    """Return the system for given updates; `privacy` as for `PrivacyTarget`."""
    rounds, peers, _ = np.shape(updates)
    observers = ("model", "peer", "coordinator")
    usual = {"unit": "silo", "neighbours": "replace-one", "observers": observers}
    setup = made_of(
        "disco",
        tiny(silos=peers, users=peers),
        local=lambda *_: Scripted(updates),
        rounds=rounds,
        **{**usual, "observer": "peer", "epsilon": 10.0, **privacy},
    )
    return PublishedDisco(setup, table)
