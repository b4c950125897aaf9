"""The schema of a table as a text: how settings, logs and other processes carry it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from ...accountant.decoding import parsed_json
from ...accountant.errors import InvalidInput
from .schema import Schema
from .schema_file import read_schema, schema_of, tables_of_schema

_INLINE: Final = ("columns", "label", "format")


def schema_text(schema: Schema) -> str:
    """Return the schema as a JSON text, whose keys stand in the order of the features."""
    return json.dumps(tables_of_schema(schema), separators=(",", ":"))


@cache
def schema_in(text: str) -> Schema:
    """Return the schema that such a text says; raises `InvalidInput` for any other."""
    try:
        tables = parsed_json(text)
    except ValueError:
        tables = None
    if not isinstance(tables, dict):
        raise InvalidInput(
            "The schema of the table is no JSON object.",
            "A run keeps its schema so.",
            "Give the schema as a file.",
        )
    return schema_of(tables, "The schema")


def with_schema(table: Mapping[str, Any], file: str) -> dict[str, Any]:
    """Return a table [data] whose `schema` is a text, whatever said it; `file` names the TOML file.

    It may be a file, or stand in the table itself.  Raises `InvalidInput`.
    """
    flat = dict(table)
    inline = {name: flat.pop(name) for name in _INLINE if isinstance(flat.get(name), Mapping)}
    said = flat.get("schema")
    if inline:
        if said is not None:
            raise InvalidInput(
                f"{file} has `schema` in [data] with [data.{next(iter(inline))}].",
                "Two schemas could say two things of one column.",
                "Leave one of them out.",
            )
        label = dict(inline.get("label", {}))
        if "column" in label:  # `label` in [data] names the column, where the schema is a file
            flat["label"] = label.pop("column")
            inline["label"] = label
        flat["schema"] = schema_text(schema_of(inline, f"{file}, [data]"))
    elif isinstance(said, str) and said.lstrip().startswith("{"):
        flat["schema"] = schema_text(schema_in(said))
    elif isinstance(said, str) and said:
        flat["schema"] = schema_text(read_schema(Path(said)))
    return flat
