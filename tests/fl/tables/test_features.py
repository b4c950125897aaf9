"""Features and labels: numbers in their public ranges, whatever a cell holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privplan.fl.tables.batches import Batch
from privplan.fl.tables.cell_features import features_of, labels_of
from privplan.fl.tables.schema_file import schema_of

from ...cases import for_each

WORDS = (
    "", " ", "NA", "nan", "NaN", "null", "0", "1", "-1", "55", "110", "111", "1e400", "-1e400",
    "1e-400", ".5", "5.", "+3", "0x10", "1_0", "1,5", "inf", "-inf", "9" * 400, "f", " f ", "F",
    "m", "other", "I", "II", "III", "true", "false", "TRUE", "\u0661", "\u00a0f", "a\tb", None,
)  # fmt: skip


def batch(words: Any, type: Any = None) -> Batch:
    cells = pa.array(words, type or pa.string())
    return Batch({"a": cells}, np.arange(len(words)))


def test_a_cell_is_the_same_number_whichever_cells_stand_beside_it() -> None:
    """What Arrow reads at once, where all of a column are numbers, is what is read one by one."""
    rng = np.random.default_rng(5)
    letters = "0123456789+-.eEdxXnNaAiIfF_, \u0661"
    sizes = rng.integers(1, 8, 3000)
    drawn = ["".join(letters[i] for i in rng.integers(len(letters), size=n)) for n in sizes]
    drawn += ["".join("0123456789+-.e"[i] for i in rng.integers(14, size=n)) for n in sizes]
    schema = schema_of({"columns": {"a": {"kind": "number", "range": [0, 9], "gap": 4}}})
    alone = [features_of(batch([word]), schema)[0, 0] for word in (*drawn, *WORDS)]
    together = features_of(batch([*drawn, *WORDS]), schema)[:, 0]
    assert np.array_equal(np.array(alone), together)


@for_each(
    "column",
    [
        {"kind": "number", "range": [0, 110]},
        {"kind": "number", "range": [-5, 5], "gap": 1, "gap_indicator": True},
        {"kind": "category", "values": ["f", "m"]},
        {"kind": "category", "values": ["f", "m", "NA"], "gap": "m", "gap_indicator": True},
        {"kind": "ordinal", "values": ["I", "II", "III"], "gap": "III", "gap_indicator": True},
        {"kind": "ordinal", "values": ["I"]},
        {"kind": "boolean"},
        {"kind": "boolean", "values": ["f", "m"], "gap": "m", "gap_indicator": True},
    ],
)
def test_every_cell_becomes_numbers_of_its_own_within_the_range(column: dict[str, Any]) -> None:
    """In any company a cell has the features that it has alone."""
    schema = schema_of({"columns": {"a": column}})
    together = features_of(batch(WORDS), schema)
    assert together.shape == (len(WORDS), schema.width)
    assert (np.abs(together) <= 1.0).all()
    for index, word in enumerate(WORDS):
        assert np.array_equal(features_of(batch([word]), schema)[0], together[index])
    if column["kind"] == "category":
        assert (together[:, : len(column["values"]) + 1].sum(axis=1) == 1.0).all()


@for_each(
    "word, feature, missing",
    [
        ("0", -1.0, 0.0),
        ("110", 1.0, 0.0),
        ("55", 0.0, 0.0),
        ("999", 1.0, 0.0),
        ("-1e400", -1.0, 0.0),
        ("1e400", 1.0, 0.0),
        ("", -0.5, 1.0),
        ("abc", -0.5, 1.0),
        ("1,5", -0.5, 1.0),
        ("nan", -0.5, 1.0),
        ("inf", -0.5, 1.0),
    ],
)
def test_a_number_is_clipped_scaled_or_the_gap(word: str, feature: float, missing: float) -> None:
    column = {"kind": "number", "range": [0, 110], "gap": 27.5, "gap_indicator": True}
    ((found, gap),) = features_of(batch([word]), schema_of({"columns": {"a": column}})).tolist()
    assert found == pytest.approx(feature, abs=1e-6)
    assert gap == missing


def test_a_decimal_comma_is_read_where_the_schema_says_so() -> None:
    tables = {
        "columns": {"a": {"kind": "number", "range": [-1, 1], "gap_indicator": True}},
        "format": {"decimal": ",", "delimiter": ";"},
    }
    found = features_of(batch(["0,5", "0.5", "-,25"]), schema_of(tables))
    assert found.tolist() == [[0.5, 0.0], [0.0, 1.0], [-0.25, 0.0]]


@for_each(
    "cells",
    [
        pa.array([0, 1, None], pa.int64()),
        pa.array([0.0, 1.0, None], pa.float32()),
        pa.array([False, True, None]),
    ],
)
def test_typed_columns_give_the_same_features(cells: pa.Array) -> None:
    held = Batch({"a": cells}, np.arange(3))
    if pa.types.is_boolean(cells.type):
        schema = schema_of({"columns": {"a": {"kind": "boolean"}}})
        assert features_of(held, schema)[:, 0].tolist() == [-1.0, 1.0, 0.0]
    else:
        schema = schema_of({"columns": {"a": {"kind": "number", "range": [0, 1]}}})
        assert features_of(held, schema)[:, 0].tolist() == [-1.0, 1.0, 0.0]


def test_a_label_that_is_none_leaves_its_row_out() -> None:
    schema = schema_of(
        {
            "columns": {"b": {"kind": "ignored"}},
            "label": {"kind": "binary", "values": ["no", "yes"]},
        }
    )
    assert schema.label is not None
    labels, there = labels_of(
        batch(["yes", " no", "YES", "", None]), "a", schema.label, schema.format
    )
    assert there.tolist() == [True, True, False, False, False]
    assert labels[there].tolist() == [1, 0]


def test_times_are_clipped_and_events_are_words() -> None:
    tables = {
        "columns": {"b": {"kind": "ignored"}},
        "label": {"kind": "survival", "range": [0, 100], "event": "e"},
    }
    schema = schema_of(tables)
    assert schema.label is not None
    held = Batch(
        {
            "a": pa.array(["5", "1e9", "-3", "x", "7"]),
            "e": pa.array(["1", "0", "1", "1", "maybe"]),
        },
        np.arange(5),
    )
    labels, there = labels_of(held, "a", schema.label, schema.format)
    assert there.tolist() == [True, True, True, False, False]
    assert labels[there].tolist() == [[5.0, 1.0], [100.0, 0.0], [0.0, 1.0]]
