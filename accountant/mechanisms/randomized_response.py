"""Randomized response: each unit sends one of k values, true or not, and the noise is its own."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from .. import events as ev
from .. import records, validate
from ..arrays import IntArray
from ..errors import InvalidInput, Unsupported
from ..neighbours import Neighbours, as_neighbours
from ..randomness import uniform
from .base import Mechanism
from .clip import numbers
from .exponentials import bernoulli, exp_enclosure
from .round_ticket import Ticket


@dataclass(frozen=True)
class RandomizedResponse(Mechanism):
    """Each of n units reports its value with probability e^epsilon / (e^epsilon + k - 1).

    Otherwise it reports one of the k - 1 others, each as likely.  Local: it protects a unit
    from whoever collects, under `replace-one` only (that a unit reports at all shows).

    Range: `epsilon` 0 or above, `categories` k from 2 to 2^40.  Raises `InvalidInput`.

    >>> RandomizedResponse(epsilon=1.0, categories=4).event("replace-one")
    RandomizedResponse(epsilon=1.0, categories=4)
    """

    epsilon: float
    categories: int
    unit: Literal["record", "user", "silo", "entry"] = "user"

    def __post_init__(self) -> None:
        self._set_checked(
            epsilon=validate.non_negative(epsilon=self.epsilon),
            categories=validate.count_from(2, categories=self.categories),
        )
        if self.categories > 2**40:
            raise InvalidInput("`categories` must be at most 2^40.")

    @property
    def contribution(self) -> records.Contribution:
        """One report of one unit."""
        return records.Contribution(1.0, "l1", self.unit, "whole", "public")

    def noise(self, draws: int = 1) -> records.Noise:
        """Return the noise of `draws` reports of every unit: its own, of no common deviation."""
        return records.Noise("randomized-response", 0.0, draws=draws)

    def sensitivity(self, relation: str) -> float:
        """Return 1: the one report of a unit; what it reveals stands in the event."""
        as_neighbours(relation)
        return 1.0

    def base_event(self, relation: Neighbours, on_sample: bool) -> ev.Event:
        """Return one report; `Unsupported` where a unit may be absent."""
        if relation != "replace-one":
            raise Unsupported(
                f"Randomized response does not hide who reports, so not {relation}.",
                "A unit that is absent sends no report at all.",
                "State replace-one neighbours.",
            )
        return ev.RandomizedResponse(self.epsilon, self.categories)

    def reports(self, ticket: Ticket, values: ArrayLike, name: str, part: str = "") -> IntArray:
        """Return one report for each value: integers (n,) in [0, k), one draw of the round.

        Exact: the probability is never rounded.  How much randomness is used depends on n alone.
        Raises `InvalidInput` for values out of range, without naming them.
        """
        return self._reported(ticket, self._values(values), name, part)

    def _reported(self, ticket: Ticket, values: IntArray, name: str, part: str) -> IntArray:
        """Return a report for each value, (n,) or (n, j): j draws."""
        array = self._values(values.reshape(-1))
        self.check_ticket(ticket)
        ticket.draw(part=part, sums=values.shape[1] if values.ndim == 2 else 1)
        stream = ticket.stream(name)
        # True with the exact probability, else shifted by 1 to k - 1 categories: each as likely.
        truthful = bernoulli(stream, len(array), self._truth)
        shift = 1 + uniform(stream, len(array), self.categories - 1)
        sent = np.where(truthful, array, (array + shift) % self.categories)
        return np.asarray(sent.reshape(values.shape))

    def _values(self, values: ArrayLike) -> IntArray:
        array = numbers(values, "iu")
        if array is None or array.ndim != 1 or ((array < 0) | (array >= self.categories)).any():
            raise InvalidInput(
                f"Values must be integers from 0 to {self.categories - 1}, one for each unit.",
                next_step="Give an array of shape (n,).",
            )
        return array.astype(np.int64)

    def _truth(self, bits: int) -> tuple[Fraction, Fraction]:
        """Enclose the probability of the true value, 1 / (1 + (k - 1) e^-epsilon)."""
        # Falls in e^-epsilon, so the ends of the enclosure change places.
        low, high = exp_enclosure(Fraction(self.epsilon), bits)
        others = self.categories - 1
        return 1 / (1 + others * high), 1 / (1 + others * low)
