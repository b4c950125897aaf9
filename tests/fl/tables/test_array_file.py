"""Files of arrays: images and sparse matrices as records, by their headers and a schema."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse

import privplan as pp
from privplan.accountant.errors import InvalidInput
from privplan.fl.tables.batches import BATCH_NUMBERS
from privplan.fl.tables.row_reading import TableColumns
from privplan.fl.tables.schema_file import schema_of
from privplan.fl.tables.table import read_table
from privplan.fl.tables.value_checks import checked_table

from ...cases import for_each
from .test_table_runs import facts

PIXELS = {"kind": "array", "shape": [2, 3], "range": [0, 255]}
LABEL = {"kind": "binary", "values": ["0", "1"]}


def images(rows: int = 7) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).integers(0, 256, (rows, 2, 3)).astype(np.uint8)


def users(rows: int = 7) -> np.ndarray[Any, Any]:
    return np.array([f"p{row % 4}" for row in range(rows)])


def read(path: Path, column: dict[str, Any] | None = None, **named: str) -> Any:
    name = named.pop("name", "pixels")
    schema = schema_of({"label": LABEL, "columns": {name: column or PIXELS}})
    return read_table({"a": [path]}, schema, TableColumns(**{"user": "user", **named}))


def in_order(features: Any) -> Any:
    """Return rows in an order of their own."""
    return features[np.lexsort(features.T)]


def test_images_are_features_scaled_by_their_public_range(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, pixels=images(), user=users(), y=np.arange(7) % 2)
    table = read(path, label="y")
    expected = (2.0 * (images().reshape(7, 6) / 255.0) - 1.0).astype(np.float32)
    assert np.array_equal(in_order(table.features), in_order(expected))
    assert len(set(table.user.tolist())) == 4
    assert sorted(table.labels.tolist()) == [0, 0, 0, 0, 1, 1, 1]


@for_each(
    "pixels",
    [
        images().reshape(7, 6),
        images().astype(np.int64),
        images().astype(">f4"),
        images().astype(np.float16),
    ],
)
def test_arrays_of_every_type_and_flat_ones_are_the_same_records(
    tmp_path: Path, pixels: Any
) -> None:
    np.savez(tmp_path / "a.npz", pixels=images(), user=users())
    np.savez(tmp_path / "b.npz", pixels=pixels, user=users())
    assert np.array_equal(read(tmp_path / "a.npz").features, read(tmp_path / "b.npz").features)


def test_a_column_of_a_file_of_arrays_is_one_of_a_text_file(tmp_path: Path) -> None:
    schema = schema_of(
        {
            "label": LABEL,
            "columns": {
                "age": {"kind": "number", "range": [0, 110]},
                "sex": {"kind": "category", "values": ["f", "m"]},
                "well": {"kind": "boolean"},
            },
        }
    )
    rows = [("p1", 40.25, "f", True, 1), ("p2", -3.0, "x", False, 0), ("p1", 7.5, "m", True, 1)]
    names = ("user", "age", "sex", "well", "y")
    lines = [",".join(names), *(",".join(map(str, row)) for row in rows)]
    (tmp_path / "a.csv").write_text(
        "\n".join(lines).replace("True", "true").replace("False", "false")
    )
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    columns[2] = columns[2].astype("S")
    np.savez(tmp_path / "a.npz", **dict(zip(names, columns, strict=True)))
    asked = TableColumns(user="user", label="y")
    one, two = (read_table({"a": [tmp_path / f"a.{end}"]}, schema, asked) for end in ("csv", "npz"))
    for name in ("features", "labels", "user", "silo"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name


def test_what_is_not_finite_is_the_gap_and_what_is_out_of_range_is_clipped(tmp_path: Path) -> None:
    pixels = np.array([[0.0, np.nan, np.inf, -np.inf, 1e38, 255.0]])
    np.savez(tmp_path / "a.npz", pixels=pixels, user=["p"])
    flat = {"kind": "array", "shape": [6], "range": [0, 255]}
    assert read(tmp_path / "a.npz", flat).features.tolist() == [[-1, 0, 0, 0, 1, 1]]
    raw = read(tmp_path / "a.npz", {**flat, "gap": 51, "scaling": "none"}).features
    assert raw.tolist() == [[0, 51, 51, 51, 255, 255]]


def test_a_sparse_matrix_is_the_dense_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    dense = rng.integers(-9, 9, (50, 40)) * (rng.random((50, 40)) < 0.1)
    matrix = scipy.sparse.csr_matrix(dense.astype(np.float32))
    scipy.sparse.save_npz(tmp_path / "matrix.npz", matrix)
    with np.load(tmp_path / "matrix.npz") as parts:
        np.savez(tmp_path / "sparse.npz", user=users(50), **parts)
    np.savez(tmp_path / "dense.npz", data=dense, user=users(50))
    column = {"kind": "array", "shape": [40], "range": [-5, 5], "gap": 0}
    one, two = (read(tmp_path / f"{kind}.npz", column, name="data") for kind in ("sparse", "dense"))
    assert np.array_equal(one.features, two.features)
    assert np.array_equal(one.user, two.user)
    with pytest.raises(InvalidInput, match=r"matrix\.npz has no column 'user'"):
        read(tmp_path / "matrix.npz", column, name="data")
    scipy.sparse.save_npz(tmp_path / "columns.npz", matrix.tocsc())
    with pytest.raises(InvalidInput, match="csr"):
        read(tmp_path / "columns.npz", column, name="data")


def test_entries_of_no_column_and_of_one_place_do_what_scipy_does(tmp_path: Path) -> None:
    parts = {"shape": [3, 4], "format": b"csr", "indptr": [0, 3, 3, 5]}
    np.savez(
        tmp_path / "a.npz", data=[1.0, 2.0, 9.0, np.nan, 3.0], indices=[1, 1, 7, 0, -2],
        user=["p1", "p2", "p3"], **parts,
    )  # fmt: skip
    column = {"kind": "array", "shape": [4], "range": [0, 10], "gap": 5, "scaling": "none"}
    table = read(tmp_path / "a.npz", column, name="data")
    assert (
        in_order(table.features).tolist()
        == in_order(np.array([[0, 3, 0, 0], [0, 0, 0, 0], [5, 0, 0, 0]])).tolist()
    )
    np.savez(
        tmp_path / "b.npz", data=[1.0], indices=[1], user=["p1", "p2"],
        shape=[2, 4], format=b"csr", indptr=[0, 5, 1],
    )  # fmt: skip
    with pytest.raises(InvalidInput, match="do not fit together"):
        read(tmp_path / "b.npz", column, name="data")


def test_rows_are_read_in_blocks_of_every_array(tmp_path: Path) -> None:
    width, rows = 1024, 3 * BATCH_NUMBERS // 1024 + 5
    values = np.arange(rows * width, dtype=np.float32).reshape(rows, width) % 251
    np.savez(tmp_path / "a.npz", pixels=values, user=np.arange(rows))
    column = {"kind": "array", "shape": [width], "range": [0, 250], "scaling": "none"}
    table = read(tmp_path / "a.npz", column)
    assert np.array_equal(in_order(table.features[:, :2]), in_order(values[:, :2]))
    cells = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), width)
    frame = pa.table({"pixels": cells, "user": np.arange(rows)})
    schema = {"columns": {"pixels": column}}
    framed = pp.Table.from_frame(frame, schema=schema, user="user").rows()
    assert np.array_equal(framed.features, table.features)


def test_texts_that_hold_no_characters_are_no_ids(tmp_path: Path) -> None:
    ids = np.array(["p1", "px", "py", "p2"])
    ids.view(np.uint32)[[3, 5]] = 0x110000, 0xD800
    np.savez(tmp_path / "a.npz", pixels=images(4), user=ids)
    assert len(read(tmp_path / "a.npz").features) == 2
    np.savez(tmp_path / "b.npz", pixels=images(3), user=np.array([b"p1", b"p\xff", b""]))
    assert len(read(tmp_path / "b.npz").features) == 1


def test_rows_end_with_the_shortest_array_and_a_check_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, pixels=images(5), user=users(3))
    assert len(read(path).features) == 3
    schema = schema_of({"columns": {"pixels": PIXELS}})
    found = checked_table({"a": [path]}, schema, TableColumns(user="user")).findings
    assert [(finding.count, finding.lines) for finding in found] == [(2, (4, 5))]


@for_each(
    "arrays, says",
    [
        ({"pixels": images(), "user": users(), "more": users()}, "'more'"),
        ({"pixels": images()}, "'user'"),
        ({"pixels": images().reshape(7, 3, 2), "user": users()}, r"\[3, 2\].*\[2, 3\]"),
        ({"pixels": images()[:, 0, 0], "user": users()}, "'pixels'"),
        ({"pixels": np.asfortranarray(images()), "user": users()}, "rows first"),
        ({"pixels": images().astype(complex), "user": users()}, "'pixels'"),
        ({"pixels": images(), "user": users()[:, None]}, "'user'"),
        ({"pixels": images(), "user": np.ones(7)}, "ids in 'user'"),
        ({"pixels": images(), "user": users().astype(object)}, "never unpickled"),
        ({"pixels": np.array(3), "user": users()}, "'pixels'"),
        ({"pixels": images().astype(np.longdouble), "user": users()}, "of a type that is not read"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_by_what_their_headers_say(
    tmp_path: Path, arrays: dict[str, Any], says: str
) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InvalidInput, match=rf"a\.npz.*{says}"):
        read(tmp_path / "a.npz")


def header(shape: str, descr: str = "'|u1'") -> bytes:
    said = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}".encode()
    return b"\x93NUMPY\x01\x00" + len(said).to_bytes(2, "little") + said


@for_each(
    "content",
    [
        b"",
        b"no array",
        header("(7, 2, 3)"),
        header("(10**12,)"),
        header("(-1, 3)") + b"xxx",
        header("(1,)", "'|O'") + pickle.dumps([1]),
        header("(1,)", "[('a', '|u1')]") + b"x",
        header("(" + "1," * 5000 + ")") + b"x",
    ],
)
def test_what_is_no_array_is_refused(tmp_path: Path, content: bytes) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as packed:
        packed.writestr("pixels.npy", content)
    with pytest.raises(InvalidInput, match=r"a\.npz"):
        read(tmp_path / "a.npz")


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, pixels=images(), user=users())
    whole = path.read_bytes()
    for size in (2**20, 2**31):  # what the directory declares of each array
        content = bytearray(whole)
        at = content.find(b"PK\x01\x02")
        content[at + 24 : at + 28] = size.to_bytes(4, "little")
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match=r"a\.npz"):
            read(path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidInput, match="damaged"):
        read(path)


@for_each(
    "said, says",
    [
        ({"kind": "array", "range": [0, 1]}, "`shape`"),
        ({"kind": "array", "shape": [2]}, "`range`"),
        ({"kind": "array", "shape": [], "range": [0, 1]}, "`shape`"),
        ({"kind": "array", "shape": [2, 0], "range": [0, 1]}, "`shape`"),
        ({"kind": "array", "shape": [2**11, 2**11], "range": [0, 1]}, "`shape`"),
        ({"kind": "array", "shape": [2], "range": [0, 1], "gap": 3}, "gap"),
        ({"kind": "array", "shape": [2], "range": [0, 1], "gap_indicator": True}, "no effect"),
        ({"kind": "number", "shape": [2], "range": [0, 1]}, "`shape`"),
    ],
)
def test_a_schema_says_shape_and_range_of_arrays(said: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        schema_of({"columns": {"pixels": said}})


def test_features_of_arrays_are_named_by_their_places(tmp_path: Path) -> None:
    schema = schema_of({"columns": {"pixels": PIXELS}})
    assert schema.width == 6
    assert schema.feature_names[:4] == ("pixels[0,0]", "pixels[0,1]", "pixels[0,2]", "pixels[1,0]")
    (tmp_path / "a.csv").write_text("pixels,user\n1,p\n")
    with pytest.raises(InvalidInput, match=r"a\.csv.*'pixels'"):
        read(tmp_path / "a.csv")


def test_arrays_may_stand_in_columns_of_lists_of_one_size(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", pixels=images(), user=users())
    cells = pa.FixedSizeListArray.from_arrays(pa.array(images().reshape(-1)), 6)
    frame = pa.table({"pixels": cells, "user": users()})
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), frame.schema) as file:
        file.write_table(frame)
    one, two = (read(tmp_path / f"a.{end}").features for end in ("npz", "arrow"))
    assert np.array_equal(one, two)
    part = pp.Table.from_frame(
        frame.slice(2, 3), schema={"columns": {"pixels": PIXELS}}, user="user"
    ).rows()
    expected = (2.0 * (images().reshape(7, 6)[2:5] / 255.0) - 1.0).astype(np.float32)
    assert np.array_equal(in_order(part.features), in_order(expected))
    gone = pa.array([None, [1] * 6], pa.list_(pa.uint8(), 6))
    missing = pp.Table.from_frame(
        pa.table({"pixels": gone}), schema={"columns": {"pixels": PIXELS}}
    ).rows()
    assert sorted(missing.features.sum(axis=1).tolist())[1] == 0.0
    with pytest.raises(InvalidInput, match="'pixels'"):
        pp.Table.from_frame(pa.table({"pixels": [[1, 2]]}), schema={"columns": {"pixels": PIXELS}})


def test_a_draft_of_a_schema_has_the_shapes_that_headers_declare(tmp_path: Path) -> None:
    import tomllib

    from privplan.fl.tables.schema import TextFormat
    from privplan.fl.tables.schema_draft import draft_of

    path = tmp_path / "a.npz"
    np.savez(path, pixels=images(), user=users(), age=np.arange(7.0), well=np.ones(7, bool))
    columns = tomllib.loads(draft_of([path], TextFormat()))["columns"]
    assert columns == {
        "pixels": {"kind": "array", "shape": [2, 3]},
        "user": {},
        "age": {"kind": "number"},
        "well": {"kind": "boolean"},
    }
    known = tomllib.loads(draft_of([path], TextFormat(), public=path, source="UCI"))["columns"]
    assert known["age"] == {"kind": "number", "range": [0.0, 6.0], "source": "UCI"}


def on_images(path: Path, **run: Any) -> dict[str, dict[str, Any]]:
    """Return the configuration of a run on a file of images."""
    return {
        "run": {"system": "uldp-avg", "rounds": 1, **run},
        "data": {
            "name": "table",
            "silos": {"north": str(path)},
            "user": "user",
            "label": {"column": "y", **LABEL},
            "columns": {"pixels": PIXELS},
            "users_at_most": 10,
        },
        "privacy": {"noise_multiplier": 2.0},
    }


def test_a_run_on_images_is_audited(tmp_path: Path) -> None:
    from privplan.audit.budget import audit_budget

    np.savez(tmp_path / "a.npz", pixels=images(40), user=users(40), y=np.arange(40) % 2)
    pp.run(on_images(tmp_path / "a.npz"), tmp_path / "out")
    assert audit_budget(tmp_path / "out").supported


def test_a_log_says_the_same_of_neighbouring_files_of_arrays(tmp_path: Path) -> None:
    """Neighbours are made of the arrays: one patient's rows come, whatever they hold, or go."""
    pixels, ids, labels = images(40).astype(np.float32), users(40), np.arange(40) % 2
    odd = np.array([[np.nan, np.inf, -np.inf, 1e38, -1e38, 7.0]] * 2, np.float32)
    files = (
        (pixels, ids, labels),
        (
            np.concatenate([pixels, odd.reshape(2, 2, 3)]),
            np.concatenate([ids, ["a user of a long name", ""]]),
            np.concatenate([labels, [1, 7]]),
        ),
        tuple(column[ids != "p2"] for column in (pixels, ids, labels)),
        tuple(column[:0] for column in (pixels, ids, labels)),
    )
    logs = []
    for number, (cells, user, y) in enumerate(files):
        np.savez(tmp_path / "a.npz", pixels=cells, user=user, y=y)
        pp.run(on_images(tmp_path / "a.npz", seed=5), tmp_path / str(number))
        logs.append(facts((tmp_path / str(number) / "log.jsonl").read_text()))
    assert logs[1:] == logs[:1] * 3
