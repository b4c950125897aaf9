"""How a run of FedPower is measured: its directions against those of public test rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import numpy as np

from ...accountant.arrays import FloatArray
from ...accountant.errors import InvalidInput
from ..data.federation import Federation
from ..data.rating_federation import RatingFederation
from . import metrics
from .rows import Rows, all_rows, dimension

if TYPE_CHECKING:
    from ..frame.model import Parameters
    from ..running.prepared_run import PreparedRun

_EXACT: Final[WeakKeyDictionary[Federation, dict[int, tuple[FloatArray, float]]]] = (
    WeakKeyDictionary()
)
"""The exact leading directions of test rows and their variance, by federation and how many."""


def measure(prepared: PreparedRun, released: Parameters) -> Mapping[str, float]:
    """Return how near the released components are to those of the public test rows.

    `variance_share` is what they hold of the test rows' variance over what the exact leading ones
    hold, `projector_distance` is ||Q Q^T - V V^T||_F, and `largest_angle` is in radians.
    """
    from .settings import FedPowerSettings

    components = prepared.settings.of(FedPowerSettings).rank
    return measured(released, prepared.federation, components)


def measured(released: FloatArray, federation: Federation, components: int) -> dict[str, float]:
    """Return the metrics of an iterate on the test rows of a federation, which must be public.

    `released` is (d r,), the iterate (d, r) row by row, with orthonormal columns in the order of
    their singular values; its first `components` columns are measured.  A run that lost its
    releases is left with zeros, and has no metrics.  Raises `InvalidInput` for another length, and
    for fewer columns than `components`.
    """
    if not released.any():
        return {}
    columns = dimension(federation)
    if released.size % columns or released.size < columns * components:
        raise InvalidInput(
            f"`released` has {released.size:,} numbers, which are not {components} or more columns "
            f"of {columns:,} each.",
            next_step="Give the whole iterate.",
        )
    basis = released.reshape(columns, -1)[:, :components]
    rows = evaluation_rows(federation)
    exact, variance = _exact(federation, rows, components)
    return {
        "variance_share": metrics.captured_variance(basis, rows) / variance,
        "projector_distance": metrics.projector_distance(basis, exact),
        "largest_angle": metrics.largest_angle(basis, exact),
    }


def evaluation_rows(federation: Federation) -> Rows:
    """Return the rows to measure on, (rows, d): of ratings, which then are public, all of them."""
    if isinstance(federation, RatingFederation):
        return all_rows(federation)
    features = federation.test_features
    return features.reshape(len(features), -1).astype(np.float64)


def _exact(federation: Federation, rows: Rows, components: int) -> tuple[FloatArray, float]:
    known = _EXACT.setdefault(federation, {})
    if components not in known:
        directions, squares = metrics.leading_directions(rows, components)
        if not squares.sum() > 0.0:
            raise InvalidInput(
                "The test rows are all zeros.",
                "They have no variance, of which a share could be told.",
                'Write test = "none" under [evaluation].',
            )
        known[components] = directions, float(squares.sum())
    return known[components]
