"""The project's mechanisms, broken in the ways that happen, for tests that must notice.

Each bug patches the path that every run takes, and nothing else: the log goes on saying what it
says of a correct run.  `with broken("half-noise"): ...`
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np

from privplan.accountant.mechanisms import Gaussian, clip, gaussian
from privplan.accountant.mechanisms.wide_gaussian import WideGaussian
from privplan.fl.aggregation.clip_check import norms_of
from privplan.fl.uldp import averaging, group, weighted
from privplan.fl.uldp.weighted import UldpAvgKnownWeights

draw, sums = gaussian.discrete_gaussian, clip.clipped_sums
joins, totals = averaging.poisson, UldpAvgKnownWeights._totals
share_steps, draw_wide = Gaussian.share_steps, WideGaussian.draw


@contextlib.contextmanager
def patched(*places):
    """Patch (object, name, replacement) for a while."""
    with contextlib.ExitStack() as stack:
        for place in places:
            stack.enter_context(mock.patch.object(*place))
        yield


def noise_times(factor):
    """Every share of noise is that many times as wide as is stated."""

    def drawn(stream, count, scale):
        return draw(stream, count, factor * scale)

    def wide(self, stream, count):
        return [round(Fraction(factor) * one) for one in draw_wide(self, stream, count)]

    return patched((gaussian, "discrete_gaussian", drawn), (WideGaussian, "draw", wide))


def no_clipping():
    """Rows pass the clip whatever their norm (up to 1,000 times the bound)."""

    def unclipped(*rows, bound, **named):
        return sums(*rows, bound=1000.0 * bound, **named)

    return patched((clip, "clipped_sums", unclipped))  # of one group too


def no_sampling():
    """Everybody joins every round, while the log says that they were drawn at a rate."""

    def everybody(stream, count, rate):
        return np.ones_like(joins(stream, count, rate))

    return patched((averaging, "poisson", everybody), (group, "poisson", everybody))


def same_noise():
    """The noise of the first round is added in every round; fresh bytes are drawn and unused."""
    first = {}

    def repeated(stream, count, scale):
        fresh = draw(stream, count, scale)
        return first.setdefault((stream.id, count), fresh)

    return patched((gaussian, "discrete_gaussian", repeated))


def no_weights():
    """A user's update counts in full in every silo, and not by weights that sum to 1."""

    def ones(_, counts):
        return np.where(np.asarray(counts) > 0, 1.0, 0.0)

    return patched((weighted, "user_weights", ones), (weighted, "checked_weights", np.asarray))


def noise_over_silos():
    """Each silo's share has the deviation std / |S|, and not std / sqrt|S|."""

    def small(self, ticket, total, name, part=""):
        whole = share_steps(self, ticket, total, name, part)
        return total + ((whole - total) / np.sqrt(self.shares)).astype(np.int64)

    return patched((Gaussian, "share_steps", small))


def one_silos_noise():
    """Only the first silo adds its share of the noise; the others draw theirs, and forget it."""

    def lone(self, ticket, total, name, part=""):
        whole = share_steps(self, ticket, total, name, part)
        return whole if name.endswith("silo-0") else total

    return patched((Gaussian, "share_steps", lone))


def shuffled(seed=0):
    """Users join in fixed batches, in turn, in a new order each epoch; the log says Poisson."""
    rng = np.random.default_rng(seed)
    left = []

    def in_turn(stream, count, rate):
        joins(stream, count, rate)
        if not left:
            left.extend(np.array_split(rng.permutation(count), round(1.0 / rate)))
        chosen = np.zeros(count, bool)
        chosen[left.pop()] = True
        return chosen

    return patched((averaging, "poisson", in_turn))


def clip_from_data(level=1.0, *, noise_too=False):
    """Rows are clipped to a quantile of the norms of a round, and not to the public bound.

    With `noise_too` the noise is scaled alike, so that the ratio of the two is what is stated.
    """
    factor = [1.0]

    def own_clip(self, joining, parameters, number, mechanism, *rest):
        users = [own[joining[own]] for own in self._present]
        parts = self.updates(parameters, users, number)
        norms = np.concatenate([np.empty(0), *(norms_of(part.rows) for part in parts)])
        bound = float(np.quantile(norms, level)) if norms.size else mechanism.bound
        factor[0] = bound / mechanism.bound if noise_too else 1.0
        return totals(self, joining, parameters, number, replace(mechanism, bound=bound), *rest)

    def scaled(stream, count, scale):
        return draw(stream, count, factor[0] * scale)

    return patched(
        (UldpAvgKnownWeights, "_totals", own_clip), (gaussian, "discrete_gaussian", scaled)
    )


BUGS = {
    "half-noise": lambda: noise_times(0.5),
    "no-clipping": no_clipping,
    "no-sampling": no_sampling,
    "same-noise": same_noise,
    "no-weights": no_weights,
    "noise-over-silos": noise_over_silos,
    "one-silos-noise": one_silos_noise,
    "shuffled": shuffled,
    "clip-from-data": clip_from_data,
    "clip-and-noise-from-data": lambda: clip_from_data(noise_too=True),
    "none": contextlib.nullcontext,
}
"""By name, what breaks the mechanism; `none` leaves it as it is."""


def broken(name):
    """Return a context in which the mechanism is broken in one way."""
    return BUGS[name]()
