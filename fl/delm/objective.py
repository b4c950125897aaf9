"""The gradient of a linear model's noisy objective, of the second degree in the weights.

    sum over records   l_y . (W^T x) + <K, (W^T x)(W^T x)^T>     x: rows of norm 1 at most

    softmax     G W (I - 11^T/c) / c - S       S = sum x (e_y - 1/c)^T,  G = sum x x^T
    logistic    G w / 4 - S_1                  S_1 = sum x (y - 1/2)

G and S are what a client sums and adds noise to (`accountant.mechanisms.gram_noise`), so the
gradient at any weights is a function of what it released.  Rows are x sqrt(1 - v) / R, clipped to
norm 1, and a constant sqrt(v) for the intercept; the model's own weights are those of raw features.

Source: `accountant.sensitivity.functional` for l and K; Cao et al. 2023, DELM, Algorithm 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...accountant.arrays import FloatArray, IntArray
from ...accountant.mechanisms import NoisyGram
from .settings import LOGISTIC


@dataclass(frozen=True, eq=False)
class LinearObjective:
    """The noisy objective of a linear model, `logistic` or `softmax`, from what was released.

    `mechanism` lays out what is released, and `intercept` is v, the share of the constant.
    """

    model: str
    mechanism: NoisyGram
    intercept: float

    @property
    def features(self) -> int:
        """How many features a record has, without the constant."""
        return self.mechanism.gram.dimension - (self.intercept > 0.0)

    @cached_property
    def _scale(self) -> float:
        """The factor of raw features in a row."""
        return math.sqrt(1.0 - self.intercept) / self.mechanism.row_norm

    def gradient(self, steps: IntArray, parameters: FloatArray) -> FloatArray:
        """Return the gradient (D,) of released integers (values,), at a model's parameters (D,).

        It is scaled as the rows are: a step against it in the model's own weights is one in those
        of the rows, times `_scale` for features, and times sqrt(v) for the intercept.
        """
        gram, labels = self._matrices(steps)
        weights = self._row_weights(parameters)
        moved = gram @ weights
        if self.model == LOGISTIC:
            of_rows = moved / 4.0 - labels[:, 1:2]
        else:
            classes = labels.shape[1]
            of_rows = (moved - moved.mean(axis=1, keepdims=True)) / classes - labels
        return self._as_model(of_rows)

    def _matrices(self, steps: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return G (d, d) and S (d, c), of rows of norm 1."""
        values, d = self.mechanism.units(steps), self.mechanism.gram.dimension
        gram = np.zeros((d, d))
        upper = np.triu_indices(d)
        gram[upper] = values[: self.mechanism.label_start]
        gram[upper[1], upper[0]] = gram[upper]
        return gram, values[self.mechanism.label_start :].reshape(d, -1)

    def _row_weights(self, parameters: FloatArray) -> FloatArray:
        """Return the weights (d, outputs) of rows: W^T x of a row is the model's score."""
        outputs = len(parameters) // (self.features + 1)
        weights = parameters[: outputs * self.features].reshape(outputs, self.features)
        of_rows = np.zeros((self.mechanism.gram.dimension, outputs))
        of_rows[: self.features] = weights.T / self._scale
        if self.intercept > 0.0:
            of_rows[-1] = parameters[outputs * self.features :] / math.sqrt(self.intercept)
        return of_rows

    def _as_model(self, of_rows: FloatArray) -> FloatArray:
        """Return a matrix (d, outputs) of rows' weights as a step in the model's vector, (D,)."""
        weights = of_rows[: self.features].T * self._scale
        bias = np.zeros(of_rows.shape[1])
        if self.intercept > 0.0:
            bias = of_rows[-1] * math.sqrt(self.intercept)
        return np.concatenate([weights.ravel(), bias])
