"""The noise of one step as an event, at the two ends that a description leaves open."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Final

from ...accountant import events as ev
from ...accountant.errors import Unsupported
from ..description.run_description import ExtraRelease
from .pinned_run import PinnedRun

MICROBATCH_SHIFT: Final = 2
"""How many clipping norms the clipped mean of several records moves by, at most, whatever moves
one of them: it lies in a ball of one norm before and after."""

LEAST_NOISE: Final = 0.02
"""Noise multiplier that lower ends are computed with where there is less; epsilon is over 1,000."""

UNKNOWN_NOISE: Final = 1e9
"""A noise multiplier for lower ends where more noise came than anybody knows the law of."""

SAMPLED_WORDS: Final = re.compile(r"clip|quantile|(?<![a-z])(count|norm)s?(?![a-z])")
"""A release that names one of these, once in every step, is taken from the batch of the step; and
it may be what an adaptive clipping norm follows."""


class LackingFacts(Exception):
    """A bound needs keys that nobody gave."""

    def __init__(self, *keys: str) -> None:
        super().__init__(*keys)
        self.keys = keys


def noise_draw(run: PinnedRun, noise_multiplier: float) -> ev.Event:
    """Return the event of one noise draw without sampling, as it is described.

    Discrete Gaussian noise on a sum of any dimension has the zCDP of Gaussian noise.
    """
    if noise_multiplier == 0.0:
        return ev.NoGuarantee("no noise was drawn")
    # Stated parameters hold for the relation that is named: a replaced unit moves a sum twice.
    moved = 2.0 if run.settings.neighbours == "replace-one" else 1.0
    match run.settings.family:
        case "laplace":
            return _laplace_draw(run, noise_multiplier)
        case "discrete-gaussian":
            return ev.ZCDP(0.5 * (moved / noise_multiplier) ** 2)
        case "pure":
            # The scale of whatever noise it is over the bound: what Laplace noise of it proves.
            return ev.Pure(moved / noise_multiplier)
    return ev.Gaussian(noise_multiplier)


def _laplace_draw(run: PinnedRun, noise_multiplier: float) -> ev.Event:
    """Return Laplace noise on a vector of the clipped norm, by the largest l1 norm that it has."""
    norm, coordinates = run.settings.clip_norm, run.settings.dimensions
    if norm in (None, "l1"):
        return ev.Laplace(noise_multiplier)
    if coordinates is None:
        return ev.NoGuarantee(f"Laplace noise on any number of coordinates, clipped in {norm}")
    longest = math.sqrt(coordinates) if norm == "l2" else float(coordinates)
    return ev.Laplace(noise_multiplier / longest)


def _shown_laplace(run: PinnedRun, noise_multiplier: float) -> ev.Event:
    """Return what Laplace noise shows of a vector: one coordinate, or all that move alike."""
    norm, coordinates = run.settings.clip_norm, run.settings.dimensions
    if norm in (None, "l1") or coordinates in (None, 1) or run.settings.method != "full":
        return ev.Laplace(noise_multiplier)
    assert coordinates is not None
    each = noise_multiplier * (math.sqrt(coordinates) if norm == "l2" else 1.0)
    return ev.Repeat(coordinates, ev.Laplace(each))


def _integer_draw(run: PinnedRun, noise_multiplier: float) -> ev.Event:
    """Return what discrete Gaussian noise shows: a contribution in one coordinate, an integer."""
    longest = 0 if run.clip is None else math.floor(run.clip)
    if longest == 0 or run.clip is None or noise_multiplier == 0.0:
        return noise_draw(run, noise_multiplier)
    return ev.DiscreteGaussian(noise_multiplier * run.clip / longest, longest)


def farther(draw: ev.Event, times: int) -> ev.Event:
    """Return the event of the same noise on a sum that one unit moves `times` as far."""
    if times == 1:
        return draw
    match draw:
        case ev.Gaussian(noise):
            return ev.Gaussian(noise / times)
        case ev.Laplace(noise):
            return ev.Laplace(noise / times)
        case ev.DiscreteGaussian(noise, sensitivity):
            return ev.DiscreteGaussian(noise / times, sensitivity * times)
        case ev.DiscreteLaplace(noise, sensitivity):
            return ev.DiscreteLaplace(noise / times, sensitivity * times)
        case ev.Pure(epsilon):
            return ev.Pure(epsilon * times)
        case ev.ZCDP(rho):
            return ev.ZCDP(rho * times**2)
        case ev.Compose(parts):
            return ev.Compose(tuple(farther(part, times) for part in parts))
        case ev.Repeat(count, inner):
            return ev.Repeat(count, farther(inner, times))
        case ev.NoGuarantee():
            return draw
    raise Unsupported(f"Nothing is known of a unit that moves `{draw.type}` several times as far.")


def twice_as_far(draw: ev.Event) -> ev.Event:
    """Return a draw of a sum that is moved twice as far; the draw itself where that is unknown."""
    try:
        return farther(draw, 2)
    except Unsupported:
        return draw


def upper_noise(run: PinnedRun, noise_multiplier: float) -> float:
    """Return the noise multiplier that is certainly there, given who replied.

    Noise that is drawn in shares, one by each party, has replies/expected of its variance where
    parties are missing.
    """
    if run.replies is None or not run.expected_replies or run.replies >= run.expected_replies:
        return noise_multiplier
    return noise_multiplier * math.sqrt(run.replies / run.expected_replies)


def upper_draw(run: PinnedRun, noise_multiplier: float) -> ev.Event:
    """Return the event of one noise draw that bounds it from above."""
    return clipped_together(run, noise_draw(run, upper_noise(run, noise_multiplier)))


def clipped_together(run: PinnedRun, draw: ev.Event) -> ev.Event:
    """Return a draw of sums of clipped means, where several records are clipped together.

    In batches that are always full a replaced record moves a sum by two norms anyway.  In a
    Poisson sample the sum without the record may be one of either side: it is two norms from each.
    """
    if run.settings.microbatches == 1:
        return draw
    always_full = run.settings.method not in ("poisson", "unknown")
    if run.settings.neighbours == "replace-one" and always_full:
        return draw
    return farther(draw, MICROBATCH_SHIFT)


def lower_noise(run: PinnedRun, noise_multiplier: float) -> float:
    """Return the largest noise multiplier that there may be, given who replied."""
    # More replies than expected bring more shares of noise.
    spare = 1.0
    if run.replies is not None and run.expected_replies:
        spare = max(1.0, math.sqrt(run.replies / run.expected_replies))
        if spare > 1.0 and run.settings.family != "gaussian":
            spare = UNKNOWN_NOISE  # more shares of other noise have a law of their own
    return noise_multiplier * spare


def lower_draw(run: PinnedRun, noise_multiplier: float) -> ev.Event:
    """Return the event of one noise draw that bounds it from below.

    Noise on top of what was released is post-processing: no noise, and Gaussian noise too small
    for any grid, show at least what `LEAST_NOISE` shows.
    """
    noise = lower_noise(run, noise_multiplier)
    if noise < LEAST_NOISE and (noise == 0.0 or run.settings.family == "gaussian"):
        return ev.Gaussian(LEAST_NOISE)
    if run.settings.family == "discrete-gaussian":
        return _integer_draw(run, noise)
    if run.settings.family == "laplace" and noise > 0.0:
        return _shown_laplace(run, noise)
    return noise_draw(run, noise)


def about_clip(release: ExtraRelease) -> bool:
    """Return whether a release names a clip, a count, a quantile or a norm.

    >>> [about_clip(ExtraRelease(what, 1.0)) for what in ("Clip_count", "accounts", "test score")]
    [True, False, False]
    """
    return SAMPLED_WORDS.search(release.what.lower()) is not None


def release_event(release: ExtraRelease) -> ev.Event:
    """Return the event of one release besides the sums; raise `LackingFacts` without its noise."""
    if release.noise_multiplier is None:
        raise LackingFacts("releases.noise_multiplier")
    if release.noise_multiplier == 0.0:
        return ev.NoGuarantee(f"{release.what or 'a release'} has no noise")
    if release.family == "laplace":
        return ev.Laplace(release.noise_multiplier)
    return ev.Gaussian(release.noise_multiplier)


def without_noiseless(run: PinnedRun) -> PinnedRun:
    """Return the run without the releases that have no noise, or none that is stated."""
    releases = tuple(each for each in run.settings.releases if each.noise_multiplier)
    return replace(run, settings=replace(run.settings, releases=releases))
