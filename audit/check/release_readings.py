"""Releases with the sums: which are taken from the batch of a step, and how far each moves.

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
from .noise_draws import about_clip, farther, release_event
from .pinned_run import PinnedRun

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
    releases: Sequence[ExtraRelease], steps: int, *, adaptive: bool, moved: float = 1.0
) -> tuple[ReleaseReading, ...]:
    """Return the readings of the upper end.

    What is released of all data shows no less than what is released as often of the batches, by a
    unit that moves both as far: in pairs with a monotone likelihood ratio, data that are always
    there stochastically dominate data that are there with a batch.  `moved` is how far a unit
    moves what is released of a batch (`moved_in_a_batch`).  So only what is certainly of batches,
    as often in each step, is taken from them; the count that an `adaptive` clipping norm follows
    is.
    """
    followed = followed_release(releases) if adaptive else None
    sampled: list[ExtraRelease] = []
    apart: list[ExtraRelease] = []
    of_some, unsure = [], []
    for each in releases:
        in_step = _in_step(each, -(-each.count // steps)) if each.count % steps == 0 else None
        if not may_be_of_batches(each) and each is not followed:
            apart.append(each)
        elif in_step is not None and (each.of_batch or each is followed):
            sampled.append(in_step)
        elif in_step is not None:
            unsure.append((each, in_step))
        else:
            of_some.append(_farther(each, moved))
    if len(unsure) > 1 and moved > 1.0:  # of one and not of another: what dominates all of that
        of_some += [_farther(each, moved) for each, _ in unsure]
        unsure = []
    whole = (*apart, *of_some, *(each for each, _ in unsure))
    certain = ReleaseReading(tuple(sampled), whole)
    if not unsure:
        return (certain,)
    batches = ReleaseReading((*sampled, *(each for _, each in unsure)), (*apart, *of_some))
    return batches, certain


def may_be_of_batches(release: ExtraRelease) -> bool:
    """Return whether a release may be taken from batches: what is made once is of all data."""
    return release.count > 1 if release.of_batch is None else release.of_batch


def moved_in_a_batch(run: PinnedRun, method: str) -> float:
    """Return how far a unit moves what is released of a batch, in bounds of one contribution.

    Where batches are always full, another unit is there in its stead; a draw of several batches may
    have it in each, and a draw with replacement as often as it likes.
    """
    again = method == "with-replacement" or run.settings.weighted_draws == "with-replacement"
    if again or (method == "shuffled" and run.settings.accumulation > 1):
        return math.inf
    alone = method in JOINTLY_ACCOUNTED or run.settings.neighbours != "add-remove"
    return run.own_draws * (1.0 if alone else 2.0)


def _farther(release: ExtraRelease, moved: float) -> ExtraRelease:
    if release.noise_multiplier is None or moved == 1.0:
        return release
    return replace(release, noise_multiplier=release.noise_multiplier / moved)


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
    followed = followed_release(releases) if adaptive else None
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


def followed_release(releases: Sequence[ExtraRelease]) -> ExtraRelease | None:
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
    run: PinnedRun, draw: ev.Event, released: Sequence[ExtraRelease], method: str
) -> ev.Event:
    """Return the draw of a step with what else is certainly shown of its batch.

    A count moves by 1 at most, also where a sum moves by two norms, between two units.  So with
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


def released_under(run: PinnedRun, release: ExtraRelease, relation: str) -> ev.Event:
    """Return a release as it moves under the stated relation, for an event under another."""
    event = release_event(release)
    if run.settings.neighbours == "replace-one" and relation != "replace-one":
        event = farther(event, 2)
    return ev.Repeat(release.count, event)


def shown_under(release: ExtraRelease, relation: str) -> ev.Event:
    """Return what a release certainly shows with an event under a relation."""
    event = release_event(release)
    return ev.Repeat(release.count, least_moved(event) if relation == "replace-one" else event)
