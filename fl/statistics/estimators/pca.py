"""Principal components of one private release."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from ....accountant import validate
from ....accountant.arrays import FloatArray
from ....accountant.odometer import Odometer
from ..components import check_count, principal_components
from ..private_statistics import PrivateStatistics
from ..public_terms import MOST_ROWS
from ..statistics import ReleasedStatistics
from .base import ReleasingEstimator


class PrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ReleasingEstimator):  # type: ignore[misc]
    """The directions along which released rows are largest; computed from the Gram matrix.

    Rows are not centred: a direction has the largest mean square, not the largest variance.

    - `statistics`: a `PrivateStatistics` that has released; the fit then costs nothing.
    - `n_components`: k, 1 to the number of features; None for all.
    - the rest: the terms of a release without labels, as `PrivateStatistics` has them.

    After `fit`: `components_` (k, p), `explained_variance_` (k,) (mean squares, by the released
    number of rows; sums without an intercept), `explained_variance_ratio_` (k,), `guarantee_`,
    `cost_`, `statistics_`.
    """

    supervised: ClassVar[bool] = False

    def __init__(
        self,
        statistics: PrivateStatistics | None = None,
        *,
        n_components: int | None = None,
        row_norm: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        neighbours: str = "add-remove",
        noise: Literal["gaussian", "laplace"] = "gaussian",
        rows_per_user: int | None = None,
        intercept: float = 0.2,
        label_weight: float = 1.0,
        most_rows: int = MOST_ROWS,
        bound_source: str = "public",
        odometer: Odometer | None = None,
        seed: int | None = None,
    ) -> None:
        self.statistics = statistics
        self.n_components = n_components
        self.row_norm = row_norm
        self.epsilon = epsilon
        self.delta = delta
        self.neighbours = neighbours
        self.noise = noise
        self.rows_per_user = rows_per_user
        self.intercept = intercept
        self.label_weight = label_weight
        self.most_rows = most_rows
        self.bound_source = bound_source
        self.odometer = odometer
        self.seed = seed

    def transform(self, X: Any) -> FloatArray:  # noqa: N803
        """Return rows (n, p) projected on the components, (n, k)."""
        return np.asarray(self._rows(X) @ self.components_.T)

    def inverse_transform(self, X: Any) -> FloatArray:  # noqa: N803
        """Return projected rows (n, k) in the space of the features, (n, p)."""
        return np.asarray(np.asarray(X, np.float64) @ self.components_)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _fit_settings(self) -> dict[str, Any]:
        return {"n_components": self.n_components}

    def _check_fit(self, released: ReleasedStatistics) -> None:
        if self.n_components is not None:
            check_count(released, validate.count(n_components=self.n_components))

    def _compute(self, released: ReleasedStatistics) -> FloatArray:
        self._check_fit(released)
        principal = principal_components(released, self.n_components or 0)
        rows = max(released.count, 1.0) if released.intercept else 1.0
        self.components_ = principal.directions
        self.explained_variance_ = principal.squares / rows
        self.explained_variance_ratio_ = principal.ratio
        self.n_components_ = len(principal.directions)
        return principal.directions
