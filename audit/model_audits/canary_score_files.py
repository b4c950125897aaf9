"""Scores of canaries as somebody gives them: one of each, by id or in the order of the rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...accountant.arrays import FloatArray
from ...accountant.errors import InvalidInput
from .canary_folder import ID
from .score_archives import archive_arrays
from .score_lines import csv_rows

Scores: TypeAlias = Mapping[str, float] | ArrayLike
"""A score for each id, or an array in the order of the rows to score; the higher, the surer."""


def read_score_file(path: str | Path) -> dict[str, float]:
    """Return the scores of a file by id: columns `canary` (or `id`) and `score`, `.csv` or `.npz`.

    In place of `score` there may be `loss`, whose sign is turned.  Raises `InvalidInput`.
    """
    if Path(path).suffix.lower() == ".npz":
        columns: Mapping[str, Any] = archive_arrays(path)
    else:
        rows = csv_rows(path)
        columns = {name: [row[name] for row in rows] for name in rows[0]}
    named = next((name for name in (ID, "id") if name in columns), None)
    kinds = [name for name in ("score", "loss") if name in columns]
    if named is None or len(kinds) != 1:
        raise InvalidInput(
            f"{path} must have the columns `{ID}` and `score`, or `loss`.",
            "A score is the higher, the surer the model is of a canary; a loss is the lower.",
            f"Take the ids from the column `{ID}` of the file to score.",
        )
    ids = [str(each) for each in columns[named]]
    try:
        values = np.asarray(columns[kinds[0]], np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{path}: `{kinds[0]}` must be a number in every line.") from None
    if values.shape != (len(ids),):
        raise InvalidInput(f"{path} must have one `{kinds[0]}` for each id.")
    if len(set(ids)) < len(ids):
        raise InvalidInput(
            f"{path} names a canary twice.",
            "Which of two scores counts would be chosen afterwards.",
            "Give one score for each canary.",
        )
    signed = -values if kinds[0] == "loss" else values
    return dict(zip(ids, signed.tolist(), strict=True))


def ordered_scores(scores: Scores, ids: NDArray[Any]) -> FloatArray:
    """Return the scores in the order of the rows; raises `InvalidInput` unless all rank."""
    if isinstance(scores, Mapping):
        wanted = [str(each) for each in ids.tolist()]
        missing = [each for each in wanted if each not in scores]
        unknown = len(scores) - (len(wanted) - len(missing))
        if missing or unknown:
            raise InvalidInput(
                f"{len(missing):,} of {len(wanted):,} canaries have no score."
                if missing
                else f"{unknown:,} of the ids are of no canary.",
                "Every canary is scored, in or out: who leaves some out chooses by their coins.",
                "Score all rows of the file to score, and no other.",
            )
        values = np.array([scores[each] for each in wanted], np.float64)
    else:
        values = np.asarray(scores)
        if values.shape != ids.shape or values.dtype.kind not in "fiu":
            raise InvalidInput(
                f"Scores must be {len(ids):,} numbers, one for each row to score.",
                next_step="Give them in the order of the rows, or by id.",
            )
        values = values.astype(np.float64)
    if not np.isfinite(values).all():
        raise InvalidInput(
            f"{int((~np.isfinite(values)).sum()):,} scores are no finite numbers.",
            "They have no place among the others.",
            "Give log-odds or losses of clipped probabilities.",
        )
    if len(np.unique(values)) < 3:
        raise InvalidInput(
            "The scores have fewer than three values.",
            "They rank no canary above another: they are constant, or are guesses themselves.",
            "Give the loss, or log p - log(1 - p) of the label.",
        )
    return values
