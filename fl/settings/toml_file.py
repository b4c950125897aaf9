"""From a TOML file to `Settings`: every table and key is known, in range, and has an effect.

A misspelt key would silently change a number, so it is refused, with the nearest known one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ...accountant.errors import InvalidInput
from ..declarations.declaration import Given
from ..declarations.given_settings import GivenSettings
from ..declarations.registry import declared, keys_by_table
from ..declarations.toml_key import TABLE, Key, TableReader
from ..tables.schema_text import with_schema
from .rules import first_complaint
from .schema import Settings


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


def tables_in(content: bytes, name: str) -> dict[str, Any]:
    """Return the tables that the content of a file says, none of them checked yet."""
    return _Reader(name).tables(content)


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
        given = GivenSettings(self.given(content))
        for table, key in self._required(given):
            if not given.states(table, key):
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

    def _required(self, given: GivenSettings) -> Iterator[tuple[str, str]]:
        """Yield the keys without a default: those of every run, then those of its system."""
        yield from (("run", "system"), ("data", "name"))
        system = given.system
        if not system.trains and system.rounds is None:
            yield "run", "rounds"
        if system.table is not None:
            yield from ((system.table.name, key) for key in system.table.required)

    def given(self, content: bytes) -> Given:
        """Return the tables of the file, every key known and every value in its range."""
        tables = self.tables(content)
        # [run] first: a wrong system is told before keys that belong to another one.
        first = {name: tables[name] for name in ("run",) if name in tables}
        known_tables, given = keys_by_table(), {}
        for name, table in {**first, **tables}.items():
            # Other packages are imported only for a table that none of our systems has.
            if name not in known_tables:
                known_tables = keys_by_table(everywhere=True)
            given[name] = self._table(name, table, known_tables)
        return given

    def _table(
        self, name: str, table: Any, known_tables: Mapping[str, tuple[Key, ...]]
    ) -> dict[str, Any]:
        if name not in known_tables:
            kind = "table" if isinstance(table, dict) else "key outside of a table,"
            raise self.unknown(f"has an unknown {kind} `{name}`", name.lower(), known_tables)
        if not isinstance(table, dict):
            raise self.refusal(f"needs `{name}` to be a table", "", f"Write [{name}] on a line.")
        if name == "data" and table.get("name") == TABLE:
            table = with_schema(table, self.name)
        return self.values(table, f"[{name}]", known_tables[name])

    def words_of(self, of: Key) -> tuple[str, ...]:
        """Return the words of a key; other packages are asked for a system that is not ours."""
        return tuple(declared()) if of.name == "system" else of.words

    def value(self, where: str, of: Key, value: Any) -> Any:
        """Return a value in range; the range of a package's key may fail on its own."""
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


def completed(given: GivenSettings) -> Settings:
    """Return settings in which everything that is left out has the value of the paper."""
    return Settings(
        run=given.run,
        data=given.data,
        privacy=given.privacy,
        training=given.training,
        security=given.security,
        evaluation=given.evaluation,
        table=given.table,
        log=given.log,
        ledger=given.ledger,
    )
