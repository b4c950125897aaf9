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
from .directions import design_of, directions
from .rows import Rows, all_rows, dimension
from .settings import FedPowerSettings

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
    # A run that lost its releases is left with the zeros that it began with.
    if not released.any():
        return {}
    table, columns = prepared.settings.of(FedPowerSettings), dimension(prepared.federation)
    design = design_of(table, released.size, columns)
    return measured(directions(table, design, released, columns), prepared.federation)


def measured(basis: FloatArray, federation: Federation) -> dict[str, float]:
    """Return the metrics of orthonormal directions (d, k) on test rows, which must be public."""
    components = basis.shape[1]
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
