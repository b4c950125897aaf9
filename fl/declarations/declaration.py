"""What the frame knows of a system before it is loaded: one declaration for each.

A declaration is light: it names what is heavy by references, `module:attribute`, and loads them
when they are asked for.  So a list of systems, a page of keys, and a refusal cost nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from typing import Any, Final, TypeAlias

from ...accountant.errors import InvalidInput, PrivplanError
from ..observers.names import DEFAULT_OBSERVERS, MODEL
from .dataset_defaults import Defaults, dataset_defaults
from .toml_key import RELATIONS, keys_of
from .toml_key import Key as Key
from .toml_keys import OPTIONAL_KEYS, SHARED_KEYS


@contextmanager
def blame_package(system: Declaration, what: str) -> Iterator[None]:
    """Let code of another package fail by the name of the package, the system and the field.

    Raises `InvalidInput` for whatever it raises, `SystemExit` too; errors of privplan as they are.
    """
    try:
        yield
    except PrivplanError:
        raise
    except (Exception, SystemExit) as error:
        if system.package == PRIVPLAN_PACKAGE:
            raise
        raise system.failed(what, error) from error


@dataclass(frozen=True, kw_only=True)
class Example:
    """A run on bundled data, of a published system, that is made and attacked in seconds.

    `paper` is the name of the published system in the table of claims.  `tables` are those of a
    configuration, but that `[run]` need not name the system.  `canaries` are those of the attack.
    Range: `canaries` 2 or above.
    """

    paper: str
    tables: Mapping[str, Mapping[str, Any]]
    canaries: int


Given: TypeAlias = Mapping[str, Mapping[str, Any]]
"""What a configuration says: checked values by table and key; `[run] system` is there."""

Complaint: TypeAlias = tuple[str, str, str]
"""What is wrong (to stand after the name of the file), why, and what to do."""

Rule: TypeAlias = Callable[[Any], Complaint | None]
"""What keys demand of one another: a function of what is given, a `Given` with tables that are
complete (`.given_settings.GivenSettings`)."""

Read: TypeAlias = Callable[[str, str], Any]
"""From a table and a key of a configuration to its value."""

Sealed: TypeAlias = Callable[[Read], Mapping[str, tuple[str, ...]]]
"""From a configuration to the names of the items that each release seals, by phase."""

Phases: TypeAlias = tuple[str, ...] | Callable[[Read], tuple[str, ...]]
"""The names of phases in their order, or from a configuration to them."""

Adjust: TypeAlias = Callable[[str, Defaults], Defaults]
"""From a data set and how it is usually trained on to how a system trains on it."""


PRIVPLAN_PACKAGE: Final = "privplan"
"""The package that brings the systems of `fl`."""

TRAIN: Final = "train"
"""The phase of a system that names none."""

NORMALISE: Final = "normalise"
"""The phase in which moments of features are released, which is of every system."""

HELD_OUT: Final = "held-out"
"""The phase in which users who were held out vote on the last model, which is of every system."""

AS_PUBLISHED: Final = "as_published"
"""The key of a table that runs a method as it was published; its log then says so.

