"""The configuration of a run, as its folder keeps it, with the code that it names.

Nothing of that code is executed here.  An audit, which reads configurations and logs of strangers,
does not come through this door.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any, Final, TypeAlias

from ...accountant.errors import InvalidInput, kind_of
from ..declarations.given_settings import GivenSettings
from ..declarations.own_code import CodeFile, OwnCode, found_code, is_own
from ..declarations.registry import keys_by_table
from ..declarations.toml_key import Key
from ..settings.schema import Settings
from ..settings.toml_file import completed, content_of, parse, tables_in
from ..tables.table import Table
from .rows_from_program import (
    holding,
    other_table,
    require_rows_of_program,
    table_handed_over,
    with_rows_of,
)
from .toml_writer import toml_bytes


def with_found_code(settings: Settings) -> Settings:
    """Return settings that carry the code which they name, with its digests.

    Raises `InvalidInput` where it is not there.
    """
    training = settings.training
    if not is_own(training.model):
        return settings
    return with_code(settings, found_code(training.model, training.loss))


def with_code(
    settings: Settings,
    code: OwnCode,
    model_digest: str | None = None,
    loss_digest: str | None = None,
) -> Settings:
    """Return settings that carry code; digests are those of its files, or of objects as given."""
    if isinstance(code.model, CodeFile):
        model_digest = code.model.digest
    if isinstance(code.loss, CodeFile):
        loss_digest = code.loss.digest
    carrying = replace(
        settings.training, executable=code, model_digest=model_digest, loss_digest=loss_digest
    )
    return replace(settings, training=carrying)


def without_code(settings: Settings) -> Settings:
    """Return what a configuration alone says."""
    stripped = replace(settings.training, executable=None, model_digest=None, loss_digest=None)
    return settings if stripped == settings.training else replace(settings, training=stripped)


RunDescription: TypeAlias = Settings | Mapping[str, Mapping[str, object]] | str | Path
"""What describes a run: a TOML file, its tables, or settings that were made."""

_UNNAMED_CONFIGURATION: Final = "The configuration"
"""How messages call one that is no file."""

_PRIVACY_HEADER: Final = re.compile(
    rb"^[ \t]*\[[ \t]*privacy[ \t]*\][ \t]*(?:#[^\r\n]*)?(?=\r?$)", re.MULTILINE
)
"""The line that begins the table [privacy]."""

_PATH_KEYS: Final = (
    *(("data", "path"), ("data", "columns"), ("data", "users_list")),
    ("log", "sign_key"),
)
"""Keys whose values are paths."""

_TABLES_READ_FIRST: Final = ("run", "data", "privacy", "security")
"""Tables on which defaults of other tables depend, in the order in which they do."""


@dataclass(frozen=True, eq=False)
class Configuration:
    """A configuration, and what it says: the copy in a run's folder has the same `content`.

    `from_file` is False where the content was written for settings or tables that a program gave.
    """

    content: bytes
    settings: Settings
    from_file: bool = True

    @classmethod
    def read(cls, path: Path, *, within: Path | None = None) -> Configuration:
        """Return that of a file, as `content_of`; `InvalidInput` says what is wrong with it."""
        content = content_of(path, within=within)
        return cls(content, with_found_code(parse(content, path.name)))

    @classmethod
    def of(cls, given: RunDescription, data: Table | None = None) -> Configuration:
        """Return that of a TOML file, of a mapping of tables, or of settings.

        `data` is a table whose rows are those of [data], and which says the rest of what that says.

        All are checked alike, and none may hold what a file could not: a run that is cut off goes
        on from the file.  Raises `InvalidInput` and `Unsupported` as `read_settings` does.
        """
        if isinstance(given, Settings) and data is None:
            data = table_handed_over(given)
        if data is not None:
            return cls._with_rows(_said_tables(given), data)
        if isinstance(given, (str, Path)):
            return cls.read(Path(given))
        tables = _described_tables(given) if isinstance(given, Settings) else given
        content = toml_bytes(tables)
        settings = parse(content, _UNNAMED_CONFIGURATION)
        if isinstance(given, Settings) and settings != without_code(given):
            raise _unwritable(given, settings)
        return cls(content, with_found_code(settings), from_file=False)

    @classmethod
    def _with_rows(cls, tables: Mapping[str, Mapping[str, object]], data: Table) -> Configuration:
        content = toml_bytes(with_rows_of(tables, data))
        settings = holding(parse(content, _UNNAMED_CONFIGURATION), data)
        return cls(content, with_found_code(settings), from_file=False)

    def going_on_with(self, data: Table | None) -> Configuration:
        """Return the configuration of a run that goes on, with the rows of a table.

        Raises `InvalidInput` where it says another table than `data` is.
        """
        if data is None:
            return self
        require_rows_of_program(self.settings.data)
        said = self._with_rows(tables_in(self.content, _UNNAMED_CONFIGURATION), data)
        if said.settings != self.settings:
            raise other_table(["data"])
        return replace(self, settings=said.settings)

    def same_as(self, other: Configuration) -> bool:
        """Return whether this is the configuration that another one is a copy of."""
        if self.content == other.content:
            return True
        return not self.from_file and self.settings == other.settings

    def with_accepted_delta(self) -> Configuration:
        """Return the configuration with `accept_delta = true` under [privacy], and nothing else.

        It is written into the copy, so that the folder and the log say it.  Raises `InvalidInput`
        where there is no line [privacy] to write it under.
        """
        if self.settings.privacy.accept_delta:
            return self
        accepted = replace(self.settings, privacy=replace(self.settings.privacy, accept_delta=True))
        with contextlib.suppress(InvalidInput):
            content = _PRIVACY_HEADER.sub(rb"\g<0>\naccept_delta = true", self.content, count=1)
            said = parse(content, _UNNAMED_CONFIGURATION)
            if content != self.content and said == without_code(accepted):
                return Configuration(content, accepted, self.from_file)
        raise InvalidInput(
            "To accept a delta from outside, the configuration needs a line [privacy], without "
            "`accept_delta`.",
            "What is accepted stands in the run's configuration and in its log.",
            "Write accept_delta = true under [privacy], and accept nothing from outside.",
        )


def _said_tables(given: RunDescription) -> Mapping[str, Mapping[str, object]]:
    """Return the tables that a description says, unchecked where a file or a mapping says them."""
    if isinstance(given, Settings):
        return _described_tables(holding(given, None))
    if isinstance(given, (str, Path)):
        return tables_in(content_of(Path(given)), Path(given).name)
    return given


def tables_of(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return the fewest keys that say what the settings say, by table.

    A key whose default is the value is left out, as a system may have no use for it.  What no
    configuration says (a value that only a default has, in another system) is not said.
    """
    tables: dict[str, dict[str, Any]] = {"run": {}, "data": {}}
    for table, key in (("run", "system"), ("data", "name")):
        value = getattr(getattr(settings, table), key)
        tables[table][key] = _key(table, key).check(**{key: value})
    tables |= _files(settings, tables["data"])
    for name, needed in _required(settings):
        value = getattr(settings.table, needed.name)
        _require_in_range(name, needed, value)
        tables.setdefault(name, {})[needed.name] = value
    # Each key may change what another one's default is, so they are added one at a time.
    while missing := next(_missing(settings, tables), None):
        table, key, value = missing
        tables.setdefault(table, {})[key] = value
    return {
        name: {key: list(value) if isinstance(value, tuple) else value for key, value in at.items()}
        for name, at in tables.items()
    }


