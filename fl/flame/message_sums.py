"""From numbers to messages with noise of their own, and from sums of messages back to numbers.

Words in place of numbers: coordinates in [-C, C] as one of b + 1 steps, and their sum back.

    y = floor or ceiling of b (x + C) / (2 C), at random so that its mean is that number
    z = y, or another word, by randomized response with the truth of probability p
    E[z] - b / 2 = (p - (1 - p) / b) (b x / (2 C)),     and of a dummy 0

so the sum of z - b / 2 over all messages of a coordinate, dummies among them, is an unbiased sum of
the values but for a factor.

Source: Balle, Bell, Gascon and Nissim 2019, arXiv 1903.02837v1, Algorithm 1, with words 0 to b.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from ...accountant.mechanisms import LaplaceMessages, ResponseMessages
from .terms import FlameTerms

if TYPE_CHECKING:
    from ...accountant.arrays import FloatArray, IntArray
    from ...accountant.mechanisms import Ticket
    from ...accountant.randomness import Stream

MESSAGE_STREAM: Final = "messages"
ROUNDING_STREAM: Final = "rounding"


def randomised(
    ticket: Ticket,
    mechanism: LaplaceMessages | ResponseMessages,
    values: FloatArray,
    terms: FlameTerms,
    named: str = "",
) -> IntArray:
    """Return a message for each value, (users, k), each clipped to C.

    `named` begins the names of the random streams.  Raises as the mechanism's `messages`.
    """
    name = f"{named}{MESSAGE_STREAM}"
    if isinstance(mechanism, LaplaceMessages):
        return mechanism.messages(ticket, values, name)
    stream = ticket.stream(f"{named}{ROUNDING_STREAM}")
    words = words_of(stream, values, terms.clip, terms.table.steps)
    return mechanism.messages(ticket, words, name)


def sums_of_values(
    mechanism: LaplaceMessages | ResponseMessages, sums: IntArray, messages: int, terms: FlameTerms
) -> FloatArray:
    """Return unbiased sums of values from `sums` (k,) over so many messages each."""
    if isinstance(mechanism, LaplaceMessages):
        return mechanism.units(sums)
    return unbiased_sums(sums, messages, mechanism.epsilon, terms.clip, terms.table.steps)


def words_of(stream: Stream, values: FloatArray, clip: float, steps: int) -> IntArray:
    """Return a word of 0 to `steps` for each value, clipped to +-`clip`, of the same shape.

    What is no number counts as 0.  A value between two words becomes either, so that the mean is
    the value but for 2^-53.
    """
    finite = np.where(np.isfinite(values), values, 0.0)
    scaled = (np.clip(finite, -clip, clip) + clip) * (steps / (2.0 * clip))
    lower = np.clip(np.floor(scaled), 0, steps)
    # 53 random bits as a fraction in [0, 1): up with the probability of the fraction.
    fractions = (stream.integers64(values.size) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    up = fractions.reshape(values.shape) < scaled - lower
    return np.asarray(np.minimum(lower + up, steps), np.int64)


def unbiased_sums(
    sums: IntArray, messages: int, epsilon: float, clip: float, steps: int
) -> FloatArray:
    """Return sums of values from sums of words, (dimensions,), of so many messages each."""
    truth = 1.0 / (1.0 + steps * math.exp(-epsilon))
    slope = truth - (1.0 - truth) / steps
    centred = sums.astype(np.float64) - messages * (steps / 2.0)
    return centred * (2.0 * clip / steps / slope)
