"""How DISCO's peers train on a data set where nothing else is said.

On `breast-cancer` and `digits` steps and clip were chosen on a part of the training records that
was left out of training (`bench/disco_accuracy.json`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ..declarations.dataset_defaults import Defaults

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
