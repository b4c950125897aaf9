"""Principal components of one private release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from ....accountant import validate
from ....accountant.arrays import FloatArray
from ..components import check_count, principal_components
from ..statistics import ReleasedStatistics
from .base import ReleasingEstimator


@dataclass(kw_only=True, eq=False, repr=False)
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

    n_components: int | None = None

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
