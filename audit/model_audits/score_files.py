"""Scores in files: our own layout, and those of three other tools.

An `.npz` archive (nothing in it is executed) has

    logits (K, n, c) with labels (n,), or loss (K, n), or phi (K, n)
    membership (K, n) booleans, target: the row, or rows, that are attacked; all others are shadows
    population_logits and population_labels, population_loss or population_phi (K, z), optional
    user (n,), group (n,), records (n, d), coins ("independent"), optional

A `.csv` file has a line for each record of a single model: id, user (optional), member, score, the
higher the surer is the model of it.

Read as well: arrays of TF-Privacy's `AttackInputData` in an `.npz` (`loss_train` and `loss_test`,
or `logits_train`, `logits_test`, `labels_train`, `labels_test`); `signals` (n, K) and `memberships`
(K, n) of ml_privacy_meter in an `.npz`, with `target`; frames of PrivacyGuard as `.csv`, whose
columns are `score_orig`, `member`, `score_ref_0`, `member_ref_0`, ..., and `user_id` (optional).
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from ...accountant.arrays import FloatArray
from ...accountant.errors import InvalidInput, enumerated
from ...accountant.regular_file import open_regular
from .score_audit import Coins
from .score_tables import KINDS, Kind, ScoreTables, as_phi, score_tables

MOST_BYTES: Final = 4 * 2**30
"""Most bytes that an archive may hold, unpacked."""

MOST_CSV_BYTES: Final = 2**27
"""Most bytes of a table, whose rows take a multiple of it in memory."""

TRUE: Final = ("1", "true", "yes", "in")
FALSE: Final = ("0", "false", "no", "out")

Arrays = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, eq=False)
class ScoreFile:
    """The tables of a file, in which `layout` it came, and whether it declares `coins`."""

    tables: ScoreTables
    layout: str
    coins: Coins | None = None


def read_scores(path: str | Path) -> ScoreFile:
    """Return the scores of a file, by its ending: `.npz` or `.csv`.

    Raises `InvalidInput` for a file that cannot be read, and what `score_tables` raises.
    """
    ending = Path(path).suffix.lower()
    if ending == ".npz":
        return _of_arrays(archive_arrays(path), path)
    if ending == ".csv":
        return _of_rows(csv_rows(path), path)
    raise InvalidInput(
        f"{path}: scores are read from .npz and .csv files.",
        next_step="`privplan explain scores` has their layouts.",
    )


def archive_arrays(path: str | Path) -> Arrays:
    """Return the arrays of an archive, none of them of objects; raises `InvalidInput`."""
    try:
        with open_regular(path) as file:
            with zipfile.ZipFile(file) as archive:
                size = sum(each.file_size for each in archive.infolist())
            if size > MOST_BYTES:
                raise InvalidInput(
                    f"{path} unpacks to {size:,} bytes, and the limit is {MOST_BYTES:,}.",
                    next_step="Give phi or loss in place of logits, or fewer records.",
                )
            file.seek(0)
            with np.load(file, allow_pickle=False) as held:
                return {name: held[name] for name in held.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidInput(
            f"{path} is no readable .npz archive of numbers: {type(error).__name__}.",
            "Archives of Python objects are not read: reading them would execute code.",
            "Save plain arrays by numpy.savez.",
        ) from None


def _of_arrays(held: Arrays, path: str | Path) -> ScoreFile:
    if {"loss_train", "loss_test"} <= set(held) or {"logits_train", "logits_test"} <= set(held):
        return ScoreFile(_of_tf_privacy(held), "TF-Privacy's AttackInputData")
    if {"signals", "memberships"} <= set(held):
        held = {**held, "phi": held["signals"].T, "membership": held["memberships"]}
        return ScoreFile(_of_models(held, path), "ml_privacy_meter", _coins(held, path))
    return ScoreFile(_of_models(held, path), "privplan", _coins(held, path))


def _coins(held: Arrays, path: str | Path) -> Coins | None:
    if "coins" not in held:
        return None
    word = str(held["coins"].item()) if held["coins"].ndim == 0 else ""
    if word not in ("independent", "none"):
        raise InvalidInput(f'{path}: `coins` must be "independent" or "none".')
    return cast(Coins, word) if word == "independent" else None


def _of_models(held: Arrays, path: str | Path) -> ScoreTables:
    """Return the tables of K models, of which the rows `target` are attacked."""
    kinds = [kind for kind in KINDS if kind in held]
    if len(kinds) != 1 or "membership" not in held or "target" not in held:
        raise InvalidInput(
            f"{path} must hold one of {enumerated(KINDS, 'and')}, with `membership` and `target`.",
            f"It holds {enumerated(sorted(held), 'and')}." if held else "It is empty.",
            "`privplan explain scores` has the layout.",
        )
    (kind,) = kinds
    phi = as_phi(held[kind], kind, held.get("labels"))
    rows = _target_rows(held["target"], len(phi))
    others = np.setdiff1d(np.arange(len(phi)), rows)
    membership = held["membership"]
    if membership.shape != phi.shape:
        raise InvalidInput(f"{path}: `membership` must be of shape {phi.shape}, as the scores are.")
    return score_tables(
        target=phi[rows],
        target_membership=membership[rows],
        shadows=phi[others],
        membership=membership[others],
        population=_population(held, kind, rows, others),
        user=held.get("user"),
        group=held.get("group"),
        records=held.get("records"),
    )


def _target_rows(target: NDArray[np.generic], models: int) -> NDArray[np.int64]:
    rows = np.atleast_1d(target)
    if rows.dtype.kind not in "iu" or rows.ndim != 1 or len(np.unique(rows)) < len(rows):
        raise InvalidInput("`target` must be the index of a row, or several, each once.")
    if not len(rows) or rows.min() < 0 or rows.max() >= models:
        raise InvalidInput(f"`target` must be in [0, {models - 1}].")
    return rows.astype(np.int64)


def _population(
    held: Arrays, kind: Kind, rows: NDArray[np.int64], others: NDArray[np.int64]
) -> tuple[FloatArray, FloatArray] | None:
    if f"population_{kind}" not in held:
        return None
    phi = as_phi(held[f"population_{kind}"], kind, held.get("population_labels"))
    if len(phi) != len(rows) + len(others):
        raise InvalidInput(f"`population_{kind}` must have a row for each model.")
    return phi[rows], phi[others]


def _of_tf_privacy(held: Arrays) -> ScoreTables:
    """Return the tables of one model: its training records are members, those of tests are not."""
    kind: Kind = "loss" if "loss_train" in held else "logits"
    sides = []
    for side in ("train", "test"):
        scores = held.get(f"{kind}_{side}")
        if scores is None:
            raise InvalidInput(f"`{kind}_{side}` is missing.")
        sides.append(as_phi(scores[None], kind, held.get(f"labels_{side}")))
    members = np.arange(sides[0].shape[1] + sides[1].shape[1]) < sides[0].shape[1]
    return score_tables(target=np.concatenate(sides, axis=1), target_membership=members[None])


def csv_rows(path: str | Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file by the names of its header; raises `InvalidInput`."""
    try:
        with open_regular(path) as file:
            content = file.read(MOST_CSV_BYTES + 1)
        if len(content) > MOST_CSV_BYTES:
            raise InvalidInput(f"{path} is larger than {MOST_CSV_BYTES:,} bytes.")
        reader = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        names = list(reader.fieldnames or ())
        if len(set(names)) < len(names):
            raise InvalidInput(f"{path} names a column twice.")
        rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f"{path} cannot be read as CSV: {type(error).__name__}.") from None
    if not rows or any(None in row or None in row.values() for row in rows):
        raise InvalidInput(f"{path} must have a header, and as many cells in each line.")
    return rows


