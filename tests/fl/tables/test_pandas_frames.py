"""Frames of pandas itself: every type of column is read as its CSV is, or refused by its type."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import privplan as pp
from privplan.accountant.errors import InvalidInput
from privplan.fl.tables.federated_table import digest_of, federation_of_table
from privplan.fl.tables.row_reading import TableColumns
from privplan.fl.tables.schema_file import schema_of
from privplan.fl.tables.table import TableRows, read_table

from ...cases import for_each
from .hospitals import MARKER, SCHEMA
from .test_frames import NASTY, cells, handed_over, table
from .test_table_runs import facts

pd = pytest.importorskip("pandas", reason="pandas is not installed: a stand-in is tested")

NUMBER = {"kind": "number", "range": [0, 10], "gap_indicator": True, "scaling": "none"}
WORD = {"kind": "category", "values": ["a", "b", "1", "2", "2020-01-02"]}
TRUTH = {"kind": "boolean", "values": ["False", "True"], "gap_indicator": True}

READ: tuple[tuple[Callable[[], Any], dict[str, Any]], ...] = (
    (lambda: pd.Series([1, None, 3], dtype="Int64"), NUMBER),
    (lambda: pd.Series([1, None, 2], dtype="Int64"), WORD),
    (lambda: pd.Series([1.5, None, 99.0], dtype="Float64"), NUMBER),
    (lambda: pd.Series([1, None, 3], dtype="UInt8"), NUMBER),
    (lambda: pd.Series([np.nan, 1e300, -1e300, 0.1]), NUMBER),
    (lambda: pd.Series([1.5, np.nan], dtype="float16"), NUMBER),
    (lambda: pd.Series([1, 2, 300]), NUMBER),
    (lambda: pd.Series(["a", None, "x", " b "], dtype="string"), WORD),
    (lambda: pd.Series(["a", None, "b"], dtype=pd.StringDtype("python")), WORD),
    (lambda: pd.Series(["a", None, "b"]), WORD),
    (lambda: pd.Series(["a", None, np.nan, pd.NA, pd.NaT, "b", 1], dtype=object), WORD),
    (lambda: pd.Series([datetime.date(2020, 1, 2), None], dtype=object), WORD),
    (lambda: pd.Series([Decimal("2.5"), None], dtype=object), NUMBER),
    (lambda: pd.Series(["a", None, "b"], dtype="category"), WORD),
    (lambda: pd.Series([1, None, 2], dtype=pd.CategoricalDtype([1, 2, 3])), WORD),
    (lambda: pd.Series([1, None, 2], dtype=pd.CategoricalDtype([3, 2, 1])), NUMBER),
    (lambda: pd.Series([1.5, None], dtype=pd.CategoricalDtype([1.5, 2.0])), NUMBER),
    (lambda: pd.Series([1, "a", None], dtype=pd.CategoricalDtype([1, "a"])), WORD),
    (lambda: pd.Series([1, None], dtype="int64[pyarrow]"), NUMBER),
    (lambda: pd.Series(["a", None], dtype="string[pyarrow]"), WORD),
    (
        lambda: pd.Series(["a", None], dtype=pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string()))),
        WORD,
    ),
    (lambda: pd.Series([Decimal("1.5"), None], dtype=pd.ArrowDtype(pa.decimal128(5, 2))), NUMBER),
    (lambda: pd.Series(pd.arrays.SparseArray([0, 1.5, 0])), NUMBER),
)
"""Columns that are read."""

REFUSED: tuple[tuple[Callable[[], Any], dict[str, Any]], ...] = (
    (lambda: pd.to_datetime(pd.Series(["2020-01-02", None])), WORD),
    (lambda: pd.to_datetime(pd.Series(["2020-01-02", None]), utc=True), NUMBER),
    (lambda: pd.Series([pd.Timestamp(0)], dtype=pd.ArrowDtype(pa.timestamp("ns"))), WORD),
    (lambda: pd.to_timedelta(pd.Series(["1D", None])), NUMBER),
    (lambda: pd.Series(pd.period_range("2020-01", periods=2, freq="M")), WORD),
    (lambda: pd.cut(pd.Series([1, 2, 3.0]), 2), WORD),
    (lambda: pd.Series(pd.arrays.IntervalArray.from_breaks([0.0, 1.0, 2.0])), NUMBER),
    (lambda: pd.Series([1 + 1j]), NUMBER),
)
"""Columns that no CSV has, and whose type says so."""


def of_frame(frame: Any, columns: dict[str, Any], **keys: Any) -> TableRows:
    return pp.Table.from_frame(frame, schema={"columns": columns}, **keys).rows()


def of_csv(frame: Any, columns: dict[str, Any], folder: Path, **keys: Any) -> TableRows:
    frame.to_csv(folder / "frame.csv", index=False)
    files = {"all": [folder / "frame.csv"]}
    return read_table(files, schema_of({"columns": columns}), TableColumns(**keys))


@for_each("case", READ)
def test_a_column_is_read_bit_for_bit_as_its_csv_is(
    tmp_path: Path, case: tuple[Callable[[], Any], dict[str, Any]]
) -> None:
    made, column = case
    # Beside a column that is always there: a line without any character is no row of a CSV.
    frame = pd.DataFrame({"x": made(), "y": 1})
    columns = {"x": column, "y": {"kind": "number", "range": [0, 1]}}
    ours, theirs = of_frame(frame, columns), of_csv(frame, columns, tmp_path)
    assert len(ours.features) == len(frame)
    assert ours.features.tobytes() == theirs.features.tobytes()


def test_what_is_infinite_is_out_of_range_as_a_number_too_large_for_a_float_is() -> None:
    frame = pd.DataFrame({"x": [np.inf, -np.inf]})
    texts = pd.DataFrame({"x": ["1e400", "-1e400"]})
    for each in (frame, texts):
        rows = of_frame(each, {"x": NUMBER}).features.tolist()
        assert sorted(rows) == [[0.0, 0.0], [10.0, 0.0]]


@for_each("dtype", ["bool", "boolean", "bool[pyarrow]", "object", "category"])
def test_a_truth_is_the_word_true_or_false(dtype: str) -> None:
    column = {"kind": "boolean", "gap_indicator": True}
    frame = pd.DataFrame({"x": pd.Series([True, False], dtype=dtype)})
    assert of_frame(frame, {"x": column}).features[:, 0].tolist() == [-1.0, 1.0]


@for_each("case", REFUSED)
def test_a_type_that_no_file_has_is_refused_by_its_name(
    case: tuple[Callable[[], Any], dict[str, Any]],
) -> None:
    made, column = case
    missing = made().iloc[:1].where([False])  # which some types cannot hold, and turn to objects
    kept = [missing] if missing.dtype == made().dtype else []
    for series in (made(), made().iloc[:0], *kept):  # the type alone decides, and no cell
        with pytest.raises(InvalidInput, match="column 'x' of type"):
            of_frame(pd.DataFrame({"x": series}), {"x": column})
    ignored = {"x": {"kind": "ignored"}, "y": NUMBER}
    assert len(of_frame(pd.DataFrame({"x": made(), "y": 1}), ignored).features)


LARGE = 2**53


@for_each(
    "ids",
    [
        lambda kept: pd.Series([LARGE, LARGE + 1, kept], dtype="Int64"),
        lambda kept: pd.Series([LARGE, LARGE + 1, kept], dtype="int64[pyarrow]"),
        lambda kept: pd.Series([LARGE, LARGE + 1, kept], dtype=object),
        lambda kept: pd.Series(
            [LARGE, LARGE + 1, kept], dtype=pd.CategoricalDtype([LARGE, LARGE + 1, 7])
        ),
    ],
)
def test_whole_ids_stay_whole_and_one_that_is_missing_takes_its_own_row_alone(
    ids: Callable[[Any], Any],
) -> None:
    def names(of: Any) -> Sequence[int]:
        frame = pd.DataFrame({"p": of, "x": [1.0, 2.0, 3.0]})
        rows = of_frame(frame, {"x": NUMBER}, user="p")
        names: list[int] = rows.user[np.argsort(rows.features[:, 0])].tolist()
        return names

    there, missing = names(ids(7)), names(ids(None))
    assert len(set(there)) == 3  # 2^53 and 2^53 + 1 are two people
    assert missing == there[:2]
    texts = pd.Series([str(LARGE), str(LARGE + 1), "7"])
    assert names(texts) == there


def test_an_id_may_be_a_uuid_and_is_its_text() -> None:
    ids = [uuid.UUID(int=1), uuid.UUID(int=2), uuid.UUID(int=1)]
    made = [
        of_frame(
            pd.DataFrame({"p": pd.Series(of, dtype=object), "x": 1.0}), {"x": NUMBER}, user="p"
        )
        for of in (ids, [str(each) for each in ids])
    ]
    assert made[0].user.tolist() == made[1].user.tolist()
    assert len(set(made[0].user.tolist())) == 2


def test_an_index_is_no_column_and_rows_follow_their_content() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "p": ["u", "v", "u"]})
    plain = of_frame(frame, {"x": NUMBER}, user="p")
    moved = (
        frame.set_axis([7, 7, 3], axis=0),
        frame.set_axis(pd.Index(["b", None, "a"], name="p2"), axis=0),
        frame.iloc[::-1],
        frame.sort_values("p"),
        pd.concat([frame.iloc[2:], frame.iloc[:2]]),
        frame.set_axis(pd.MultiIndex.from_tuples([("a", 1), ("a", 1), ("b", 2)]), axis=0),
    )
    for each in moved:
        rows = of_frame(each, {"x": NUMBER}, user="p")
        assert rows.features.tobytes() == plain.features.tobytes()
        assert rows.user.tolist() == plain.user.tolist()
    assert len(of_frame(frame.iloc[:0], {"x": NUMBER}, user="p").features) == 0
    with pytest.raises(InvalidInput, match="reset_index"):
        of_frame(frame.set_index("p"), {"x": NUMBER}, user="p")


@for_each(
    "columns, names",
    [
        (["x", "x"], "two columns 'x'"),
        (pd.MultiIndex.from_tuples([("x", "a"), ("x", "b")]), "a tuple"),
        ([0, 1], "an int"),
        (["x", None], "column whose name is"),
    ],
)
def test_columns_without_one_name_each_are_refused(columns: Any, names: str) -> None:
    with pytest.raises(InvalidInput, match=names):
        of_frame(pd.DataFrame([[1.0, 2.0]], columns=columns), {"x": NUMBER})


def test_names_of_columns_may_be_a_category() -> None:
    frame = pd.DataFrame([[1.0]], columns=pd.CategoricalIndex(["x"]))
    assert of_frame(frame, {"x": NUMBER}).features.tolist() == [[1.0, 0.0]]


TYPED: tuple[Callable[[dict[str, list[str]]], Any], ...] = (
    lambda columns: pd.DataFrame(columns),
    lambda columns: pd.DataFrame(columns).convert_dtypes(),
    lambda columns: pd.DataFrame(columns).astype("category"),
    lambda columns: pd.DataFrame(columns).astype(object),
    lambda columns: pd.DataFrame(columns).astype("string[pyarrow]"),
    lambda columns: pd.DataFrame(columns).astype({"age": float}).replace({"": None}),
    lambda columns: pd.DataFrame(columns).astype({"age": "float64[pyarrow]"}),
)
"""One hospital's rows, in columns of several types."""


