"""Messages: each unit randomises what it sends itself, and no noise is shared.

A message is one number in [-C, C] with noise of its own (`LaplaceMessages`, `GaussianMessages`), a
vector in a ball of radius C (`GaussianMessages` of more than one dimension), or one of k words
(`ResponseMessages`).  A unit sends `draws` of them in a round, which are as many draws of the
ticket: a vector of D coordinates that are shuffled one by one is D messages.

**What a message shows.**  Values stand on the grid as integers z, |z| <= floor(C / g), and the
noise of one message is that of a sum (`laplace`, `gaussian`): an integer whose law makes z + noise
a post-processing, common to all z, of z + L with continuous noise L.  So a message reveals what
L + z reveals, and `Laplace(b)` here is a (2/b)-LDP randomizer: two values are at most 2C = 2 bounds
apart.  That a unit sends at all is seen, so a unit that may be absent has no event: under zero-out
a place without a unit sends a message of the value 0.

**Dummies** are messages that no unit sends, and from which a shuffled round is to gain as much as
from the blanket of a message: they must have its law omega = inf_x mu_x / gamma, and nothing near
it will do (`amplification/shuffling/double`).

- *Laplace*, scale b, x in [-C, C].  The density of a unimodal symmetric law at y is least for the x
  farthest from y, so inf_x mu_x(y) = e^(-(|y| + C) / b) / (2b) = e^(-C / b) Lap(0, b)(y).  So gamma
  is e^(-C / b), which is e^(-epsilon0 / 2) at epsilon0 = 2C / b, and omega is Laplace noise of the
  same scale around 0, the middle: the law of a message of the value 0.  On [0, 1] with scale
  1 / epsilon0, where the accountant computes, that is Lap(1/2, 1 / epsilon0): its loss is
  epsilon0 (|y - 1| - |y|), of density e^(-epsilon0/2 - |l|/2) / 4 under gamma omega between
  +-epsilon0, as `LaplaceRandomizer.blanket` says.  Values use [-g floor(C/g), g floor(C/g)], a part
  of [-C, C]; omega stays that of [-C, C], which is what the bound is computed with.  Rounding to
  the grid is the same function of a message and of a dummy, both as continuous numbers: a common
  post-processing, so the bound holds for what is sent.
- *Randomized response*: each word has the least probability 1 / (e^epsilon + k - 1), whatever was
  meant, so omega is uniform on the k words.
- *Gaussian*, deviation s: omega has the density ~ e^(-(|y| + C)^2 / (2 s^2)), two tails pushed
  together, and is no Gaussian.  It is not drawn here, and dummies of a message with Gaussian noise
  are refused: those of N(0, s^2) would be none.

Sources: Balle, Bell, Gascon and Nissim 2019, arXiv 1903.02837 (the blanket); the grid: `laplace`,
`gaussian`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from .. import events as ev
from .. import records, validate
from ..arrays import FloatArray, IntArray
from ..errors import InvalidInput, Unsupported
from ..neighbours import Neighbours, as_neighbours
from ..randomness import Stream, uniform
from ..sensitivity.release import multiplier, require_public, root_up, sensitivity_multiplier, up
from .base import Mechanism, is_random
from .clip import Norm, check_bound, clipped, clipped_steps, numbers
from .discrete_sampler import discrete_gaussian, rounded_laplace
from .gaussian import LOG2_STEPS as GAUSSIAN_LOG2_STEPS
from .gaussian import SMOOTHING
from .laplace import LOG2_STEPS as LAPLACE_LOG2_STEPS
from .randomized_response import RandomizedResponse
from .round_ticket import Ticket
from .shuffled_round import ShuffledRound


class Messages(Mechanism):
    """A mechanism in which each unit randomises its own messages.

    `shuffled` says how a shuffler mixes them, where one does: then `event` is what who sees the
    shuffled messages, or anything made of them, sees.  `local_event` is what who sees each message
    with its sender sees, whatever is shuffled later.
    """

    shuffled: ShuffledRound | None

    @abstractmethod
    def dummies(self, ticket: Ticket, count: int, name: str) -> IntArray:
        """Return `count` samples of the blanket, as messages are: integers, (count,).

        They are drawn under an open ticket, from the stream `name`, and count as no draw: they
        depend on nobody's data.  Raises `Unsupported` where the blanket is not drawn exactly, and
        for the ticket of another mechanism.
        """

    @abstractmethod
    def message_event(self, relation: Neighbours) -> ev.Event:
        """Return one message of one unit, seen by itself."""

    def local_event(self, relation: str, draws: int = 1) -> ev.Event:
        """Return all of one unit's messages of a round, each seen with its sender.

        Raises `Unsupported` under add-remove: that a unit sends is seen.
        """
        message = self.message_event(self._seen_to_send(relation))
        return message if validate.count(draws=draws) == 1 else ev.Repeat(draws, message)

    def base_event(self, relation: Neighbours, on_sample: bool) -> ev.Event:
        """Return one message; `Unsupported` on a sample, which shows in who sends."""
        if on_sample:
            raise Unsupported(
                "Messages of a sample of units have no event.",
                "Who sends a message is seen on its way, so nobody hides in the sample.",
                "Let every unit send, or sample the coordinates that each of them sends.",
            )
        return self.message_event(self._seen_to_send(relation))

    def event(
        self, relation: str, sampling: records.Sampling | None = None, draws: int = 1
    ) -> ev.Event:
        """Return all messages of a round, of `draws` from each unit; shuffled where they are.

        Raises `Unsupported` under add-remove, on a sample of units, and for a bound from private
        data.
        """
        if self.contribution.source == "private":
            require_public("private", what="A bound on messages")
        seen = as_neighbours(relation)
        message = self.base_event(seen, is_random(sampling or records.Sampling()))
        # Without a shuffler each message is seen with its sender.
        if self.shuffled is None:
            return self.local_event(relation, draws)
        return self.shuffled.event(message, validate.count(draws=draws))

    def _seen_to_send(self, relation: str) -> Neighbours:
        known = as_neighbours(relation)
        if known == "add-remove":
            raise Unsupported(
                "A message does not hide that it was sent, so there is no event under add-remove.",
                "A unit that is absent sends nothing, and that is seen.",
                "State replace-one; or zero-out, where a place without a unit sends a message of "
                "the value 0.",
            )
        return known

    def _may_draw(self, ticket: Ticket) -> None:
        """Raise for a ticket that is over, or of another mechanism."""
        ticket.check()
        self.check_ticket(ticket)


@dataclass(frozen=True)
class _NumberMessages(Messages):
    """Messages that are numbers on a grid, each with noise of its own around it."""

    norm: ClassVar[Norm]
    family: ClassVar[Literal["laplace", "gaussian"]]

    bound: float
    std: float
    unit: Literal["record", "user", "silo", "entry"] = "user"
    source: Literal["public", "released", "private"] = "public"
    shuffled: ShuffledRound | None = None

    def __post_init__(self) -> None:
        self._set_checked(
            bound=validate.positive(bound=self.bound), std=validate.positive(std=self.std)
        )
        check_bound(self.grid, self.bound)

    @property
    @abstractmethod
    def grid(self) -> float:
        """The step on which values and messages stand: a power of two."""

    @property
    def largest(self) -> int:
        """The largest value, in steps: floor(bound / grid)."""
        return math.floor(Fraction(self.bound) / Fraction(self.grid))

    @property
    def contribution(self) -> records.Contribution:
        """The bound on one message."""
        return records.Contribution(self.bound, self.norm, self.unit, "message", self.source)

    def noise(self, draws: int = 1) -> records.Noise:
        """Return the noise of one message; `draws` is how many a unit sends."""
        return records.Noise(self.family, self.std, 1, self.std, 0, draws, self.grid)

    def sensitivity(self, relation: str) -> float:
        """Return how far one message can move: the bound, twice that under replace-one."""
        return up(Fraction(self.bound) * sensitivity_multiplier(as_neighbours(relation)))

    def multiplier(self, relation: Neighbours) -> float:
        """Return the noise in bounds, rounded down."""
        return multiplier(self.std, self.sensitivity(relation), relation)

    def messages(self, ticket: Ticket, values: ArrayLike, name: str, part: str = "") -> IntArray:
        """Return a message for each value, in steps of the grid, of the shape of `values`.

        `values` (n, k) are k numbers of each of n units, (n,) one of each; each is clipped to
        [-bound, bound], and what is no number counts as 0.  They are k draws of the round; units
        that draw apart give a `part` and a stream each.  Raises `InvalidInput` for other arrays,
        `Unsupported` for a ticket of another mechanism and for more draws than it announces; then
        nothing is drawn.
        """
        # Clip first: values out of shape are refused before anything is drawn or counted.
        steps = self.steps(values)
        self._may_draw(ticket)
        ticket.draw(part=part, sums=self._messages_each(steps))
        noise = self._draw_noise(ticket.stream(name), steps.size).reshape(steps.shape)
        return np.asarray(steps + noise)

    @abstractmethod
    def steps(self, values: ArrayLike) -> IntArray:
        """Return values on the grid, clipped: integers of the same shape."""

    def units(self, steps: IntArray) -> FloatArray:
        """Return integers on the grid as floats, in units; sums are made before, of integers."""
        return steps.astype(np.float64) * self.grid

    def _messages_each(self, steps: IntArray) -> int:
        return steps.shape[1] if steps.ndim == 2 else 1

    @abstractmethod
    def _draw_noise(self, stream: Stream, count: int) -> IntArray:
        """Return the noise of so many numbers."""


@dataclass(frozen=True)
class LaplaceMessages(_NumberMessages):
    """Each message is one number in [-bound, bound] with Laplace noise of scale `std`.

    Range: `bound` and `std` above 0, `std` below 2^20 bounds.  Raises `InvalidInput`.

    >>> mechanism = LaplaceMessages(bound=1.0, std=4.0)
    >>> mechanism.event("replace-one"), mechanism.sensitivity("replace-one")
    (Laplace(noise_multiplier=4.0), 2.0)
    >>> LaplaceMessages(1.0, 4.0, shuffled=ShuffledRound(1000)).event("replace-one", draws=2)
    Repeat(count=2, event=Shuffle(users=1000, event=Laplace(noise_multiplier=4.0)))
    """

    norm = "l1"
    family = "laplace"

    @cached_property
    def grid(self) -> float:
        """The step of values and messages: below std / 2^20."""
        return math.ldexp(1.0, math.frexp(self.std)[1] - 1 - LAPLACE_LOG2_STEPS)

    def message_event(self, relation: Neighbours) -> ev.Event:
        """Return Laplace noise of std / bound, rounded down."""
        return ev.Laplace(self.multiplier(relation))

    def steps(self, values: ArrayLike) -> IntArray:
        """Return values on the grid: rounded towards 0, at most `largest` from it."""
        return clipped_steps(_table(values), self.grid, self.largest)

    def dummies(self, ticket: Ticket, count: int, name: str) -> IntArray:
        """Return samples of omega, Laplace noise around 0, on the grid: see the module."""
        self._may_draw(ticket)
        return self._draw_noise(ticket.stream(name), validate.count_from(0, count=count))

    def _draw_noise(self, stream: Stream, count: int) -> IntArray:
        return rounded_laplace(stream, count, float(Fraction(self.std) / Fraction(self.grid)))


@dataclass(frozen=True)
class GaussianMessages(_NumberMessages):
    """Each message is a vector of L2 norm at most `bound`, with Gaussian noise of deviation `std`.

    It has `dimensions` numbers; at 1 it is a number in [-bound, bound].  A vector has a local event
    only: the blanket that the accountant computes is that of one number, and less of a ball is
    common to all of its laws.  Range: `bound` and `std` above 0, `dimensions` 1 or above.  Raises
    `InvalidInput`, also for vectors with `shuffled`.

    >>> GaussianMessages(bound=0.5, std=2.0, dimensions=3).event("zero-out")
    Gaussian(noise_multiplier=4.0)
    """

    norm = "l2"
    family = "gaussian"

    dimensions: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_checked(dimensions=validate.count(dimensions=self.dimensions))
        if self.dimensions > 1 and self.shuffled is not None:
            raise InvalidInput(
                "Shuffled vectors with Gaussian noise have no event.",
                "The shuffle bound is that of one number; vectors of a ball have less in common.",
                "Send each coordinate as a message of its own, dimensions = 1, or leave `shuffled` "
                "out and state the local event.",
            )

    @cached_property
    def grid(self) -> float:
        """The step of values and messages: below std / 2^20."""
        return math.ldexp(1.0, math.frexp(self.std)[1] - 1 - GAUSSIAN_LOG2_STEPS)

    @cached_property
    def _parameter(self) -> float:
        """The parameter of the discrete Gaussian, in steps; see `gaussian`."""
        return root_up((Fraction(self.std) / Fraction(self.grid)) ** 2 + SMOOTHING)

    def message_event(self, relation: Neighbours) -> ev.Event:
        """Return Gaussian noise of std / bound, rounded down."""
        return ev.Gaussian(self.multiplier(relation))

    def steps(self, values: ArrayLike) -> IntArray:
        """Return values on the grid; vectors, (n, `dimensions`), are clipped to L2 norm `bound`.

        Where `dimensions` is 1 they are numbers, (n,) or (n, k), clipped one by one.  A vector with
        an infinity or no number in it counts as 0.
        """
        table = _table(values)
        if self.dimensions == 1:
            return clipped_steps(table, self.grid, self.largest)
        if table.ndim != 2 or table.shape[1] != self.dimensions:
            raise InvalidInput(
                f"Messages are vectors of {self.dimensions} numbers, one row for each unit.",
                next_step="Give an array of shape (units, dimensions).",
            )
        limits = np.full(len(table), float(self.largest))
        return clipped(table, np.ones(len(table)), limits, self.grid, "l2")

    def dummies(self, ticket: Ticket, count: int, name: str) -> IntArray:
        """Refuse: the blanket of Gaussian noise is no Gaussian, and is not drawn here."""
        raise Unsupported(
            "Dummies of messages with Gaussian noise are not drawn.",
            "What all messages have in common is two tails pushed together, and no Gaussian; "
            "another law is no blanket, and the bound would not hold.",
            "Use Laplace noise or randomized response, or no dummies.",
        )

    def _messages_each(self, steps: IntArray) -> int:
        return 1 if self.dimensions > 1 else super()._messages_each(steps)

    def _draw_noise(self, stream: Stream, count: int) -> IntArray:
        return discrete_gaussian(stream, count, self._parameter)


@dataclass(frozen=True)
class ResponseMessages(RandomizedResponse, Messages):
    """Each message is one of `categories` words, the true one e^epsilon times as likely as another.

    The draws are those of `RandomizedResponse`, exact; under replace-one only, since no word stands
    for an absent unit.  Range: as there.

    >>> ResponseMessages(1.0, 4, shuffled=ShuffledRound(500)).event("replace-one")
    Shuffle(users=500, event=RandomizedResponse(epsilon=1.0, categories=4))
    """

    shuffled: ShuffledRound | None = None

    @property
    def contribution(self) -> records.Contribution:
        """One message of one unit."""
        return records.Contribution(1.0, "l1", self.unit, "message", "public")

    def message_event(self, relation: Neighbours) -> ev.Event:
        """Return one response; `Unsupported` under anything but replace-one."""
        return RandomizedResponse.base_event(self, relation, False)

    def base_event(self, relation: Neighbours, on_sample: bool) -> ev.Event:
        """Return one message; `Unsupported` on a sample, which shows in who sends."""
        return Messages.base_event(self, relation, on_sample)

    def event(
        self, relation: str, sampling: records.Sampling | None = None, draws: int = 1
    ) -> ev.Event:
        """Return all messages of a round; see `Messages.event`."""
        return Messages.event(self, relation, sampling, draws)

    def messages(self, ticket: Ticket, values: ArrayLike, name: str, part: str = "") -> IntArray:
        """Return a message for each value: integers in [0, k) of the shape (n,) or (n, j).

        j words of each of n units are j draws.  Raises as `RandomizedResponse.reports`.
        """
        table = numbers(values, "iu")
        if table is None or table.ndim not in (1, 2) or 0 in table.shape[1:]:
            raise InvalidInput("Values must be integers, (n,) or (n, j) with j above 0.")
        return self._reported(ticket, table, name, part)

    def dummies(self, ticket: Ticket, count: int, name: str) -> IntArray:
        """Return samples of omega: uniform words."""
        self._may_draw(ticket)
        needed = validate.count_from(0, count=count)
        return uniform(ticket.stream(name), needed, self.categories)


def _table(values: ArrayLike) -> FloatArray:
    """Return numbers as float64, (n,) or (n, k)."""
    table = numbers(values)
    if table is None or table.ndim not in (1, 2) or 0 in table.shape[1:]:
        raise InvalidInput(
            "Values must be a table of numbers: (n,) or (n, k), k messages of each unit.",
            next_step="Give an array of shape (units, messages).",
        )
    with np.errstate(over="ignore"):
        return np.array(table, dtype=np.float64)
