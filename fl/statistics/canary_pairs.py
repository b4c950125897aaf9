"""Pairs of units that are furthest apart in a noisy Gram matrix: a canary that is in, and out.

A canary has all of its rows along one direction in a plane of two features that are its alone, so
that many of them lie in one release and none is seen in the numbers of another.  With rows of norm
sqrt(T / k) and one label, a unit adds

    G  T r r^T        S  sqrt(k T) r y^T        r = (sqrt(1 - v) u, sqrt(v))

where u is a unit vector and v the share of the intercept.  That is as far as `sensitivity.gram`
allows: under add-remove a unit is there or not; under replace-one its two rows have one label and
the cosine p = -a^2 k y^2 / (2 T), or are opposite where that is below -1, or, with a matrix for
each class, one row has two labels, whichever moves more.  Of a unit of several rows that is
replaced, the bound is safe and hardly attained.

What all canaries of a release move is no canary's: the corner of the intercept, and its label sums.
They are left out, and with them a v^2-th of G and a v-th of S under add-remove; two rows with one
label do not differ there.

Here is arithmetic in floats, from the public constants alone: neither the clip nor the grid of the
mechanism that is tested has a say in what is claimed of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.errors import Unsupported
from ...accountant.mechanisms import NoisyGram
from ...accountant.sensitivity.gram import GramBound

PLANE: Final = 2
"""Features that a canary has for itself."""

_PARTS: Final = 3
"""The diagonal, what is above it, and label sums."""

_BISECTOR: Final = math.pi / 8
"""The angle of the bisector of two rows: the diagonal differs as much as what is above it."""

_MEANT: Final = 1e-9
"""A part of a pair's distance that is smaller is rounding."""


@dataclass(frozen=True, eq=False)
class CanaryPair:
    """A direction (2,) in the plane and a class, in and out; `out` is None for an absent unit.

    `other_label`: whether the unit has another label where it is out.
    """

    into: FloatArray
    out: FloatArray | None = None
    other_label: bool = False


@dataclass(frozen=True, eq=False)
class Canaries:
    """Canaries of one release: `columns` (m, 2), `signs` (m, 2) of the rows there, `labels` (m,).

    Columns are those of features, from 0; labels are classes, from 0 to c - 1, and of one number 0
    stands for -1 and 1 for 1.  Without labels they are zeros.
    """

    columns: IntArray
    signs: FloatArray
    labels: IntArray


