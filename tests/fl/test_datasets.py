"""Data sets: published counts, digests and splits; small written files; every wrong file."""

from __future__ import annotations

import gzip
import hashlib
import os
import struct
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput, MissingExtra
from privplan.fl.data import normalise
from privplan.fl.datasets import NAMES, federate, heart_disease, load, tcga_brca
from privplan.fl.datasets.bundled import stratified

from ..cases import for_each

DATA = Path(
    os.environ.get("PRIVPLAN_DATA", Path(__file__).resolve().parents[2] / ".." / "shared" / "data")
)


def at_hand(name: str) -> Path:
    if not (DATA / name).is_dir():
        pytest.skip(f"no folder {name} beside the repository; set PRIVPLAN_DATA")
    return DATA / name


@pytest.fixture
def heart() -> Path:
    return at_hand("heart_disease")


@pytest.fixture
def tcga() -> Path:
    return at_hand("tcga_brca")


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[Path], Path]:
    def copy(source: Path) -> Path:
        for file in source.iterdir():
            (tmp_path / file.name).write_bytes(file.read_bytes())
        return tmp_path

    return copy


# -- Heart Disease ------------------------------------------------------------------------------


def test_heart_disease_has_the_counts_of_flamby(heart: Path) -> None:
    data = load("heart-disease", heart)
    assert np.bincount(data.silo).tolist() == [199, 172, 30, 85]
    assert np.bincount(data.test_silo).tolist() == [104, 89, 16, 45]
    assert data.features.shape == (486, 13)
    assert set(np.unique(data.labels)) == {0, 1}


def test_heart_disease_has_the_split_of_flamby_row_by_row(heart: Path) -> None:
    selection = pytest.importorskip("sklearn.model_selection")
    data = load("heart-disease", heart, normalisation="none")
    for number, centre in enumerate(heart_disease.CENTRES):
        name = f"processed.{centre}.data"
        rows = heart_disease.complete_rows(name, (heart / name).read_text())
        sick = rows[:, -1] > 0
        smallest = min(sick.sum(), (~sick).sum())
        train, test = selection.train_test_split(
            np.arange(len(rows)),
            test_size=1.0 - 0.66,
            train_size=0.66,
            random_state=43,
            stratify=sick if smallest > 2 else None,
        )
        for chosen, features, silo in (
            (train, data.features, data.silo),
            (test, data.test_features, data.test_silo),
        ):
            expected = heart_disease.coded(rows[np.sort(chosen)])
            assert (features[silo == number] == expected).all()


def test_heart_disease_codes_categories_without_the_first() -> None:
    row = "63.0,1.0,{},145.0,233.0,1.0,{},150.0,0.0,2.3,3.0,0.0,6.0,{}"
    lines = [row.format("1.0", "0", 0), row.format("3.0", "2.0", 4), row.format("?", "2.0", 1)]
    rows = heart_disease.complete_rows("some", "\n".join(lines))
    assert rows[:, -1].tolist() == [0, 4]
    assert heart_disease.coded(rows)[:, 8:].tolist() == [[0, 0, 0, 0, 0], [0, 1, 0, 0, 1]]
    assert heart_disease.coded(rows)[0, :8] == pytest.approx([63, 1, 145, 233, 1, 150, 0, 2.3])


def test_a_row_is_dropped_only_for_a_value_that_is_used() -> None:
    row = "63,1,1,145,233,1,2,150,0,2.3,?,?,?,0"
    assert len(heart_disease.complete_rows("some", row)) == 1
    assert len(heart_disease.complete_rows("some", row.replace("145", "?"))) == 0


def test_a_changed_heart_file_is_named_with_the_published_digest_alone(
    heart: Path, copied: Callable[[Path], Path]
) -> None:
    place = copied(heart)
    file = place / "processed.va.data"
    file.write_bytes(file.read_bytes().replace(b"63,1,4,140", b"64,1,4,140", 1))
    with pytest.raises(InvalidInput) as refused:
        load("heart-disease", place)
    assert "processed.va.data is not the published file" in str(refused.value)
    assert "4249d03ca7711e84f4444768c9426170" in str(refused.value)
    # The digest of what is there, which may be private, is not told.
    assert hashlib.md5(file.read_bytes()).hexdigest() not in str(refused.value)


