"""The declarations of FedPower's systems."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ..declarations.declaration import Declaration, Example
from ..declarations.sealed_items import RELEASE
from ..declarations.toml_keys import RATING_USES, TABLE_USES
from ..observers.names import CLIENT, MODEL, SERVER
from .settings import (
    ONE_SHOT_RULES,
    PLANNER_RULES,
    POWER_RULES,
    PUBLISHED_RULES,
    TABLE,
)

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
    make=f"{__package__}.published:original",
    table=TABLE,
    ignores=PLANNER_KEYS,
    rules=PUBLISHED_RULES,
    rounds=6,
    aggregations=("plain",),
    observers=(MODEL, SERVER, CLIENT),
    units=("record", "silo", "entry"),
    trains=False,
    uses=(*RATING_USES, *TABLE_USES),
    data=f"{__package__}.data:federation",
    measure=f"{__package__}.measure:measure",
    phases=(RELEASE,),
    determines=f"{__package__}.expected_log:ORIGINAL_LOG",
    carrier=f"{__package__}.canaries:simulate",
    canaries=20_000,  # 64 in each of many runs
    canary_work=f"{__package__}.canaries:work",
)

_UTILITY: Final = replace(
    _ORIGINAL,
    name="fedpower-utility",
    summary="FedPower's Algorithm 2: a masked sum with the noise of one hidden node",
    make=f"{__package__}.utility:utility",
    uses=(*RATING_USES, *TABLE_USES, "security.processes"),
    aggregations=("masked",),
    determines=f"{__package__}.expected_log:UTILITY_LOG",
)

_PRIVATE: Final = replace(
    _ORIGINAL,
    name="fedpower-private",
    summary="FedPower's Algorithm 3: a masked sum with noise of all nodes, entries clipped",
    make=f"{__package__}.private:private",
    aggregations=("masked", "shares"),
    determines=f"{__package__}.expected_log:PRIVATE_LOG",
)

PUBLISHED: Final[tuple[Declaration, ...]] = (_ORIGINAL, _UTILITY, _PRIVATE)


_POWER: Final = replace(
    _ORIGINAL,
    name="fedpower-power",
    summary="a power iteration with noise under the sum, and the right sensitivity",
    make=f"{__package__}.power:power",
    ignores=(*PLANNER_KEYS, *PUBLISHED_KEYS),
    rules=POWER_RULES,
    aggregations=("plain", "masked", "shares"),
    determines=f"{__package__}.expected_log:POWER",
)

_ONE_SHOT: Final = replace(
    _POWER,
    name="fedpower-one-shot",
    summary="one noisy Gram matrix, whose eigenvectors are free",
    make=f"{__package__}.one_shot:one_shot",
    ignores=(*_POWER.ignores, "oversampling", "divisor", "largest_change"),
    rules=ONE_SHOT_RULES,
    rounds=1,
    units=("record", "silo"),
    determines=f"{__package__}.expected_log:ONE_SHOT",
    carrier=f"{__package__}.planner_canaries:simulate_one_shot",
    canaries=50_000,  # some dozens in each of many releases
    canary_work=f"{__package__}.planner_canaries:work_of_one_shot",
)

_PLANNER: Final = replace(
    _POWER,
    name="fedpower",
    summary="the best directions of a matrix, by whichever private design suits its size",
    make=f"{__package__}.planner:planner",
    ignores=PUBLISHED_KEYS,
    rules=PLANNER_RULES,
    rounds=16,
    fewer_rounds=True,
    determines=f"{__package__}.expected_log:PLANNER",
    carrier=f"{__package__}.planner_canaries:simulate",
    canaries=_ONE_SHOT.canaries,
    canary_work=f"{__package__}.planner_canaries:work",
)

_PLANNER_EXAMPLE: Final = Example(
    paper="fedpower",
    tables={
        "data": {"name": "breast-cancer", "silos": 5},
        "privacy": {"epsilon": 5.0, "delta": 1e-5},
        "security": {"aggregation": "masked"},
        "fedpower": {"rank": 4, "row_norm": 6.0},
    },
    canaries=3_000,
)

SYSTEMS: Final = (replace(_PLANNER, example=_PLANNER_EXAMPLE), _ONE_SHOT, _POWER, *PUBLISHED)
