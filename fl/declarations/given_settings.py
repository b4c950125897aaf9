"""The settings that a configuration gives: what it states, and what follows where it says nothing.

What is left out has the value of the paper (`.dataset_defaults`, and what the system declares).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

from ..observers.names import coalitions_in
from .data_table import DataSettings, SiloFiles
from .dataset_defaults import Defaults, dataset_defaults
from .declaration import Declaration, blame_package
from .evaluation_table import HELD_OUT_SHARE, HELD_OUT_TEST, EvaluationSettings, LogSettings
from .ledger_table import LedgerSettings
from .registry import declaration_of
from .shared_tables import (
    NO_TRAINING,
    PrivacySettings,
    RunSettings,
    SecuritySettings,
    TrainingSettings,
)
from .toml_key import RATINGS, TABLE

TableType = TypeVar("TableType")


_MODEL_OF_LABEL: Final = {
    "binary": "logistic",
    "classes": "softmax",
    "number": "linear",
    "survival": "cox",
}
"""What is trained on a table where nothing is said, by the kind of its label."""


class GivenSettings(dict[str, Mapping[str, Any]]):
    """What a configuration states, by table and key, and each of its tables with all keys.

    Rules are asked of it.  A table is completed when it is first asked for, so that rules may
    refuse beforehand what nothing could be completed from.
    """

    def states(self, table: str, *keys: str) -> bool:
        """Return whether the configuration itself says all of these keys of a table."""
        return self.get(table, {}).keys() >= set(keys)

    def stated(self, table: str, key: str) -> Any:
        """Return the value that the configuration itself gives a key; None where it gives none.

        Of silos that are named it is their number; `silo_files` has the names.
        """
        value = self.get(table, {}).get(key)
        if (table, key) == ("data", "silos") and isinstance(value, tuple):
            return len(value)
        return value

    @property
    def silo_files(self) -> SiloFiles | None:
        """The silos of a table and their files; None where silos are only counted, or not said."""
        silos = self["data"].get("silos")
        return silos if isinstance(silos, tuple) else None

    @cached_property
    def system(self) -> Declaration:
        """The declaration of the system that is run."""
        return declaration_of(self["run"]["system"])

    @property
    def dataset(self) -> str:
        """The name of the data set."""
        return str(self["data"]["name"])

    @property
    def of_ratings(self) -> bool:
        """Whether the data are ratings, a matrix without labels."""
        return self.dataset == RATINGS

    @property
    def of_table(self) -> bool:
        """Whether the data are a table of one's own."""
        return self.dataset == TABLE

    @property
    def users_are_private(self) -> bool:
        """Whether the data are a table, and nobody says that the list of its users is public."""
        return self.of_table and not self.states("data", "users_public")

    @property
    def observers_named(self) -> tuple[str, ...]:
        """The observers that the configuration itself names, in whatever key."""
        observer, more = self.stated("privacy", "observer"), self.stated("privacy", "observers")
        return tuple(filter(None, (observer, *(more or ()))))

    @cached_property
    def _defaults(self) -> Defaults:
        defaults = self.system.defaults if self.system.trains else dataset_defaults
        return defaults(self.dataset, self.stated("data", "users"))

    @cached_property
    def run(self) -> RunSettings:
        """`[run]`, complete."""
        usual = self._defaults.rounds if self.system.rounds is None else self.system.rounds
        return RunSettings(**{"rounds": usual, **self["run"]})

    @cached_property
    def data(self) -> DataSettings:
        """`[data]`, complete."""
        usual = {"users": self._defaults.users, "silos": self._defaults.silos}
        stated = {**self["data"]}
        for key in {"path", "columns", "users_list"} & stated.keys():
            stated[key] = Path(stated[key])
        if self.of_ratings:  # rows are dealt evenly, and values stay as they are
            stated |= {"allocation": "uniform", "normalisation": "none"}
        if self.of_table:  # nothing is dealt, and the schema says how values are scaled
            if self.silo_files is not None:
                stated |= {"silos": len(self.silo_files), "silo_files": self.silo_files}
            stated |= {"allocation": "uniform", "normalisation": "none"}
            usual["users"] = stated.get("users_at_most", 1)
        return DataSettings(**{**usual, **stated})

    @cached_property
    def privacy(self) -> PrivacySettings:
        """`[privacy]`, complete."""
        system = self.system
        usual: dict[str, Any] = {"unit": None, "observers": system.observers}
        if system.promises:
            usual |= {"unit": system.units[0], "neighbours": system.relations[0]}
            usual |= {"observer": system.observer}
        if system.table is not None and system.table.group is not None:
            usual["group"] = self.get(system.table.name, {}).get(system.table.group, 1)
        return PrivacySettings(**{**usual, **self.get("privacy", {})})

    @property
    def label_kind(self) -> str:
        """The kind of the label of a table, as its schema says; empty where it says none."""
        label = json.loads(self.data.schema or "{}").get("label", {})
        return str(label.get("kind", ""))

    @cached_property
    def training(self) -> TrainingSettings:
        """`[training]`, complete."""
        if not self.system.trains:
            return NO_TRAINING
        defaults, stated = self._defaults, self.get("training", {})
        if self.of_table:
            defaults = replace(defaults, model=_MODEL_OF_LABEL.get(self.label_kind, "logistic"))
        keys = ("local_rate", "local_epochs", "batch", "global_rate", "clip", "model")
        training = {**{key: getattr(defaults, key) for key in keys}, **stated}
        if self.security.aggregation == "private-weighting":
            training.setdefault("weighting", "records")  # the only weights that it is made for
        same = training["model"] == defaults.model
        training.setdefault("dropout", defaults.dropout if same else 0.0)
        return TrainingSettings(**training)

    @cached_property
    def security(self) -> SecuritySettings:
        """`[security]`, complete: masks bear as many colluders as the largest coalition named."""
        usual = {
            "aggregation": self.system.usual_aggregation,
            "colluders": max(coalitions_in(self.observers_named), default=0),
        }
        return SecuritySettings(**{**usual, **self.get("security", {})})

    @property
    def evaluation(self) -> EvaluationSettings:
        """`[evaluation]`, complete."""
        stated = {**self.get("evaluation", {})}
        if self.test_file is not None:
            stated |= {"test": "public", "test_file": self.test_file}
        if self.holds_out:
            stated.setdefault("held_out", HELD_OUT_SHARE)
        return EvaluationSettings(**stated)

    @property
    def test_file(self) -> Path | None:
        """The file of the test data of a table; None where none is named."""
        test = self.get("evaluation", {}).get("test")
        return None if test in (None, "public", "none", HELD_OUT_TEST) else Path(test)

    @property
    def holds_out(self) -> bool:
        """Whether a share of the users is held out, for the model to be measured on."""
        return bool(self.get("evaluation", {}).get("test") == HELD_OUT_TEST)

    @cached_property
    def table(self) -> object | None:
        """The table that only the family of the system has, complete; None where it has none."""
        if self.system.table is None:
            return None
        with blame_package(self.system, "table.settings"):
            complete: object = self.system.table.settings(**self.get(self.table_name, {}))
        return complete

    @property
    def table_name(self) -> str:
        """The name of that table; empty where there is none."""
        return "" if self.system.table is None else self.system.table.name

    def of(self, kind: type[TableType]) -> TableType:
        """Return the table of the system's family, which is of this type."""
        if not isinstance(self.table, kind):
            raise TypeError(f"The table of {self.system.name} is no {kind.__name__}.")
        return self.table

    @property
    def log(self) -> LogSettings:
        """`[log]`, complete."""
        stated = {**self.get("log", {})}
        if "sign_key" in stated:
            stated["sign_key"] = Path(stated["sign_key"])
        return LogSettings(**stated)

    @property
    def ledger(self) -> LedgerSettings:
        """`[ledger]`, complete."""
        return LedgerSettings(**self.get("ledger", {}))
