"""What is counted of each message in a rehearsal, and what of it is expected: means and variances.

A message in units of the clip is y, that of a value v has the law mu_v, and a dummy has omega.

| who sees | what is counted | why |
|---|---|---|
| sums alone | y | nothing else is there |
| all messages of a coordinate, mixed | (mu_1 - mu_-1) / omega at y | the best of all sums |
| each message with its sender | log mu_1 / mu_-1 at y | the likelihood ratio |

The second is best among what is added up over messages, dummies and values of 0: of all
functions g it has the largest E_1 g - E_-1 g at a given variance under omega (Cauchy-Schwarz), and
for many messages the ratio of the claim is no better.  For few, and much epsilon0, the logarithm of
a sum over messages would see more.  A sum instead loses a factor of up to sqrt 2 where epsilon0 is
small, and gains nothing anywhere.

    Laplace, scale b, a = 1 / b, |y| <= 1:   sign(y) (e^(2a (|y| - 1)) - e^(-2a)),  constant beyond
                                             and with the sender  y, cut at +-1;  up to a factor
    words 0 to s:                            +1 for s, -1 for 0, and 0 for all others; both
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, Protocol

import numpy as np

from ...accountant.arrays import FloatArray, IntArray
from ...accountant.mechanisms import LaplaceMessages, ResponseMessages

Counted = Literal["sums", "mixed", "apart"]
"""What an observer sees: sums, the messages of a coordinate, or each message with its sender."""

_NODES: Final = 200
"""Nodes of the quadrature on [0, 1]."""


@dataclass(frozen=True)
class Moments:
    """Mean and variance of what is counted of one message."""

    mean: float
    variance: float


class Scores(Protocol):
    """What is counted of messages, and its moments."""

    @abstractmethod
    def of(self, messages: IntArray) -> FloatArray:
        """Return what is counted of each message, of the same shape."""

    @abstractmethod
    def value(self, value: float) -> Moments:
        """Return the moments for a user's value of -1, 0 or 1 clips."""

    @property
    @abstractmethod
    def dummy(self) -> Moments:
        """The moments for a dummy."""


def scores_of(mechanism: LaplaceMessages | ResponseMessages, counted: Counted) -> Scores:
    """Return what is counted of the messages of a randomizer."""
    if isinstance(mechanism, LaplaceMessages):
        return LaplaceScores(mechanism, counted)
    return WordScores(mechanism, counted)


@dataclass(frozen=True)
class LaplaceScores:
    """What is counted of messages with Laplace noise of scale b clips."""

    mechanism: LaplaceMessages
    counted: Counted

    @property
    def scale(self) -> float:
        """The scale b of the noise, in clips."""
        return self.mechanism.std / self.mechanism.bound

    def of(self, messages: IntArray) -> FloatArray:
        """Return what is counted of each message, of the same shape."""
        return self._counted(self.mechanism.units(messages) / self.mechanism.bound)

    def value(self, value: float) -> Moments:
        """Return the moments for a user's value of -1, 0 or 1 clips."""
        scale = self.scale
        if self.counted == "sums":
            return Moments(value, 2.0 * scale * scale)
        # What is counted is constant beyond +-1, so the law is needed between these alone.
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        half = (nodes + 1.0) / 2.0
        points = np.concatenate((-half, half))
        density = np.exp(-np.abs(points - value) / scale) / (2.0 * scale)
        masses = np.concatenate((weights, weights)) / 2.0 * density
        beyond = math.exp(-(1.0 - value) / scale) / 2.0, math.exp(-(1.0 + value) / scale) / 2.0
        counted, last = self._counted(points), float(self._counted(np.ones(1))[0])
        mean = float(masses @ counted) + last * (beyond[0] - beyond[1])
        square = float(masses @ counted**2) + last * last * (beyond[0] + beyond[1])
        return Moments(mean, square - mean * mean)

    @property
    def dummy(self) -> Moments:
        """The moments for a dummy, which is a message of the value 0."""
        return self.value(0.0)

    def _counted(self, clips: FloatArray) -> FloatArray:
        if self.counted == "sums":
            return clips
        inside = np.minimum(np.abs(clips), 1.0)
        if self.counted == "mixed":
            scale = self.scale
            inside = np.exp(2.0 * (inside - 1.0) / scale) - math.exp(-2.0 / scale)
        return np.asarray(np.sign(clips) * inside)


@dataclass(frozen=True)
class WordScores:
    """What is counted of words 0 to s by randomized response."""

    mechanism: ResponseMessages
    counted: Counted

    @property
    def steps(self) -> int:
        """The largest word s."""
        return self.mechanism.categories - 1

    def of(self, messages: IntArray) -> FloatArray:
        """Return what is counted of each message, of the same shape."""
        return self._each[messages]

    def value(self, value: float) -> Moments:
        """Return the moments for a user's value of -1, 0 or 1 clips: 0 may become two words."""
        steps, other = self.steps, math.exp(-self.mechanism.epsilon)
        middle = (value + 1.0) * steps / 2.0
        meant = np.zeros(steps + 1)
        np.add.at(meant, [math.floor(middle), math.ceil(middle)], 0.5)
        truth = 1.0 / (1.0 + steps * other)
        return self._moments(other * truth + (1.0 - other) * truth * meant)

    @property
    def dummy(self) -> Moments:
        """The moments for a dummy, which is any word."""
        return self._moments(np.full(self.steps + 1, 1.0 / (self.steps + 1)))

    @cached_property
    def _each(self) -> FloatArray:
        """What is counted of each word: (s + 1,)."""
        words = np.arange(self.steps + 1.0)
        if self.counted == "sums":
            return words - self.steps / 2.0
        return np.asarray((words == self.steps) * 1.0 - (words == 0.0))

    def _moments(self, law: FloatArray) -> Moments:
        mean = float(law @ self._each)
        return Moments(mean, float(law @ self._each**2) - mean * mean)
