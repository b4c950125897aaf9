"""The declarations of FedPower's three algorithms as they were published."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ..declarations.declaration import Declaration
from ..declarations.sealed_items import RELEASE
from ..declarations.toml_keys import RATING_USES
from ..observers.names import CLIENT, MODEL, SERVER
from .published_rules import PUBLISHED_RULES
from .sealed_items import of_releases
from .settings import TABLE

PLANNER_KEYS: Final = ("design", "most_values", "signal")
"""Keys of the choice between designs."""

PUBLISHED_KEYS: Final = (
    "synchronise_every",
    "divide_by_rows",
    "entry_clip",
    "largest_element",
    "as_published",
)
"""Keys that only the published algorithms have a use for."""

_ORIGINAL: Final = Declaration(
    name="fedpower-original",
    summary="FedPower's Algorithm 1: noise of every node, and of the server",
    make=f"{__package__}.original:original",
    table=TABLE,
    ignores=PLANNER_KEYS,
    rules=PUBLISHED_RULES,
    rounds=6,
    aggregations=("plain",),
    observers=(MODEL, SERVER, CLIENT),
    units=("record", "silo", "entry"),
    trains=False,
    uses=RATING_USES,
    data=f"{__package__}.data:federation",
    measure=f"{__package__}.measure:measure",
    phases=(RELEASE,),
    determines=f"{__package__}.expected_log_published:ORIGINAL_LOG",
    carrier=f"{__package__}.canaries:simulate",
    canaries=20_000,  # 64 in each of many runs
    canary_work=f"{__package__}.canaries:work",
    sealed=of_releases,
)

_UTILITY: Final = replace(
    _ORIGINAL,
    name="fedpower-utility",
    summary="FedPower's Algorithm 2: a masked sum with the noise of one hidden node",
    make=f"{__package__}.utility:utility",
    uses=(*RATING_USES, "security.processes"),
    aggregations=("masked",),
    determines=f"{__package__}.expected_log_published:UTILITY_LOG",
)

_PRIVATE: Final = replace(
    _ORIGINAL,
    name="fedpower-private",
    summary="FedPower's Algorithm 3: a masked sum with noise of all nodes, entries clipped",
    make=f"{__package__}.private:private",
    aggregations=("masked", "shares"),
    determines=f"{__package__}.expected_log_published:PRIVATE_LOG",
)

PUBLISHED: Final[tuple[Declaration, ...]] = (_ORIGINAL, _UTILITY, _PRIVATE)
