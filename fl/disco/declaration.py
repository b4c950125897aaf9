"""The declaration of DISCO's system."""

from __future__ import annotations

from typing import Final

from ..declarations.declaration import Declaration
from ..declarations.example import Example
from ..observers.names import COORDINATOR, MODEL, PEER
from . import sealed_items, settings_rules
from .defaults import adjusted
from .settings import TABLE

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
        uses=(
            "training.clip",
            "training.local_rate",
            "training.local_epochs",
            "training.batch",
            "training.dropout",
        ),
        rules=settings_rules.RULES,
        adjust=adjusted,
        aggregations=("shares", "masked", "plain"),
        observer=PEER,
        observers=(MODEL, PEER, COORDINATOR),
        units=("silo", "record"),
        relations=("replace-one",),
        determines=f"{__package__}.expected_log:EXPECTED",
        carrier=f"{__package__}.canaries:simulate",
        canaries=1_000,  # as many as there are peers in each of many runs
        canary_work=f"{__package__}.canaries:work",
        example=_EXAMPLE,
        sealed=sealed_items.sealed,
        beside=sealed_items.beside,
    ),
)
