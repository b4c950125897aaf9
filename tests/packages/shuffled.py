"""Runs of toy-shuffle: through its protocol, or at a size that no test can box."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privplan.fl.data.federation import Federation
from privplan.fl.running import run
from privplan.fl.settings.toml_file import parse
from privplan.fl.shuffling import ReceivedMessages, Shuffling
from privplan.fl.shuffling.rounds import ORDER_STREAM
from privplan.fl.shuffling.terms import DUMMIES_STREAM

CONFIG = """
[run]
system = "toy-shuffle"
rounds = {rounds}

[data]
name = "breast-cancer"
users = {users}
silos = 1

[privacy]
neighbours = "replace-one"
noise_multiplier = 4.0
delta = {delta}
observer = "{observer}"

[security]
aggregation = "shuffle"
colluders = {colluders}

[toy_shuffle]
dimensions = {dimensions}
chosen = {chosen}
padded_to = {padded_to}

[log]
save_models = true
"""
SMALL: dict[str, Any] = {
    "rounds": 2,
    "users": 20,
    "delta": 1e-3,
    "observer": "analyzer",
    "colluders": 0,
    "dimensions": 12,
    "chosen": 3,
    "padded_to": 20,
}
DOUBLE: dict[str, Any] = {
    **SMALL,
    "rounds": 1,
    "users": 1000,
    "delta": 0.01 / 1000**1.1,
    "dimensions": 7850,
    "chosen": 157,
    "padded_to": 333,
}
"""FLAME's Double as printed: Laplace noise of epsilon 0.5 a coordinate is 4 bounds."""


def text(**given: Any) -> str:
    """Return a configuration."""
    return CONFIG.format(**{**SMALL, **given})


def settings(**given: Any) -> Any:
    """Return the settings of a configuration."""
    return parse(text(**given).encode(), "run.toml")


def unboxed(
    self: Shuffling, number: int, ticket: Any, messages: Any, *, places: Any, mechanism: Any
) -> ReceivedMessages:
    """Mix messages in memory, without parties, keys and boxes; `Shuffling.round` otherwise."""
    terms = self.terms
    lacking = terms.count - np.bincount(places.ravel(), minlength=terms.dimensions)
    assert (lacking >= 0).all(), number
    dummies = mechanism.dummies(ticket, int(lacking.sum()), DUMMIES_STREAM)
    every = np.concatenate((places.ravel(), np.repeat(np.arange(terms.dimensions), lacking)))
    rank = ticket.stream(ORDER_STREAM).integers64(every.size)
    order = np.lexsort((rank, every))
    mixed = np.concatenate((messages.ravel(), dummies))[order]
    return ReceivedMessages(mixed.reshape(terms.dimensions, terms.count, 1))


def run_as_printed(folder: Any) -> None:
    """Run toy-shuffle at the size of FLAME's Double, unboxed, on users of zeros."""
    from privplan.fl.running import preparation

    users, dimensions = DOUBLE["users"], DOUBLE["dimensions"]
    federation = Federation(
        name="zeros",
        task="binary",
        classes=2,
        users=users,
        silos=1,
        features=np.zeros((users, dimensions)),
        labels=np.zeros(users, int),
        user=np.arange(users),
        silo=np.zeros(users, int),
        test_features=np.zeros((1, dimensions)),
        test_labels=[0],
    )
    with pytest.MonkeyPatch.context() as patch:
        made = (federation, {"records": "0" * 64})
        patch.setattr(preparation, "federation_of", lambda _: made)
        patch.setattr(Shuffling, "round", unboxed)
        run(settings(**DOUBLE), folder)
