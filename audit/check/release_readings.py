"""Releases beside the sums: which are taken from the batch of a step, and how far each moves.

Few write whether a loss or a count was taken from the batch or from all of the data (`of_batch`).
What names a clip, a count, a quantile or a norm may be either; the count that an adaptive clipping
norm follows is one of the batch.  An end holds whichever it was.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from ...accountant import events as ev
from ..description.run_description import ExtraRelease
from .checked_run import CheckedRun
from .noise_draws import about_clip, farther, in_each_step, release_event

SUMMED: Final = 1e-12
"""Relative rounding of the noise of two releases as one, downward."""

JOINTLY_ACCOUNTED: Final = ("poisson", "full")
"""Ways of drawing whose events account for several releases of one batch as they are."""

ALWAYS_FULL: Final = ("shuffled", "fixed-size", "with-replacement")
"""Ways of drawing in which another unit is in the batch where one is not."""


FOLLOWED_WORDS: Final = re.compile(r"clip|quantile")
"""What the release is named by that an adaptive clipping norm follows."""


@dataclass(frozen=True)
class ReleaseReading:
    """The releases that are `sampled` with the sums of a step in a reading, and those `aside`."""

    sampled: tuple[ExtraRelease, ...]
    aside: tuple[ExtraRelease, ...]


def upper_readings(
    releases: Sequence[ExtraRelease], steps: int, *, adaptive: bool
) -> tuple[ReleaseReading, ...]:
    """Return the readings of the upper end.

    What is released of all data shows no less than what is released as often of the batches: in
    pairs with a monotone likelihood ratio, data that are always there stochastically dominate data
    that are there with a batch.  So only what is certainly of batches is taken from them, as often
    in each step; the count that an `adaptive` clipping norm follows is.
    """
    followed = _followed(releases) if adaptive else None
    sampled, aside, unsure = [], [], []
    for each in releases:
        in_step = _in_step(each, -(-each.count // steps)) if each.count % steps == 0 else None
        if in_step is not None and (each.of_batch or each is followed):
            sampled.append(in_step)
        else:
            aside.append(each)
            if in_step is not None and each.of_batch is None and in_each_step(each, steps):
                unsure.append(each)
    certain = ReleaseReading(tuple(sampled), tuple(aside))
    if not unsure:
        return (certain,)
    rest = tuple(each for each in aside if each not in unsure)
    return ReleaseReading((*sampled, *unsure), rest), certain


def lower_readings(
    releases: Sequence[ExtraRelease], steps: int, *, adaptive: bool = False
) -> tuple[ReleaseReading, ...]:
    """Return the readings of the lower end, which differ where a release may be of the batch.

    What comes in some steps only is left out where it is of a batch.  What is released once is of
    all data, unless somebody says that it is not.

    >>> loss = ExtraRelease("loss", 5.0, 100)
    >>> [(len(each.sampled), len(each.aside)) for each in lower_readings([loss], 100)]
    [(0, 1), (1, 0)]
    """
    followed = _followed(releases) if adaptive else None
    certain = [each for each in releases if each.of_batch or each is followed]
    once = [each for each in releases if each.count == 1 and each.of_batch is None]
    apart = [each for each in releases if each.of_batch is False or each in once]
    apart = [each for each in apart if each not in certain]
    unsure = [each for each in releases if each not in certain and each not in apart]
    sampled = _of_batches(certain, steps)
    readings = [ReleaseReading(sampled, (*apart, *unsure))]
    if unsure:
        of_batches = _of_batches([*certain, *unsure], steps)
        readings.append(ReleaseReading(of_batches, tuple(apart)))
    return tuple(readings)


def _followed(releases: Sequence[ExtraRelease]) -> ExtraRelease | None:
    """Return the release that an adaptive clipping norm certainly follows: the only one that may.

    Its name is of a clip or a quantile: a count or a norm may be one of anything.
    """
    named = [each for each in releases if about_clip(each) and each.of_batch is not False]
    if len(named) != 1 or not FOLLOWED_WORDS.search(named[0].what.lower()):
        return None
    return named[0]


def _of_batches(releases: Sequence[ExtraRelease], steps: int) -> tuple[ExtraRelease, ...]:
    """Return what each step certainly releases of its batch."""
    often = (_in_step(each, each.count // steps) for each in releases if each.count >= steps)
    return tuple(each for each in often if each is not None)


def _in_step(release: ExtraRelease, times: int) -> ExtraRelease | None:
    """Return a release that stands for several in one step; None where none of one noise does."""
    if times == 1 or not release.noise_multiplier:
        return release
    if release.family == "laplace":
        return None
    return replace(release, noise_multiplier=release.noise_multiplier / math.sqrt(times))


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
