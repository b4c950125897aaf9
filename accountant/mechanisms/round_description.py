"""What a round says of itself, and how a mechanism's event sits inside its sampling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import cast

from .. import events as ev
from .. import records, validate
from ..errors import InvalidInput, Unsupported


@dataclass(frozen=True)
class RoundDescription:
    """The round of an intent: its number and phase, who is sampled, and what others see.

    `draws` is how many noisy sums the round releases; where there is sampling, each of them is of
    a sample of its own (several sums of one sample are one longer vector, and one draw).  `views`
    says by observer what those see who see more than the released model.  `event_override`
    replaces the mechanism's own event: by one that is no more private (the plan's, whose last
    digit was rounded elsewhere), or by `NoGuarantee` for a method that is run as it was published.
    `reaches` says by observer what of the round reaches it.
    """

    round: int
    phase: str
    sampling: records.Sampling = field(default_factory=records.Sampling)
    views: Mapping[str, ev.Event] = field(default_factory=dict)
    model_in: str | None = None
    event_override: ev.Event | None = None
    draws: int = 1
    reaches: Mapping[str, records.Reach] | None = None

    @property
    def as_published(self) -> bool:
        """Whether this round is run as its paper prints it, and promises nothing."""
        return isinstance(self.event_override, ev.NoGuarantee)

    def chosen(self, make_own: Callable[[], ev.Event]) -> ev.Event:
        """Return the event to state; `Unsupported` for one more private than the mechanism's."""
        if self.event_override is not None and self.as_published:
            return self.event_override
        own = make_own()
        if self.event_override is None:
            return own
        if not covers(self.event_override, own):
            raise Unsupported(
                "The event given for this round is not what its mechanism does.",
                f"The mechanism's event is {own}.",
                "Leave `event_override` out, or give more noise.",
            )
        return self.event_override


def is_by_chance(sampling: records.Sampling) -> bool:
    """Return whether who takes part is drawn at random."""
    everybody = sampling.method == "poisson" and sampling.rate == 1.0
    return sampling.method != "none" and not everybody


def sampled(base: ev.Event, unit: str, sampling: records.Sampling, draws: int = 1) -> ev.Event:
    """Return `base` on a sample, `draws` times, each time on a new sample.

    Whole epochs of shuffled batches, of which at most `sampling.most_draws` hold one unit, are
    stated as such.  Raises `Unsupported` where not the protected units are sampled, and for
    `shuffled` batches that are not stated to be whole epochs.
    """
    event = base
    if sampling.method != "none":
        if sampling.of != unit:
            raise Unsupported(
                f"A sample of {sampling.of}s says nothing about one {unit}.",
                "Only a unit that may be left out as a whole hides in the sample.",
                f"Sample {unit}s, or state the round without sampling.",
            )
        if sampling.method == "shuffled":
            return _epochs(base, sampling, validate.count(draws=draws))
        event = _on_sample(base, sampling)
    return event if validate.count(draws=draws) == 1 else ev.Repeat(draws, event)


def _on_sample(base: ev.Event, sampling: records.Sampling) -> ev.Event:
    if sampling.method == "poisson":
        return base if sampling.rate == 1.0 else ev.Poisson(sampling.rate, base)
    if sampling.batch is None or sampling.population is None:
        raise InvalidInput(f"Sampling by {sampling.method} needs `batch` and `population`.")
    if sampling.method == "fixed-size":
        return ev.FixedSize(sampling.batch, sampling.population, base)
    return ev.TruncatedPoisson(sampling.rate, sampling.batch, sampling.population, base)


def _epochs(base: ev.Event, sampling: records.Sampling, draws: int) -> ev.Event:
    """Return whole epochs of shuffled batches, in each of which a unit is in one batch.

    Where one unit more or less moves no other into another batch, that is the composition of the
    releases that hold the unit, whatever the relation.  Else it is `ShuffledBatches`, which has no
    number under add-remove.
    """
    epochs = sampling.most_draws
    if epochs is None:
        raise Unsupported(
            "One round of shuffled batches has no event of its own.",
            "The batches of one epoch depend on each other.",
            "Sample by Poisson, or state the epoch as one round of ShuffledBatches.",
        )
    slots = draws * (sampling.batch or 0)
    if not 1 <= epochs <= draws or slots > epochs * (sampling.population or slots):
        raise InvalidInput(
            f"`most_draws` is {epochs:,} for {draws:,} batches of a round.",
            "Every unit is in one batch of each epoch, so the batches hold all units that often.",
            "Give the number of epochs, and as many draws as their batches.",
        )
    if sampling.moves_others is False:
        return base if epochs == 1 else ev.Repeat(epochs, base)
    if draws % epochs:
        raise Unsupported(
            f"{draws:,} batches are not {epochs:,} whole epochs.",
            "Of a part of an epoch it is not known which batches hold a unit.",
            "Make whole epochs in a round.",
        )
    whole = ev.ShuffledBatches(draws // epochs, base)
    return whole if epochs == 1 else ev.Repeat(epochs, whole)


def covers(stated: ev.Event, true: ev.Event) -> bool:
    """Return whether an event states no more privacy than the true one of the same shape.

    The same mechanism with at most the noise, at least the rate, the epsilon and the count.  Not
    every event is ordered by them: less discrete Gaussian noise may have the smaller epsilon (at
    delta 1e-5 and sensitivity 1: 9.4 at 0.40, 12.1 at 0.45), and a higher rate may cut more.
    """
    if type(stated) is not type(true):
        return False
    ordered = not isinstance(true, (ev.DiscreteGaussian, ev.TruncatedPoisson))
    for item in fields(true):
        said, is_so = getattr(stated, item.name), getattr(true, item.name)
        if ordered and item.name == "noise_multiplier":
            fine = said <= is_so
        elif ordered and item.name in ("epsilon", "delta", "rho", "rate", "count"):
            fine = said >= is_so
        elif isinstance(is_so, ev.Event):
            fine = covers(cast(ev.Event, said), is_so)
        else:
            fine = said == is_so
        if not fine:
            return False
    return True
