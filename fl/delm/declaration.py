"""The declarations of DELM's systems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..declarations.declaration import Declaration, Read
from ..declarations.example import Example
from ..declarations.sealed_items import RELEASE
from ..statistics.sealed_items import of_statistics
from .settings import TABLE
from .settings_rules import LINEAR_RULES

_COEFFICIENTS: Final = "coefficients"
"""`fl.delm.linear.COEFFICIENTS`, which loads numpy."""


def _sealed(read: Read) -> Mapping[str, tuple[str, ...]]:
    return {_COEFFICIENTS: of_statistics(read)[RELEASE]}


_STATISTICS: Final = f"{__package__.rpartition('.')[0]}.statistics"

_LINEAR_EXAMPLE: Final = Example(
    paper="delm",
    tables={
        "data": {"name": "breast-cancer", "users": 50, "silos": 5},
        "privacy": {"unit": "record", "epsilon": 5.0, "delta": 1e-5},
        "security": {"aggregation": "masked"},
        "delm": {"row_norm": 6.0},
    },
    canaries=3_000,
)

SYSTEMS: Final = (
    Declaration(
        name="delm-linear",
        summary="the coefficients of an objective, released once; components and fits are free",
        make=f"{__package__}.linear:linear",
        table=TABLE,
        rules=LINEAR_RULES,
        rounds=1,
        aggregations=("plain", "masked", "shares"),
        units=("record", "user", "silo"),
        trains=False,
        phases=(_COEFFICIENTS,),
        measure=f"{__package__}.measure:measure",
        determines=f"{__package__}.expected_log:LINEAR",
        sealed=_sealed,
        carrier=f"{_STATISTICS}.canaries:simulate",
        canaries=50_000,  # some dozens in each of many releases
        canary_work=f"{_STATISTICS}.canaries:work",
        example=_LINEAR_EXAMPLE,
    ),
)