def _files(settings: Settings, data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what says the files of a table, which the settings hold apart from other keys."""
    tables: dict[str, dict[str, Any]] = {}
    silos = settings.data.silo_files
    if silos is not None:
        named = {silo: files[0] if len(files) == 1 else list(files) for silo, files in silos}
        tables["data"] = {
            **data,
            "silos": named if any(named.values()) else list(named),
        }
        if settings.data.users_at_most is not None:  # by which the users are said
            tables["data"]["users_at_most"] = settings.data.users_at_most
    if settings.evaluation.test_file is not None:
        tables["evaluation"] = {"test": str(settings.evaluation.test_file)}
    return tables


def _required(settings: Settings) -> Iterator[tuple[str, Key]]:
    """Yield the keys without a default of the system's own table, each with the table's name."""
    table = settings.system.table
    if table is None:
        return
    yield from ((table.name, key) for key in table.keys if key.name in table.required)


def _described_tables(settings: Settings) -> dict[str, dict[str, Any]]:
    _require_plain(settings)
    try:
        return tables_of(settings)
    except InvalidInput:  # which is a ValueError, and names the key
        raise
    except (TypeError, ValueError, OverflowError):  # an integer without end, or worse
        raise InvalidInput(
            "The settings hold a value that no key of a configuration has.",
            "A key has a text, a truth, a number or a tuple of texts.",
            "Make the settings with `read_settings`, or give a mapping of tables.",
        ) from None


def _require_plain(settings: Settings) -> None:
    """Raise `InvalidInput` where settings that were made by hand hold what no key has."""
    for table, at in _tables(without_code(settings)).items():
        for key, value in vars(at).items():
            kinds = (str, Path) if (table, key) in _PATH_KEYS else (str, Path, Real, tuple)
            if value is not None and not isinstance(value, kinds):
                raise InvalidInput(
                    f"The settings give `{key}` in [{table}] {kind_of(value)}.",
                    "A key has a text, a truth, a number or a tuple of texts.",
                    "Make the settings with `read_settings`, or give a mapping of tables.",
                )


def _missing(
    settings: Settings, tables: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, str, Any]]:
    """Yield what the tables do not say of the settings: table, key and value."""
    held, said = _tables(settings), _tables(completed(GivenSettings(tables)))
    for table in held:
        for key in keys_by_table(everywhere=True)[table]:
            value, usual = getattr(held[table], key.name), getattr(said[table], key.name)
            if value != usual and value is not None and key.name not in tables.get(table, {}):
                _require_in_range(table, key, value)
                yield table, key.name, value


def _require_in_range(table: str, key: Key, value: object) -> None:
    try:
        key.check(**{key.name: str(value) if (table, key.name) in _PATH_KEYS else value})
    except InvalidInput as error:
        raise InvalidInput(
            f"The settings, [{table}]: {error.what}", error.why or key.why, error.next_step
        ) from None


def _tables(settings: Settings) -> dict[str, object]:
    """Return what settings hold, by table of a configuration; `_TABLES_READ_FIRST` lead."""
    tables = settings.tables()
    return {name: tables[name] for name in (*_TABLES_READ_FIRST, *tables)}


def _key(table: str, name: str) -> Key:
    return next(key for key in keys_by_table(everywhere=True)[table] if key.name == name)


def _unwritable(given: Settings, said: Settings) -> InvalidInput:
    """Return why no file says what some settings say: the first key that none can."""
    others = _tables(said)
    where = next(
        f"`{key}` in [{table}]"
        for table, at in _tables(given).items()
        for key, value in vars(at).items()
        if value != getattr(others[table], key, None)
    )
    return InvalidInput(
        f"The settings give {where} a value that no configuration gives it.",
        "A run keeps its configuration, and goes on from it where it is cut off.",
        "Make the settings with `read_settings`, or give a mapping of tables.",
    )
