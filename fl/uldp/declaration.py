"""The declarations of Uldp-FL's systems."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ..declarations.declaration import Declaration
from ..declarations.example import Example
from ..declarations.toml_keys import CORRELATED_KEYS
from . import clip_defaults, correlated_rules, sealed_items, settings_rules
from .settings import TABLE

_LOCAL_STEP_KEYS: Final = (
    "training.local_rate",
    "training.local_epochs",
    "training.batch",
    "training.dropout",
)
"""Keys of local training in steps; ULDP-SGD sends one gradient."""

_WEIGHTED_KEYS: Final = (
    "privacy.sampling_rate",
    "privacy.normalisation_noise",
    "training.weighting",
    "training.clip",
)

_CORRELATED_KEYS: Final = tuple(f"privacy.{key}" for key in CORRELATED_KEYS)

_SUM_AGGREGATIONS: Final = ("plain", "masked", "shares")

_GROUP_KEYS: Final = ("group_records", "record_rate")

_NAIVE_CANARIES: Final = f"{__package__}.canaries.naive"
_GROUP_CANARIES: Final = f"{__package__}.canaries.group"
_USER_CANARIES: Final = f"{__package__}.canaries.dispatch"

_SMALL: Final = {"name": "breast-cancer", "users": 50, "silos": 5}
_EXAMPLE: Final = Example(
    paper="uldp-fl",
    tables={
        "run": {"rounds": 10},
        "data": _SMALL,
        "privacy": {"epsilon": 5.0, "delta": 1e-5},
        "security": {"aggregation": "masked"},
    },
    canaries=20_000,
)
_NAIVE_EXAMPLE: Final = Example(
    paper="uldp-fl",
    tables={
        "run": {"rounds": 10},
        "data": _SMALL,
        "privacy": {"noise_multiplier": 3.0, "delta": 1e-5},
        "uldp": {"as_published": True},
    },
    canaries=400,
)
"""As published: Theorem 3's sensitivity is half of what a user can move."""

_ULDP_AVG: Final = Declaration(
    name="uldp-avg",
    summary="local training of each user, clipped and weighted over the silos",
    make=f"{__package__}.weighted:average",
    table=TABLE,
    ignores=_GROUP_KEYS,
    uses=(*_WEIGHTED_KEYS, *_LOCAL_STEP_KEYS, *_CORRELATED_KEYS),
    rules=(
        settings_rules.no_moments,
        settings_rules.published_protocol,
        settings_rules.no_target,
        correlated_rules.keys_together,
        correlated_rules.fits_the_run,
    ),
    adjust=clip_defaults.average,
    aggregations=("plain", "masked", "private-weighting", "shares"),
    determines=f"{__package__}.expected_log:WEIGHTED",
    sealed=sealed_items.of_weighted,
    carrier=f"{_USER_CANARIES}:simulate",
    canaries={"private-weighting": 200},  # each is encrypted
    canary_work=f"{_USER_CANARIES}:work",
    example=_EXAMPLE,
)

SYSTEMS: Final = (
    Declaration(
        name="uldp-naive",
        summary="FedAvg whose silos clip their models; a user may move all of them",
        make=f"{__package__}.naive:naive",
        table=TABLE,
        ignores=_GROUP_KEYS,
        uses=("privacy.normalisation_noise", "training.clip", *_LOCAL_STEP_KEYS),
        rules=(settings_rules.no_moments, settings_rules.no_target),
        adjust=clip_defaults.naive,
        aggregations=_SUM_AGGREGATIONS,
        determines=f"{__package__}.expected_log:EXPECTED_NAIVE",
        sealed=sealed_items.of_naive,
        carrier=f"{_NAIVE_CANARIES}:simulate",
        canaries=1_000,  # each has a rehearsal of its own
        canary_work=f"{_NAIVE_CANARIES}:work",
        example=_NAIVE_EXAMPLE,
    ),
    Declaration(
        name="uldp-group",
        summary="DP-SGD in every silo on a bounded number of records of each user",
        make=f"{__package__}.group:group",
        table=TABLE,
        ignores=("as_published",),
        uses=("training.clip", *_LOCAL_STEP_KEYS),
        rules=(settings_rules.group_given, settings_rules.rate_or_batch),
        adjust=clip_defaults.group,
        determines=f"{__package__}.expected_log:EXPECTED_GROUP",
        sealed=sealed_items.of_group,
        carrier=f"{_GROUP_CANARIES}:simulate",
        canaries=3_000,  # the cost grows with their square
        canary_work=f"{_GROUP_CANARIES}:work",
    ),
    _ULDP_AVG,
    replace(
        _ULDP_AVG,
        name="uldp-sgd",
        summary="one gradient of each user, clipped and weighted over the silos",
        make=f"{__package__}.weighted:gradient",
        uses=_WEIGHTED_KEYS,
        adjust=clip_defaults.gradient,
        example=None,
    ),
)
