"""From a TOML file to `Settings`: every table and key is known, in range, and has an effect.

A misspelt key would silently change a number, so it is refused, with the nearest known one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

from ...accountant.errors import InvalidInput
from ..declarations import toml_keys, toml_words
from ..declarations.dataset_defaults import Defaults, dataset_defaults
from ..declarations.declaration import Given, blame_package
from ..declarations.registry import declaration_of, declared, keys_by_table
from ..declarations.toml_key import Key, TableReader
from ..observers.names import coalitions_in
from .rule_facts import observers_in
from .rules import first_complaint
from .schema import (
    NO_TRAINING,
    DataSettings,
    EvaluationSettings,
    LogSettings,
    PrivacySettings,
    RunSettings,
    SecuritySettings,
    Settings,
    TrainingSettings,
)


def read_settings(path: str | Path) -> Settings:
    """Return the settings that a TOML file describes.

    Raises `InvalidInput`, which names the file, the table and the key, for whatever is no
    configuration.
    """
    path = Path(path)
    return parse(content_of(path), path.name)


def content_of(path: Path, *, within: Path | None = None) -> bytes:
    """Return the first bytes of a configuration, one more than it may have.

    The copy in a run's folder is read `within` that: a link out of it is refused (`InvalidInput`).
    """
    return _Reader(path.name or str(path)).content(path, within=within)


def parse(content: bytes, name: str) -> Settings:
    """Return the settings that the content of a file says; `name` is the file's, for messages."""
    return _Reader(name).settings(content)


@dataclass(frozen=True)
class _Reader(TableReader):
    """Reads the configuration of a run."""

    noun: ClassVar[str] = "A configuration"
    reason: ClassVar[str] = "A run is described by a TOML file."
    help: ClassVar[str] = "privplan explain run"

    def settings(self, content: bytes) -> Settings:
        """Return what the file says, complete and consistent."""
        given = self.given(content)
        for table, key in self._required(given):
            if key not in given.get(table, {}):
                raise self.refusal(
                    f"lacks `{key}` in [{table}]",
                    "It has no default.",
                    f"Write `{key}` under [{table}]; privplan explain run says what it is.",
                )
        said = first_complaint(given)
        if said is not None:
            what, why, step = said
            raise self.refusal(what, why, step)
        return completed(given)

    def _required(self, given: Given) -> Iterator[tuple[str, str]]:
        """Yield the keys without a default: those of every run, then those of its system."""
        yield from (("run", "system"), ("data", "name"))
        system = declaration_of(given["run"]["system"])
        if not system.trains and system.rounds is None:
            yield "run", "rounds"
        if system.table is not None:
            for item in fields(system.table.settings):
                if item.default is MISSING and item.default_factory is MISSING:
                    yield system.table.name, item.name

    def given(self, content: bytes) -> Given:
        """Return the tables of the file, every key known and every value in its range."""
        tables = self.tables(content)
        # [run] first: a wrong system is told before keys that belong to another one.
        first = {name: tables[name] for name in ("run",) if name in tables}
        return {name: self._table(name, table) for name, table in {**first, **tables}.items()}

    def _table(self, name: str, table: Any) -> dict[str, Any]:
        known_tables = keys_by_table()
        # Other packages are imported only for a table that none of our systems has.
        if name not in known_tables:
            known_tables = keys_by_table(everywhere=True)
        if name not in known_tables:
            kind = "table" if isinstance(table, dict) else "key outside of a table,"
            raise self.unknown(f"has an unknown {kind} `{name}`", name.lower(), known_tables)
        if not isinstance(table, dict):
            raise self.refusal(f"needs `{name}` to be a table", "", f"Write [{name}] on a line.")
        return self.values(table, f"[{name}]", known_tables[name])

    def value(self, where: str, of: Key, value: Any) -> Any:
        """Return a value in range; the range of a package's key may fail on its own."""
        if of.name == "system":
            of = replace(of, words=tuple(declared()))
        try:
            return super().value(where, of, value)
        except InvalidInput:
            raise
        except Exception as error:  # whatever a range of another package does
            raise self.refusal(
                f"has `{of.name}` in {where}, whose range cannot be asked ({type(error).__name__})",
                "Every value is held against the range of its key.",
                "Repair the package whose table it is: privplan doctor",
            ) from error


def completed(given: Given) -> Settings:
    """Return settings in which everything that is left out has the value of the paper."""
    tables: dict[str, dict[str, Any]] = {
        name: dict(given.get(name, {})) for name in toml_keys.SHARED_KEYS
    }
    run, data = tables["run"], tables["data"]
    system = declaration_of(run["system"])
    if system.trains:
        defaults = system.defaults(data["name"], data.get("users"))
    else:
        defaults = dataset_defaults(data["name"], data.get("users"))
    if not system.trains and system.rounds is not None:
        run.setdefault("rounds", system.rounds)
    for table, key in ((data, "path"), (data, "columns"), (tables["log"], "sign_key")):
        if key in table:
            table[key] = Path(table[key])
    data.setdefault("silos", defaults.silos)
    if data["name"] == toml_words.RATINGS:  # rows are dealt evenly, and values stay as they are
        data.update({"allocation": "uniform", "normalisation": "none"})
    privacy = tables["privacy"]
    privacy.setdefault("unit", system.units[0] if system.promises else None)
    if system.promises:
        privacy.setdefault("neighbours", system.relations[0])
        privacy.setdefault("observer", system.observer)
    privacy.setdefault("observers", system.observers)
    # Masks bear as many colluders as the largest coalition that is named.
    told = max(coalitions_in(observers_in(given)), default=0)
    tables["security"].setdefault("colluders", told)
    tables["security"].setdefault("aggregation", system.usual_aggregation)
    special = None
    if system.table is not None:
        keys_given = given.get(system.table.name, {})
        with blame_package(system, "table.settings"):
            special = system.table.settings(**keys_given)
        if system.table.group is not None:
            privacy["group"] = keys_given.get(system.table.group, 1)
    return Settings(
        run=RunSettings(**{"rounds": defaults.rounds, **run}),
        data=DataSettings(**{"users": defaults.users, **data}),
        privacy=PrivacySettings(**privacy),
        training=_training(given, defaults) if system.trains else NO_TRAINING,
        security=SecuritySettings(**tables["security"]),
        evaluation=EvaluationSettings(**tables["evaluation"]),
        table=special,
        log=LogSettings(**tables["log"]),
    )


def _training(given: Given, defaults: Defaults) -> TrainingSettings:
    training = dict(given.get("training", {}))
    if given.get("security", {}).get("aggregation") == "private-weighting":
        training.setdefault("weighting", "records")  # the only weights that it is made for
    for key in ("local_rate", "local_epochs", "batch", "global_rate", "clip", "model"):
        training.setdefault(key, getattr(defaults, key))
    same = training["model"] == defaults.model
    training.setdefault("dropout", defaults.dropout if same else 0.0)
    return TrainingSettings(**training)
