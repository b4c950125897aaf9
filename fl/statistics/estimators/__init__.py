"""Estimators for scikit-learn, each fitted from one private release of statistics.

    stats = PrivateStatistics(row_norm=6.0, classes=2, epsilon=1.0).release(X, y)
    PrivateLogistic(stats).fit().predict(new_rows)      # costs nothing more
    PrivatePCA(stats, n_components=8).fit().transform(new_rows)

Without `statistics` an estimator takes the public terms of a release itself, and each `fit(X, y)`
is a release of its own: ten fits in a search cost ten times.  Share one release instead.
"""

from ....accountant.errors import MissingExtra

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError:
    raise MissingExtra(
        "The estimators need scikit-learn, which is not installed.",
        "They are estimators of that library; PrivateStatistics does without.",
        'Install the extra: pip install "privplan[fl]".',
    ) from None

from .logistic import PrivateLogistic
from .pca import PrivatePCA
from .ridge import PrivateRidge

__all__ = ["PrivateLogistic", "PrivatePCA", "PrivateRidge"]
