"""The files of data sets of papers are the published ones, and nobody's own rows."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.datasets import NAMES, load, published
from privplan.fl.datasets.published import ALL, PUBLISHED, TEST, TRAIN, PublishedFacts

from ...cases import for_each
from ..test_datasets import tiny_cards, tiny_mnist, tiny_tcga
from .test_images import tiny_cifar, tiny_emnist


def refused(name: str, path: Path) -> str:
    with pytest.raises(InvalidInput, match='name = "table"') as caught:
        load(name, path)
    return str(caught.value)


def test_rows_of_somebody_are_refused_under_every_name(tmp_path: Path) -> None:
    makers = {
        "creditcard": tiny_cards,
        "tcga-brca": tiny_tcga,
        "cifar-10": tiny_cifar,
        "emnist": tiny_emnist,
    }
    for name, make in makers.items():
        (tmp_path / name).mkdir()
        assert "is not the published file" in refused(name, make(tmp_path / name))


def test_a_refusal_tells_what_is_published_and_not_what_is_there(tmp_path: Path) -> None:
    said = refused("creditcard", tiny_cards(tmp_path, honest=417, frauds=23))
    assert "284,315, 492 records of each class" in said
    assert "417" not in said
    assert "23" not in said.replace("284,315", "")


def test_zipped_files_of_mnist_have_the_published_digest_and_others_the_counts(
    tmp_path: Path,
) -> None:
    for zipped in (True, False):
        place = tmp_path / str(zipped)
        place.mkdir()
        said = refused("mnist", tiny_mnist(place, zipped))
        assert ("MD5 is f68b3c2dcbeaaa9fbdd348bbdeb94873" in said) == zipped
        assert ("5,923, 6,742" in said) != zipped


def test_the_published_file_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_mnist(tmp_path, zipped=True)
    digests = {path.name: hashlib.md5(path.read_bytes()).hexdigest() for path in tmp_path.iterdir()}
    counts = {TRAIN: 10 * (3,), TEST: 10 * (1,)}
    facts = {
        "mnist": PublishedFacts(digests, counts),
        "creditcard": PublishedFacts({}, {ALL: (400, 20)}),
    }
    monkeypatch.setattr(published, "PUBLISHED", facts)
    assert load("mnist", tmp_path).records == 30
    assert load("creditcard", tiny_cards(tmp_path)).records == 51
    file = tmp_path / "t10k-labels-idx1-ubyte.gz"
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes()), 1, mtime=5))
    assert file.name in refused("mnist", tmp_path)


@for_each(
    "name, records",
    [
        ("mnist", (60_000, 10_000)),
        ("tcga-brca", (866, 222)),
        ("creditcard", (284_807,)),
        ("emnist", (112_800, 18_800)),
        ("cifar-10", (50_000, 10_000)),
    ],
)
def test_published_counts_add_up(name: str, records: tuple[int, ...]) -> None:
    assert tuple(int(np.sum(of)) for of in PUBLISHED[name].counts.values()) == records


def test_every_data_set_that_is_read_from_files_is_checked() -> None:
    assert PUBLISHED["heart-disease"].digests
    assert PUBLISHED["creditcard"].counts
    without_files = {"digits", "breast-cancer", "low-rank", "digits-32", "synthetic-digits"}
    assert set(NAMES) - set(PUBLISHED) == without_files
