"""Logistic and softmax regression of degree 2 from one private release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin

from ....accountant.arrays import FloatArray
from ....accountant.errors import InvalidInput
from ..public_terms import labels_of
from ..ridge import (
    RIDGE,
    ClassWeight,
    Ridge,
    check_settings,
    classes_of,
    logistic_weights,
    probabilities,
)
from ..statistics import Label, ReleasedStatistics
from .base import ReleasingEstimator


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLogistic(ClassifierMixin, ReleasingEstimator):  # type: ignore[misc]
    """A classifier: logistic regression of degree 2, which decides as ridge regression does.

    - `statistics`: a `PrivateStatistics` that has released; the fit then costs nothing.
    - `ridge`, `components`: as `PrivateRidge` has them.
    - `class_weight`: by class, or `balanced` (by released counts); what is released then has a Gram
      matrix for each class.
    - the rest: the terms of a release, as `PrivateStatistics` has them; `classes` are all that
      there can be, whether or not they occur.

    After `fit`: `classes_`, `coef_` (1, p) for two classes, else (c, p), and `intercept_`, for rows
    of norm at most `row_norm`; longer rows are clipped to it, as for the release.  `guarantee_`,
    `cost_`, `statistics_`.
    """

    needed: ClassVar[tuple[tuple[str, ...], ...]] = (("row_norm",), ("epsilon",), ("classes",))

    ridge: Ridge = RIDGE
    components: int = 0
    class_weight: ClassWeight = None
    classes: int | Sequence[Label] | None = None

    def decision_function(self, X: Any) -> FloatArray:  # noqa: N803
        """Return the scores of rows (n, p): (n, c), or the log odds (n,) of two classes."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict_proba(self, X: Any) -> FloatArray:  # noqa: N803
        """Return the probabilities (n, c) of the classes, in the order of `classes_`."""
        return probabilities(self._scores(X))

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Return the class of the largest score of each row, (n,)."""
        chosen = classes_of(self._scores(X))
        return self.classes_[chosen]

    def _scores(self, features: Any) -> FloatArray:
        rows = self._rows(features)
        return np.asarray(self._released.rows(rows) @ self._weights)

    def _checked(self, features: Any, labels: Any) -> tuple[Any, Any]:
        rows, column = super()._checked(features, labels)
        whole = all(not isinstance(each, float) or each.is_integer() for each in self._stated())
        # Refused later too, as none of the classes: which labels occur decides nothing else.
        if whole and column.dtype.kind == "f" and (column != np.floor(column)).any():
            raise InvalidInput(
                "Unknown label type: `y` has fractions, and the stated `classes` have none.",
                "A classifier tells stated classes apart; numbers are for a regression.",
                "Give labels of the classes, or fit PrivateRidge.",
            )
        return rows, column

    def _stated(self) -> tuple[Label, ...]:
        return labels_of(self.classes)

    def _terms(self) -> dict[str, Any]:
        # Weights are of no use without a matrix for each class, and that is decided here.
        return {"classes": self.classes, "by_class": self.class_weight is not None}

    def _fit_settings(self) -> dict[str, Any]:
        settings = {"ridge": self.ridge, "components": self.components}
        return {**settings, "class_weight": self.class_weight}

    def _check_fit(self, released: ReleasedStatistics) -> None:
        check_settings(
            released,
            ridge=self.ridge,
            components=self.components,
            class_weight=self.class_weight,
        )

    def _compute(self, released: ReleasedStatistics) -> FloatArray:
        self._weights = logistic_weights(
            released,
            ridge=self.ridge,
            components=self.components,
            class_weight=self.class_weight,
        )
        self.classes_ = np.array(released.classes)
        slopes = self._weights[: released.features].T * released.scale
        constants = released.constant * self._weights[released.features :].sum(axis=0)
        if len(self.classes_) == 2:
            slopes, constants = slopes[1:] - slopes[:1], constants[1:] - constants[:1]
        self.coef_, self.intercept_ = slopes, constants
        return self._weights
