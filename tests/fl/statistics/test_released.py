"""Released statistics: how a vector is laid out, what is read from it, and the file."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.mechanisms.gram_noise import NoisyGram
from privplan.accountant.sensitivity.gram import GramBound
from privplan.fl.statistics.statistics import ReleasedStatistics

from ...cases import for_each
from .small import classified, exact, statistics


def test_a_vector_is_the_upper_triangle_and_then_the_sums() -> None:
    mechanism = NoisyGram(gram=GramBound(dimension=3, classes=2), std=1.0, bits=16)
    about: Any = {"event": ev.Gaussian(1.0), "delta": 1e-5, "neighbours": "add-remove"}
    released = ReleasedStatistics.of_vector(np.arange(12.0), mechanism, intercept=0.2, **about)
    assert released.gram.tolist() == [[0, 1, 2], [1, 3, 4], [2, 4, 5]]
    assert released.labels.tolist() == [[6, 7], [8, 9], [10, 11]]
    assert released.classes == (0, 1)
    assert released.features == 2


def test_each_class_has_a_matrix_of_its_own() -> None:
    features, labels = classified()
    features /= 10.0
    whole, apart = exact(features, labels), exact(features, labels, by_class=True)
    assert apart.gram.shape == (3, 5, 5)
    assert np.allclose(apart.total, whole.gram, rtol=1e-12)
    assert apart.noise_norm() == pytest.approx(3**0.5 * whole.noise_norm())


def test_sums_and_count_stand_in_the_column_of_the_constant() -> None:
    features, labels = classified()
    features /= 10.0
    released = exact(features, labels)
    rows = released.rows(features)
    assert np.allclose(released.sums(), rows.sum(axis=0))
    assert released.count == pytest.approx(len(features))
    assert np.allclose(rows[:, :-1], features * np.sqrt(0.8))


def test_long_rows_are_clipped_to_the_row_norm() -> None:
    released = exact(*classified())
    (row,) = released.rows([[30.0, 40.0, 0.0, 0.0]])
    assert np.allclose(row, [0.6 * 0.8**0.5, 0.8 * 0.8**0.5, 0, 0, 0.2**0.5])


def test_without_an_intercept_the_sum_of_the_rows_is_not_known() -> None:
    released = exact(*classified(), intercept=0.0)
    assert released.features == 4
    with pytest.raises(Unsupported, match="sum of the rows was not released"):
        released.sums()


def test_rows_of_another_shape_are_refused() -> None:
    with pytest.raises(InvalidInput, match="4 columns"):
        exact(*classified()).rows(np.zeros((2, 5)))


def test_released_values_cannot_be_changed() -> None:
    released = exact(*classified())
    with pytest.raises(FrozenInstanceError):
        released.std = 0.0  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        released.gram[0, 0] = 1.0


@for_each("wrong", [np.zeros((4, 4)), np.full((5, 5), np.nan), np.zeros((5, 5), int)])
def test_arrays_that_do_not_fit_are_refused(wrong: np.ndarray) -> None:
    with pytest.raises(InvalidInput, match=r"`gram` must be finite floats of shape \(5, 5\)"):
        replace(exact(*classified()), gram=wrong)


@for_each(
    "terms",
    [
        {},
        {"classes": ["a", "b", "c"], "noise": "laplace"},
        {"by_class": True, "neighbours": "replace-one"},
    ],
)
def test_a_file_holds_all_of_it(terms: dict[str, object], tmp_path: Path) -> None:
    features, labels = classified()
    names = np.array(terms.get("classes", [0, 1, 2]))
    released = statistics(**terms).release(features, names[labels]).released
    released.save(tmp_path / "kept.npz")
    again = ReleasedStatistics.load(tmp_path / "kept.npz")
    assert np.array_equal(again.gram, released.gram)
    assert np.array_equal(again.labels, released.labels)
    assert again.guarantee == released.guarantee
    arrays = {"gram", "labels", "guarantee", "total"}
    kept, read = (
        {name: value for name, value in vars(each).items() if name not in arrays}
        for each in (released, again)
    )
    assert kept == read


@for_each("content", [b"", b"no archive", None])
def test_other_files_are_refused(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "kept.npz"
    if content is None:
        np.savez(path, gram=np.zeros((2, 2)))
    else:
        path.write_bytes(content)
    with pytest.raises(InvalidInput, match="no released statistics"):
        ReleasedStatistics.load(path)
    with pytest.raises(InvalidInput, match="cannot be read"):
        ReleasedStatistics.load(tmp_path / "absent.npz")


def test_a_seeded_release_says_so_wherever_it_is_read(tmp_path: Path) -> None:
    features, labels = classified()
    statistics().release(features, labels).released.save(tmp_path / "kept.npz")
    said = ReleasedStatistics.load(tmp_path / "kept.npz").guarantee.warnings
    assert any("seed" in warning for warning in said)
    assert statistics(seed=None).release(features, labels).guarantee_.warnings == ()


@for_each("length", [1e-300, 1.0, 1e200, 1e308])
def test_rows_of_any_length_are_clipped_as_for_the_release(length: float) -> None:
    released = statistics(row_norm=2.0).release(*classified(features=4)).released
    row = released.rows(np.full((1, 4), length))[0]
    short = min(length, 1.0)
    assert np.allclose(row[:-1], short * released.scale, rtol=1e-12, atol=0.0)


def altered(path: Path, gram: Any = None, **facts: object) -> None:
    """Write a file of statistics with other facts beside what was released."""
    statistics().release(*classified()).released.save(path)
    with np.load(path) as arrays:
        kept = dict(arrays)
    about = {**json.loads(kept["about"].tobytes()), **facts}
    kept["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    np.savez(path, **{**kept, **({} if gram is None else {"gram": gram})})


CONTRADICTIONS: dict[str, list[Any]] = {
    "event": [
        *({"type": kind, "noise_multiplier": 100.0} for kind in ("gaussian", "laplace")),
        {"type": "compose", "events": []},
    ],
    "std": [float("nan"), -1.0, "1"],
    "classes": [[0], [0, 0, 0], [[0], [1], [2]]],
    "label_range": [[1.0], [1.0, 0.0]],
    **{"neighbours": ["zero-out"], "row_norm": [0.0], "intercept": [5.0], "delta": [1.0]},
    **{"family": ["uniform"], "unit": ["nobody"], "observer": ["nobody"], "shares": [0]},
    **{"bits": [-1], "seeded": ["no"], "gram": [np.triu(np.ones((5, 5)))]},
}


@for_each("name, value", [(name, value) for name, some in CONTRADICTIONS.items() for value in some])
def test_a_file_that_contradicts_itself_is_refused(name: str, value: Any, tmp_path: Path) -> None:
    altered(tmp_path / "kept.npz")
    ReleasedStatistics.load(tmp_path / "kept.npz")
    altered(tmp_path / "kept.npz", **{name: value})
    with pytest.raises(InvalidInput, match="no released statistics"):
        ReleasedStatistics.load(tmp_path / "kept.npz")


def test_a_spoilt_file_is_refused_whatever_its_reader_says(tmp_path: Path) -> None:
    """Every tenth byte of a compressed archive turned over; a deep text; a table beyond memory."""
    path = tmp_path / "kept.npz"
    statistics().release(*classified()).released.save(path)
    with np.load(path) as arrays:
        kept = dict(arrays)
    np.savez_compressed(path, **kept)
    content = path.read_bytes()
    refused = 0
    for start in range(0, len(content), 10):
        turned = bytes([content[start] ^ 255])
        path.write_bytes(content[:start] + turned + content[start + 1 :])
        try:
            ReleasedStatistics.load(path)
        except InvalidInput:
            refused += 1
    assert refused > len(content) // 20
    np.savez(path, **{**kept, "about": np.frombuffer(b"[" * 100_000, np.uint8)})
    with pytest.raises(InvalidInput):
        ReleasedStatistics.load(path)
    header = io.BytesIO()
    shape = {"descr": "<f8", "fortran_order": False, "shape": (10**7, 10**7)}
    np.lib.format.write_array_header_1_0(header, shape)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("gram.npy", header.getvalue())
    with pytest.raises(InvalidInput):
        ReleasedStatistics.load(path)
