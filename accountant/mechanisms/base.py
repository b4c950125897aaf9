"""What every mechanism states: contribution bound, noise, sensitivity and event.

The event of a sample of units, and the order of events by what they reveal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import cast

import numpy as np

from .. import events as ev
from .. import records, validate
from ..arrays import IntArray
from ..errors import InvalidInput, Unsupported
from ..neighbours import NEIGHBOURS, Neighbours, as_neighbours
from ..sensitivity.release import require_public, root_up
from .round_ticket import Ticket


def is_random(sampling: records.Sampling) -> bool:
    """Return whether the units that take part are drawn at random."""
    everybody = sampling.method == "poisson" and sampling.rate == 1.0
    return sampling.method != "none" and not everybody


def sampled(release: ev.Event, unit: str, sampling: records.Sampling, draws: int = 1) -> ev.Event:
    """Return `release` on a sample, `draws` times, each time on a new sample.

    Whole epochs of shuffled batches, of which at most `sampling.most_draws` hold one unit, are
    stated as such.  Raises `Unsupported` where not the protected units are sampled, and for
    `shuffled` batches that are not stated to be whole epochs.
    """
    event = release
    if sampling.method != "none":
        if sampling.of != unit:
            raise Unsupported(
                f"A sample of {sampling.of}s says nothing about one {unit}.",
                "Only a unit that may be left out as a whole hides in the sample.",
                f"Sample {unit}s, or state the round without sampling.",
            )
        if sampling.method == "shuffled":
            return _epochs(release, sampling, validate.count(draws=draws))
        event = _on_sample(release, sampling)
    return event if validate.count(draws=draws) == 1 else ev.Repeat(draws, event)


def _on_sample(release: ev.Event, sampling: records.Sampling) -> ev.Event:
    if sampling.method == "poisson":
        return release if sampling.rate == 1.0 else ev.Poisson(sampling.rate, release)
    if sampling.batch is None or sampling.population is None:
        raise InvalidInput(f"Sampling by {sampling.method} needs `batch` and `population`.")
    if sampling.method == "fixed-size":
        return ev.FixedSize(sampling.batch, sampling.population, release)
    return ev.TruncatedPoisson(sampling.rate, sampling.batch, sampling.population, release)


def _epochs(release: ev.Event, sampling: records.Sampling, draws: int) -> ev.Event:
    """Return whole epochs of shuffled batches, in each of which a unit is in one batch.

    Where one unit more or less moves no other into another batch, that is the composition of the
    releases that hold the unit, whatever the relation.  Else it is `ShuffledBatches`, which under
    add-remove costs more than one release: another unit moves into the place of one that goes.
    """
    epochs = sampling.most_draws
    if epochs is None:
        raise Unsupported(
            "One round of shuffled batches has no event of its own.",
            "The batches of one epoch depend on each other.",
            "Sample by Poisson, or state the epoch as one round of ShuffledBatches.",
        )
    places = draws * (sampling.batch or 0)
    if not 1 <= epochs <= draws or places > epochs * (sampling.population or places):
        raise InvalidInput(
            f"`most_draws` is {epochs:,} for {draws:,} batches of a round.",
            "Every unit is in one batch of each epoch, so the batches hold all units that often.",
            "Give the number of epochs, and as many draws as their batches.",
        )
    # Nobody else's batch changes: the unit is in exactly one release of each epoch.
    if sampling.moves_others is False:
        return release if epochs == 1 else ev.Repeat(epochs, release)
    if draws % epochs:
        raise Unsupported(
            f"{draws:,} batches are not {epochs:,} whole epochs.",
            "Of a part of an epoch it is not known which batches hold a unit.",
            "Make whole epochs in a round.",
        )
    epoch = ev.ShuffledBatches(draws // epochs, release)
    return epoch if epochs == 1 else ev.Repeat(epochs, epoch)


def covers(stated: ev.Event, true: ev.Event) -> bool:
    """Return whether an event states no more privacy than the true one of the same shape.

    The same mechanism with at most the noise, at least the rate, the epsilon and the count.  Not
    every event is ordered by them: less discrete Gaussian noise may have the smaller epsilon (at
    delta 1e-5 and sensitivity 1: 9.4 at 0.40, 12.1 at 0.45), and a higher rate may cut more.
    """
    if type(stated) is not type(true):
        return False
    # Epsilon falls in the noise and grows in rate and counts, but for these two.
    ordered = not isinstance(true, (ev.DiscreteGaussian, ev.TruncatedPoisson))
    for item in fields(true):
        stated_value, true_value = getattr(stated, item.name), getattr(true, item.name)
        if ordered and item.name == "noise_multiplier":
            holds = stated_value <= true_value
        elif ordered and item.name in ("epsilon", "delta", "rho", "rate", "count"):
            holds = stated_value >= true_value
        elif isinstance(true_value, ev.Event):
            holds = covers(cast(ev.Event, stated_value), true_value)
        else:
            holds = stated_value == true_value
        if not holds:
            return False
    return True


@dataclass(frozen=True)
class RoundDescription:
    """The round of an intent: its number and phase, its sampling, and what other observers see.

    `draws` is how many noisy sums the round releases; where there is sampling, each of them is of
    a sample of its event (several sums of one sample are one longer vector, and one draw).  `views`
    says by observer what those see who see more than the released model.  `event_override`
    replaces the mechanism's event event: by one that is no more private (the plan's, whose last
    digit was rounded elsewhere), or by `NoGuarantee` for a method that is run as it was published.
    `reaches` says by observer what of the round reaches it.  `silos` are those that take part, by
    a public schedule; None: all.
    """

    round: int
    phase: str
    sampling: records.Sampling = field(default_factory=records.Sampling)
    views: Mapping[str, ev.Event] = field(default_factory=dict)
    model_in: str | None = None
    event_override: ev.Event | None = None
    draws: int = 1
    reaches: Mapping[str, records.Reach] | None = None
    silos: tuple[int, ...] | None = None

    @property
    def as_published(self) -> bool:
        """Whether this round is run as its paper prints it, and promises nothing."""
        return isinstance(self.event_override, ev.NoGuarantee)

    def stated_event(self, make_event: Callable[[], ev.Event]) -> ev.Event:
        """Return the event to state; `Unsupported` for one more private than the mechanism's."""
        if self.event_override is not None and self.as_published:
            return self.event_override
        event = make_event()
        if self.event_override is None:
            return event
        # What is stated may be less private than what is done, never more.
        if not covers(self.event_override, event):
            raise Unsupported(
                "The event given for this round is not what its mechanism does.",
                f"The mechanism's event is {event}.",
                "Leave `event_override` out, or give more noise.",
            )
        return self.event_override


