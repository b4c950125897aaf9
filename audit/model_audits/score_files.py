"""Scores in files: our own layout, and those of three other tools.

An `.npz` archive (nothing in it is executed) has

    logits (K, n, c) with labels (n,), or loss (K, n), or phi (K, n)
    membership (K, n) booleans, target: the row, or rows, that are attacked; all others are shadows
    population_logits and population_labels, population_loss or population_phi (K, z), optional
    user (n,), group (n,), records (n, d), coins ("independent"), optional

A `.csv` file has a line for each record of a single model: id, user (optional), member, score, the
higher the surer is the model of it.

Read as well: arrays of TF-Privacy's `AttackInputData` in an `.npz` (`loss_train` and `loss_test`,
or `logits_train`, `logits_test`, `labels_train`, `labels_test`); `signals` (n, K), which are
probabilities of the label, and `memberships` (K, n) of ml_privacy_meter in an `.npz`, with `target`
and, optional, `population_signals` (z, K); frames of PrivacyGuard as `.csv`, whose columns are
`score_orig`, `member`, `score_ref_0`, `member_ref_0`, ..., and `user_id` (optional), scores being
probabilities where all are in [0, 1], else phi.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from ...accountant.arrays import FloatArray
from ...accountant.errors import InvalidInput, enumerated
from .score_archives import Arrays, arrays_in
from .score_audit import Coins
from .score_lines import Layout, column_names, read_columns
from .score_tables import KINDS, Kind, ScoreTables, as_phi, score_tables

LEAST_PROBABILITY: Final = 1e-300
"""A probability of 0 is taken for this, so that its logarithm is a number."""


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
        return _of_arrays(arrays_in(path), path)
    if ending == ".csv":
        return _of_lines(path)
    raise InvalidInput(
        f"{path}: scores are read from .npz and .csv files.",
        next_step="`privplan explain scores` has their layouts.",
    )


def _of_arrays(held: Arrays, path: str | Path) -> ScoreFile:
    if {"loss_train", "loss_test"} <= set(held) or {"logits_train", "logits_test"} <= set(held):
        return ScoreFile(_of_tf_privacy(held), "TF-Privacy's AttackInputData")
    if {"signals", "memberships"} <= set(held):
        return ScoreFile(_of_meter(held, path), "ml_privacy_meter", _coins(held, path))
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
            f"It holds {enumerated(sorted(held), 'and')}." if held else "It holds none of them.",
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
        labels=held.get("labels"),
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
        if scores is None or scores.ndim != (1 if kind == "loss" else 2):
            raise InvalidInput(f"`{kind}_{side}` is missing, or of another shape than it has.")
        sides.append(as_phi(scores[None], kind, held.get(f"labels_{side}")))
    members = np.arange(sides[0].shape[1] + sides[1].shape[1]) < sides[0].shape[1]
    return score_tables(target=np.concatenate(sides, axis=1), target_membership=members[None])


def _of_meter(held: Arrays, path: str | Path) -> ScoreTables:
    """Return the tables of models that come in pairs, rows 2k and 2k + 1, of which one is attacked.

    The partner of a target has the opposite coins, and is no shadow of it there either.
    """
    names = {"signals": "phi", "population_signals": "population_phi"}
    tables: dict[str, NDArray[np.generic]] = {
        name: _of_probabilities(held[other].T, f"{path}: `{other}`")
        for other, name in names.items()
        if other in held
    }
    membership = np.atleast_2d(held["memberships"])
    phi = tables["phi"]
    if membership.shape != phi.shape:
        raise InvalidInput(f"{path}: `memberships` must be of shape {phi.shape}, models first.")
    targets = _target_rows(held.get("target", np.array([])), len(phi))
    partners = np.setdiff1d(targets ^ 1, targets)
    opposite = [row for row in partners if row < len(phi) and _opposite(membership, row)]
    kept = np.setdiff1d(np.arange(len(phi)), opposite)
    return _of_models(
        {
            **{name: held[name] for name in ("user", "group", "records") if name in held},
            **{name: table[kept] for name, table in tables.items()},
            "membership": membership[kept],
            "target": np.searchsorted(kept, targets),
        },
        path,
    )


def _opposite(membership: NDArray[np.generic], row: int) -> bool:
    return bool((membership[row].astype(bool) != membership[row ^ 1].astype(bool)).all())


def _of_probabilities(scores: NDArray[np.generic], name: str) -> FloatArray:
    """Return phi of probabilities of the label, in any shape."""
    table = scores.astype(np.float64) if scores.dtype.kind == "f" else np.full(1, np.nan)
    if not ((table >= 0.0) & (table <= 1.0)).all():
        raise InvalidInput(
            f"{name} must be probabilities of the label, in [0, 1].",
            "That is what ml_privacy_meter writes there.",
            "Give other scores as `phi`, in our own layout.",
        )
    return as_phi(-np.log(np.maximum(table, LEAST_PROBABILITY)), "loss")


def _of_lines(path: str | Path) -> ScoreFile:
    names = column_names(path)
    if "score_orig" in names:
        return _of_privacy_guard(path, names)
    if not {"id", "member", "score"} <= set(names):
        raise InvalidInput(
            f"{path} must have the columns id, member and score; user is optional.",
            f"It has {enumerated(sorted(names), 'and')}.",
        )
    texts = ("user",) if "user" in names else ()
    columns = read_columns(path, names, Layout(("score",), ("member",), texts, key="id"))
    if columns.repeated:
        raise InvalidInput(
            f"{path} names an id twice.",
            "Who is both in and out, or counts twice, is no trial.",
            "Give each record one line; several records of one person share its `user`.",
        )
    tables = score_tables(
        target=as_phi(columns.numbers["score"], "phi"),
        target_membership=columns.flags["member"][None],
        user=columns.texts.get("user"),
    )
    return ScoreFile(tables, "privplan")


def _of_privacy_guard(path: str | Path, names: Sequence[str]) -> ScoreFile:
    if "member" not in names:
        raise InvalidInput(
            f"{path} has no column `member`.",
            "Frames of members and of others are two there.",
            "Join them, with 1 in `member` for the training data and 0 for the others.",
        )
    numbers = sorted(
        int(match[1]) for name in names if (match := re.fullmatch(r"score_ref_(\d{1,4})", name))
    )
    references = tuple(f"score_ref_{k}" for k in numbers)
    texts = ("user_id",) if "user_id" in names else ()
    flags = ("member", *(f"member_ref_{k}" for k in numbers))
    columns = read_columns(path, names, Layout(("score_orig", *references), flags, texts))
    scores = np.array([columns.numbers[name] for name in ("score_orig", *references)])
    inside = np.array([columns.flags[name] for name in flags])
    # Its RMIA takes probabilities, and its LiRA whatever is given: the range tells which it is.
    are_chances = bool(((scores >= 0.0) & (scores <= 1.0)).all())
    phi = _of_probabilities(scores, str(path)) if are_chances else as_phi(scores, "phi")
    tables = score_tables(
        target=phi[:1],
        target_membership=inside[:1],
        shadows=phi[1:] if numbers else None,
        membership=inside[1:] if numbers else None,
        user=columns.texts.get("user_id"),
    )
    return ScoreFile(tables, "PrivacyGuard, probabilities" if are_chances else "PrivacyGuard")