Where another key of a table decides that (`Table.published`), this is its word for it.
"""


SERVER_AGGREGATIONS: Final = ("plain", "masked")
"""The aggregations of a system that declares none: sums that a server gets."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """The table of a configuration that only one family of systems has.

    `name` is small letters, digits and _, and begins with a letter.
    `settings` is a frozen dataclass with a field for each key; its defaults are those of the keys.
    `keys` are those that its fields declare (`toml_key.key`), where they are left out.
    `about` is what the table says, for a heading; `group` the key, if there is one, that bounds how
    many records of a user take part; `published` the one that runs a method as it was published,
    where it is true or the word `AS_PUBLISHED`.
    """

    name: str
    about: str
    settings: type[Any]
    keys: tuple[Key, ...] = ()
    group: str | None = None
    published: str = AS_PUBLISHED

    def __post_init__(self) -> None:
        if not self.keys and is_dataclass(self.settings):
            object.__setattr__(self, "keys", keys_of(self.settings))

    @property
    def required(self) -> tuple[str, ...]:
        """The names of the keys that have no default."""
        return tuple(
            item.name
            for item in fields(self.settings)
            if item.default is MISSING and item.default_factory is MISSING
        )


DECLARATION_VERSION: Final = 1
"""The newest version of `Declaration` that is known here."""


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """One system.  `package`, the distribution that brings it, is filled in where it is found.

    What a person reads:
        `name`         its name in configurations: small letters, digits and hyphens
        `summary`      one line
        `version`      the version of this interface that it is written for; what a later one adds
                       has a default, so that a declaration goes on meaning what it meant
    Its configuration:
        `table`        its own table, where it has one
        `ignores`      keys of that table that it has no use for: they are another's of its family
        `uses`         shared keys that it has a use for, of those that not all systems have one
                       for (`fl.declarations.toml_keys.OPTIONAL_KEYS`), as "privacy.sampling_rate";
                       and keys of some aggregations that it has a use for under any
                       (`ANY_AGGREGATION_KEYS`)
        `rules`        what else its keys demand of one another
        `adjust`       how it trains on a data set, from how that is usually trained on
        `rounds`       its usual number of rounds; None: that of the data set
        `fewer_rounds` whether it may plan fewer rounds than are configured, by public facts alone
        `aggregations` what the server may see, as in [security]; the first is what a configuration
                       means that says nothing of it
        `observer`     for whom noise and claim are made, where a configuration names nobody
        `observers`    whose numbers a verdict is about, where a configuration names no others
        `units`        what it protects; the first is the usual one
        `relations`    which neighbours it is accounted under; the first are the usual ones
        `promises`     whether it promises anything; where not, [privacy] is refused
        `published`    from a configuration to whether it is run as published, where that takes more
                       than one key of its table (`Table.published`) to say; None: that key says it
        `noise_given`  from a configuration to whether other keys than `noise_multiplier` give the
                       noise, so that none is searched for its epsilon; None: never
        `trains`       whether it trains a model; where not, it has no [training]
        `reshapes`     whether its model may be for other features than the data have; then
                       `determines` says what it starts from
    What it does, by references:
        `make`         the function that makes the system (`fl.frame.system.SystemFactory`)
        `data`         what it makes of data: settings to a federation and digests of its records
                       (`fl.running.run_data.Source`); None: a data set, dealt to users and silos
        `measure`      how it is measured: a prepared run and what it released to numbers by name
                       (`fl.running.measuring.Measure`); None: the metrics of the model
        `determines`   what its configuration determines of its log
                       (`fl.frame.expected_log.ExpectedLog`);
                       None: nothing is compared but what is of every system
        `carrier`      the function that puts canaries in and returns what an observer sees of
                       them (`fl.canaries.Carrier`); None where nobody can
        `canaries`     how many an attack takes where one costs more than usual, or that by
                       aggregation; None: as usual, and 1,000 for a system that does not train
        `canary_work`  how much work a round of them is (`fl.canaries.Work`); None: as usual
        `study`        its protocol as it was published, for demonstrations of what that shows; None
        `example`      a small run that stands for a published system next to its claims
                       (`privplan claims --measure`); None where another system's does, or none
    What its log says:
        `phases`       the names of its phases in their order, as its rounds state them, or a
                       function of the configuration; not that of moments, which is of all systems
        `beside`       likewise, the names under which a round releases something else than its
                       model (`fl.frame.rounds.planned_release`)
        `sealed`       the items that each of its releases seals; None: none
    """

    name: str
    make: str
    summary: str
    version: int = DECLARATION_VERSION
    package: str = PRIVPLAN_PACKAGE
    table: Table | None = None
    ignores: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    adjust: Adjust | None = None
    rounds: int | None = None
    fewer_rounds: bool = False
    aggregations: tuple[str, ...] = SERVER_AGGREGATIONS
    observer: str = MODEL
    observers: tuple[str, ...] = DEFAULT_OBSERVERS
    units: tuple[str, ...] = ("user",)
    relations: tuple[str, ...] = RELATIONS
    promises: bool = True
    published: Callable[[Read], bool] | None = None
    noise_given: Callable[[Read], bool] | None = None
    trains: bool = True
    reshapes: bool = False
    data: str | None = None
    measure: str | None = None
    determines: str | None = None
    carrier: str | None = None
    sealed: Sealed | None = None
    phases: Phases = (TRAIN,)
    beside: Phases = ()
    canaries: int | Mapping[str, int] | None = None
    canary_work: str | None = None
    study: str | None = None
    example: Example | None = None

    def phase_names(self, read: Read) -> tuple[str, ...]:
        """Return the names of its phases under a configuration, in their order."""
        return self.phases(read) if callable(self.phases) else self.phases

    def names_with_model(self, read: Read) -> tuple[str, ...]:
        """Return the names of what a round releases with its model, under a configuration."""
        return self.beside(read) if callable(self.beside) else self.beside

    @property
    def usual_aggregation(self) -> str:
        """What a configuration means that says nothing of aggregation."""
        return self.aggregations[0]

    def defaults(self, dataset: str, users: int | None = None) -> Defaults:
        """Return how the system trains on a data set by default; with `users`, for that many.

        Raises `InvalidInput` for a data set without defaults.
        """
        defaults = dataset_defaults(dataset, users)
        if self.adjust is not None:
            defaults = self.adjust(dataset, defaults)
        return defaults if self.rounds is None else replace(defaults, rounds=self.rounds)

    def load(self, reference: str) -> Any:
        """Return what a reference of this declaration names.

        Raises `InvalidInput`, naming the package, where another package has no such thing, or
        fails to be imported.
        """
        module, _, attribute = reference.partition(":")
        try:
            return getattr(importlib.import_module(module), attribute)
        except (Exception, SystemExit) as error:  # whatever another package does
            if self.package == PRIVPLAN_PACKAGE:
                raise
            raise self.failed(reference, error) from error

    def failed(self, what: str, error: BaseException) -> InvalidInput:
        """Return the refusal of a system whose code did not do what it declares."""
        reason = " ".join(str(error).split())
        return InvalidInput(
            f"Package {self.package}: system {self.name}, `{what}` fails: "
            f"{type(error).__name__}: {reason:.200}.",
            "A system runs as it was declared, or not at all.",
            f"Repair or remove {self.package}; other systems run without it.",
        )

    def has_use_for(self, table: str, key: str) -> bool:
        """Return whether a key has an effect in this system, as far as it depends on the system."""
        if table == "training" and not self.trains:
            return False
        if table in SHARED_KEYS:
            return (table, key) not in OPTIONAL_KEYS or f"{table}.{key}" in self.uses
        return self.table is not None and table == self.table.name and key not in self.ignores