class Mechanism(ABC):
    """A way to release something privately; mechanisms are frozen values.

    The code that draws is the code that states the event: `intent` says what a round is about to
    do, the gate admits it, and the drawing methods refuse a ticket for any other intent.
    """

    @property
    @abstractmethod
    def contribution(self) -> records.Contribution:
        """The bound on one term, as the log states it."""

    @abstractmethod
    def noise(self, draws: int = 1) -> records.Noise:
        """Return the noise of `draws` releases, as the log states it."""

    @abstractmethod
    def sensitivity(self, relation: str) -> float:
        """Return how far one unit moves what noise is added to, rounded up."""

    @abstractmethod
    def base_event(self, relation: Neighbours, on_sample: bool) -> ev.Event:
        """Return the event of one release, on all units or on a random sample (`on_sample`)."""

    @property
    def weights_used(self) -> records.Weights:
        """How terms are weighted."""
        return records.Weights()

    def event(
        self, relation: str, sampling: records.Sampling | None = None, draws: int = 1
    ) -> ev.Event:
        """Return what `draws` releases are, each on a sample of its own where there is sampling.

        Under `relation`; for whoever sees the result and not the sample.  Raises `Unsupported`
        where no event is known to cover this combination, and for a bound from private data.
        """
        if self.contribution.source == "private":
            # A bound that depends on the data bounds nothing a neighbour could have.
            require_public("private", what="A bound on contributions")
        sample = sampling or records.Sampling()
        base = self.base_event(as_neighbours(relation), is_random(sample))
        return sampled(base, self.contribution.unit, sample, draws)

    def intent(self, about: RoundDescription, relation: str) -> records.RoundIntent:
        """Return the intent of a round, with the event of this mechanism.

        Raises `Unsupported` for a bound taken from private data, unless the round is run as
        published and promises nothing.
        """
        return records.RoundIntent(
            round=about.round,
            phase=about.phase,
            event=about.stated_event(lambda: self.event(relation, about.sampling, about.draws)),
            contribution=self.contribution,
            noise=self.noise(about.draws),
            sensitivity=self.sensitivity(relation),
            weights=self.weights_used,
            sampling=about.sampling,
            views=about.views,
            model_in=about.model_in,
            reaches=about.reaches,
            silos=about.silos,
        )

    def check_ticket(self, ticket: Ticket) -> None:
        """Raise `Unsupported` for a ticket whose intent states another mechanism."""
        # Checked once for each mechanism: the gate admitted this very object before.
        if ticket.admitted is self:
            return
        stated = ticket.intent
        statement = (self.contribution, self.weights_used, self.noise(stated.noise.draws))
        same = (stated.contribution, stated.weights, stated.noise) == statement
        if not same or not any(self._is_promised(stated, relation) for relation in NEIGHBOURS):
            raise Unsupported(
                "This ticket was opened for another mechanism.",
                "Its intent states other noise, another bound or another event than this one's.",
                "Open the round with the intent of the mechanism that draws.",
            )
        ticket.admitted = self

    def _is_promised(self, stated: records.RoundIntent, relation: str) -> bool:
        """Return whether an intent's event is true of this mechanism, under a relation.

        What tells two mechanisms apart may stand in their events alone: an epsilon, dimensions.
        """
        if isinstance(stated.event, ev.NoGuarantee):
            return True
        try:
            moved = self.sensitivity(relation)
            event = self.event(relation, stated.sampling, stated.noise.draws)
        except Unsupported:
            return False
        return moved == stated.sensitivity and covers(stated.event, event)

    def _set_checked(self, **checked: object) -> None:
        """Set fields to their checked values: numbers of Python, whose arithmetic is exact."""
        for name, value in checked.items():
            object.__setattr__(self, name, value)


def share_deviation(std: float, shares: int, tolerated: int) -> float:
    """Return the deviation of one share, of which all but the tolerated make `std`, rounded up."""
    return root_up(Fraction(std) ** 2 / (shares - tolerated))


def require_total(
    total: IntArray,
    values: int,
    source: str,
    why: str = "Noise is drawn for each of them, on the grid on which it stands.",
) -> None:
    """Raise `InvalidInput` for a total that is not so many integers; `source` returns those."""
    if total.shape != (values,) or total.dtype != np.int64:
        raise InvalidInput(
            f"A total must be {values:,} integers of 64 bits.",
            why,
            f"Give what `{source}` returns.",
        )


def require_share(shares: int, tolerated: int) -> None:
    """Refuse more tolerated dropouts than leave one share of the noise."""
    if tolerated >= shares:
        raise InvalidInput(
            f"`tolerated_dropouts` must be below `shares` ({shares}).",
            "Without any share there is no noise.",
            "Tolerate fewer.",
        )
