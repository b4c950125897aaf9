"""What is trained: units and their records; and how: a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...accountant import validate
from ...accountant.arrays import IntArray
from ...accountant.errors import InvalidInput

Precision = Literal["float64", "float32"]


class _Groups(Protocol):
    @property
    def order(self) -> IntArray: ...

    @property
    def offsets(self) -> IntArray: ...


class _Pairs(_Groups, Protocol):
    @property
    def user(self) -> IntArray: ...

    @property
    def silo(self) -> IntArray: ...


@dataclass(frozen=True)
class Recipe:
    """Plain SGD: `epochs` passes over a unit's records, in minibatches of `batch`.

    `local_rate` is the learning rate; a minibatch's gradient is the mean over its records, the last
    one being as small as it is.  Each epoch has a new order.  `seed` is public (see
    `models.draws`).  `precision`: float32 takes about two thirds of the time, and its rounding
    now and then puts a ReLU on the other side, which moves a delta by 1e-4 or more.  `proximal` is
    mu in (mu / 2) |x - start|^2, which is added to the objective of every unit.

    Range: `local_rate` above 0, `epochs` and `batch` 1 or above, `seed` and `proximal` 0 or above.
    Raises `InvalidInput`.
    """

    local_rate: float
    epochs: int
    batch: int
    seed: int = 0
    precision: Precision = "float64"
    proximal: float = 0.0

    def __post_init__(self) -> None:
        validate.positive(local_rate=self.local_rate)
        validate.count(epochs=self.epochs)
        validate.count(batch=self.batch)
        validate.count_from(0, seed=self.seed)
        validate.non_negative(proximal=self.proximal)
        validate.choice(get_args(Precision), precision=self.precision)


@dataclass(frozen=True, eq=False)
class Units:
    """Records in units: unit u trains on `order[offsets[u] : offsets[u + 1]]`.

    - `features`: (records, ...); `labels`: (records,) integers, or (records, 2) [time, event].
    - `order`: record indices; `offsets`: (units + 1,).  A unit may be empty.
    - `user`, `silo`: (units,) integers, public names of the units: with seed and round they
      decide a unit's draws, and nothing else does.

    Raises `InvalidInput` for shapes and indices that do not fit together.

    >>> two = Units([[0.0], [1.0], [2.0]], [0, 1, 1], [2, 0, 1], [0, 1, 3], [7, 8], [0, 0])
    >>> two.sizes.tolist(), two.only([1]).order.tolist()
    ([1, 2], [0, 1])
    """

    features: NDArray[np.generic]
    labels: NDArray[np.generic]
    order: IntArray
    offsets: IntArray
    user: IntArray
    silo: IntArray

    def __post_init__(self) -> None:
        features, labels = np.asarray(self.features), np.asarray(self.labels)
        if features.ndim < 2 or len(labels) != len(features) or labels.ndim not in (1, 2):
            raise InvalidInput(
                f"`features` and `labels` have shapes {features.shape} and {labels.shape}.",
                "Each record has values, in at least one dimension, and a label.",
                "Give arrays with one row per record.",
            )
        order, offsets = _indices("order", self.order), _indices("offsets", self.offsets)
        if len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(order):
            raise InvalidInput("`offsets` must begin with 0 and end with the length of `order`.")
        if np.any(np.diff(offsets) < 0):
            raise InvalidInput("`offsets` must not decrease.")
        if len(order) and not 0 <= order.min() <= order.max() < len(features):
            raise InvalidInput(f"`order` must hold record indices, 0 to {len(features) - 1}.")
        user, silo = _indices("user", self.user), _indices("silo", self.silo)
        if not len(user) == len(silo) == len(offsets) - 1:
            raise InvalidInput("`user` and `silo` must have one entry per unit.")
        fields = ("features", "labels", "order", "offsets", "user", "silo")
        values = (features, labels, order, offsets, user, silo)
        for field, value in zip(fields, values, strict=True):
            object.__setattr__(self, field, value)

    @classmethod
    def of_pairs(cls, features: ArrayLike, labels: ArrayLike, pairs: _Pairs) -> Units:
        """Return one unit per user and silo, as `Federation.pairs` groups them."""
        table, column = np.asarray(features), np.asarray(labels)
        return cls(table, column, pairs.order, pairs.offsets, pairs.user, pairs.silo)

    @classmethod
    def of_silos(cls, features: ArrayLike, labels: ArrayLike, groups: _Groups) -> Units:
        """Return one unit per silo, as `Federation.by_silo` groups them; their user is -1."""
        silo = np.arange(len(groups.offsets) - 1)
        user = np.full(len(silo), -1)
        return cls(
            np.asarray(features), np.asarray(labels), groups.order, groups.offsets, user, silo
        )

    @property
    def sizes(self) -> IntArray:
        """How many records each unit has: (units,).  Private."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.user)

    def only(self, chosen: ArrayLike) -> Units:
        """Return some of the units, by index or by a mask; each trains as before."""
        units = np.arange(len(self))[np.asarray(chosen)]
        if np.array_equal(units, np.arange(len(self))):
            return self
        sizes = self.sizes[units]
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        # Positions in `order` of the chosen units' records, one unit behind the other.
        positions = np.repeat(self.offsets[units] - offsets[:-1], sizes) + np.arange(offsets[-1])
        return Units(
            self.features,
            self.labels,
            self.order[positions],
            offsets,
            self.user[units],
            self.silo[units],
        )


def _indices(field: str, values: ArrayLike) -> IntArray:
    given = np.asarray(values)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise InvalidInput(f"`{field}` must be a row of integers; it is {given.dtype}.")
    return cast(IntArray, given.astype(np.int64))