def test_a_missing_heart_file_is_named(heart: Path, copied: Callable[[Path], Path]) -> None:
    place = copied(heart)
    (place / "processed.hungarian.data").unlink()
    with pytest.raises(InvalidInput, match=r"no file processed\.hungarian\.data"):
        load("heart-disease", place)


def test_pooled_logistic_regression_learns_from_public_normalisation(heart: Path) -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    data = load("heart-disease", heart)
    model = linear.LogisticRegression(max_iter=5000).fit(data.features, data.labels)
    assert model.score(data.test_features, data.test_labels) >= 0.78  # measured: .791
    assert np.abs(data.features).max() < 10


# -- TCGA-BRCA ----------------------------------------------------------------------------------


def test_tcga_has_the_counts_of_flamby(tcga: Path) -> None:
    data = load("tcga-brca", tcga)
    assert np.bincount(data.silo).tolist() == [248, 156, 164, 129, 129, 40]
    assert np.bincount(data.test_silo).tolist() == [63, 40, 42, 33, 33, 11]
    assert data.features.shape == (866, 39)
    assert (data.task, data.classes) == ("survival", 1)
    assert set(np.unique(data.labels[:, 1])) == {0.0, 1.0}
    assert data.labels[:, 0].max() > 1000  # days


def test_a_cox_model_ranks_tcga_patients(tcga: Path) -> None:
    data = load("tcga-brca", tcga)
    risk = data.test_features @ cox(data.features.astype(np.float64), *data.labels.T)
    assert concordance(risk, *data.test_labels.T) > 0.75  # measured: .85


def cox(features: np.ndarray, time: np.ndarray, event: np.ndarray) -> np.ndarray:
    """Return the coefficients of a ridge-penalised Cox model, by Newton's method."""
    weights = np.zeros(features.shape[1])
    at_risk = time[None, :] >= time[:, None]
    for _ in range(8):
        share = at_risk * np.exp(features @ weights)[None, :]
        share /= share.sum(axis=1, keepdims=True)
        mean = share @ features
        slope = (event[:, None] * (features - mean)).sum(axis=0) - 10.0 * weights
        second = np.einsum("i,ij,jk,jl->kl", event, share, features, features, optimize=True)
        second -= (event[:, None] * mean).T @ mean - 10.0 * np.eye(len(weights))
        weights += np.linalg.solve(second, slope)
    return weights


def concordance(risk: np.ndarray, time: np.ndarray, event: np.ndarray) -> float:
    earlier = (time[:, None] < time[None, :]) & (event[:, None] > 0)
    return float((earlier & (risk[:, None] > risk[None, :])).sum() / earlier.sum())


def tiny_tcga(place: Path) -> Path:
    """Write three patients: two in the split, one in no region."""
    header = ",".join(f'"{name}"' for name in ("pid", *tcga_brca.FEATURES, "E", "T"))
    zeros = ",".join("0" * (len(tcga_brca.FEATURES) - 1))
    rows = [f"P{number},{60 + number},{zeros},{number % 2}.0,10{number}" for number in range(3)]
    (place / "brca.csv").write_text("\n".join([header, *rows]) + "\n")
    (place / "train_test_split.csv").write_text(
        "pid,fold,fold2\nP2,train,train_5\nP1,test,test_0\n"
    )
    return place


@pytest.mark.usefixtures("stand_ins")
def test_tcga_rows_follow_the_table_and_the_split(tmp_path: Path) -> None:
    data = load("tcga-brca", tiny_tcga(tmp_path), normalisation="none")
    assert (data.features[:, 0].tolist(), data.test_features[:, 0].tolist()) == ([62.0], [61.0])
    assert (data.labels.tolist(), data.test_labels.tolist()) == ([[102.0, 0.0]], [[101.0, 1.0]])
    assert (data.silo.tolist(), data.test_silo.tolist()) == ([5], [0])


