"""The schema of a table: what it may say, and what it is told where it says something else."""

from __future__ import annotations

from typing import Any

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.tables.schema_file import read_schema, schema_of, tables_of_schema
from privplan.fl.tables.schema_text import schema_in, schema_text

from ...cases import for_each
from .hospitals import SCHEMA


def column(**said: Any) -> dict[str, Any]:
    return {"columns": {"a": said}}


@for_each(
    "tables, names",
    [
        (column(), ("[columns.a]", "`kind`", "number, ordinal")),
        (column(kind="nmber"), ("`kind`", 'Did you mean kind = "number"')),
        (column(kind="number"), ("`range`", "number")),
        (column(kind="number", range=[3, 3]), ("`range`", "below its end")),
        (column(kind="number", range=[5, 3]), ("`range`",)),
        (column(kind="number", range=[0, 1e308 * 10]), ("`range[1]`",)),
        (column(kind="number", range=[-1e308, 1e308]), ("`range`",)),
        (column(kind="number", range=[0, 1e300]), ("`range`", "1e+38")),
        (column(kind="category", values=["a", " b"]), ("`values`", "space")),
        ({**column(kind="ignored"), "format": {"delimiter": ",", "decimal": ","}}, ("one sign",)),
        (column(kind="number", range=[0, 1], rnge=2), ("`rnge`", "Did you mean `range`")),
        (column(kind="number", range=[0, 1], values=["a"]), ("`values`", "no effect")),
        (column(kind="number", range=[0, 1], gap=2), ("gap = 2", "`range`")),
        (column(kind="number", range=[0, 1], gap="x"), ("gap = 'x'",)),
        (column(kind="category", values=["a", "a"]), ("`values`", "twice")),
        (column(kind="category", values=[]), ("`values`",)),
        (column(kind="category", values=["a"], gap="b"), ("gap = 'b'",)),
        (column(kind="boolean", values=["a"]), ("two `values`",)),
        (column(kind="ignored", range=[0, 1]), ("`range`", "no effect")),
        ({"columns": {}}, ("`columns`",)),
        ({"colums": {"a": {"kind": "ignored"}}}, ("`colums`", "Did you mean `columns`")),
        ({**column(kind="ignored"), "label": {"kind": "classes", "values": ["a"]}}, ("two",)),
        ({**column(kind="ignored"), "label": {"kind": "number"}}, ("`range`", "[label]")),
        (
            {
                **column(kind="ignored"),
                "label": {"kind": "survival", "range": [1, 9], "event": "e"},
            },
            ("begin at 0",),
        ),
        ({**column(kind="ignored"), "format": {"encoding": "utf-16"}}, ("`encoding`", "utf-8")),
        ({**column(kind="ignored"), "format": {"delimiter": '"'}}, ("`delimiter`",)),
        ({**column(kind="ignored"), "format": {"longest_line": 1}}, ("`longest_line`",)),
    ],
)
def test_what_is_no_schema_is_refused_by_its_column_and_key(
    tables: dict[str, Any], names: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidInput) as caught:
        schema_of(tables)
    for name in names:
        assert name in str(caught.value)


def test_a_schema_goes_to_text_and_back_with_its_columns_in_order() -> None:
    schema = schema_of(SCHEMA)
    assert schema_of(tables_of_schema(schema)) == schema
    assert schema_in(schema_text(schema)) == schema
    turned = {**SCHEMA, "columns": dict(reversed(SCHEMA["columns"].items()))}
    assert schema_in(schema_text(schema_of(turned))).feature_names != schema.feature_names


def test_features_are_named_and_counted_without_any_record() -> None:
    schema = schema_of(SCHEMA)
    assert schema.feature_names == (
        *("age", "age is missing", "sex=f", "sex=m", "sex=other"),
        *("stage", "stage=other", "smoker"),
    )
    assert schema.width == len(schema.feature_names)


def test_a_schema_is_read_from_a_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "schema.toml"
    file.write_text('[columns.age]\nkind = "number"\nrange = [0, 110]\nsource = "the protocol"\n')
    (age,) = read_schema(file).columns
    assert (age.name, age.range, age.source) == ("age", (0.0, 110.0), "the protocol")
    file.write_text("[columns.age]\nkind = 'number'\nrange = [0, 110]\nsource = '/home/me/x'\n")
    with pytest.raises(InvalidInput, match="must not name a file"):
        read_schema(file)
