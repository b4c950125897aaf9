"""The declarations of DELM's systems."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ..declarations.declaration import Declaration, Read
from ..observers.names import MODEL, SERVER, SILO
from . import sealed_items
from .defaults import adjusted
from .rules import SCHEME_RULES, is_published, noise_is_given
from .settings import CHOICE_KEYS, PIECE_KEYS, TABLE
from .settings_rules import LINEAR_RULES

_STATISTICS: Final = f"{__package__.rpartition('.')[0]}.statistics"

_OF_LINEAR: Final = ("loss", "noise", "rows_per_user", "silo_rows", "by_class", "ridge")
"""Keys of one release of any unit, and of fits of it."""


def _published(read: Read) -> bool:
    return is_published(read("training", "model"), read("delm", "pca"))


def _noise_given(read: Read) -> bool:
    return noise_is_given(
        read("training", "model"),
        read("delm", "pca"),
        read("delm", "sensitivity"),
        read("delm", "training_epsilon"),
    )


_LINEAR: Final = Declaration(
    name="delm-linear",
    summary="the coefficients of an objective, released once; components and fits are free",
    make=f"{__package__}.linear:linear",
    table=TABLE,
    ignores=PIECE_KEYS,
    rules=LINEAR_RULES,
    rounds=1,
    aggregations=("plain", "masked", "shares"),
    units=("record", "user", "silo"),
    trains=False,
    phases=(sealed_items.COEFFICIENTS,),
    measure=f"{__package__}.measure:measure",
    determines=f"{__package__}.expected_log:LINEAR",
    sealed=sealed_items.of_linear,
    carrier=f"{_STATISTICS}.canaries:simulate",
    canaries=50_000,  # some dozens in each of many releases
    canary_work=f"{_STATISTICS}.canaries:work",
)

_BASIC: Final = Declaration(
    name="delm-basic",
    summary="DELM as published: PCA, a functional mechanism in every round, layers shuffled",
    make=f"{__package__}.system:basic",
    table=TABLE,
    ignores=(*_OF_LINEAR, *CHOICE_KEYS),
    rules=SCHEME_RULES,
    adjust=adjusted,
    fewer_rounds=True,  # one release, of which all steps are read
    aggregations=("plain",),
    observer=SERVER,
    observers=(MODEL, SERVER, SILO),
    units=("record",),
    relations=("add-remove", "replace-one"),
    published=_published,
    noise_given=_noise_given,
    reshapes=True,
    phases=sealed_items.phases_of,
    determines=f"{__package__}.expected_schemes:BASIC",
    sealed=sealed_items.of_schemes,
    carrier=f"{__package__}.canaries:simulate",
    canaries=1_000,
)

_ENHANCED: Final = replace(
    _BASIC,
    name="delm-enhanced",
    summary="DELM as published, which averages clients by the signs of their gradients",
    make=f"{__package__}.system:enhanced",
    ignores=_OF_LINEAR,
    determines=f"{__package__}.expected_schemes:ENHANCED",
)

SYSTEMS: Final = (_LINEAR, _BASIC, _ENHANCED)
