"""The declarations of FLAME's systems.

How FLAME's users train on a data set where nothing else is said.

A clip is of one coordinate: the largest coordinates of an update, which `flame-topk` sends, bear a
larger one than coordinates whatever their size.  On `digits` clip, steps and local epochs are those
that were chosen most often on training records that were left out (`bench/flame_accuracy.json`).
On `breast-cancer` a few were tried on such records at epsilon 4 (accuracy about .8, in five
rounds); other data sets have the values of `digits`, untried.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ..declarations.dataset_defaults import Defaults
from ..declarations.declaration import Declaration, Example
from ..declarations.toml_keys import HELD_OUT_USES, TABLE_USES
from ..observers.names import ANALYZER, CLIENT, MODEL, SHUFFLER
from .settings import RULES, TABLE

_FEW_ROUNDS: Final = 5
_USUAL_USERS: Final = 1_000

_BREAST_CANCER: Final = "breast-cancer"
_FEW: Final[Mapping[str, Any]] = {
    "users": 400,  # it has 456 training records
    "clip": 0.05,
    "global_rate": 10.0,
    "local_epochs": 5,
}

_EVERY_COORDINATE: Final[Mapping[str, Any]] = {"clip": 0.02, "global_rate": 10.0, "local_epochs": 5}
_LARGEST: Final[Mapping[str, Any]] = {"clip": 0.1, "global_rate": 8.0, "local_epochs": 2}


def adjusted(dataset: str, usual: Defaults) -> Defaults:
    """Return the training settings of users who send coordinates whatever their size."""
    return _of(dataset, usual, _EVERY_COORDINATE)


def adjusted_topk(dataset: str, usual: Defaults) -> Defaults:
    """Return the training settings of users who send their largest coordinates."""
    return _of(dataset, usual, _LARGEST)


def _of(dataset: str, usual: Defaults, chosen: Mapping[str, Any]) -> Defaults:
    training = _FEW if dataset == _BREAST_CANCER else {"users": _USUAL_USERS, **chosen}
    return replace(usual, rounds=_FEW_ROUNDS, silos=1, **training)


_SIMPLE: Final = Declaration(
    name="flame-simple",
    summary="every coordinate of every user through a shuffler, which mixes each by itself",
    make=f"{__package__}.factories:simple",
    table=TABLE,
    ignores=("chosen", "decoys", "padded_to", "overflow"),
    uses=(
        "training.clip",
        "training.local_rate",
        "training.local_epochs",
        "training.batch",
        "training.dropout",
        "security.processes",
        *TABLE_USES,
        *HELD_OUT_USES,
    ),
    rules=RULES,
    adjust=adjusted,
    aggregations=("shuffle",),
    observer=ANALYZER,
    observers=(MODEL, ANALYZER, CLIENT, SHUFFLER),
    relations=("replace-one",),
    determines=f"{__package__}.terms:EXPECTED_SIMPLE",
    carrier=f"{__package__}.canaries:simulate",
    canaries=1_000,  # few lie in one run
    canary_work=f"{__package__}.canaries:work",
)

_DOUBLE_EXAMPLE: Final = Example(
    paper="flame",
    tables={
        "run": {"rounds": 2},
        "data": {"name": "breast-cancer", "users": 200},
        "privacy": {"noise_multiplier": 0.3, "delta": 1e-5},
        "flame": {"chosen": 5, "padded_to": 200, "transport": "ideal"},
    },
    canaries=400,
)

SYSTEMS: Final = (
    _SIMPLE,
    replace(
        _SIMPLE,
        name="flame-double",
        summary="some coordinates of every user, chosen at random, padded and shuffled",
        make=f"{__package__}.factories:double",
        determines=f"{__package__}.terms:EXPECTED_DOUBLE",
        ignores=("decoys",),
        example=_DOUBLE_EXAMPLE,
    ),
    replace(
        _SIMPLE,
        name="flame-topk",
        summary="the largest coordinates of every user, padded and shuffled",
        make=f"{__package__}.factories:topk",
        determines=f"{__package__}.terms:EXPECTED_TOPK",
        ignores=(),
        adjust=adjusted_topk,
        observers=(MODEL, ANALYZER, CLIENT),
    ),
)
