"""Which clients' messages of a layer are averaged: all, k at random, or k by their divergence.

    v_i = the share of a layer's numbers whose sign is not that of the last mean gradient
    P(i) ~ exp(-epsilon3 v_i / (2 n))        drawn k times, without replacement; n clients

`divergence` is the paper's, `uniform` takes k at random, `top-k` the k least divergent, of equal
ones the first.  In the first round there is no gradient to compare with, and all v_i are 0.  Layers
are chosen independently.  All of it looks at messages that have their noise already, so it is a
post-processing of them and costs nothing, for every epsilon3.

Source: Cao et al. 2023, DELM, equations 14 to 16 and Algorithm 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np

from ...accountant.arrays import FloatArray, IntArray
from ...accountant.mechanisms.selection import choose
from ...accountant.randomness import choice
from ...accountant.sensitivity.selection import exponent_as_published
from .settings import DIVERGENCE, TOP_K, UNIFORM

if TYPE_CHECKING:
    from ...accountant.randomness import Stream


@dataclass(frozen=True)
class ClientChoice:
    """How k of n clients are chosen for a layer; `epsilon` is that of `divergence`, epsilon3."""

    kind: Literal["divergence", "uniform", "top-k"]
    chosen: int
    clients: int
    epsilon: float | None = None

    @property
    def compares(self) -> bool:
        """Whether it looks at messages, so that it needs the last mean gradient."""
        return self.kind != UNIFORM

    @property
    def exponent(self) -> Fraction:
        """The factor of v_i in the exponent: -epsilon3 / (2 n)."""
        assert self.epsilon is not None
        return -exponent_as_published(self.epsilon, self.clients)

    def choose(self, stream: Stream | None, messages: FloatArray, last: FloatArray) -> IntArray:
        """Return which messages (n, d) of a layer are averaged: k indices, ascending.

        `last` (d,) is the last mean gradient of the layer, zeros in the first round.  `top-k`
        draws nothing and needs no stream.
        """
        if self.kind == UNIFORM:
            assert stream is not None
            return choice(stream, self.clients, self.chosen)
        scores = divergence(messages, last)
        if self.kind == TOP_K:
            return np.sort(np.argsort(scores, kind="stable")[: self.chosen])
        assert self.kind == DIVERGENCE
        assert stream is not None
        return np.sort(np.array(choose(stream, scores, self.exponent, self.chosen), np.int64))


def divergence(messages: FloatArray, last: FloatArray) -> FloatArray:
    """Return the share of numbers whose sign is not that of `last`, of each message: (n,).

    `messages` (n, d), `last` (d,).  Where `last` is zeros there is nothing to differ from: 0.
    """
    if not last.any():
        return np.zeros(len(messages))
    return np.asarray(np.mean(np.sign(messages) != np.sign(last), axis=1))
