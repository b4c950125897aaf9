"""The declarations of FLAME's systems."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ..declarations.declaration import TRAIN, Declaration
from ..declarations.example import Example
from ..observers.names import ANALYZER, CLIENT, MODEL, SHUFFLER
from .defaults import adjusted, adjusted_topk
from .settings import TABLE
from .settings_rules import RULES

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
    ),
    rules=RULES,
    adjust=adjusted,
    aggregations=("shuffle",),
    observer=ANALYZER,
    observers=(MODEL, ANALYZER, CLIENT, SHUFFLER),
    relations=("replace-one",),
    determines=f"{__package__}.expected_log:EXPECTED_SIMPLE",
    carrier=f"{__package__}.canaries:simulate",
    canaries=1_000,  # few lie in one run
    canary_work=f"{__package__}.canaries:work",
    sealed=lambda _: {TRAIN: ()},
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
        determines=f"{__package__}.expected_log:EXPECTED_DOUBLE",
        ignores=("decoys",),
        example=_DOUBLE_EXAMPLE,
    ),
    replace(
        _SIMPLE,
        name="flame-topk",
        summary="the largest coordinates of every user, padded and shuffled",
        make=f"{__package__}.factories:topk",
        determines=f"{__package__}.expected_log:EXPECTED_TOPK",
        ignores=(),
        adjust=adjusted_topk,
        observers=(MODEL, ANALYZER, CLIENT),
    ),
)
