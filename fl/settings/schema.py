"""The settings of a run: its configuration, checked, complete and frozen.

A configuration is TOML (`.file.read_settings`); what it leaves out is filled in from the paper of
the system (`fl.declarations.dataset_defaults`, and what the system declares).  Settings read from a
file are consistent: no key contradicts another, and none is without effect.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from ...accountant.errors import InvalidInput, kind_of
from ...accountant.records import Relation, Unit
from ..declarations.declaration import AS_PUBLISHED, Declaration
from ..declarations.registry import declaration_of
from ..declarations.sealed_items import sealed_items
from ..observers.names import DEFAULT_OBSERVERS, MODEL, PEER_OBSERVERS
from .table_values import default_table, table_json

TableType = TypeVar("TableType")

Fsync = Literal["records", "always", "never"]


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """`[run]`: what is run, how long, and on what.

    `seed` makes the whole run repeatable, its protective randomness included: it protects nobody
    then.  Keys and masks, which leave no trace in a result, are drawn afresh.  Training repeats to
    the last bit on one machine with the same versions; other processors round otherwise, which an
    `mlp`, a `cnn` or an `alexnet` amplifies.
    """

    system: str
    rounds: int
    seed: int | None = None
    device: str = "cpu"
    evaluate_every: int = 1
    trials: int = 1


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """`[data]`: which data set, and how it is dealt to users and silos.  `seed` is public.

    For studies, a share `bad_labels` of the training records of a share `bad_silos` of the silos
    have labels at random; None for none.

    Of ratings: `columns` is the file of a public list of films.  Or `selection` says that the lists
    of users and films are public, as `selection_source` tells; then each that is left has
    `fewest_ratings`.  `largest_rating` bounds a rating.  None stands for what is usual.
    """

    name: str
    path: Path | None = None
    users: int
    silos: int | None = None
    allocation: Literal["uniform", "zipf", "classes-1", "classes-2"] = "zipf"
    labels_per_user: int | None = None
    bad_silos: float | None = None
    bad_labels: float | None = None
    normalisation: Literal["public", "none", "private"] = "public"
    seed: int = 0
    selection: Literal["public"] | None = None
    selection_source: str | None = None
    columns: Path | None = None
    fewest_ratings: int | None = None
    largest_rating: float | None = None


@dataclass(frozen=True, kw_only=True)
class PrivacySettings:
    """`[privacy]`: what is promised.  `unit` is None for a system that promises nothing.

    `group` is the number of records of one user that take part, where noise protects records;
    `normalisation_noise` the noise multiplier of the moments that features are normalised by.
    Noise and claim are made for `observer`; `observers` are those whose numbers a verdict is about.
    `accept_delta` says that a delta of 1 / units or more is meant.

    `noise` is `banded` where rounds share correlated noise: users take part in `cohorts`, one in
    each round, the noise has so many `bands`, and so many `blocks` of rounds are paid for.
    """

    unit: Unit | None = "user"
    neighbours: Relation = "add-remove"
    delta: float = 1e-5
    epsilon: float | None = None
    noise_multiplier: float | None = None
    normalisation_noise: float | None = None
    sampling_rate: float = 1.0
    group: int = 1
    observer: str = MODEL
    observers: tuple[str, ...] = DEFAULT_OBSERVERS
    accept_delta: bool = False
    noise: Literal["independent", "banded"] | None = None
    bands: int | None = None
    cohorts: int | None = None
    blocks: int | None = None


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """`[training]`: how models are trained.  `seed` (first model, order of batches) is public."""

    weighting: Literal["uniform", "records"] = "uniform"
    clip: float
    local_rate: float
    global_rate: float
    local_epochs: int
    batch: int
    model: str
    dropout: float = 0.0
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class SecuritySettings:
    """`[security]`: what the server sees, and by which protocol it is kept from the rest.

    `dropouts` is how many silos may be missing from a masked sum, `colluders` how many may tell
    the server all they know.  For private weighting:
    `count_limit` bounds a user's count over all silos, `records_per_count` records of it count
    once, and `slots` are those of the oblivious transfer by which users are sampled (None: the
    server samples).  `keep_transcripts` keeps what each party saw; `processes` share the work.
    """

    aggregation: Literal["plain", "masked", "private-weighting", "shares", "shuffle"] = "plain"
    dropouts: int = 0
    colluders: int = 0
    key_bits: int = 3072
    count_limit: int = 40
    records_per_count: int = 1
    slots: int | None = None
    keep_transcripts: bool = False
    processes: int = 1


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """`[evaluation]`: whether test data are public, and who says so (`.public_test_data`).

    `test` is None where nothing is said: then bundled data are public, and no others.
    """

    test: Literal["public", "none"] | None = None
    source: str | None = None


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """`[log]`: how the log is kept, and with `save_models` every released model beside it."""

    fsync: Fsync = "records"
    sign_key: Path | None = None
    save_models: bool = False


NO_TRAINING: Final = TrainingSettings(
    clip=math.inf, local_rate=0.0, global_rate=0.0, local_epochs=0, batch=0, model="none"
)
"""What stands for `[training]` in settings of a system that trains no model; no log has it."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings of a run, by table.

    `table` is the one that only the family of its system has (`Declaration.table`), None where
    there is none.  Where it is left out, or is that of another family and says nothing, all of its
    keys have their defaults.  `of` reads it.  Raises `InvalidInput` for a system that is not known,
    for a table that is none, and for what the table of another family says.
    """

    run: RunSettings
    data: DataSettings
    privacy: PrivacySettings
    training: TrainingSettings
    security: SecuritySettings = SecuritySettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    table: object | None = None
    log: LogSettings = LogSettings()

    def __post_init__(self) -> None:
        for name, shared in _SHARED_TABLES.items():
            if not isinstance(getattr(self, name), shared):
                raise InvalidInput(
                    f"`{name}` must be {shared.__name__}; it is {kind_of(getattr(self, name))}.",
                    "Each table of a configuration has a type of its own.",
                    "Make the settings with `read_settings`.",
                )
        if self.security.aggregation == "shares" and self.privacy.observers == DEFAULT_OBSERVERS:
            among = replace(self.privacy, observers=PEER_OBSERVERS)  # of the others there is none
            object.__setattr__(self, "privacy", among)
        # The table of another family may stand here only where it says nothing: all defaults.
        declared = declaration_of(self.run.system).table
        kind = types.NoneType if declared is None else declared.settings
        if isinstance(self.table, kind):
            return
        usual = default_table(kind)
        if isinstance(usual, kind) and (
            self.table is None
            or (is_dataclass(self.table) and self.table == default_table(type(self.table)))
        ):
            object.__setattr__(self, "table", usual)
        else:
            raise InvalidInput(
                f"`table` is {type(self.table).__name__}, and {self.run.system} "
                f"{'has none' if declared is None else 'needs ' + declared.settings.__name__}.",
                "The table of one system says nothing to another.",
            )

    def of(self, kind: type[TableType]) -> TableType:
        """Return the table of the system's family, which is of this type."""
        if not isinstance(self.table, kind):
            raise InvalidInput(f"The settings of {self.run.system} have no {kind.__name__}.")
        return self.table

    def tables(self) -> dict[str, object]:
        """Return what the settings hold, by the names of the tables of a configuration."""
        return {name: getattr(self, _FIELDS.get(name, "table")) for name in tables_of(self.system)}

    @property
    def system(self) -> Declaration:
        """What the system declares."""
        return declaration_of(self.run.system)

    @property
    def as_published(self) -> bool:
        """Whether the method is run as it was published."""
        return bool(getattr(self.table, AS_PUBLISHED, False))

    @property
    def most_records(self) -> int | None:
        """The public bound on the records of a user that take part, where the system has one."""
        declared = self.system.table
        if declared is None or declared.group is None:
            return None
        most: int | None = getattr(self.table, declared.group)
        return most

    def to_json(self) -> dict[str, dict[str, object]]:
        """Return what a log may say of the settings: all but `UNLOGGED_KEYS`; floats as texts."""
        logged = {name: table_json(table) for name, table in self.tables().items()}
        return {name: table for name, table in logged.items() if table}

    def sealed_items(self) -> Mapping[str, tuple[str, ...]]:
        """Return the names of the items that each release of the run seals, by phase."""
        tables = self.tables()
        return sealed_items(lambda table, key: getattr(tables[table], key))


_SHARED_TABLES: Final[Mapping[str, type[Any]]] = {
    "run": RunSettings,
    "data": DataSettings,
    "privacy": PrivacySettings,
    "training": TrainingSettings,
    "security": SecuritySettings,
    "evaluation": EvaluationSettings,
    "log": LogSettings,
}
"""The tables that all systems share."""

_FIELDS: Final = {name: name for name in _SHARED_TABLES}


def tables_of(system: Declaration | None) -> dict[str, type[Any]]:
    """Return the type of each table of a system; those that all systems share, for None."""
    tables = dict(_SHARED_TABLES)
    if system is not None and not system.trains:
        del tables["training"]
    if system is not None and system.table is not None:
        tables[system.table.name] = system.table.settings
    return tables


__all__ = [
    "NO_TRAINING",
    "DataSettings",
    "EvaluationSettings",
    "LogSettings",
    "PrivacySettings",
    "RunSettings",
    "SecuritySettings",
    "Settings",
    "TrainingSettings",
]
