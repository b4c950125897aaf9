"""The declaration of DISCO's system.

How DISCO's peers train on a data set where nothing else is said.

On `breast-cancer` and `digits` steps and clip were chosen on a part of the training records that
was left out of training (`bench/disco_accuracy.json`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ..declarations.dataset_defaults import Defaults
from ..declarations.declaration import Declaration, Example, Read
from ..declarations.stated_settings import StatedSettings
from ..declarations.toml_keys import FEDERATED_USES
from ..observers.names import COORDINATOR, MODEL, PEER
from .settings import COUNT_PHASE, QUANTILE, RULES, TABLE, DiscoSettings


def released_counts(read: Read) -> tuple[str, ...]:
    """Return what a round releases with its model: the count that moves the clip."""
    table: DiscoSettings = StatedSettings(read).of(TABLE)
    return (COUNT_PHASE,) if table.clip == QUANTILE else ()


_USUAL_ROUNDS: Final = 20
_USUAL_PEERS: Final = 20
_WHOLE: Final = 10_000
"""More records than a peer has: a step of local training is on all of them."""

_STEPS: Final[Mapping[str, Any]] = {"local_rate": 0.3, "local_epochs": 3, "batch": _WHOLE}

_CHOSEN: Final[Mapping[str, Mapping[str, Any]]] = {
    "breast-cancer": {"clip": 0.1, "global_rate": 2.0, **_STEPS},
    "digits": {"clip": 0.3, **_STEPS},
}


def adjusted(dataset: str, usual: Defaults) -> Defaults:
    """Return the training settings of DISCO's peers on a data set."""
    chosen = {"clip": 0.1, "global_rate": 1.0, **_CHOSEN.get(dataset, {})}
    silos = None if usual.silos is None else _USUAL_PEERS
    return replace(usual, rounds=_USUAL_ROUNDS, silos=silos, **chosen)


_EXAMPLE: Final = Example(
    paper="disco",
    tables={
        "run": {"rounds": 5},
        "data": {"name": "breast-cancer", "silos": 10},
        "privacy": {"epsilon": 5.0, "delta": 1e-5},
    },
    canaries=400,
)

SYSTEMS: Final = (
    Declaration(
        name="disco",
        summary="peers without a server: noise that the sum of additive shares hides them by",
        make=f"{__package__}.system:disco",
        table=TABLE,
        uses=("training.clip", *FEDERATED_USES),
        rules=RULES,
        adjust=adjusted,
        aggregations=("shares", "masked", "plain"),
        observer=PEER,
        observers=(MODEL, PEER, COORDINATOR),
        units=("silo", "record"),
        relations=("replace-one",),
        determines=f"{__package__}.terms:EXPECTED",
        carrier=f"{__package__}.canaries:simulate",
        canaries=1_000,  # as many as there are peers in each of many runs
        canary_work=f"{__package__}.canaries:work",
        example=_EXAMPLE,
        beside=released_counts,
    ),
)