@pytest.mark.usefixtures("stand_ins")
@for_each(
    ("file", "old", "new", "message"),
    [
        ("brca.csv", "race_white", "race_other", r"brca\.csv has no column race_white"),
        ("brca.csv", "101", "n/a", r"Line 3 of brca\.csv, column T, is no finite number"),
        ("brca.csv", "101", "nan", r"Line 3 of brca\.csv, column T, is no finite number"),
        ("brca.csv", "P1,", "P1,7,", r"Line 3 of brca\.csv has 43 values; its header has 42"),
        ("train_test_split.csv", "P1", "P9", r"Line 3 .* patient is not in brca\.csv"),
        ("train_test_split.csv", "test_0", "test_6", "Line 3 .* fold2 is no fold of a region"),
        ("train_test_split.csv", "fold2", "fold3", "has no column fold2"),
        ("brca.csv", "P1,", "P0,", r"Line 3 of brca\.csv is of a patient who has another line"),
        ("train_test_split.csv", "P1", "P2", "Line 3 .* patient stands in a line before it"),
        ("brca.csv", "101", "1" * 200_000, r"brca\.csv is no CSV file"),
    ],
)
def test_a_wrong_tcga_file_is_refused(
    tmp_path: Path, file: str, old: str, new: str, message: str
) -> None:
    path = tiny_tcga(tmp_path) / file
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InvalidInput, match=message):
        load("tcga-brca", tmp_path)


