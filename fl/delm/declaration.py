"""The declarations of DELM's systems."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ..declarations.dataset_defaults import Defaults
from ..declarations.declaration import TRAIN, Declaration, Example, Read, Rule
from ..declarations.stated_settings import StatedSettings
from ..declarations.toml_keys import HELD_OUT_USES, TABLE_USES
from ..observers.names import MODEL, SERVER, SILO
from ..statistics.declaration import STATISTICS
from ..statistics.settings import (
    RELATIONS,
    capped_units,
    of_classes,
    single_round,
)
from .settings import (
    CHOICE_KEYS,
    NO_PCA,
    ONCE,
    PIECE_KEYS,
    SCHEME_RULES,
    TABLE,
    DelmSettings,
    is_published,
    noise_is_given,
)

LINEAR_RULES: Final[tuple[Rule, ...]] = (
    single_round,
    of_classes,
    capped_units,
)
"""In the order in which they are asked."""


COEFFICIENTS: Final = "coefficients"
"""`fl.delm.linear.COEFFICIENTS`, which loads numpy."""

PCA: Final = "pca"
"""`fl.delm.pca_terms.PCA`, which loads numpy."""


def phases_of(read: Read) -> tuple[str, ...]:
    """Return the phases of the published schemes, in their order."""
    rounds = rounds_phase(read)
    return (rounds,) if _table(read).pca == NO_PCA else (PCA, rounds)


def rounds_phase(read: Read) -> str:
    """Return the phase of the training."""
    return COEFFICIENTS if _table(read).objective == ONCE else TRAIN


def _table(read: Read) -> DelmSettings:
    table: DelmSettings = StatedSettings(read).of(TABLE)
    return table


CLIENTS: Final = 100
"""As in the paper, as are 250 rounds."""

_SCHEME_RATE: Final = 0.02
"""A step along the mean over clients of sums over records; of few clients these are large."""


def adjusted(dataset: str, usual: Defaults) -> Defaults:  # noqa: ARG001
    """Return the training settings of DELM's published schemes on a data set."""
    silos = None if usual.silos is None else CLIENTS
    return replace(
        usual, rounds=250, users=CLIENTS, silos=silos, global_rate=_SCHEME_RATE, dropout=0.0
    )


_STATISTICS: Final = f"{__package__.rpartition('.')[0]}.statistics"

_OF_LINEAR: Final = ("loss", "noise", "rows_per_user", "silo_rows", "by_class", "ridge")
"""Keys of one release of any unit, and of fits of it."""


def _published(read: Read) -> bool:
    return is_published(StatedSettings(read).training.model, _table(read).pca)


def _noise_given(read: Read) -> bool:
    model, table = StatedSettings(read).training.model, _table(read)
    return noise_is_given(model, table.pca, table.sensitivity, table.training_epsilon)


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

_LINEAR: Final = replace(
    STATISTICS,
    name="delm-linear",
    summary="the coefficients of an objective, released once; components and fits are free",
    make=f"{__package__}.coefficients:linear",
    table=TABLE,
    ignores=PIECE_KEYS,
    rules=LINEAR_RULES,
    relations=RELATIONS,
    phases=(COEFFICIENTS,),
    measure=f"{__package__}.measure:measure",
    determines=f"{__package__}.terms:LINEAR",
    example=_LINEAR_EXAMPLE,
)

_BASIC: Final = Declaration(
    name="delm-basic",
    summary="DELM as published: PCA, a functional mechanism in every round, layers shuffled",
    make=f"{__package__}.system:basic",
    table=TABLE,
    ignores=(*_OF_LINEAR, *CHOICE_KEYS),
    rules=SCHEME_RULES,
    adjust=adjusted,
    uses=(*TABLE_USES, *HELD_OUT_USES),
    fewer_rounds=True,  # one release, of which all steps are read
    aggregations=("plain",),
    observer=SERVER,
    observers=(MODEL, SERVER, SILO),
    units=("record",),
    relations=("add-remove", "replace-one"),
    published=_published,
    noise_given=_noise_given,
    reshapes=True,
    phases=phases_of,
    determines=f"{__package__}.terms:BASIC",
    carrier=f"{__package__}.pca_canaries:simulate",
    canaries=1_000,
)

_ENHANCED: Final = replace(
    _BASIC,
    name="delm-enhanced",
    summary="DELM as published, which averages clients by the signs of their gradients",
    make=f"{__package__}.system:enhanced",
    ignores=_OF_LINEAR,
    determines=f"{__package__}.terms:ENHANCED",
)

SYSTEMS: Final = (_LINEAR, _BASIC, _ENHANCED)
