"""EMNIST, CIFAR-10 and enlarged digits: small written files, and every wrong one."""

from __future__ import annotations

import doctest
import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.datasets import digits_32, load

from ...cases import for_each


def idx(values: np.ndarray) -> bytes:
    head = struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
    return head + values.astype(np.uint8).tobytes()


def tiny_emnist(place: Path, highest: int = 46, zipped: bool = True) -> Path:
    rng = np.random.default_rng(0)
    for part, records in (("train", 60), ("test", 20)):
        images = rng.integers(0, 255, (records, 28, 28))
        images[0, 2, 5] = 255
        labels = np.arange(records) % (highest + 1)
        for kind, values in (("images", images), ("labels", labels)):
            name = f"emnist-balanced-{part}-{kind}-idx{values.ndim}-ubyte"
            raw = idx(values)
            (place / (name + ".gz" * zipped)).write_bytes(gzip.compress(raw) if zipped else raw)
    return place


@pytest.mark.usefixtures("stand_ins")
@for_each("zipped", [True, False])
def test_emnist_is_read_and_turned_upright(tmp_path: Path, zipped: bool) -> None:
    data = load("emnist", tiny_emnist(tmp_path, zipped=zipped))
    assert data.features.shape == (60, 1, 28, 28)
    assert data.test_features.shape == (20, 1, 28, 28)
    assert data.labels.max() == 46
    assert data.classes == 47
    assert data.features[0, 0, 5, 2] == 1.0
    assert data.features[0, 0, 2, 5] < 1.0


@pytest.mark.usefixtures("stand_ins")
def test_wrong_files_of_emnist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no `path` is given"):
        load("emnist")
    with pytest.raises(InvalidInput, match="There is no file emnist-balanced-train-images"):
        load("emnist", tmp_path)
    with pytest.raises(
        InvalidInput, match=r"labels-idx1-ubyte\.gz has a label above 46"
    ) as refused:
        load("emnist", tiny_emnist(tmp_path, highest=47))
    assert "47" not in str(refused.value)
    file = tiny_emnist(tmp_path) / "emnist-balanced-test-images-idx3-ubyte.gz"
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes())[:-1]))
    with pytest.raises(InvalidInput, match="is truncated or too long"):
        load("emnist", tmp_path)
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(InvalidInput, match="truncated or no gzip file"):
        load("emnist", tmp_path)


def tiny_cifar(place: Path, label: int = 7) -> Path:
    rng = np.random.default_rng(0)
    names = [f"data_batch_{number}.bin" for number in range(1, 6)]
    for name in [*names, "test_batch.bin"]:
        rows = rng.integers(0, 256, (4, 3073))
        rows[:, 0] = [0, 9, 3, label]
        rows[0, 1:4], rows[0, 1 + 2 * 1024 + 32] = (255, 0, 51), 255
        (place / name).write_bytes(rows.astype(np.uint8).tobytes())
    return place


@pytest.mark.usefixtures("stand_ins")
def test_cifar_10_is_read_from_its_binary_files(tmp_path: Path) -> None:
    data = load("cifar-10", tiny_cifar(tmp_path))
    assert data.features.shape == (20, 3, 32, 32)
    assert data.test_features.shape == (4, 3, 32, 32)
    assert data.labels.tolist() == [0, 9, 3, 7] * 5
    assert data.features[0, 0, 0, :3] == pytest.approx([1.0, 0.0, 0.2])
    assert data.features[0, 2, 1, 0] == 1.0  # blue, second row


def test_pickles_are_never_read(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple:
            return Path.touch, (tmp_path / "sprung",)

    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(InvalidInput, match="version for Python: pickles"):
        load("cifar-10", tmp_path)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.usefixtures("stand_ins")
def test_wrong_files_of_cifar_10_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no file data_batch_1\.bin"):
        load("cifar-10", tmp_path)
    with pytest.raises(InvalidInput, match=r"data_batch_1\.bin has a label above 9") as refused:
        load("cifar-10", tiny_cifar(tmp_path, label=217))
    assert "217" not in str(refused.value)
    file = tiny_cifar(tmp_path) / "test_batch.bin"
    for raw in (b"", file.read_bytes()[:-1], file.read_bytes() + b"0"):
        file.write_bytes(raw)
        with pytest.raises(InvalidInput, match=r"test_batch\.bin is truncated or no file of CIFAR"):
            load("cifar-10", tmp_path)


def test_enlarged_digits_are_the_digits() -> None:
    pytest.importorskip("sklearn")
    large, small = load("digits-32"), load("digits")
    assert large.features.shape == (len(small.features), 1, 32, 32)
    assert (large.labels == small.labels).all()
    for row in range(4):
        for column in range(4):
            pixels = large.features[:, 0, row::4, column::4].reshape(len(small.features), -1)
            assert (pixels == small.features).all()
    with pytest.raises(InvalidInput, match="takes no `path`"):
        load("digits-32", "somewhere")


def test_examples_run() -> None:
    found = doctest.testmod(digits_32)
    assert found.attempted > 0
    assert found.failed == 0
