"""Events on samples of units, and the order of events by what they reveal."""

from __future__ import annotations

from dataclasses import fields
from typing import cast

from .. import events as ev
from .. import records, validate
from ..errors import InvalidInput, Unsupported


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
