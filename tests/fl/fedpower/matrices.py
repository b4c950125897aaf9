"""Small matrices of ratings, and a system that is declared to read them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from privplan.fl.data.federation import Federation
from privplan.fl.data.rating_federation import RatingFederation, row_silos
from privplan.fl.declarations.declaration import Declaration
from privplan.fl.declarations.packages import built_in
from privplan.fl.declarations.toml_keys import RATING_USES

READER = Declaration(
    name="matrix-reader",
    summary="reads a matrix, for tests",
    make="nowhere:nothing",
    uses=RATING_USES,
    rounds=1,
    trains=False,
    data="privplan.fl.fedpower.data:federation",
)


def with_reader() -> dict[str, Declaration]:
    """Return the systems of this package and one that reads ratings."""
    return {**built_in(), READER.name: READER}


def csv_file(path: Path, lines: Iterable[str], header: str = "userId,movieId,rating") -> Path:
    """Write a CSV file of ratings."""
    path.write_text("\n".join((header, *lines)) + "\n", encoding="utf-8")
    return path


def rated(cells: list[tuple[int, int, float]], **sizes: int) -> RatingFederation:
    """Return a federation of (row, column, value) with `users`, `silos` and `columns`."""
    user = np.array([cell[0] for cell in cells], np.int64)
    return RatingFederation(
        name="ratings",
        task="binary",
        classes=2,
        features=np.array([cell[1:] for cell in cells], np.float32).reshape(-1, 2),
        labels=np.zeros(user.size, np.int64),
        user=user,
        silo=row_silos(sizes["users"], sizes["silos"])[user],
        test_features=np.empty((0, 2), np.float32),
        test_labels=np.empty(0, np.int64),
        **sizes,
    )


def recorded(records: int = 12, shape: tuple[int, ...] = (3,), silos: int = 3) -> Federation:
    """Return a federation of records with normal features, one user each, dealt in turn."""
    rng = np.random.default_rng(5)
    parts: dict[str, Any] = {
        "features": rng.normal(size=(records, *shape)).astype(np.float32),
        "labels": np.zeros(records, np.int64),
        "user": np.arange(records),
        "silo": np.arange(records) % silos,
        "test_features": rng.normal(size=(20, *shape)).astype(np.float32),
        "test_labels": np.zeros(20, np.int64),
    }
    return Federation(name="tiny", task="binary", classes=2, users=records, silos=silos, **parts)