def _of_rows(rows: Sequence[Mapping[str, str]], path: str | Path) -> ScoreFile:
    names = set(rows[0])
    if "score_orig" in names:
        return _of_privacy_guard(rows, path)
    if not {"id", "member", "score"} <= names:
        raise InvalidInput(
            f"{path} must have the columns id, member and score; user is optional.",
            f"It has {enumerated(sorted(names), 'and')}.",
        )
    ids = [row["id"] for row in rows]
    if len(set(ids)) < len(ids):
        raise InvalidInput(
            f"{path} names an id twice.",
            "Who is both in and out, or counts twice, is no trial.",
            "Give each record one line; several records of one person share its `user`.",
        )
    tables = score_tables(
        target=_column(rows, "score", path)[None],
        target_membership=_flags(rows, "member", path)[None],
        user=[row["user"] for row in rows] if "user" in names else None,
    )
    return ScoreFile(tables, "privplan")


def _of_privacy_guard(rows: Sequence[Mapping[str, str]], path: str | Path) -> ScoreFile:
    if "member" not in rows[0]:
        raise InvalidInput(
            f"{path} has no column `member`.",
            "Frames of members and of others are two there.",
            "Join them, with 1 in `member` for the training data and 0 for the others.",
        )
    numbers = sorted(
        int(match[1]) for name in rows[0] if (match := re.fullmatch(r"score_ref_(\d{1,4})", name))
    )
    shadows = membership = None
    if numbers:
        shadows = np.array([_column(rows, f"score_ref_{k}", path) for k in numbers])
        membership = np.array([_flags(rows, f"member_ref_{k}", path) for k in numbers])
    tables = score_tables(
        target=_column(rows, "score_orig", path)[None],
        target_membership=_flags(rows, "member", path)[None],
        shadows=shadows,
        membership=membership,
        user=[row["user_id"] for row in rows] if "user_id" in rows[0] else None,
    )
    return ScoreFile(tables, "PrivacyGuard")


def _column(rows: Sequence[Mapping[str, str]], name: str, path: str | Path) -> FloatArray:
    """Return a column of numbers, where a cell that is none is NaN and refused as such."""
    values = np.full(len(rows), np.nan)
    for index, row in enumerate(rows):
        try:
            values[index] = float(row[name])
        except (KeyError, ValueError):
            raise InvalidInput(f"{path}, line {index + 2}: `{name}` must be a number.") from None
    return values


def _flags(rows: Sequence[Mapping[str, str]], name: str, path: str | Path) -> NDArray[np.bool_]:
    flags = np.zeros(len(rows), bool)
    for index, row in enumerate(rows):
        word = row.get(name, "").strip().lower()
        if word not in (*TRUE, *FALSE):
            raise InvalidInput(f"{path}, line {index + 2}: `{name}` must be 1 or 0: in, or out.")
        flags[index] = word in TRUE
    return flags
