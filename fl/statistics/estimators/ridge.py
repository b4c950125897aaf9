"""Ridge regression from one private release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from ....accountant.arrays import FloatArray
from ....accountant.errors import InvalidInput
from ..ridge import RIDGE, Ridge, check_settings, ridge_weights
from ..statistics import Label, ReleasedStatistics
from .base import ReleasingEstimator


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateRidge(RegressorMixin, ReleasingEstimator):  # type: ignore[misc]
    """Ridge regression of numbers, or of a coding of classes.

    - `statistics`: a `PrivateStatistics` that has released; the fit then costs nothing.
    - `ridge`: the floor of the eigenvalues, in spectral norms of the noise; 0 or above.
    - `components`: fit inside the first so many principal components; 0 for all features.
    - `coding` (c, m): what each class stands as; None for the classes' own numbers.
    - the rest: the terms of a release, as `PrivateStatistics` has them; `label_range` for numbers,
      or `classes`.

    After `fit`: `coef_` (p,), or (m, p) under a coding, and `intercept_`, for rows of norm at most
    `row_norm`; longer rows are clipped to it, as for the release.  `guarantee_`, `cost_`,
    `statistics_`.  Without an intercept numbers are regressed about the middle of their range,
    which `intercept_` then is.
    """

    needed: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("row_norm",),
        ("epsilon",),
        ("label_range", "classes"),
    )

    ridge: Ridge = RIDGE
    components: int = 0
    coding: ArrayLike | None = None
    label_range: Sequence[float] | None = None
    classes: int | Sequence[Label] | None = None

    def predict(self, X: Any) -> FloatArray:  # noqa: N803
        """Return predictions (n,), or (n, m) under a coding, of rows (n, p)."""
        rows = self._rows(X)
        released = self._released
        scores = released.rows(rows) @ self._weights
        predictions = released.numbers(scores) if released.bound.classes == 1 else scores
        return predictions if self.coding is not None else predictions[:, 0]

    def _checked(self, features: Any, labels: Any) -> tuple[Any, Any]:
        checked: tuple[Any, Any] = self._validated(features, labels, y_numeric=True)
        return checked

    def _terms(self) -> dict[str, Any]:
        return {"label_range": self.label_range, "classes": self.classes}

    def _fit_settings(self) -> dict[str, Any]:
        coding = None if self.coding is None else np.asarray(self.coding).tolist()
        return {"ridge": self.ridge, "components": self.components, "coding": coding}

    def _check_fit(self, released: ReleasedStatistics) -> None:
        check_settings(
            released, ridge=self.ridge, components=self.components, coding=self._codes(released)
        )

    def _compute(self, released: ReleasedStatistics) -> FloatArray:
        self._weights = ridge_weights(
            released, ridge=self.ridge, components=self.components, coding=self._codes(released)
        )
        slopes = self._weights[: released.features] * released.scale
        constants = released.constant * self._weights[released.features :].sum(axis=0)
        if released.bound.classes == 1:
            origin = released.numbers(np.zeros(1))
            slopes = released.numbers(slopes) - origin
            constants = released.numbers(constants)
        if self.coding is None:
            self.coef_, self.intercept_ = slopes[:, 0], float(constants[0])
        else:
            self.coef_, self.intercept_ = slopes.T, constants
        return self._weights

    def _codes(self, released: ReleasedStatistics) -> FloatArray | None:
        """Return what each class stands as, (c, m); None for labels that are numbers."""
        if self.coding is not None:
            try:
                return np.asarray(self.coding, np.float64)
            except (TypeError, ValueError):
                raise InvalidInput(
                    "`coding` must be a table of numbers, with a row for each class.",
                    "Each class stands as its row.",
                    "Give an array of shape (classes, outputs).",
                ) from None
        if released.bound.classes < 2:
            return None
        if any(isinstance(label, str) for label in released.classes):
            raise InvalidInput(
                "Classes with texts as names are no numbers to regress on.",
                "A ridge regression predicts what each class stands as.",
                "Give a `coding`, or fit PrivateLogistic.",
            )
        return np.array(released.classes, np.float64)[:, None]
