"""Ridge and logistic regression from released statistics, with class weights.

    W  =  (cut(G) + f I)^-1 X^T Y,        f = ridge x the noise's spectral norm

Scores are z W, of rows z as the statistics have them.  Classes are coded one-hot and centred,
y = e_j - 1/c, unless another coding is asked for: with X^T 1 from the intercept's column the sums
X^T Y C are known for every matrix C (c, m).  All of it is post-processing.

Noisy Gram matrices made positive: eigenvalues cut at 0, plus a public floor.

    G  =  U diag(l) U^T     ->     U diag(max(l, 0) + f) U^T

A sum of x x^T has no negative eigenvalue, but with noise it has some, as low as the noise's
spectral norm, about sigma sqrt(2 d).  The floor f is a public multiple of that norm, so nothing
here looks at anything but what was released, and no matrix is too singular to be solved.

Logistic and softmax regression of degree 2.  At z = 0 the loss log(sum_j e^z_j) - z_y is, to the
second degree and for scores that sum to 0,

    log c  -  z . (e_y - 1/c)  +  |z|^2 / (2 c)

whose sum over the rows needs X^T X and X^T Y alone; its least point is c times that of ridge
regression on centred one-hot labels, so both decide alike.  Of two classes the log odds are
z_1 - z_0 = 4 x G^-1 X^T (y - 1/2), the usual logistic regression of degree 2.  Derived here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from ...accountant import validate
from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import InvalidInput, Unsupported
from .components import check_count, projection
from .noise_split import MULTIPLES, best, correlation, split
from .statistics import Label, ReleasedStatistics


def solve(gram: FloatArray, sums: FloatArray, *floors: float) -> list[FloatArray]:
    """Return, for each floor, the repaired inverse of `gram` (d, d) times `sums` (d, m).

    A repaired matrix has its eigenvalues cut at 0, and raised by the floor.  Never an error: where
    an eigenvalue is 0, and the floor too, the solution has no part in that direction.

    >>> [found.ravel().tolist() for found in solve(np.diag([4.0, -2.0]), np.ones((2, 1)), 1.0, 0.0)]
    [[0.2, 1.0], [0.25, 0.0]]
    """
    values, vectors = np.linalg.eigh(gram)
    along = vectors.T @ sums
    return [np.asarray(vectors @ (_inverse(values, floor)[:, None] * along)) for floor in floors]


def _inverse(values: FloatArray, floor: float) -> FloatArray:
    raised = np.maximum(values, 0.0) + floor
    # What float64 has lost of the largest eigenvalue is no eigenvalue.
    least = raised.max(initial=0.0) * len(raised) * np.finfo(np.float64).eps
    return np.divide(1.0, raised, out=np.zeros_like(raised), where=raised > least)


Ridge: TypeAlias = float | Literal["auto"]
"""A multiple of the noise's spectral norm; `auto`: chosen from released values (`noise_split`)."""

RIDGE: Final[Ridge] = "auto"

ClassWeight: TypeAlias = Literal["balanced"] | Mapping[Label, float] | None


@dataclass(frozen=True)
class Regression:
    """What is regressed on what: public settings of a fit, which cost nothing.

    - `components`: inside the first so many principal components; 0 for all features.
    - `class_weight`: by class, or `balanced`; needs a Gram matrix for each class.
    - `coding` (c, m): what each class stands as; None for centred one-hot, or for numbers.
    """

    components: int = 0
    class_weight: ClassWeight = None
    coding: FloatArray | None = None

    def sums(self, released: ReleasedStatistics) -> tuple[FloatArray, FloatArray]:
        """Return the Gram matrix (d, d) and the label sums (d, m) of the regression."""
        gram, sums = weighted_sums(released, self.class_weight)
        if self.coding is not None:
            sums = coded_sums(released, sums, gram, self.coding)
        return gram, sums

    def weights(self, released: ReleasedStatistics, *multiples: float) -> list[FloatArray]:
        """Return the weights (d, m) for each multiple of the noise's spectral norm."""
        gram, sums = self.sums(released)
        if not self.components:
            norm = released.noise_norm()
            return solve(gram, sums, *(multiple * norm for multiple in multiples))
        basis = projection(released, self.components)
        norm = released.noise_norm(basis.shape[1])
        inside = solve(
            basis.T @ gram @ basis, basis.T @ sums, *(multiple * norm for multiple in multiples)
        )
        return [np.asarray(basis @ weights) for weights in inside]

    def best_multiple(self, released: ReleasedStatistics) -> float:
        """Return the multiple that `noise_split` chooses."""
        marks = []
        for first, second in split(released):
            sums = self.sums(second)[1]
            fits = self.weights(first, *MULTIPLES)
            marks.append([correlation(weights, second, sums) for weights in fits])
        return best(np.array(marks))


