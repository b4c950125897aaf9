"""The largest loss of one release, sampled or not: pure epsilon, at delta 0, in both directions.

With P and Q the outputs with the unit and without it, `added` bounds sup log P/Q and `removed`
bounds sup log Q/P, over all data sets from above, and for one pair of data sets from below (0 where
the event names a class of mechanisms).  With c contribution bounds between neighbours, q a rate,
and f, b the two largest losses of what is sampled:

    laplace, discrete-laplace     c / noise, both ways; attained
    randomized-response           epsilon; attained where a value is replaced
    pure, local, exponential      epsilon
    poisson, unit comes or goes   log(1 - q + q e^f),  -log(1 - q + q e^-b)
    poisson, noisy sum, replaced  log((1 - q + q e^f) / (1 - q + q e^-b)), f and b for a unit that
                                  comes or goes: the two samples agree but for the unit
    fixed-size                    log(1 - q + q e^f), with f for a replaced unit; under add-remove a
                                  drawn unit stands in for another one, two steps of the release;
                                  under zero-out, for noisy sums, log((1 - q + q e^2t) /
                                  (1 - q + q e^t)) with t = 1 / noise, others at -1
    truncated-poisson             the release itself; two steps of it under add-remove
    with-replacement              as many records that each join at rate 1/n, two steps each, where
                                  a unit comes or goes; else `batch` releases
    client-sampled                all that the client releases
    random-allocation             `chosen` releases, attained where all outputs are extreme at once
    shuffled-batches              one release; under add-remove a replaced and a removed record
                                  (shuffled_epochs.py).  Attained below, for noisy sums, by others
                                  at -1 and a unit at +1
    shuffle                       what one message loses, as a value is replaced
    group                         `size` times that of one record; attained under Poisson sampling
    gaussian, discrete-gaussian, truncated-discrete-gaussian, gaussian-mixture, zcdp, approximate
    (delta above 0), no-guarantee, truncated-geometric-selection, threshold-selection    unbounded

A mixture's ratio is at most the largest ratio of its components, which is the argument for every
sampler: samples are coupled such that they differ in the unit alone.

Source: Dwork, McSherry, Nissim, Smith 2006 (Laplace noise); Balle, Barthe, Gaboardi 2018, Theorems
8 and 9, arXiv 1807.01647 (samplers at delta 0); the rest as derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from .. import events as ev
from ..amplification.group import along_chain
from ..composition import Composition
from ..errors import Unsupported
from ..event_tree import events_inside
from ..guarantee import Neighbours
from .base import (
    Registry,
    contribution,
    require_both_drawn,
    sampled_instead,
    sized_release,
)
from .loss_ranges import (
    LARGEST_EXPONENT,
    Range,
    amplified,
    difference,
    lessened,
    quotient,
    rounded_down,
)
from .shuffled_epochs import replaced_release

_SUMS: Final = (ev.Laplace, ev.DiscreteLaplace)
_NOISY: Final = (*_SUMS, ev.Gaussian, ev.DiscreteGaussian)
_MIXED: Final = (ev.ShuffledBatches, ev.SampledShuffle)
_STATED: Final = (ev.Pure, ev.Local, ev.Exponential, ev.RandomizedResponse, ev.Approximate)


@dataclass(frozen=True)
class LargestLosses:
    """The largest losses of a release, as a unit comes (`added`) and as it goes (`removed`)."""

    added: Range
    removed: Range
    statement: str

    @classmethod
    def alike(cls, loss: Range, statement: str) -> LargestLosses:
        """Return losses that are the same in both directions."""
        return cls(loss, loss, statement)

    @property
    def worse(self) -> Range:
        """The range of the larger one; its lower end may be that of either."""
        return Range(
            max(self.added.lower, self.removed.lower), max(self.added.upper, self.removed.upper)
        )

    def then(self, how: str, *, exact: bool = True) -> LargestLosses:
        """Return the same after one more step, said by `how`; if not `exact` without lower ends."""
        told = replace(self, statement=f"{self.statement[:-1]}; {how}")
        return told if exact else told.upper_only()

    def times(self, count: int) -> LargestLosses:
        """Return the sums of `count` such losses."""
        return replace(self, added=self.added.times(count), removed=self.removed.times(count))

    def upper_only(self) -> LargestLosses:
        """Return the same without lower ends."""
        return replace(
            self, added=Range(0.0, self.added.upper), removed=Range(0.0, self.removed.upper)
        )


largest_losses: Registry[LargestLosses] = Registry("pure")
"""Event type -> the function that returns its largest losses."""


# --- single releases ------------------------------------------------------------------------------


@largest_losses.register(ev.Laplace)
@largest_losses.register(ev.DiscreteLaplace)
def _laplace(event: ev.Laplace | ev.DiscreteLaplace, neighbours: Neighbours) -> LargestLosses:
    moved = contribution(neighbours)
    bounds = "one contribution bound" if moved == 1 else "two contribution bounds"
    return LargestLosses.alike(
        quotient(moved, event.noise_multiplier),
        f"{event.type} noise {event.noise_multiplier:g}: no loss is above {moved} / noise, as the "
        f"sum moves by {bounds}.",
    )


@largest_losses.register(ev.RandomizedResponse)
def _response(event: ev.RandomizedResponse, neighbours: Neighbours) -> LargestLosses:
    # What an absent unit reports is not said.
    lower = event.epsilon if neighbours == "replace-one" else 0.0
    return LargestLosses.alike(
        Range(lower, event.epsilon), "A true value is e^epsilon times as likely as another."
    )


@largest_losses.register(ev.Pure)
@largest_losses.register(ev.Local)
@largest_losses.register(ev.Exponential)
def _stated(event: ev.Pure | ev.Local | ev.Exponential, neighbours: Neighbours) -> LargestLosses:  # noqa: ARG001
    return LargestLosses.alike(
        Range(0.0, event.epsilon),
        f"`{event.type}` states epsilon {event.epsilon:g}, for the relation of this account.",
    )


@largest_losses.register(ev.Gaussian)
@largest_losses.register(ev.DiscreteGaussian)
@largest_losses.register(ev.MatrixGaussian)
@largest_losses.register(ev.GaussianMixture)
@largest_losses.register(ev.TruncatedDiscreteGaussian)
def _gaussian(
    event: ev.Event,
    neighbours: Neighbours,  # noqa: ARG001
) -> LargestLosses:
    unbounded = Range(math.inf, math.inf)
    return LargestLosses.alike(unbounded, f"The losses of `{event.type}` noise have no bound.")


@largest_losses.register(ev.TruncatedGeometricSelection)
@largest_losses.register(ev.ThresholdSelection)
def _selection(
    event: ev.TruncatedGeometricSelection | ev.ThresholdSelection,
    neighbours: Neighbours,  # noqa: ARG001
) -> LargestLosses:
    unbounded = Range(math.inf, math.inf)
    return LargestLosses.alike(unbounded, f"`{event.type}` may release a key of one unit alone.")


@largest_losses.register(ev.ZCDP)
@largest_losses.register(ev.Approximate)
@largest_losses.register(ev.NoGuarantee)
def _slack(
    event: ev.ZCDP | ev.Approximate | ev.NoGuarantee,
    neighbours: Neighbours,  # noqa: ARG001
) -> LargestLosses:
    if isinstance(event, ev.ZCDP) and event.rho == 0.0:
        return LargestLosses.alike(Range(0.0, 0.0), "rho is 0: nothing depends on a unit.")
    if isinstance(event, ev.Approximate) and event.delta == 0.0:
        stated = f"`approximate` states epsilon {event.epsilon:g} at delta 0."
        return LargestLosses.alike(Range(0.0, event.epsilon), stated)
    return LargestLosses.alike(
        Range(0.0, math.inf), f"`{event.type}` states no bound on the largest loss."
    )


# --- samples --------------------------------------------------------------------------------------


@largest_losses.register(ev.Poisson)
def _poisson(event: ev.Poisson, neighbours: Neighbours) -> LargestLosses:
    rate, inner = event.rate, event.event
    if (sized := sized_release(inner)) is not None:
        raise _unknown(f"Poisson sampling of `{sized.type}`", sampled_instead(inner))
    if rate == 0.0:
        return LargestLosses.alike(Range(0.0, 0.0), "A rate of 0 releases nothing about anybody.")
    if neighbours != "add-remove" and _holds_stated(inner):
        # The same sample holds one value or the other, so it shows no more than the release.
        how = "sampled, which is not seen to gain where two values are compared."
        return largest_losses(inner, neighbours).then(how, exact=False)
    base = largest_losses(inner, "add-remove")
    added, removed = amplified(rate, base.added), lessened(rate, base.removed)
    name = f"{base.statement[:-1]}; Poisson sampling at rate {rate:g}"
    if neighbours == "replace-one":
        return LargestLosses.alike(
            added.plus(removed), f"{name}: log((1-q+q e^f) / (1-q+q e^-b)), one value and another."
        )
    return LargestLosses(added, removed, f"{name}: log(1-q+q e^f) and -log(1-q+q e^-b).")


@largest_losses.register(ev.FixedSize)
def _fixed_size(event: ev.FixedSize, neighbours: Neighbours) -> LargestLosses:
    inner = event.event
    require_both_drawn(event.batch, event.population, neighbours)
    mixed = (each for each in events_inside(inner) if isinstance(each, _MIXED))
    if (sized := next(mixed, None)) is not None:
        raise _unknown(f"fixed-size sampling of `{sized.type}`")
    if event.batch == event.population:
        return _together(inner, neighbours)
    rate = event.batch / event.population
    name = f"exactly {event.batch:,} of {event.population:,} units"
    if neighbours == "zero-out":
        if not isinstance(inner, _SUMS):
            # The same sample holds the unit or zeros, so it shows no more than the release.
            how = f"{name}: nothing is gained."
            return _together(inner, neighbours).then(how, exact=isinstance(inner, _NOISY))
        far, near = quotient(2, inner.noise_multiplier), quotient(1, inner.noise_multiplier)
        loss = difference(amplified(rate, far), amplified(rate, near))
        loss = Range(loss.lower, min(loss.upper, near.upper))
        return LargestLosses.alike(loss, f"{inner.type} noise, {name}, with others at -1.")
    if neighbours == "add-remove":
        base = largest_losses(_two_steps(inner), "add-remove")
        # One unit comes and another one goes: both directions count in each.
        added, removed = amplified(rate, base.worse), lessened(rate, base.worse)
        how = f"{base.statement[:-1]}; {name}: a drawn unit stands in for another one."
        sampled = LargestLosses(added, removed, how)
        return sampled if isinstance(inner, _NOISY) else sampled.upper_only()
    base = _together(inner, "replace-one")
    how = f"{base.statement[:-1]}; {name}: log(1-q+q e^f), either value first."
    # Attained by noisy sums, with others at -1.
    sampled = LargestLosses.alike(amplified(rate, base.worse), how)
    return sampled if isinstance(inner, _NOISY) else sampled.upper_only()


@largest_losses.register(ev.TruncatedPoisson)
def _truncated(event: ev.TruncatedPoisson, neighbours: Neighbours) -> LargestLosses:
    inner = event.event
    if (sized := sized_release(inner)) is not None:
        raise _unknown(f"truncated Poisson sampling of `{sized.type}`")
    two_steps = neighbours == "add-remove" and event.batch < event.population
    base = largest_losses(_two_steps(inner) if two_steps else inner, neighbours)
    how = "a unit that joins a full sample drives another one out" if two_steps else "not amplified"
    unbounded = isinstance(inner, (ev.Gaussian, ev.DiscreteGaussian)) and event.rate > 0.0
    loss = Range(math.inf if unbounded else 0.0, base.worse.upper)
    return LargestLosses.alike(loss, f"{base.statement[:-1]}; cut Poisson: {how}.")


@largest_losses.register(ev.WithReplacement)
def _with_replacement(event: ev.WithReplacement, neighbours: Neighbours) -> LargestLosses:
    inner, batch, population = event.event, event.batch, event.population
    name = f"{batch:,} draws of {population:,} units, put back"
    if neighbours != "add-remove":
        # In every batch at most all draws are the unit.
        base = _together(ev.Group(batch, inner), neighbours)
        exact = population == 1 or isinstance(inner, (ev.Gaussian, ev.DiscreteGaussian))
        return base.then(f"{name}: nothing is gained.", exact=exact and isinstance(inner, _NOISY))
    require_both_drawn(1, population, neighbours)
    twice = _two_steps(inner)
    drawn = largest_losses(ev.Group(batch, ev.Poisson(1.0 / population, twice)), "add-remove")
    how = f"{name}: as many records that each join at rate 1 / {population:,}, two steps each."
    return drawn.then(how, exact=isinstance(inner, _NOISY))


@largest_losses.register(ev.ClientSampled)
def _client_sampled(event: ev.ClientSampled, neighbours: Neighbours) -> LargestLosses:
    # Whoever sees the client take part sees all that it releases.
    return _together(event.event, neighbours).then("seen when the client takes part.")


def _together(event: ev.Event, neighbours: Neighbours) -> LargestLosses:
    """Return the sums of the largest losses of all that is released; what is hidden has no lower.

    Raises `Unsupported` where one of them is not known.
    """
    inner = [(largest_losses(leaf.event, neighbours), leaf) for leaf in Composition.of(event)]
    if len(inner) == 1 and inner[0][1].count == 1:
        ((single, leaf),) = inner
        return single if leaf.fully_observed else single.upper_only()
    added = removed = Range(0.0, 0.0)
    for each, leaf in inner:
        seen = each if leaf.fully_observed else each.upper_only()
        added, removed = (
            added.plus(seen.added.times(leaf.count)),
            removed.plus(seen.removed.times(leaf.count)),
        )
    names = "; ".join(dict.fromkeys(each.statement.rstrip(".") for each, _ in inner))
    return LargestLosses(added, removed, f"{names}.")


# --- epochs ---------------------------------------------------------------------------------------


@largest_losses.register(ev.RandomAllocation)
def _allocation(event: ev.RandomAllocation, neighbours: Neighbours) -> LargestLosses:
    if (sized := sized_release(event.event)) is not None:
        raise _unknown(f"random allocation of `{sized.type}`")
    base = largest_losses(event.event, neighbours)
    # The mean over sets of steps of e^(sum of losses) is e^(chosen f) where every loss is f.
    how = f"{event.chosen:,} of {event.steps:,} steps, all extreme at once."
    return base.times(event.chosen).then(how, exact=isinstance(event.event, _NOISY))


@largest_losses.register(ev.ShuffledBatches)
def _shuffled_batches(event: ev.ShuffledBatches, neighbours: Neighbours) -> LargestLosses:
    inner, batches = event.event, event.batches
    base = largest_losses(inner, neighbours)
    is_sum = isinstance(inner, _NOISY)
    if batches == 1:
        return base
    if neighbours != "add-remove":
        # Others at -1: where all sums are extreme, the means of e^2t and e^t over batches differ by
        # what one batch shows.
        how = f"in one of {batches:,} shuffled batches, all extreme at once."
        return base.then(how, exact=is_sum)
    replaced = largest_losses(*replaced_release(inner))
    loss = replaced.worse.plus(base.worse)
    how = f"{base.statement[:-1]}; in shuffled batches, with a replaced record in another batch."
    if not is_sum:
        return LargestLosses.alike(Range(0.0, loss.upper), how)
    if math.isinf(base.added.lower):
        return LargestLosses.alike(loss, how)
    # P = 1/T N(e_T) + 1/T sum_j N(2 e_j - e_T): full sums extreme upwards, the last one downwards,
    # so (e^-t + (T-1) e^3t) / T; the other way 1 / (e^t + (T-1) e^-3t) * T; or the last alone, t.
    t = base.added.lower
    added = max(t, rounded_down(3.0 * t + math.log1p(math.expm1(-4.0 * t) / batches)))
    removed = t
    if 4.0 * t < LARGEST_EXPONENT:
        removed = max(t, rounded_down(3.0 * t - math.log1p(math.expm1(4.0 * t) / batches)))
    return LargestLosses(Range(added, loss.upper), Range(removed, loss.upper), how)


@largest_losses.register(ev.Shuffle)
def _shuffle(event: ev.Shuffle, neighbours: Neighbours) -> LargestLosses:
    if neighbours == "add-remove":
        raise _unknown("a shuffled round under add-remove", "Ask under replace-one or zero-out.")
    how = "the shuffler is not seen to gain at delta 0."
    return largest_losses(event.event, neighbours).then(how, exact=False)


@largest_losses.register(ev.Group)
def _group(event: ev.Group, neighbours: Neighbours) -> LargestLosses:
    base = largest_losses(along_chain(event.event, event.size, neighbours), neighbours)
    sampled = event.event
    # Under Poisson sampling all records may be drawn, or none: the binomial mean is a power.
    exact = isinstance(sampled, ev.Poisson) and isinstance(sampled.event, _NOISY)
    return base.times(event.size).then(f"a unit of {event.size:,} records.", exact=exact)


def _two_steps(inner: ev.Event) -> ev.Event:
    """Return the release that two units together see: one that comes, and one that goes."""
    parts = Composition.of(ev.Group(2, inner))
    if parts.single is None:
        raise _unknown(f"a sample that several releases of `{inner.type}` share")
    return parts.single


def _holds_stated(event: ev.Event) -> bool:
    """Return whether an event, or one inside it, only states a number, for some relation."""
    return any(isinstance(each, _STATED) for each in events_inside(event))


def _unknown(what: str, next_step: str = "") -> Unsupported:
    return Unsupported(
        f"No epsilon at delta 0 is known for {what}.",
        "Its largest loss is not written down here.",
        next_step or "Ask at a delta above 0.",
    )
