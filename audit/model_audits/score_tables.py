"""Scores of records under models, and who was in which of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from ...accountant import validate
from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.errors import InvalidInput, counted
from ..attack_methods.membership.evidence import Evidence, refuse_nan
from ..shadows.design import Design
from .copies import copies

Kind = Literal["phi", "loss", "logits"]
KINDS: Final[tuple[Kind, ...]] = ("phi", "loss", "logits")

LEAST_LOSS: Final = 1e-12
"""A loss is taken to be no less: in single precision a model that is sure has a loss of 0."""

MOST_SCORE: Final = 1e100
"""Scores and features are at most so large, or their squares overflow."""

NEARLY_EQUAL: Final = 1e-6
"""A target whose scores differ from a shadow's by less, in units of their spread, is that model."""

DISGUISED: Final = 1e-3
"""Scores of members, and of others, that spread by less than this share of their gap are a word."""

LEAST_OF_A_VALUE: Final = 4
"""Where so many members, or others, have each value, and no value is of both, it is a code."""

SAME_ORDER: Final = 0.3
"""Rank correlation of shadows from which on a target without any is not about the same records."""

LEAST_COMPARED: Final = 30
"""Fewest records of which an order is told."""

Level = Literal["user", "record", "group"]
"""Whose coin decides who is in a model."""


@dataclass(frozen=True, eq=False)
class ScoreTables:
    """Evidence of models that anybody trained, and what of it was left out.

    - `evidence`: phi of all records under shadows and targets, who was in which; see `Evidence`.
    - `level`: whose coin decided: `user`, all records of one together; `record`; or `group`, copies
      of a record together, of which one is scored.
    - `records`: features of the same records, (records, features), where they were given.
    - `labels`: the class of each unit's first record, where classes were given.
    - `withheld`: what is not used, and why, as sentences.
    """

    evidence: Evidence
    level: Level
    records: FloatArray | None = None
    withheld: tuple[str, ...] = ()
    labels: IntArray | None = None

    @property
    def has_population(self) -> bool:
        """Whether there are scores of records that no model has trained on."""
        return bool(self.evidence.targets_population.shape[1] > 0)

    @property
    def scored_by(self) -> Literal["user", "record"]:
        """What has a score: a user, by the sum over its records, or a record."""
        return "user" if self.level == "user" else "record"

    @property
    def coins_of_target(self) -> BoolArray:
        """Who was in the first target: (units,)."""
        return np.asarray(self.evidence.design.targets[0])


def as_phi(scores: ArrayLike, kind: Kind, labels: ArrayLike | None = None) -> FloatArray:
    """Return phi = log p_y - log(1 - p_y) of scores: (models, records).

    `phi` is taken as it is; `loss` is -log p_y, 0 or above; `logits` are (models, records,
    classes), or (records, classes) of one model, with `labels` (records,).  Raises `InvalidInput`
    for scores out of their range.

    >>> as_phi([[0.6931471805599453]], "loss").round(9).tolist()
    [[0.0]]
    """
    validate.choice(KINDS, kind=kind)
    table = _numbers(scores, kind)
    if kind == "logits":
        return _of_logits(table, labels)
    table = np.atleast_2d(table)
    if table.ndim != 2:
        raise InvalidInput(f"`{kind}` must be of shape (models, records); it is {table.shape}.")
    if kind == "phi":
        return table
    if (table < 0.0).any():
        raise InvalidInput(
            "`loss` has values below 0.",
            "It is minus the log of a probability.",
            "Give other scores as `phi`: the higher, the surer is the model of the record.",
        )
    loss = np.maximum(table, LEAST_LOSS)
    # log p - log(1 - p) with p = exp(-loss)
    return np.asarray(-loss - np.log(-np.expm1(-loss)))


def _labels(labels: ArrayLike, count: int) -> IntArray:
    classes = np.asarray(labels)
    if classes.shape != (count,) or classes.dtype.kind not in "iu":
        raise InvalidInput("`labels` must be an integer for each record.")
    return classes.astype(np.int64)


def _of_logits(logits: FloatArray, labels: ArrayLike | None) -> FloatArray:
    logits = logits[None] if logits.ndim == 2 else logits
    if labels is None or logits.ndim != 3 or logits.shape[2] < 2:
        raise InvalidInput(
            "`logits` must be of shape (models, records, classes), with `labels` of (records,).",
            next_step="Give two columns for two classes, or `phi`.",
        )
    classes = _labels(labels, logits.shape[1])
    if len(classes) and (classes.min() < 0 or classes.max() >= logits.shape[2]):
        raise InvalidInput(f"`labels` must be in [0, {logits.shape[2] - 1}].")
    rows = np.arange(len(classes))
    true = logits[:, rows, classes].copy()
    others = logits.copy()
    others[:, rows, classes] = -np.inf
    top = others.max(2, keepdims=True)
    # log of the sum over the other classes, (models, records), without overflow
    rest = top[..., 0] + np.log(np.exp(others - top).sum(2))
    return np.asarray(true - rest)


