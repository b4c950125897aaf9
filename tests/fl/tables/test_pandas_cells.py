"""Frames of pandas itself, where it is installed: a cell is read by itself, and no row twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import privplan as pp
from privplan.accountant.errors import InvalidInput
from privplan.fl.tables.frames import arrow_table

from ...cases import for_each

pd: Any = pytest.importorskip("pandas", reason="pandas is not installed")

LARGE = 10**12
SCHEMA = {
    "columns": {
        "code": {"kind": "category", "values": [str(LARGE + code) for code in range(3)]},
        "age": {"kind": "number", "range": [0, 110]},
    }
}
WHOLE = ("Int64", pd.ArrowDtype(pa.int64()), pd.CategoricalDtype([LARGE, LARGE + 1, LARGE + 2]))
REFUSED = ("period[D]", pd.IntervalDtype("float64"), "complex128")


def frame(codes: list[Any], dtype: Any, ids: list[Any] | None = None) -> Any:
    return pd.DataFrame(
        {
            "patient": ids or [f"p{row}" for row in range(len(codes))],
            "code": pd.Series(codes, dtype=dtype),
            "age": [50.0 + row for row in range(len(codes))],
        }
    )


def features(of: Any) -> Any:
    table = pp.Table.from_frame(of, schema=SCHEMA, user="patient").rows()
    return table.features[np.argsort(table.features[:, -1])]


@for_each("dtype", [*WHOLE, "object", "string", "str"])
def test_a_missing_cell_changes_no_other(dtype: Any) -> None:
    kind = str if dtype in ("string", "str") else int
    codes = [kind(LARGE + code) for code in (0, 1, 2)]
    alone, beside = frame(codes, dtype), frame([*codes, None], dtype)
    np.testing.assert_array_equal(features(beside)[:3], features(alone))
    assert len(np.unique(features(alone)[:, :-1], axis=0)) == 3


@for_each("cell", [1, 2.5, b"\xff", "\ud800", [1], {}, pd.Timestamp("2020-01-01")])
@for_each("others", [bytearray(b"1"), memoryview(b"1"), pa.scalar("1"), str(LARGE), 1.0, None])
def test_an_odd_cell_of_objects_changes_no_other(others: Any, cell: Any) -> None:
    codes = pd.Series([others] * 3, dtype=object)
    beside = pd.concat([codes, pd.Series([cell], dtype=object)], ignore_index=True)
    alone = features(frame(list(codes), object))
    np.testing.assert_array_equal(features(frame(list(beside), object))[:3], alone)


@for_each("dtype", ["Int64", pd.ArrowDtype(pa.uint64())])
def test_who_has_no_id_is_left_out_and_nobody_hears_of_it(dtype: Any) -> None:
    numbered = pd.DataFrame(
        {"patient": pd.Series([1, 2, None], dtype=dtype), "code": str(LARGE), "age": 50.0}
    )
    assert len(pp.Table.from_frame(numbered, schema=SCHEMA, user="patient").rows().user) == 2


@for_each("dtype", ["object", "string[python]"])
@for_each("cell", ["1", None, "\ud800", 1.5])
def test_the_type_of_texts_is_decided_by_no_cell_and_has_room_for_all(
    dtype: str, cell: Any
) -> None:
    cells = [str(LARGE), cell if dtype == "object" or cell is None else str(cell)]
    held = arrow_table(pd.DataFrame({"code": pd.Series(cells, dtype=dtype)}), ["code"])
    assert held.column("code").type == pa.large_string()


@pytest.mark.slow
@for_each("dtype", ["object", "string[python]", "category"])
def test_a_cell_that_no_usual_text_of_arrow_holds_is_missing_and_nothing_else(dtype: str) -> None:
    codes = [str(LARGE), str(LARGE + 1)]
    words = pd.CategoricalDtype(pd.Index([*codes, "x" * 2**31], dtype=object))
    kind = words if dtype == "category" else dtype
    of = frame([*codes, "x" * 2**31], kind)
    np.testing.assert_array_equal(features(of), features(frame([*codes, None], kind)))
    if dtype != "category":
        of = of.assign(patient=of["code"], code=str(LARGE))
        assert len(pp.Table.from_frame(of, schema=SCHEMA, user="patient").rows().user) == 2


SPARSE: tuple[tuple[str, Any, list[Any]], ...] = (
    ("bool", np.nan, [True, False, True]),
    ("bool", pd.NA, [True, False, True]),
    ("int64", np.nan, [LARGE, LARGE + 1, LARGE + 2]),
    ("int64", pd.NA, [LARGE, LARGE + 1, LARGE + 2]),
    ("float64", np.nan, [1.5, 2.5, 3.5]),
)


@for_each("of", SPARSE)
@for_each("layout", ["integer", "block"])
def test_a_missing_cell_of_a_sparse_column_changes_no_other(
    of: tuple[str, Any, list[Any]], layout: str
) -> None:
    kind, left_out, given = of
    dtype, said = pd.SparseDtype(kind, left_out), sorted({str(cell).lower() for cell in given})
    word = {"kind": "category", "values": said, "gap_indicator": True}

    def column(cells: list[Any]) -> Any:
        return pd.Series(pd.arrays.SparseArray(cells, kind=layout, dtype=dtype))

    def read(cells: list[Any]) -> Any:
        schema = {"columns": {**SCHEMA["columns"], "code": word}}
        of = pd.DataFrame({"code": column(cells), "age": 50.0 + np.arange(len(cells))})
        rows = pp.Table.from_frame(of, schema=schema).rows().features
        return rows[np.argsort(rows[:, -1])]

    alone = read(given)
    assert len(np.unique(alone[:, :-1], axis=0)) == len(said)
    np.testing.assert_array_equal(read([*given, left_out])[:3], alone)
    assert not (read([left_out])[0, :-1] == alone[:, :-1]).all(axis=1).any()
    if kind == "int64":  # of ids, too
        ids = pd.DataFrame({"patient": column([*given, left_out]), "code": "1", "age": 50.0})
        assert len(pp.Table.from_frame(ids, schema=SCHEMA, user="patient").rows().user) == 3


def test_a_sparse_column_has_what_it_leaves_out() -> None:
    codes = [0, LARGE + 1, 0, LARGE + 2]
    schema = {"columns": {"code": {"kind": "category", "values": ["0", *map(str, codes[1::2])]}}}
    frames = [
        pd.DataFrame({"code": column, "age": [50.0, 51.0, 52.0, 53.0]})
        for column in (codes, pd.arrays.SparseArray(codes), pd.array(codes, dtype="Int64"))
    ]
    both = {"columns": {**SCHEMA["columns"], **schema["columns"]}}
    dense, *others = (pp.Table.from_frame(of, schema=both).rows().features for of in frames)
    for read in others:
        np.testing.assert_array_equal(read, dense)
    assert len(np.unique(dense[:, :-1], axis=0)) == 3


@for_each("dtype", REFUSED)
@for_each("rows", [0, 1])
def test_a_type_is_refused_whatever_its_cells_are(dtype: Any, rows: int) -> None:
    values = pd.Series([None] * rows, dtype=dtype)
    with pytest.raises(InvalidInput, match="code"):
        features(pd.DataFrame({"patient": ["p"] * rows, "code": values, "age": [1.0] * rows}))


VIEWS = (
    lambda of: of,
    lambda of: of[:],
    lambda of: of.copy(deep=False),
    lambda of: of.reset_index(drop=True),
    lambda of: of.iloc[1:],
)


@for_each("view", VIEWS)
@for_each("dtype", [*WHOLE, "string", "str", pd.StringDtype("python"), "int64"])
def test_a_view_of_a_frame_is_not_of_another_silo(dtype: Any, view: Any) -> None:
    kind = str if "str" in str(dtype) else int
    codes = [kind(LARGE + code) for code in (0, 1, 2)]
    of, equal = (frame(codes, dtype)[["code"]] for _ in range(2))
    schema = {"columns": {"code": SCHEMA["columns"]["code"]}}
    with pytest.raises(InvalidInput, match="same rows"):
        pp.Table.from_frame({"a": of, "b": view(of)}, schema=schema)
    assert len(pp.Table.from_frame({"a": of, "b": equal}, schema=schema).rows().user) == 6


PARTS = (*VIEWS, lambda of: of.iloc[::-1], lambda of: of.iloc[::2], lambda of: of.loc[1:2])
NUMPY = (
    *("boolean", "bool", "Int64", "Float64", "int64", "category", "object"),
    pd.StringDtype("python"),
)
SCARCE = (pd.SparseDtype("int64", 0), pd.SparseDtype("float64", np.nan), pd.SparseDtype("bool"))
DECIMAL = pd.ArrowDtype(pa.decimal128(4, 1))
TRUTHS = {"columns": {"code": {"kind": "category", "values": ["0", "1"]}}}


def truths(dtype: Any) -> Any:
    texts = isinstance(dtype, pd.StringDtype)
    cells = [str(cell) if texts else cell for cell in (1, 0, 1, 1)]
    return pd.DataFrame({"code": pd.Series(cells, dtype=dtype)})


CUTS: tuple[tuple[Any, Any], ...] = (
    *((dtype, view) for dtype in NUMPY for view in PARTS),
    *((dtype, view) for dtype in SCARCE for view in VIEWS[:-1]),
    *((DECIMAL, view) for view in VIEWS),
)


@for_each("cut", CUTS)
def test_a_part_of_a_frame_of_any_type_is_not_of_another_silo(cut: tuple[Any, Any]) -> None:
    dtype, view = cut
    of = truths(dtype)
    with pytest.raises(InvalidInput, match="same rows"):
        pp.Table.from_frame({"a": of, "b": view(of)}, schema=TRUTHS)
    for pair in ((of, truths(dtype)), (of.iloc[:2], of.iloc[2:])):
        table = pp.Table.from_frame(dict(zip("ab", pair, strict=True)), schema=TRUTHS)
        assert len(table.rows().user) == sum(map(len, pair))


def test_a_table_of_arrow_and_its_frame_are_the_same_rows() -> None:
    table = pa.table({"code": [str(LARGE)] * 3, "age": [1.0, 2.0, 3.0]})
    with pytest.raises(InvalidInput, match="same rows"):
        pp.Table.from_frame(
            {"a": table, "b": table.to_pandas(types_mapper=pd.ArrowDtype)}, schema=SCHEMA
        )