def ridge_weights(
    released: ReleasedStatistics,
    *,
    ridge: Ridge = RIDGE,
    components: int = 0,
    class_weight: ClassWeight = None,
    coding: FloatArray | None = None,
) -> FloatArray:
    """Return the weights W (d, c), or (d, m) under a coding (c, m); never an error for its values.

    - `ridge`: the floor of the eigenvalues, in spectral norms of the noise, 0 or above; `auto`
      chooses it from what was released.
    - the rest: as `Regression` has it.

    Raises `InvalidInput` for values out of range, `Unsupported` for what was not released.
    """
    regression = Regression(components, class_weight, coding)
    if ridge == "auto":
        multiple = regression.best_multiple(released)
    else:
        multiple = validate.non_negative(ridge=ridge)
    return regression.weights(released, multiple)[0]


def check_settings(
    released: ReleasedStatistics,
    *,
    ridge: Ridge = RIDGE,
    components: int = 0,
    class_weight: ClassWeight = None,
    coding: FloatArray | None = None,
) -> None:
    """Raise what `ridge_weights` would, for its settings and the shape of a release alone."""
    Regression(components, class_weight, coding).sums(released)
    check_count(released, components)
    if ridge != "auto":
        validate.non_negative(ridge=ridge)


def coded_sums(
    released: ReleasedStatistics, sums: FloatArray, gram: FloatArray, coding: FloatArray
) -> FloatArray:
    """Return X^T (one-hot labels) C, (d, m), of centred sums (d, c) and a coding C (c, m).

    (S + X^T 1 1^T / c) C; a coding whose columns sum to 0 needs no X^T 1, and no intercept.
    """
    classes = released.bound.classes
    table = np.asarray(coding, np.float64)
    if classes < 2 or table.ndim != 2 or len(table) != classes or not np.isfinite(table).all():
        raise InvalidInput(
            f"`coding` must be a finite table with a row for each of {classes} classes.",
            "Each class stands as its row.",
            "Give `coding` for classes, in their order.",
        )
    spread = table.sum(axis=0)
    coded = sums @ table
    if spread.any():
        coded = coded + np.outer(released.sums(gram), spread) / classes
    return np.asarray(coded)


def weighted_sums(
    released: ReleasedStatistics, class_weight: ClassWeight
) -> tuple[FloatArray, FloatArray]:
    """Return the Gram matrix (d, d) and the label sums (d, c) of rows weighted by their class.

    sum_j w_j G_j, and w_j X_j - (1/c) sum_i w_i X_i, where X_j = S_j + X^T 1 / c is the sum of the
    rows of class j.
    """
    if not released.bound.classes:
        raise Unsupported(
            "These statistics have no labels, so there is nothing to fit.",
            "X^T Y was not released.",
            "Release with `classes` or a `label_range`, or fit principal components.",
        )
    if class_weight is None:
        return released.total, released.labels
    if not released.bound.by_class:
        raise Unsupported(
            "Class weights need a Gram matrix for each class.",
            "One matrix of all classes cannot be taken apart: this is decided at the release.",
            "Release with by_class = True.",
        )
    members = released.labels + released.sums()[:, None] / released.bound.classes
    weights = _weights(released, members, class_weight)
    gram = np.einsum("j,jkl->kl", weights, released.gram)
    weighted = members * weights
    return np.asarray(gram), np.asarray(weighted - weighted.mean(axis=1, keepdims=True))


def _weights(
    released: ReleasedStatistics, members: FloatArray, class_weight: ClassWeight
) -> FloatArray:
    """Return the weight of each class, (c,)."""
    if class_weight == "balanced":
        # Released counts: noise may leave a class with none, which then counts as one row.
        counts = np.maximum(members[-1] / released.constant, 1.0)
        return np.asarray(counts.sum() / (len(counts) * counts))
    if not isinstance(class_weight, Mapping) or set(class_weight) - set(released.classes):
        raise InvalidInput(
            "`class_weight` must be 'balanced', or weights of classes that were stated.",
            next_step=f"Give weights for the {released.bound.classes} classes; others count 1.",
        )
    given = [class_weight.get(label, 1.0) for label in released.classes]
    return np.array([validate.positive(class_weight=weight) for weight in given])


def logistic_weights(
    released: ReleasedStatistics,
    *,
    ridge: Ridge = RIDGE,
    components: int = 0,
    class_weight: ClassWeight = None,
) -> FloatArray:
    """Return the weights W (d, c) of scores z W, as `ridge_weights` does, times c.

    Raises `Unsupported` for labels that are numbers.
    """
    if released.bound.classes < 2:
        raise Unsupported(
            "Logistic regression needs classes; these statistics have none.",
            "Their labels are numbers, or were not released.",
            "Release with `classes`, or fit a ridge regression.",
        )
    weights = ridge_weights(released, ridge=ridge, components=components, class_weight=class_weight)
    return released.bound.classes * weights


def probabilities(scores: FloatArray) -> FloatArray:
    """Return the softmax of scores (n, c): rows of numbers above 0 that sum to 1.

    >>> probabilities(np.zeros((1, 2))).tolist()
    [[0.5, 0.5]]
    """
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def classes_of(scores: FloatArray) -> IntArray:
    """Return the class with the largest score of each row, (n,)."""
    return np.asarray(scores.argmax(axis=1), np.int64)
