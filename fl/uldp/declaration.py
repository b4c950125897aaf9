"""The declarations of Uldp-FL's systems."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ..declarations.declaration import Declaration
from . import defaults, sealed_items, settings_rules
from .settings import TABLE

_LOCAL: Final = (
    "training.local_rate",
    "training.local_epochs",
    "training.batch",
    "training.dropout",
)
"""Keys of local training in steps; ULDP-SGD sends one gradient."""

_WEIGHTED: Final = (
    "privacy.sampling_rate",
    "privacy.normalisation_noise",
    "training.weighting",
    "training.clip",
)

_SUMS: Final = ("plain", "masked", "shares")

_GROUPS: Final = ("group_records", "record_rate")

_NAIVE: Final = f"{__package__}.canaries.naive"
_GROUP: Final = f"{__package__}.canaries.group"
_USERS: Final = f"{__package__}.canaries.dispatch"

_AVERAGE: Final = Declaration(
    name="uldp-avg",
    summary="local training of each user, clipped and weighted over the silos",
    make=f"{__package__}.weighted:average",
    table=TABLE,
    ignores=_GROUPS,
    uses=(*_WEIGHTED, *_LOCAL),
    rules=(settings_rules.no_moments, settings_rules.published_protocol, settings_rules.no_target),
    adjust=defaults.average,
    aggregations=("plain", "masked", "private-weighting", "shares"),
    determines=f"{__package__}.expected_log:WEIGHTED",
    sealed=sealed_items.of_weighted,
    carrier=f"{_USERS}:simulate",
    canaries={"private-weighting": 200},  # each is encrypted
    canary_work=f"{_USERS}:work",
)

SYSTEMS: Final = (
    Declaration(
        name="uldp-naive",
        summary="FedAvg whose silos clip their models; a user may move all of them",
        make=f"{__package__}.naive:naive",
        table=TABLE,
        ignores=_GROUPS,
        uses=("privacy.normalisation_noise", "training.clip", *_LOCAL),
        rules=(settings_rules.no_moments, settings_rules.no_target),
        adjust=defaults.naive,
        aggregations=_SUMS,
        determines=f"{__package__}.expected_log:NAIVE",
        sealed=sealed_items.of_naive,
        carrier=f"{_NAIVE}:simulate",
        canaries=1_000,  # each has a rehearsal of its own
        canary_work=f"{_NAIVE}:work",
    ),
    Declaration(
        name="uldp-group",
        summary="DP-SGD in every silo on a bounded number of records of each user",
        make=f"{__package__}.group:group",
        table=TABLE,
        ignores=("as_published",),
        uses=("training.clip", *_LOCAL),
        rules=(settings_rules.group_given, settings_rules.rate_or_batch),
        adjust=defaults.group,
        determines=f"{__package__}.expected_log:GROUP",
        sealed=sealed_items.of_group,
        carrier=f"{_GROUP}:simulate",
        canaries=3_000,  # the cost grows with their square
        canary_work=f"{_GROUP}:work",
    ),
    _AVERAGE,
    replace(
        _AVERAGE,
        name="uldp-sgd",
        summary="one gradient of each user, clipped and weighted over the silos",
        make=f"{__package__}.weighted:gradient",
        uses=_WEIGHTED,
        adjust=defaults.gradient,
    ),
)