@pytest.mark.usefixtures("stand_ins")
def test_numbers_beyond_float32_are_refused_without_a_warning(tmp_path: Path) -> None:
    path = tiny_tcga(tmp_path) / "brca.csv"
    path.write_text(path.read_text().replace("61", "1e39"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidInput, match="NaN or infinite"):
            load("tcga-brca", tmp_path)


@pytest.mark.usefixtures("stand_ins")
def test_a_split_without_patients_has_no_test_records_and_a_binary_file_is_no_table(
    tmp_path: Path,
) -> None:
    (tiny_tcga(tmp_path) / "train_test_split.csv").write_text("pid,fold,fold2\n")
    assert load("tcga-brca", tmp_path).records == 0
    (tiny_tcga(tmp_path) / "brca.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInput, match=r"brca\.csv is no text file"):
        load("tcga-brca", tmp_path)


# -- Creditcard ---------------------------------------------------------------------------------

CARD = ("Time", *(f"V{number}" for number in range(1, 29)), "Amount", "Class")


def tiny_cards(place: Path, honest: int = 400, frauds: int = 20) -> Path:
    """Write payments whose V1 is their line, as the publisher does: quoted header and class."""
    rng = np.random.default_rng(0)
    fraud = rng.permutation(np.repeat(['"0"', '"1"'], [honest, frauds]))
    rows = [
        ",".join([str(line), str(line), *["0.5"] * 27, "12.5", label])
        for line, label in enumerate(fraud)
    ]
    header = ",".join(f'"{name}"' for name in CARD)
    (place / "creditcard.csv").write_text("\n".join([header, *rows]) + "\n")
    return place


@pytest.mark.usefixtures("stand_ins")
def test_creditcard_keeps_a_tenth_of_honest_training_payments(tmp_path: Path) -> None:
    data = load("creditcard", tiny_cards(tmp_path), normalisation="none")
    assert np.bincount(data.labels).tolist() == [34, 17]
    assert np.bincount(data.test_labels).tolist() == [60, 3]
    lines = np.concatenate([data.features[:, 1], data.test_features[:, 1]])
    assert len(set(lines)) == len(lines) == 114
    assert set(data.features[:, -1]) == {12.5}
    fraud = [row.endswith('"1"') for row in (tmp_path / "creditcard.csv").read_text().split()[1:]]
    labels = np.concatenate([data.labels, data.test_labels])
    assert [fraud[int(line)] for line in lines] == labels.astype(bool).tolist()


@pytest.mark.usefixtures("stand_ins")
def test_creditcard_takes_a_file_and_the_callers_generator(tmp_path: Path) -> None:
    file = tiny_cards(tmp_path) / "creditcard.csv"
    fixed, again = load("creditcard", file), load("creditcard", str(tmp_path))
    other = load("creditcard", file, rng=np.random.default_rng(9))
    assert fixed.digest == again.digest != other.digest


@pytest.mark.usefixtures("stand_ins")
@for_each(
    ("old", "new", "message"),
    [
        ('"V17"', '"V71"', r"creditcard\.csv has no column V17"),
        ('"Class"', '"Label"', r"creditcard\.csv has no column Class"),
        ("12.5", "12.x", r"creditcard\.csv has a value that is no number"),
        ('"1"', '"2"', "is no payment of class 0 or 1"),
        ("0.5,0.5,", "0.5,", "Line 2 of creditcard.csv is no payment"),
        ("12.5", "nan", "NaN or infinite, first in row 0, column 29"),
    ],
)
def test_a_wrong_creditcard_file_is_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    file = tiny_cards(tmp_path) / "creditcard.csv"
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(InvalidInput, match=message):
        load("creditcard", file)


def test_an_empty_creditcard_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "creditcard.csv").write_text("")
    with pytest.raises(InvalidInput, match="has no column Time"):
        load("creditcard", tmp_path)


# -- MNIST --------------------------------------------------------------------------------------


def idx(values: np.ndarray) -> bytes:
    head = struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
    return head + values.astype(np.uint8).tobytes()


def tiny_mnist(place: Path, zipped: bool) -> Path:
    rng = np.random.default_rng(0)
    for stem, records in (("train", 30), ("t10k", 10)):
        images = rng.integers(0, 256, (records, 28, 28))
        images[0, 0, 0], images[0, 0, 1] = 255, 0
        for kind, values in (("images", images), ("labels", np.arange(records) % 10)):
            name = f"{stem}-{kind}-idx{values.ndim}-ubyte"
            raw = idx(values)
            file = place / (name + ".gz" * zipped)
            file.write_bytes(gzip.compress(raw) if zipped else raw)
    return place


@pytest.mark.usefixtures("stand_ins")
def test_mnist_is_read_from_idx_files_plain_and_gzipped(tmp_path: Path) -> None:
    places = [tmp_path / "plain", tmp_path / "zipped"]
    for zipped, place in enumerate(places):
        place.mkdir()
        tiny_mnist(place, bool(zipped))
    plain, zipped_data = (load("mnist", place) for place in places)
    assert plain.features.shape == (30, 1, 28, 28)
    assert plain.labels.tolist() == [*range(10)] * 3
    assert plain.features[0, 0, 0, :2] == pytest.approx([0.8693 / 0.3081, -0.1307 / 0.3081])
    assert plain.digest == zipped_data.digest


@pytest.mark.usefixtures("stand_ins")
def test_wrong_idx_files_are_refused(tmp_path: Path) -> None:
    tiny_mnist(tmp_path, False)
    images, labels = (tmp_path / f"train-{kind}-ubyte" for kind in ("images-idx3", "labels-idx1"))
    whole, digits = images.read_bytes(), labels.read_bytes()
    for file, raw, message in (
        (images, whole[:-1], "train-images-idx3-ubyte is truncated"),
        (images, whole[:9], "is no IDX file"),
        (images, digits, "is no IDX file of bytes in 3 dimensions"),
        (images, idx(np.zeros((30, 8, 8))), "28 x 28 pixels"),
        (images, idx(np.zeros((29, 28, 28))), "28 x 28 pixels"),
        (labels, idx(np.full(30, 10)), "has a label above 9"),
    ):
        images.write_bytes(whole)
        labels.write_bytes(digits)
        file.write_bytes(raw)
        with pytest.raises(InvalidInput, match=message):
            load("mnist", tmp_path)
    images.unlink()
    zipped = tmp_path / "train-images-idx3-ubyte.gz"
    for raw in (gzip.compress(whole)[:-20], b"no gzip"):
        zipped.write_bytes(raw)
        with pytest.raises(InvalidInput, match="is truncated or no gzip file"):
            load("mnist", tmp_path)
    zipped.unlink()
    with pytest.raises(InvalidInput, match="no file train-images-idx3-ubyte"):
        load("mnist", tmp_path)


# -- bundled sets, names, paths -----------------------------------------------------------------


@for_each(
    ("name", "train", "test", "width", "classes"),
    [("digits", 1438, 359, 64, 10), ("breast-cancer", 456, 113, 30, 2)],
)
def test_bundled_sets_need_no_path(
    name: str, train: int, test: int, width: int, classes: int
) -> None:
    pytest.importorskip("sklearn")
    data = load(name)
    assert data.features.shape == (train, width)
    assert data.test_features.shape == (test, width)
    assert len(np.unique(data.labels)) == data.classes == classes
    assert load(name).digest == data.digest
    with pytest.raises(InvalidInput, match="takes no `path`"):
        load(name, "somewhere")


@for_each("name", ["digits", "breast-cancer"])
def test_bundled_sets_without_scikit_learn(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MissingExtra, match="needs scikit-learn"):
        load(name)


def test_a_misspelt_name_suggests_the_right_one_and_an_unknown_one_lists_all() -> None:
    meant = {"mnsit": "mnist", "heart_disease": "heart-disease", "TCGA": "tcga-brca"}
    for given, name in meant.items():
        with pytest.raises(InvalidInput) as refused:
            load(given)
        assert refused.value.next_step == f"Did you mean {name}?"
    with pytest.raises(InvalidInput) as refused:
        load("zzz")
    assert all(name in str(refused.value) for name in NAMES)


@for_each("name", ["heart-disease", "tcga-brca", "creditcard", "mnist"])
def test_a_missing_path_or_folder_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no `path` is given"):
        load(name)
    with pytest.raises(InvalidInput, match="There is no folder"):
        load(name, tmp_path / "absent")
    with pytest.raises(InvalidInput, match="There is no file"):
        load(name, tmp_path)
    for path in ("~nobody-of-this-name/data", "a/" * 5_000, 5):
        with pytest.raises(InvalidInput, match=r"`path`|There is no folder"):
            load(name, path)  # type: ignore[arg-type]


# -- normalisation ------------------------------------------------------------------------------


def test_private_normalisation_is_refused_and_says_what_to_do() -> None:
    with pytest.raises(InvalidInput, match=r"fl\.frame\.private_normalisation"):
        load("digits", normalisation="private")
    with pytest.raises(InvalidInput, match="`normalisation` must be one of public, none"):
        load("digits", normalisation="zscore")


def test_public_normalisation_looks_at_each_record_alone() -> None:
    pytest.importorskip("sklearn")
    raw, scaled = load("breast-cancer", normalisation="none"), load("breast-cancer")
    alone = np.concatenate(
        [normalise.publicly(raw.features[row : row + 1], raw.scaling) for row in range(20)]
    )
    assert (alone == scaled.features[:20]).all()
    assert np.abs(scaled.features).max() <= 2.0 + 1e-6
    assert "public constants" in scaled.normalisation
    assert "none" in raw.normalisation


@pytest.mark.parametrize("rule", ["uniform", "zipf"])
@pytest.mark.parametrize("users", [50, 200])
def test_published_settings_of_tcga_and_heart_can_be_federated(
    heart: Path, tcga: Path, rule: str, users: int
) -> None:
    for name, path, least in (("heart-disease", heart, 1), ("tcga-brca", tcga, 2)):
        made = federate(load(name, path), users, None, rule, np.random.default_rng(users))
        assert made.counts.sum(axis=1).min() >= least
        assert made.users == users


def test_a_stratified_split_takes_its_share_of_each_label() -> None:
    labels = np.repeat([0, 1], [90, 10])
    chosen = stratified(labels, 0.2, np.random.default_rng(0))
    assert np.bincount(labels[chosen]).tolist() == [18, 2]
    again = stratified(labels, 0.2, np.random.default_rng(1))
    assert (chosen != again).any()
