"""The declarations of FedPower's systems."""

from __future__ import annotations

from typing import Final

from ..declarations.declaration import Declaration
from ..declarations.sealed_items import RELEASE
from ..observers.names import CLIENT, MODEL, SERVER
from .published_declarations import PLANNER_KEYS, PUBLISHED, PUBLISHED_KEYS
from .sealed_items import of_products
from .settings import TABLE
from .settings_rules import POWER_RULES

_OBSERVERS: Final = (MODEL, SERVER, CLIENT)

_POWER: Final = Declaration(
    name="fedpower-power",
    summary="a power iteration with noise under the sum, and the right sensitivity",
    make=f"{__package__}.power:power",
    table=TABLE,
    ignores=(*PLANNER_KEYS, *PUBLISHED_KEYS),
    rules=POWER_RULES,
    rounds=6,
    aggregations=("plain", "masked", "shares"),
    observers=_OBSERVERS,
    units=("record", "silo", "entry"),
    trains=False,
    phases=(RELEASE,),
    determines=f"{__package__}.expected_log:POWER",
    sealed=of_products,
)

SYSTEMS: Final = (_POWER, *PUBLISHED)
