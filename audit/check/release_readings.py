"""Releases beside the sums: which are taken from the batch of a step, and how far each moves.

Few write whether a loss or a count was taken from the batch or from all of the data (`of_batch`).
What names a clip, a count, a quantile or a norm may be either; the count that an adaptive clipping
norm follows is one of the batch.  An end holds whichever it was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...accountant import events as ev
from ..description.run_description import ExtraRelease
from .checked_run import PASSES_TOLERANCE, CheckedRun
from .noise_draws import farther, in_each_step, release_event

SUMMED: Final = 1e-12
"""Relative rounding of the noise of two releases as one, downward."""

JOINTLY_ACCOUNTED: Final = ("poisson", "full")
"""Ways of drawing whose events account for several releases of one batch as they are."""

ALWAYS_FULL: Final = ("shuffled", "fixed-size", "with-replacement")
"""Ways of drawing in which another unit is in the batch where one is not."""


@dataclass(frozen=True)
class ReleaseReading:
    """The releases that are `sampled` with the sums of a step in a reading, and those `aside`."""

    sampled: tuple[ExtraRelease, ...]
    aside: tuple[ExtraRelease, ...]


def upper_readings(
    releases: Sequence[ExtraRelease], steps: int, *, adaptive: bool
) -> tuple[ReleaseReading, ...]:
    """Return the readings of the upper end: what names a clip may be of the batch, or of all data.

    Of an `adaptive` clipping norm it is the count of the batch.
    """
    of_batch = tuple(
        each
        for each in releases
        if each.of_batch or (each.of_batch is None and in_each_step(each, steps))
    )
    apart = tuple(each for each in releases if each not in of_batch)
    stated = ReleaseReading(of_batch, apart)
    if adaptive or all(each.of_batch for each in of_batch):
        return (stated,)
    certain = tuple(each for each in of_batch if each.of_batch)
    aside = tuple(each for each in releases if each not in certain)
    return stated, ReleaseReading(certain, aside)


def lower_readings(releases: Sequence[ExtraRelease], steps: int) -> tuple[ReleaseReading, ...]:
    """Return the readings of the lower end, which differ where a release may be of the batch.

    >>> loss = ExtraRelease("loss", 5.0, 100)
    >>> [(len(each.sampled), len(each.aside)) for each in lower_readings([loss], 100)]
    [(0, 1), (1, 0)]
    """
    (stated, *_) = upper_readings(releases, steps, adaptive=True)
    of_batches = [each for each in stated.aside if _may_be_of_batches(each, steps)]
    unsure = [each for each in stated.sampled if each.of_batch is None]
    if not of_batches:
        if not unsure:
            return (stated,)
        certain = tuple(each for each in stated.sampled if each not in unsure)
        return stated, ReleaseReading(certain, (*stated.aside, *unsure))
    # What comes in some steps only is left out where it is of a batch.
    in_all = tuple(each for each in of_batches if each.count == steps)
    apart = tuple(each for each in stated.aside if each not in of_batches)
    return (stated, ReleaseReading((*stated.sampled, *in_all), apart))


def _may_be_of_batches(release: ExtraRelease, steps: int) -> bool:
    if release.of_batch is not None:
        return release.of_batch
    as_often = abs(release.count - steps) <= PASSES_TOLERANCE * steps
    return as_often or "batch" in release.what.lower()


def with_releases(draw: ev.Event, released: Sequence[ExtraRelease], method: str) -> ev.Event:
    """Return the draw of a step with what else is released of its batch, as an upper end has it.

    The sums and the releases, each over its noise, are one vector; with Gaussian noise a unit moves
    it by the root of the sum of squares at most.
    """
    events = tuple(release_event(each) for each in released)
    if not events:
        return draw
    joint = (draw, *events)
    noises = [each.noise_multiplier for each in joint if isinstance(each, ev.Gaussian)]
    if method in JOINTLY_ACCOUNTED or len(noises) < len(joint):
        return ev.Compose(joint)
    return ev.Gaussian((1.0 - SUMMED) / math.hypot(*(1.0 / noise for noise in noises)))


def shown_with(
    run: CheckedRun, draw: ev.Event, released: Sequence[ExtraRelease], method: str
) -> ev.Event:
    """Return the draw of a step with what else is certainly shown of its batch.

    A count moves by 1 at most, also where a sum moves by two norms, between two units.  So beside
    such sums it is left out, unless each step has it of all the data.
    """
    replaced = run.settings.neighbours == "replace-one"
    events = tuple(release_event(each) for each in released)
    if not events or method in ALWAYS_FULL or (replaced and method != "full"):
        return draw
    return ev.Compose((draw, *(least_moved(each) if replaced else each for each in events)))


def least_moved(event: ev.Event) -> ev.Event:
    """Return a release for an event under replace-one, where a count moves by 1 and not by 2."""
    if isinstance(event, (ev.Gaussian, ev.Laplace)):
        return type(event)(2.0 * event.noise_multiplier)
    return event


def released_under(run: CheckedRun, release: ExtraRelease, relation: str) -> ev.Event:
    """Return a release as it moves under the stated relation, for an event under another."""
    event = release_event(release)
    if run.settings.neighbours == "replace-one" and relation != "replace-one":
        event = farther(event, 2)
    return ev.Repeat(release.count, event)


def shown_under(release: ExtraRelease, relation: str) -> ev.Event:
    """Return what a release certainly shows beside an event under a relation."""
    event = release_event(release)
    return ev.Repeat(release.count, least_moved(event) if relation == "replace-one" else event)
