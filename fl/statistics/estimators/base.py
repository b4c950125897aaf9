"""What the estimators share: where their statistics come from, and what these cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from ....accountant.arrays import FloatArray
from ....accountant.errors import InvalidInput
from ....accountant.guarantee import Guarantee
from ....accountant.odometer import Odometer
from ..private_statistics import PrivateStatistics
from ..public_terms import MOST_ROWS, blank
from ..statistics import ReleasedStatistics


@dataclass(kw_only=True, eq=False, repr=False)
class ReleasingEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator that is computed from released statistics: given ones, or a release of its own.

    Its parameters are terms of a release, which `PrivateStatistics` takes as they are; an estimator
    adds its own.  `needed` names the terms without which nothing can be released: any one of each
    group.
    """

    needed: ClassVar[tuple[tuple[str, ...], ...]] = (("row_norm",), ("epsilon",))
    supervised: ClassVar[bool] = True

    statistics: PrivateStatistics | None = field(default=None, kw_only=False)
    row_norm: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    neighbours: str = "add-remove"
    noise: Literal["gaussian", "laplace"] = "gaussian"
    rows_per_user: int | None = None
    intercept: float = 0.2
    label_weight: float = 1.0
    most_rows: int = MOST_ROWS
    bound_source: str = "public"
    odometer: Odometer | None = None
    seed: int | None = None

    statistics_: PrivateStatistics = field(init=False)
    cost_: str = field(init=False)
    _released: ReleasedStatistics = field(init=False)

    @property
    def guarantee_(self) -> Guarantee:
        """What is proven of the release that the fit is computed from."""
        check_is_fitted(self, "_released")
        return self._released.guarantee

    def fit(self, X: Any = None, y: Any = None, *, user: Any = None) -> Self:  # noqa: N803
        """Fit from `statistics`, which costs nothing; or release and fit, where there are none.

        With `statistics` the rows `X` and labels `y` are not looked at.  `user` (n,) names the user
        of each row where `rows_per_user` is given.  Raises `InvalidInput` where public terms are
        missing or rows cannot be released, and `BudgetExceeded`, both before anything is drawn.
        """
        if self.statistics is None:
            self._release(X, y, user)
        else:
            self.statistics_ = self.statistics
        released = self.statistics_.released
        self.n_features_in_ = released.features
        settings = {name: _as_json(value) for name, value in self._fit_settings().items()}
        result = self._compute(released)
        self.cost_ = self.statistics_.costs.fit(type(self).__name__, settings, result, released)
        # What was fitted from; statistics may release again, for another observer.
        self._released = released
        return self

    def _release(self, features: Any, labels: Any, user: Any) -> None:
        for group in self.needed:
            if all(getattr(self, name) is None for name in group):
                raise InvalidInput(
                    f"`{'` or `'.join(group)}` must be given, or `statistics`.",
                    "What bounds a row, and what labels there can be, is public: it is fixed "
                    "before the data are looked at, and never taken from them.",
                    "Give the terms of a release, or statistics that were released.",
                )
        shared = {each.name: getattr(self, each.name) for each in _TERMS}
        statistics: Any = PrivateStatistics(**shared, **self._terms())
        if self.supervised:
            features, labels = self._checked(features, labels)
        else:
            features, labels = self._validated(features), None
        self._check_fit(blank(statistics.terms, int(features.shape[1])))
        statistics.release(features, labels, user=user)
        # What is kept of it can be pickled, and cannot release again.
        self.statistics_ = PrivateStatistics.from_released(statistics.released)

    def _checked(self, features: Any, labels: Any) -> tuple[Any, Any]:
        """Return rows and labels as scikit-learn has them: checked for shapes and types."""
        checked: tuple[Any, Any] = self._validated(features, labels)
        return checked

    def _validated(self, *given: Any, **more: Any) -> Any:
        """Return what `validate_data` does, without its messages that quote an entry."""
        try:
            return validate_data(self, *given, accept_sparse="csr", **more)
        except (ValueError, OverflowError) as error:
            text = str(error)
            quotes = "could not convert" in text or isinstance(error, OverflowError)
            if not quotes and "Complex data" not in text:
                raise
            # scikit-learn shows the entry, or all of the table.
            what = "an entry is a text, or too large" if quotes else "Complex data not supported"
        raise InvalidInput(
            f"`X`, and labels that are numbers, must hold numbers: {what}.",
            "Rows are clipped and multiplied as numbers.",
            "Encode texts by a public rule first.",
        )

    def _check_fit(self, released: ReleasedStatistics) -> None:
        """Raise for settings of the fit that do not suit what will be released: zeros so far."""

    def _terms(self) -> dict[str, Any]:
        """Return the terms of a release that are this estimator's alone."""
        return {}

    def _fit_settings(self) -> dict[str, Any]:
        """Return the settings of the fit, which are public and cost nothing."""
        return {}

    def _compute(self, released: ReleasedStatistics) -> FloatArray:
        """Fit, and return what was computed: a function of released values and public settings."""
        raise NotImplementedError

    def _rows(self, features: Any) -> FloatArray:
        """Return new rows as floats (n, p); they are looked at in the clear."""
        check_is_fitted(self, "_released")
        rows = validate_data(self, features, reset=False, accept_sparse="csr", dtype=np.float64)
        return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = self.supervised
        return tags


_TERMS: Final = tuple(
    each for each in fields(ReleasingEstimator) if each.init and each.name != "statistics"
)


def _as_json(value: Any) -> object:
    """Return a public setting as a log states it: numbers with a fraction as texts."""
    if isinstance(value, Mapping):
        return {str(name): _as_json(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_as_json(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    return repr(value) if isinstance(value, float) else value
