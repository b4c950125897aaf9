"""The settings of a run: its configuration, checked, complete and frozen.

A configuration is TOML (`.toml_file.read_settings`); what it leaves out is filled in from the paper
of the system (`fl.declarations.dataset_defaults`, and what the system declares).  Settings read
from a file are consistent: no key contradicts another, and none is without effect.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Final, TypeVar

from ...accountant.errors import InvalidInput, kind_of
from ..declarations.data_table import DataSettings
from ..declarations.declaration import AS_PUBLISHED, Declaration
from ..declarations.evaluation_table import EvaluationSettings, LogSettings
from ..declarations.ledger_table import LedgerSettings
from ..declarations.own_code import is_own, logged_reference
from ..declarations.registry import declaration_of
from ..declarations.sealed_items import sealed_items
from ..declarations.shared_tables import (
    NO_TRAINING,
    PrivacySettings,
    RunSettings,
    SecuritySettings,
    TrainingSettings,
)
from ..declarations.toml_keys import (
    CODE_REFERENCES,
    KEYS_LOGGED_IF_TRUE,
    SHARED_TABLES,
    TRAINING_KEYS_LOGGED_IF_GIVEN,
    UNLOGGED_KEYS,
)
from ..observers.assumptions import Circumstances
from ..observers.names import DEFAULT_OBSERVERS, PEER_OBSERVERS


def default_table(kind: type[Any]) -> object:
    """Return a table whose keys have their defaults; None where some have none."""
    try:
        return kind()
    except TypeError:
        return None


def table_json(table: object) -> dict[str, object]:
    """Return what a log may say of one table."""
    pairs = {item.name: getattr(table, item.name) for item in fields(table)}  # type: ignore[arg-type]
    if isinstance(table, TrainingSettings):
        pairs = _training(pairs)
    return {
        name: _json(value)
        for name, value in pairs.items()
        if name not in UNLOGGED_KEYS and (value or name not in KEYS_LOGGED_IF_TRUE)
    }


def _training(pairs: dict[str, object]) -> dict[str, object]:
    """Return what a log may say of [training]: of code of one's own not where it lies."""
    named = {name: pairs[name] for name in CODE_REFERENCES}
    pairs |= {name: logged_reference(said) for name, said in named.items() if isinstance(said, str)}
    return {
        name: value
        for name, value in pairs.items()
        if value is not None or name not in TRAINING_KEYS_LOGGED_IF_GIVEN
    }


def _json(value: object) -> object:
    if isinstance(value, tuple):
        return [_json(each) for each in value]
    return repr(value) if isinstance(value, float) else value


TableType = TypeVar("TableType")


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
    security: SecuritySettings = field(default_factory=SecuritySettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    table: object | None = None
    log: LogSettings = field(default_factory=LogSettings)
    ledger: LedgerSettings = field(default_factory=LedgerSettings)

    def __post_init__(self) -> None:
        for name, shared in SHARED_TABLES.items():
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


def circumstances_of(settings: Settings, silos: int) -> Circumstances:
    """Return the circumstances of a run of so many silos under these settings."""
    security = settings.security
    masked = security.aggregation == "masked"
    return Circumstances(
        security.aggregation,
        settings.training.weighting,
        silos,
        security.dropouts,
        honest_server=masked and silos <= 2 * security.dropouts + security.colluders,
        moments=settings.data.normalisation == "private",
        trials=settings.run.trials,
        owners_code=is_own(settings.training.model),
    )


_FIELDS: Final = {name: name for name in SHARED_TABLES}


def tables_of(system: Declaration | None) -> dict[str, type[Any]]:
    """Return the type of each table of a system; those that all systems share, for None."""
    tables = dict(SHARED_TABLES)
    if system is not None and not system.trains:
        del tables["training"]
    if system is not None and system.table is not None:
        tables[system.table.name] = system.table.settings
    return tables


__all__ = [
    "NO_TRAINING",
    "DataSettings",
    "EvaluationSettings",
    "LedgerSettings",
    "LogSettings",
    "PrivacySettings",
    "RunSettings",
    "SecuritySettings",
    "Settings",
    "TrainingSettings",
]
