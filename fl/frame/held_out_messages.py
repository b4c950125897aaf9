"""The noise on sums of votes that users sent as messages, each with noise of its own.

A vote is two numbers in [0, 1], right and wrong, each sent around the middle as one of [-C, C] with
C = 1/2.  Of n messages each sum has, as deviation of its noise,

    Laplace, scale a            sqrt(2 n) a
    words 0 to b, epsilon       sqrt(n V) / (b (1 - g)) at most,   g = (b + 1) / (e^epsilon + b)
                                V = g b (b + 2) / 12 + (1 - g) (g (b/2 - t)^2 + t (1 - t))
                                t = max(0, (1 - g b) / (2 (1 - g)))

A word y is kept with probability 1 - g, and otherwise any word is sent, evenly.  With c = y - b/2,
whose mean is m, what is sent has the variance

    g b (b + 2) / 12 + (1 - g) E[c^2] - (1 - g)^2 m^2

A number lies between two words, t behind the outer one of the two: E[c^2] = m^2 + t (1 - t).  For
every t in [0, 1] that is most where the two are the last ones, |m| = b/2 - t; and of these t it is
most at the one above.  There t = 0, wherever g b >= 1: at whole votes, and where nobody votes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from ...accountant import events as ev

if TYPE_CHECKING:
    from ...accountant.records import Noise

VOTE_NUMBERS: Final = 2
"""How many numbers a vote has: right and wrong."""

VOTE_MIDDLE: Final = 0.5
"""Half a vote: what is taken off before it is sent, and the bound C on what is left."""


def deviation_of_messages(noise: Noise, event: ev.Event, messages: int) -> float:
    """Return the deviation of the noise on a sum of votes, of so many messages; see the module.

    `noise` and `event` are those of the release, as its intent has them.  Of words it is at most
    this; NaN for an event that says nothing of them.
    """
    if noise.family == "laplace":
        return math.sqrt(2.0 * messages) * noise.std
    word = event
    while not isinstance(word, ev.RandomizedResponse):
        inner = getattr(word, "event", None)
        if not isinstance(inner, ev.Event):
            return math.nan
        word = inner
    steps = word.categories - 1
    # (b + 1) / (e^epsilon + b), without a large exponential.
    small = math.exp(-word.epsilon)
    evenly = (steps + 1) * small / (1.0 + steps * small)
    kept = (1.0 - small) / (1.0 + steps * small)
    if not kept > 0.0:
        return math.inf
    behind = max(0.0, (1.0 - evenly * steps) / (2.0 * kept))
    variance = evenly * steps * (steps + 2) / 12.0
    variance += kept * (evenly * (steps / 2.0 - behind) ** 2 + behind * (1.0 - behind))
    return math.sqrt(messages * variance) * (2.0 * VOTE_MIDDLE) / (steps * kept)