def score_tables(
    *,
    target: FloatArray,
    target_membership: ArrayLike,
    shadows: FloatArray | None = None,
    membership: ArrayLike | None = None,
    population: tuple[FloatArray, FloatArray | None] | None = None,
    user: ArrayLike | None = None,
    group: ArrayLike | None = None,
    records: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> ScoreTables:
    """Return the tables of one audit, with every shape and every coin checked.

    `target` (T, n) and `shadows` (S, n) are phi, `target_membership` and `membership` booleans of
    the same shapes, `population` phi of (target, shadows) on records that no model has trained on,
    `user` (n,) whose record it is, or `group` (n,) which records are copies of each other,
    `records` (n, d) their features, `labels` (n,) their classes.  Copies (`copies`) count as one:
    one of them is scored, and their coin is that of them all.  Raises `InvalidInput`.
    """
    records_count = target.shape[1]
    if shadows is None:
        shadows = np.empty((0, records_count))
    in_target = _booleans("target_membership", target_membership, target.shape)
    in_shadow = _booleans(
        "membership",
        np.empty(shadows.shape, bool) if membership is None else membership,
        shadows.shape,
    )
    if len(shadows) and membership is None:
        raise InvalidInput(
            "`membership` is missing.",
            "Without who was in which shadow these models say nothing of a record.",
            "Give a boolean for each shadow and record.",
        )
    _refuse_same_models(target, shadows)
    features = None if records is None else _features(records, records_count)
    holders, level, copies = _units(user, group, features, records_count)
    classes = None if labels is None else _labels(labels, records_count)
    both = np.concatenate([in_shadow, in_target])
    kept, withheld = _whole_units(both, holders, level, copies)
    if level == "record" and len(np.unique(holders[kept])) < kept.sum():
        # A coin is guessed once: of copies the first one is scored.
        level = "group"
        kept = kept & np.isin(np.arange(len(holders)), np.unique(holders, return_index=True)[1])
    holders = np.unique(holders[kept], return_inverse=True)[1].astype(np.int64)
    first = np.unique(holders, return_index=True)[1]
    design = Design(in_shadow[:, kept][:, first], in_target[:, kept][:, first], paired=False)
    seen_target, seen_shadows = _population(population, len(target), len(shadows))
    evidence = Evidence(
        design,
        holders,
        holders,
        shadows[:, kept],
        target[:, kept],
        seen_shadows,
        seen_target,
    )
    _refuse_membership_as_scores(evidence)
    _refuse_other_records(evidence)
    return ScoreTables(
        evidence,
        level,
        None if features is None else features[kept],
        withheld,
        None if classes is None else classes[kept][first],
    )


def _numbers(scores: ArrayLike, name: str) -> FloatArray:
    table = np.asarray(scores)
    if table.dtype.kind not in "fiu" or not table.size:
        raise InvalidInput(
            f"`{name}` must be numbers, and at least one; it is of type {table.dtype}.",
            "Objects and texts are not read.",
            "Give an array of floats.",
        )
    numbers = table.astype(np.float64)
    refuse_nan(name, numbers)
    if np.abs(numbers).max() > MOST_SCORE:
        raise InvalidInput(
            f"`{name}` has values beyond {MOST_SCORE:g}.",
            "Their squares are no numbers any more.",
            "Give logarithms of probabilities, not these.",
        )
    return numbers


def _booleans(name: str, values: ArrayLike, shape: tuple[int, ...]) -> BoolArray:
    """Return a table of booleans; 0 and 1 are taken for them."""
    table = np.atleast_2d(np.asarray(values))
    if table.dtype.kind in "iuf" and np.isin(table, (0, 1)).all():
        table = table.astype(bool)
    if table.dtype != bool or table.shape != shape:
        raise InvalidInput(
            f"`{name}` must be booleans of shape {shape}: models by records.",
            f"It is of type {table.dtype} and shape {table.shape}.",
            "Give True where the record was in the training data of the model.",
        )
    return table


def _features(records: ArrayLike, count: int) -> FloatArray:
    table = _numbers(records, "records")
    if table.shape[:1] != (count,):
        raise InvalidInput(f"`records` must have {count} rows, as the scores have columns.")
    return table.reshape(count, -1)


def _units(
    user: ArrayLike | None, group: ArrayLike | None, features: FloatArray | None, count: int
) -> tuple[IntArray, Level, bool]:
    """Return the unit of each record, the level, and whether units are copies of each other."""
    if user is not None and group is not None:
        raise InvalidInput(
            "`user` and `group` both say whose coin decided on a record.",
            "A record has one coin.",
            "Give copies of one user the same `user`; join users who share a record into one.",
        )
    for name, values in (("user", user), ("group", group)):
        if values is None:
            continue
        labels = np.asarray(values)
        if labels.shape != (count,) or labels.dtype.kind not in "iuUS":
            raise InvalidInput(f"`{name}` must be an integer or a text for each record.")
        numbered = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        return numbered, "user" if name == "user" else "record", name == "group"
    if features is None:
        return np.arange(count), "record", False
    return copies(features), "record", True


def _whole_units(
    inside: BoolArray, unit: IntArray, level: str, copies: bool
) -> tuple[BoolArray, tuple[str, ...]]:
    """Return which records to keep: those of units that are in each model as a whole, or out."""
    counts = np.bincount(unit)
    members = np.array([np.bincount(unit, row) for row in inside])
    split: BoolArray = np.any((members > 0) & (members < counts), axis=0)
    if not split.any():
        return np.ones(len(unit), bool), ()
    what = counted(int(split.sum()), level if level == "user" else "record")
    if not copies:
        raise InvalidInput(
            f"{what} have records that are in a model and others that are out of it.",
            "One coin decides on all records of a user, and no other is a trial of its own.",
            "Give `group` for copies, or leave `user` out to audit single records.",
        )
    if split.all():
        raise InvalidInput("Every record has a copy on the other side, so that nothing is left.")
    said = f"{what} with copies of which some are in a model and some are out: left out"
    return np.asarray(~split[unit]), (said,)


def _population(
    given: tuple[FloatArray, FloatArray | None] | None, targets: int, shadows: int
) -> tuple[FloatArray, FloatArray]:
    if given is None:
        return np.empty((targets, 0)), np.empty((shadows, 0))
    of_target, of_shadows = given
    if of_shadows is None:
        of_shadows = np.empty((0, of_target.shape[1]))
    if len(of_target) != targets or of_shadows.shape != (shadows, of_target.shape[1]):
        raise InvalidInput(
            "The scores of the population must have a row for each target and each shadow.",
            next_step="Score the same records of the population under all models.",
        )
    return of_target, of_shadows


def _refuse_same_models(targets: FloatArray, shadows: FloatArray) -> None:
    """Raise `InvalidInput` for a target that is, but for rounding, one of the shadows."""
    for index, row in enumerate(targets):
        spread = max(float(row.std()), np.finfo(float).tiny)
        if len(shadows) and (np.abs(shadows - row).mean(1) < NEARLY_EQUAL * spread).any():
            raise InvalidInput(
                f"Target {index} is the same model as one of the shadows.",
                "Who is in a shadow is known, and an attack would find just that.",
                "Leave it out of the shadows.",
            )


def _refuse_membership_as_scores(evidence: Evidence) -> None:
    """Raise `InvalidInput` for scores that tell members from others, and nothing else."""
    for index, row in enumerate(evidence.targets):
        inside = evidence.in_target[index]
        values = np.unique(row)
        if len(values) == 1:
            raise InvalidInput(
                f"All scores of target {index} are equal.", "They tell nobody from anybody."
            )
        if _are_a_code(row, inside, values):
            raise InvalidInput(
                f"The scores of target {index} are its membership under another name.",
                "Each of their values is one of members alone, or of others alone.",
                "Give what the model says of each record.",
            )


def _are_a_code(row: FloatArray, inside: BoolArray, values: FloatArray) -> bool:
    """Return whether scores say in or out, and next to nothing else."""
    members, others = row[inside], row[~inside]
    if not len(members) or not len(others):
        return False  # said elsewhere
    distinct = len(np.unique(members)), len(np.unique(others))
    if sum(distinct) == len(values):  # no value is of both
        many = len(members) / distinct[0], len(others) / distinct[1]
        if len(values) == 2 or min(many) >= LEAST_OF_A_VALUE:
            return True
    gap = abs(float(members.mean() - others.mean()))
    return bool(max(members.std(), others.std()) < DISGUISED * gap)


def _refuse_other_records(evidence: Evidence) -> None:
    """Raise `InvalidInput` for a target that ranks records as none of the shadows does."""
    shadows = evidence.shadows
    if len(shadows) < 3 or shadows.shape[1] < LEAST_COMPARED:
        return
    total = shadows.sum(0)
    few = shadows[: min(len(shadows), 8)]
    alike = [float(stats.spearmanr(row, total - row).statistic) for row in few]
    if not min(alike) >= SAME_ORDER:  # NaN where a shadow's scores are all equal
        return
    for index, row in enumerate(evidence.targets):
        seen = stats.spearmanr(row, total, alternative="greater")
        if seen.statistic < SAME_ORDER and seen.pvalue > 1e-3:
            raise InvalidInput(
                f"The scores of target {index} do not go with those of the shadows.",
                "What is hard for one model is hard for others; these rank records as if they "
                "were others, or stood in another order.",
                "Score the same records, in the same order, under all models.",
            )