@for_each("kind", TYPED)
def test_a_table_of_pandas_is_the_table_of_the_files(
    kind: Callable[[dict[str, list[str]]], Any],
) -> None:
    theirs = digest_of(federation_of_table(table().rows()))
    assert digest_of(federation_of_table(table(kind).rows())) == theirs


def test_a_log_says_the_same_of_neighbouring_frames_of_pandas(tmp_path: Path) -> None:
    """With the types of the frame fixed, the rows of one patient come, or go."""

    def frame(columns: dict[str, Any]) -> Any:
        return pd.DataFrame(columns).astype("string")

    def beside(columns: dict[str, list[str]]) -> Any:
        return pd.concat([frame(columns), frame(NASTY)])

    def without(columns: dict[str, list[str]]) -> Any:
        whole = frame(columns)
        return whole[whole["patient"] != "p7"]

    logs = []
    for number, kind in enumerate((frame, beside, without)):
        folder = tmp_path / str(number)
        pp.run(handed_over(), folder, data=table(kind))
        logs.append(facts((folder / "log.jsonl").read_text()))
        for path in folder.iterdir():
            assert MARKER.encode() not in path.read_bytes()
    assert logs[1:] == logs[:1] * 2


def test_no_cell_is_said_where_a_frame_is_refused_or_checked() -> None:
    frame = pd.DataFrame(cells(0)).astype("string")
    frame.loc[0, "age"] = MARKER
    checked = pp.Table.from_frame(frame, schema=SCHEMA, user="patient", label="outcome").check()
    assert MARKER not in str(checked)
    dated = frame.assign(age=pd.to_datetime(frame["age"], errors="coerce"))
    with pytest.raises(InvalidInput) as caught:
        pp.Table.from_frame(dated, schema=SCHEMA, user="patient", label="outcome")
    assert MARKER not in str(caught.value)