@dataclass(frozen=True, eq=False)
class PairGeometry:
    """The numbers of a release that belong to a canary, and how far it moves them.

    `gram` bounds a unit, `intercept` is v, and `replaced` the relation replace-one.  All lengths
    are in the coordinates in which noise is even (`NoisyGram.white`), for rows divided by the row
    norm.  Raises `Unsupported` for one feature, where two canaries cannot be told apart by their
    planes, and a plane has no room.
    """

    gram: GramBound
    intercept: float
    replaced: bool

    def __post_init__(self) -> None:
        if self.features < PLANE:
            raise Unsupported(
                "Canaries of a Gram matrix need two features.",
                "Each has a plane of features of its own, in which its two rows lie.",
                "Judge the noise by the tier residual.",
            )

    @property
    def features(self) -> int:
        """How many columns of the matrix are features; the last may be the intercept."""
        return self.gram.dimension - (1 if self.intercept > 0.0 else 0)

    @property
    def room(self) -> int:
        """How many canaries lie in one release, at most."""
        return self.features // PLANE

    @property
    def bound(self) -> float:
        """The sensitivity: no pair is farther apart."""
        return self.gram.l2("replace-one" if self.replaced else "add-remove")

    @cached_property
    def pair(self) -> CanaryPair:
        """The pair that moves furthest what is a canary's own."""
        half = CanaryPair(np.full(PLANE, math.sqrt(0.5)))
        if not self.replaced:
            return half
        pairs = [self._apart(self._cosine())]
        if self.gram.classes > 1:
            pairs.append(CanaryPair(half.into, half.into, other_label=True))
        return max(pairs, key=lambda pair: float(self._distances(pair).sum()))

    @cached_property
    def distances(self) -> FloatArray:
        """How far the pair moves the diagonal, what is above it, and label sums: (parts,), above 0.

        A part that the release does not have, or that the pair does not move, is left out.
        """
        distances = np.sqrt(self._distances(self.pair))
        return distances[self._parts]

    @cached_property
    def distance(self) -> float:
        """How far the pair moves all of it: at most the sensitivity."""
        return float(np.sqrt(np.square(self.distances).sum()))

    def rows(self, canaries: Canaries, into: BoolArray) -> tuple[FloatArray, IntArray]:
        """Return rows of norm 1, (m, features), and labels (m,) of canaries that are in, or out.

        Rows of absent units are zeros.
        """
        pair = self.pair
        out = np.zeros(PLANE) if pair.out is None else pair.out
        towards = np.where(into[:, None], pair.into, out) * canaries.signs
        rows = np.zeros((len(into), self.features))
        np.put_along_axis(rows, canaries.columns, towards, axis=1)
        return rows, np.where(into, canaries.labels, self._labels_out(canaries, pair))

    def projected(self, mechanism: NoisyGram, steps: IntArray, canaries: Canaries) -> FloatArray:
        """Return what integers (values,) hold of each canary, part by part: (parts, m).

        Projections on the pair's difference within a part, in units of the row norm 1.
        """
        return self._along(mechanism.white(steps)[self._positions(canaries)], canaries)

    def middle(self, canaries: Canaries) -> FloatArray:
        """Return what of it a replaced unit is seen around, and 0 for units that are absent."""
        into, out = self._added(canaries, self.pair)
        return self._along(0.5 * (into + out) if self.replaced else out, canaries)

    def _along(self, numbers: FloatArray, canaries: Canaries) -> FloatArray:
        into, out = self._added(canaries, self.pair)
        along = [
            ((numbers * (into - out))[:, self._kinds == part]).sum(axis=1)
            for part in np.flatnonzero(self._parts)
        ]
        return np.asarray(along) / self.distances[:, None]

    @cached_property
    def _parts(self) -> BoolArray:
        squares = self._distances(self.pair)
        return np.asarray(squares > _MEANT * squares.sum())

    def _cosine(self) -> float:
        """Return the cosine of the two directions in the plane, at which two rows move most."""
        weight = self.gram.label_weight**2 * self.gram.rows / self.gram.trace
        cosine = max(-1.0, -weight * float(self.gram.label_square) / 2.0)
        # Of whole rows it is v + (1 - v) times that of their features.
        return max(-1.0, (cosine - self.intercept) / (1.0 - self.intercept))

    def _apart(self, cosine: float) -> CanaryPair:
        half = math.acos(cosine) / 2.0
        angles = np.array([_BISECTOR + half, _BISECTOR - half])
        into, out = np.column_stack([np.cos(angles), np.sin(angles)])
        return CanaryPair(into, out)

    def _distances(self, pair: CanaryPair) -> FloatArray:
        """Return the squares of how far a pair moves each of the three parts: (3,)."""
        sample = Canaries(
            np.arange(PLANE, dtype=np.int64)[None], np.ones((1, PLANE)), np.zeros(1, np.int64)
        )
        into, out = self._added(sample, pair)
        squares = np.square(into - out)[0]
        return np.array([squares[self._kinds == part].sum() for part in range(_PARTS)])

    def _added(self, canaries: Canaries, pair: CanaryPair) -> tuple[FloatArray, FloatArray]:
        into = self._numbers(pair.into * canaries.signs, canaries.labels)
        if pair.out is None:
            return into, np.zeros_like(into)
        labels = self._labels_out(canaries, pair)
        return into, self._numbers(pair.out * canaries.signs, labels)

    def _labels_out(self, canaries: Canaries, pair: CanaryPair) -> IntArray:
        if not pair.other_label:
            return canaries.labels
        return np.asarray((canaries.labels + 1) % self.gram.classes)

    def _numbers(self, directions: FloatArray, labels: IntArray) -> FloatArray:
        """Return what units with these directions (m, 2) and labels (m,) add: (m, numbers)."""
        gram, count = self.gram, len(directions)
        first, second = (math.sqrt(1.0 - self.intercept) * directions).T
        constant = math.sqrt(2.0 * self.intercept)
        squares = [first**2, second**2, math.sqrt(2.0) * first * second]
        if self.intercept > 0.0:
            squares += [constant * first, constant * second]
        matrices = np.zeros((count, self._matrices, len(squares)))
        which = labels if gram.by_class else np.zeros(count, np.int64)
        matrices[np.arange(count), which] = gram.trace * np.column_stack(squares)
        sums = np.column_stack([first, second])[:, :, None] * self._label_vectors(labels)[:, None]
        scale = gram.label_weight * math.sqrt(gram.rows * gram.trace)
        return np.hstack([matrices.reshape(count, -1), scale * sums.reshape(count, -1)])

    def _label_vectors(self, labels: IntArray) -> FloatArray:
        """Return y of each label: (m, c)."""
        classes = self.gram.classes
        if classes < 2:
            return np.where(labels[:, None] == 0, -1.0, 1.0)[:, :classes]
        return np.asarray(np.eye(classes)[labels] - 1.0 / classes)

    @property
    def _matrices(self) -> int:
        return self.gram.classes if self.gram.by_class else 1

    @cached_property
    def _kinds(self) -> IntArray:
        """The part that each of a canary's numbers is of: 0 diagonal, 1 above it, 2 label sums."""
        matrix = [0, 0, 1] + [1, 1] * (self.intercept > 0.0)
        return np.array(matrix * self._matrices + [2] * (PLANE * self.gram.classes), np.int64)

    def _positions(self, canaries: Canaries) -> IntArray:
        """Return where a canary's numbers stand in a release: (m, numbers)."""
        d, classes = self.gram.dimension, self.gram.classes
        first, second = canaries.columns.T
        pairs = [(first, first), (second, second), (first, second)]
        if self.intercept > 0.0:
            last = np.full_like(first, d - 1)
            pairs += [(first, last), (second, last)]
        matrix = np.column_stack([_upper(row, column, d) for row, column in pairs])
        size = d * (d + 1) // 2
        grams = [matrix + size * number for number in range(self._matrices)]
        sums = canaries.columns[:, :, None] * classes + np.arange(classes)
        labels = size * self._matrices + sums.reshape(len(first), -1)
        return np.hstack([*grams, labels]).astype(np.int64)


def _upper(rows: IntArray, columns: IntArray, dimension: int) -> IntArray:
    """Return where G_ij stands in the upper triangle, row by row; G_ji stands there too."""
    rows, columns = np.minimum(rows, columns), np.maximum(rows, columns)
    return np.asarray(rows * dimension - rows * (rows - 1) // 2 + columns - rows)
