"""The declaration of private statistics."""

from __future__ import annotations

from typing import Final

from ..declarations.declaration import Declaration
from ..declarations.sealed_items import RELEASE
from ..declarations.toml_keys import TABLE_USES
from .settings import RELATIONS, RULES, TABLE

STATISTICS: Final = Declaration(
    name="statistics",
    summary="one release of X^T X and X^T Y, from which any fit is free",
    make=f"{__package__}.system:statistics",
    table=TABLE,
    rules=RULES,
    rounds=1,
    aggregations=("plain", "masked", "shares"),
    units=("record", "user", "silo"),
    relations=RELATIONS,
    trains=False,
    uses=TABLE_USES,
    phases=(RELEASE,),
    measure=f"{__package__}.measure:measure",
    determines=f"{__package__}.run_terms:EXPECTED",
    carrier=f"{__package__}.canaries:simulate",
    canaries=50_000,  # some dozens in each of many releases
    canary_work=f"{__package__}.canaries:work",
)

SYSTEMS: Final = (STATISTICS,)
