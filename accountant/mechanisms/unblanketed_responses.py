"""Randomized response as FLAME prints it, for study: the word 0 is never sent by chance.

    x = 0..b      sent is x, or with probability gamma a uniform word of 1..b, never of 0..b
    gamma = b / (e^epsilon + b - 1)

**No guarantee**: whoever sends 0 means 0.  Between a unit that means 0 and one that does not, the
event "0 is sent" has probability 1 - gamma and 0, at every epsilon.  For the words 1..b alone it is
b-ary randomized response.  `RandomizedResponse` has all words among those that are drawn.

Source: Liu, Cao, Chen, Guo and Yoshikawa 2021, *FLAME*, AAAI, arXiv 2009.08063v4, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from .. import events as ev
from .. import validate
from ..arrays import BoolArray, IntArray
from ..neighbours import Neighbours
from ..randomness import uniform
from .exponentials import bernoulli, exp_enclosure
from .messages import ResponseMessages
from .round_ticket import Ticket

UNBLANKETED: Final = ev.NoGuarantee(
    "the word 0 is sent only by who means it, so no epsilon holds for it"
)


@dataclass(frozen=True)
class UnblanketedResponses(ResponseMessages):
    """Each message is one of the words 0..b, b = `categories` - 1, and by chance one of 1..b.

    Every event is `NoGuarantee`; see the module.  Range: as `ResponseMessages`, `shuffled` unused.

    >>> UnblanketedResponses(1.0, 4).event("replace-one").reason == UNBLANKETED.reason
    True
    """

    @property
    def last_word(self) -> int:
        """b."""
        return self.categories - 1

    def message_event(self, relation: Neighbours) -> ev.Event:
        """Return `NoGuarantee`."""
        return UNBLANKETED

    def dummies(self, ticket: Ticket, count: int, name: str) -> IntArray:
        """Return uniform words of 1..b."""
        self._may_draw(ticket)
        needed = validate.count_from(0, count=count)
        return 1 + uniform(ticket.stream(name), needed, self.last_word)

    def meant(self, bits: int) -> tuple[Fraction, Fraction]:
        """Enclose 1 - gamma = (1 - t) / (1 + (b - 1) t), t = e^-epsilon, to about 2^-`bits`."""
        low, high = exp_enclosure(Fraction(self.epsilon), bits)
        others = self.last_word - 1
        # Falls in t, so the ends of the enclosure change places.
        return (1 - high) / (1 + others * high), (1 - low) / (1 + others * low)

    def _reported(self, ticket: Ticket, values: IntArray, name: str, part: str) -> IntArray:
        array = self._values(values.reshape(-1))
        self.check_ticket(ticket)
        ticket.draw(part=part, sums=values.shape[1] if values.ndim == 2 else 1)
        stream = ticket.stream(name)
        meant = bernoulli(stream, len(array), self.meant)
        drawn = uniform(stream, len(array), self.last_word)
        return sent_words(meant, array, drawn).reshape(values.shape)


def sent_words(meant: BoolArray, values: IntArray, drawn: IntArray) -> IntArray:
    """Return what is sent: the word that is meant, or 1 + `drawn`, one of 1..b; all (n,)."""
    return np.asarray(np.where(meant, values, 1 + drawn))
