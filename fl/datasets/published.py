"""What is published of the data sets of papers: their files must be these, and nobody else's.

Their records are dealt to users at random, for study.  Rows of somebody's own under a name of these
would get users who are nobody, and a promise that protects nobody.  So each file is held against
its digest, where its publisher or a widely used loader gives one, and else against how many records
there are of each class.  That guards against mix-ups, not against attacks.

Sources: heart-disease, FLamby's downloader; mnist, torchvision's loader (of the gzipped files), and
the counts of LeCun, Cortes and Burges; tcga-brca, du Terrail et al. 2022, table of Fed-TCGA-BRCA;
creditcard, Dal Pozzolo et al. 2015; emnist, Cohen et al. 2017; cifar-10, Krizhevsky 2009.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from ...accountant.arrays import IntArray
from ...accountant.errors import InvalidInput

TRAIN: Final = "training"
TEST: Final = "test"
ALL: Final = "all"
"""Which records counts are about, of a data set that is split by its publisher, and of another."""


@dataclass(frozen=True)
class PublishedFacts:
    """The MD5 of files by their names, and how many records there are of each class, or centre."""

    digests: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


PUBLISHED: Mapping[str, PublishedFacts] = {
    "heart-disease": PublishedFacts(
        digests={
            "processed.cleveland.data": "2d91a8ff69cfd9616aa47b59d6f843db",
            "processed.hungarian.data": "22e96bee155b5973568101c93b3705f6",
            "processed.switzerland.data": "9a87f7577310b3917730d06ba9349e20",
            "processed.va.data": "4249d03ca7711e84f4444768c9426170",
        }
    ),
    "mnist": PublishedFacts(
        digests={
            "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
        },
        counts={
            TRAIN: (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
            TEST: (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
        },
    ),
    "tcga-brca": PublishedFacts(
        counts={TRAIN: (248, 156, 164, 129, 129, 40), TEST: (63, 40, 42, 33, 33, 11)}
    ),
    "creditcard": PublishedFacts(counts={ALL: (284_315, 492)}),
    "emnist": PublishedFacts(counts={TRAIN: 47 * (2_400,), TEST: 47 * (400,)}),
    "cifar-10": PublishedFacts(counts={TRAIN: 10 * (5_000,), TEST: 10 * (1_000,)}),
}
"""By the name of the data set; of others nothing is checked: they are bundled, or generated."""


def require_published_file(name: str, path: Path, raw: bytes) -> None:
    """Refuse a file of a data set whose MD5 is not the one published, where one is.

    The message keeps to the published one: a file that is another may be somebody's own, and a
    digest tells whether records that one can guess are in it.
    """
    expected = PUBLISHED.get(name, PublishedFacts()).digests.get(path.name)
    digest = hashlib.md5(raw, usedforsecurity=False).hexdigest()
    if expected is not None and digest != expected:
        raise _not_published(path.name, f"whose MD5 is {expected}", name)


def require_published_counts(name: str, file: str, of: str, labels: IntArray) -> None:
    """Refuse records of a data set that are not as many of each class as published.

    `of` says which records, `labels` are their classes (or centres), and `file` is named.  The
    message keeps to what is published, and says nothing of the records.
    """
    expected = PUBLISHED.get(name, PublishedFacts()).counts.get(of)
    if expected is None:
        return
    counts = np.bincount(labels, minlength=len(expected))
    if tuple(counts.tolist()) != expected:
        some = ", ".join(f"{count:,}" for count in expected[:10])
        more = ", ..." if len(expected) > 10 else ""
        which = "" if of == ALL else f" {of}"
        raise _not_published(file, f"which has {some}{more}{which} records of each class", name)


def _not_published(file: str, known_by: str, name: str) -> InvalidInput:
    return InvalidInput(
        f"{file} is not the published file, {known_by}.",
        f"Records of {name} are dealt at random to users who are nobody, so nobody's rows would be "
        "protected.",
        'Fetch the file from its publisher, unchanged; for rows of your own use name = "table".',
    )
