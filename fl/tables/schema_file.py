"""Reading a schema: closed lists of keys, and what keys of one column demand of one another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from ..declarations.toml_key import Key, TableReader, keys_of
from .schema import MOST_COLUMNS, Column, Label, Schema, TextFormat

TableT = TypeVar("TableT")

_TABLES: Final = ("columns", "label", "format")

_KEYS_OF_KIND: Final[Mapping[str, tuple[str, ...]]] = {
    "number": ("range", "gap", "gap_indicator", "scaling"),
    "ordinal": ("values", "gap", "gap_indicator"),
    "category": ("values", "gap", "gap_indicator"),
    "boolean": ("values", "gap", "gap_indicator"),
    "array": ("shape", "range", "gap", "scaling"),
    "ignored": (),
}
_KEYS_OF_LABEL: Final[Mapping[str, tuple[str, ...]]] = {
    "binary": ("values",),
    "classes": ("values",),
    "number": ("range",),
    "survival": ("values", "range", "event"),
}
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "ordinal": ("values",),
    "category": ("values",),
    "classes": ("values",),
    "number": ("range",),
    "array": ("shape", "range"),
    "survival": ("range", "event"),
}
_USUAL_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "boolean": ("false", "true"),
    "binary": ("0", "1"),
    "survival": ("0", "1"),
}

_WHY_PUBLIC: Final = (
    "A schema is public. What it does not say is never looked up in the records: that would be a "
    "release which nothing pays for."
)


@dataclass(frozen=True)
class SchemaFile(TableReader):
    """Reads the schema of a table; its complaints name the column and the key."""

    noun: ClassVar[str] = "A schema"
    reason: ClassVar[str] = "The columns of a table are described there."
    help: ClassVar[str] = "privplan explain tables shows a schema."

    def read(self, path: Path) -> Schema:
        """Return the schema of a TOML file."""
        return self.schema(self.tables(self.content(path)))

    def schema(self, tables: Mapping[str, Any]) -> Schema:
        """Return the schema that tables describe: `columns`, and `label` and `format` if given."""
        for name in tables:
            if name not in ("columns", "label", "format"):
                raise self.unknown(
                    f"has an unknown table `{name:.60}`",
                    name.lower(),
                    ("columns", "label", "format"),
                )
        columns = tables.get("columns")
        if not isinstance(columns, Mapping) or not columns:
            raise self.refusal(
                "has no table `columns`", _WHY_PUBLIC, "Write [columns.NAME] for each."
            )
        if len(columns) > MOST_COLUMNS:
            raise self.refusal(f"has more than {MOST_COLUMNS:,} columns", "", "Leave some out.")
        label = tables.get("label")
        schema = Schema(
            columns=tuple(self._column(name, table) for name, table in columns.items()),
            label=None if label is None else self._label(label),
            format=self._made(TextFormat, tables.get("format", {}), "[format]"),
        )
        if schema.format.delimiter == schema.format.decimal:
            raise self.refusal(
                "has one sign for `delimiter` and `decimal` in [format]",
                "A number would be two fields.",
                "Write the delimiter that the files have.",
            )
        return schema

    def _column(self, name: str, table: object) -> Column:
        where = f"[columns.{name:.60}]"
        said = self._of_kind(table, where, keys_of(Column), _KEYS_OF_KIND)
        column = Column(name=name, **said)
        self._require_gap(column, where)
        return column

    def _label(self, table: object) -> Label:
        return Label(**self._of_kind(table, "[label]", keys_of(Label), _KEYS_OF_LABEL))

    def _of_kind(
        self,
        table: object,
        where: str,
        keys: tuple[Key, ...],
        allowed: Mapping[str, tuple[str, ...]],
    ) -> dict[str, Any]:
        """Return the values of a table whose kind says which keys it has."""
        said = self.values(self._mapping(table, where), where, keys)
        kind = said.get("kind")
        if kind is None:
            raise self.refusal(
                f"lacks `kind` in {where}",
                _WHY_PUBLIC,
                f"Write one of {', '.join(allowed)}.",
            )
        for key in said.keys() - {"kind", "source", *allowed[kind]}:
            raise self.refusal(
                f"gives `{key}` in {where}, which has no effect",
                f'It says nothing of kind = "{kind}".',
                "Leave it out.",
            )
        for key in _NEEDED.get(kind, ()):
            if key not in said:
                raise self.refusal(
                    f'lacks `{key}` in {where} for kind = "{kind}"',
                    _WHY_PUBLIC,
                    f"Write `{key}` as whoever designed the table knows it.",
                )
        if kind in _USUAL_VALUES:
            said.setdefault("values", _USUAL_VALUES[kind])
            if len(said["values"]) != 2:
                raise self.refusal(
                    f"needs two `values` in {where}", "The first is no, the second yes.", ""
                )
        if kind == "survival" and said["range"][0] != 0.0:
            raise self.refusal(f"needs `range` in {where} to begin at 0", "It is a time.", "")
        if kind == "classes" and len(said["values"]) < 2:
            raise self.refusal(f"needs two `values` or more in {where}", "", "")
        return said

    def _require_gap(self, column: Column, where: str) -> None:
        """Require of a gap that it is a value which the column can have."""
        gap, words = column.gap, column.values or ()
        if gap is None:
            return
        if column.kind in ("number", "array"):
            low, high = column.range or (0.0, 0.0)
            fits = not isinstance(gap, str) and low <= gap <= high
        else:
            fits = gap in words or (column.kind == "category" and gap == "other")
        if not fits:
            raise self.refusal(
                f"has gap = {gap!r:.60} in {where}, which the column cannot have",
                "A missing value counts as one of the column's own.",
                "Write a number of `range`, or one of `values`.",
            )

    def _made(self, kind: type[TableT], table: object, where: str) -> TableT:
        return kind(**self.values(self._mapping(table, where), where, keys_of(kind)))

    def _mapping(self, table: object, where: str) -> Mapping[str, Any]:
        if not isinstance(table, Mapping):
            raise self.refusal(f"needs {where} to be a table", "", f"Write {where} on a line.")
        return table


def read_schema(path: str | Path) -> Schema:
    """Return the schema that a TOML file describes; `InvalidInput` names the column and the key."""
    return SchemaFile(Path(path).name).read(Path(path))


def schema_of(tables: Mapping[str, Any], name: str = "The schema") -> Schema:
    """Return the schema that tables describe, as a TOML file has them.

    >>> schema_of({"columns": {"age": {"kind": "number", "range": [0, 110]}}}).feature_names
    ('age',)
    """
    return SchemaFile(name).schema(tables)


def tables_of_schema(schema: Schema) -> dict[str, Any]:
    """Return the tables that say a schema, without the keys that have their usual values."""
    tables: dict[str, Any] = {"columns": {}}
    for column in schema.columns:
        tables["columns"][column.name] = _said(column)
    if schema.label is not None:
        tables["label"] = _said(schema.label)
    if schema.format != TextFormat():
        tables["format"] = _said(schema.format)
    return tables


def _said(of: Column | Label | TextFormat) -> dict[str, Any]:
    kind = getattr(of, "kind", "")
    usual = {"values": _USUAL_VALUES.get(kind)}
    said = {}
    for key in keys_of(type(of)):
        value = getattr(of, key.name)
        default = type(of).__dataclass_fields__[key.name].default
        if value not in (default, usual.get(key.name, default)):
            said[key.name] = list(value) if isinstance(value, tuple) else value
    return said
