"""Normalisation: by public constants, or by moments that a mechanism released.

A mean or a variance computed from private records is itself a release.  So there are two ways:

1. `publicly`: clip every feature to a public range, then (x - mean) / scale with public constants.
2. By accounted moments: `bounded_moments_contributions` gives one row per user whose L2 norm is at
   most a stated constant; a mechanism adds noise to the sum of the rows and is accounted for;
   `moments_from_sum` turns the noisy sum into (mean, scale), which is post-processing; `apply`
   uses them on features that were clipped to the same range (`clip`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...accountant import validate
from ...accountant.arrays import Float32Array, FloatArray, IntArray
from ...accountant.errors import InvalidInput
from ...accountant.sensitivity.release import root_up
from .federation import checked_features, checked_indices


@dataclass(frozen=True, eq=False)
class Scaling:
    """Public constants per feature, or one for all: range, mean and scale, and their source.

    `lower`, `upper`, `mean` and `scale` have the shape of a record, or broadcast to it; units are
    those of the features as read.
    """

    lower: ArrayLike
    upper: ArrayLike
    mean: ArrayLike
    scale: ArrayLike
    source: str


@dataclass(frozen=True, eq=False, repr=False)
class Contributions:
    """What each user adds to a sum that a mechanism will release.

    `rows` is (users, 2 features) float64, or one wider, private; `bound` is the L2 norm that no row
    exceeds, a constant that depends on the number of features alone.  If a user's records go
    (add-remove), the sum moves by at most `bound`; if they are exchanged (replace-one), by at most
    twice that.
    """

    rows: FloatArray
    bound: float


def clip(features: Float32Array, lower: ArrayLike, upper: ArrayLike) -> Float32Array:
    """Return features clipped to a public range, as float32.

    >>> clip(np.array([[-1.0], [9.0]], np.float32), 0.0, 4.0).ravel().tolist()
    [0.0, 4.0]
    """
    low, high = _range(features, lower, upper)
    return np.clip(features, low.astype(np.float32), high.astype(np.float32))


def apply(features: Float32Array, mean: ArrayLike, scale: ArrayLike) -> Float32Array:
    """Return (features - mean) / scale as float32; both are public, or were released with noise.

    Raises `InvalidInput` for a scale that is not above 0 and values that do not fit a record.
    """
    centre, spread = _fitted(features, mean=mean), _fitted(features, scale=scale)
    if not (spread > 0.0).all():
        raise InvalidInput(
            "Every `scale` must be above 0.", next_step="Give a scale for each feature."
        )
    return ((features - centre) / spread).astype(np.float32)


def publicly(features: Float32Array, scaling: Scaling) -> Float32Array:
    """Return features clipped to their public range and scaled by public constants."""
    return apply(clip(features, scaling.lower, scaling.upper), scaling.mean, scaling.scale)


def contribution_bound(width: int, *, counted: bool = False) -> float:
    """Return the L2 norm that no row of `bounded_moments_contributions` exceeds.

    It is sqrt(d), or sqrt(d + 1) with `counted`, rounded up; `width` is d, the values of a record.

    >>> contribution_bound(16), contribution_bound(15, counted=True)
    (4.0, 4.0)
    """
    return root_up(Fraction(validate.count(width=width) + counted))


def bounded_moments_contributions(
    features: Float32Array,
    user: IntArray,
    *,
    users: int,
    lower: ArrayLike,
    upper: ArrayLike,
    counted: bool = False,
) -> Contributions:
    """Return per-user rows of first and second moments, each of L2 norm at most sqrt(d).

    With z in [-1, 1]^d the record scaled from its public range, row u is (m, v - 1) with m the mean
    of z and v the mean of z^2 over the records of user u; zero for a user without records.  In each
    coordinate m^2 <= v <= 1, so m^2 + (v - 1)^2 <= v + (1 - v) = 1, which gives the bound; how many
    records a user has makes no difference to it.  With `counted` a row ends in 1, so that the sum
    of rows holds the sum of their weights too; the bound is sqrt(d + 1) then.  The rows weigh every
    user alike, so the moments are those of a record drawn from a user drawn at random.

    `features` is (records, ...), d values each; `user` is (records,); `lower` and `upper` are the
    public range.  A user's records in all silos are taken together; where silos cannot do that,
    each silo calls this by itself and weighs the rows so that those of one user weigh at most 1.

    Raises `InvalidInput` for features that are not finite, indices out of range and a range that is
    empty or no float can divide by.
    """
    parties = validate.count(users=users)
    finite = checked_features("features", features)  # a NaN would pass every clip
    holder = checked_indices("user", user, len(features), parties)
    low, high = (_flat(bound, finite) for bound in _range(finite, lower, upper))
    middle, half = (low + high) / 2.0, (high - low) / 2.0
    table = finite.reshape(len(finite), math.prod(finite.shape[1:])).astype(np.float64)
    width = table.shape[1]
    rows = np.zeros((parties, 2 * width + counted))
    if len(table):
        # Means of z and z^2 over each user's records, which lie together after the sort.
        order = np.argsort(holder, kind="stable")
        present, first, number = np.unique(holder[order], return_index=True, return_counts=True)
        scaled = np.clip((table[order] - middle) / half, -1.0, 1.0)
        # A mechanism clips the rows again, so rounding moves nobody beyond the bound.
        mean = np.add.reduceat(scaled, first, axis=0) / number[:, None]
        square = np.add.reduceat(np.square(scaled), first, axis=0) / number[:, None]
        rows[present, :width] = np.clip(mean, -1.0, 1.0)
        rows[present, width : 2 * width] = np.clip(square - 1.0, -1.0, 0.0)
        rows[present, 2 * width :] = 1.0
    return Contributions(rows, contribution_bound(width, counted=counted))


_LEAST_SHARE_OF_RANGE: Final = 0.05
"""The least scale of a feature by noisy moments, as a share of half its range."""


def moments_from_sum(
    noisy: ArrayLike,
    *,
    users: int,
    lower: ArrayLike,
    upper: ArrayLike,
    deviation: float = 0.0,
    fewest: float | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return (mean, scale) per feature from the noisy sum of `Contributions.rows`.

    `noisy` is (2 d,), and is divided by |U|, which is public; or, of rows that were `counted`,
    (2 d + 1,), and is divided by its last value, taken to be from `fewest` to |U|.  `deviation` is
    that of the noise in one value.  The scale is at least 5% of half the range, and at least the
    deviation of the mean: then noise makes no scale 0 or less, and no feature is far from 0 because
    its mean is not known.  `lower` and `upper` are (d,) or single
    numbers, those that the rows were made with.

    Raises `InvalidInput` for another length, a sum that is not finite, and an empty range.
    """
    total = np.asarray(noisy, np.float64)
    spread = validate.non_negative(deviation=deviation)
    most = weight = float(validate.count(users=users))
    counted = fewest is not None
    if (
        total.ndim != 1
        or total.size < 2
        or total.size % 2 != counted
        or not np.isfinite(total).all()
    ):
        raise InvalidInput(
            "`noisy` must be a vector of two finite numbers per feature"
            + (", and the sum of all weights." if counted else "."),
            next_step="Give the noisy sum of all rows.",
        )
    if fewest is not None:
        weight = min(max(float(total[-1]), min(validate.positive(fewest=fewest), most)), most)
        total = total[:-1]
    first, second = np.split(total / weight, 2)
    low, high = _range(first[None], lower, upper)
    # Back from [-1, 1] to the range; what is impossible without noise is clipped away.
    middle, half = (low + high) / 2.0, (high - low) / 2.0
    mean = np.clip(first, -1.0, 1.0)
    variance = np.clip(second + 1.0, 0.0, 1.0) - np.square(mean)
    smallest = max(_LEAST_SHARE_OF_RANGE, min(spread / weight, 1.0))
    return middle + half * mean, half * np.sqrt(np.maximum(variance, smallest**2))


def _range(
    features: NDArray[np.floating], lower: ArrayLike, upper: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    low, high = _fitted(features, lower=lower), _fitted(features, upper=upper)
    with np.errstate(over="ignore"):
        width = high - low
    if not ((width > 1e-300) & (width < 1e300)).all():
        raise InvalidInput(
            "Every `lower` must be below its `upper`.",
            next_step="Give a public range for each feature.",
        )
    return low, high


def _fitted(features: NDArray[np.floating], **field: ArrayLike) -> FloatArray:
    """Return finite values that broadcast to a record."""
    ((name, given),) = field.items()
    record = features.shape[1:]
    try:
        values = np.asarray(given, np.float64)
        fits = np.broadcast_shapes(values.shape, record) == record and np.isfinite(values).all()
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise InvalidInput(
            f"`{name}` must be finite and fit a record of shape {record}.",
            next_step=f"Give `{name}` one value, or one per feature.",
        )
    return values


def _flat(values: FloatArray, features: Float32Array) -> FloatArray:
    return np.broadcast_to(values, features.shape[1:]).reshape(-1)
