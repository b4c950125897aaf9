"""DISCO's peers, broken in the ways that happen, for tests that must notice.

Each bug patches the path that every round takes, and nothing else; the log goes on saying what it
says of a correct run, unless the name of the bug says otherwise.  `with broken_disco("half-noise")`
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import replace
from unittest import mock

import numpy as np

from privplan.accountant.mechanisms import Gaussian
from privplan.fl.aggregation.share_sums import ShareAggregator
from privplan.fl.disco import clip_rules, system
from privplan.fl.disco.noise import NoiseTerms, views_of
from privplan.fl.disco.system import Disco
from privplan.fl.disco.terms import DiscoTerms

from .broken import no_clipping, noise_times

share_steps, totals = Gaussian.share_steps, Disco._totals
sum_mechanism = Disco.sum_mechanism

CLASSICAL_EPSILON = 20.0


def classical_factor(delta=1e-5):
    """Return the noise of the classical formula over the noise that holds: 1 round, epsilon 20.

    s = 2 C sqrt(2 ln(1.25 / delta)) / epsilon against 2 C / mu, mu(20, 1e-5) = 3.4478.
    """
    return math.sqrt(2.0 * math.log(1.25 / delta)) / CLASSICAL_EPSILON * 3.4478


def silent_peer(named):
    """One peer adds no noise to the sums of this name; its draw is forgotten."""

    def steps(self, ticket, total, name, part=""):
        noisy = share_steps(self, ticket, total, name, part)
        return total if name.startswith(named) and name.endswith("silo-1") else noisy

    return mock.patch.object(Gaussian, "share_steps", steps)


def silent_count(factor=0.0):
    """The count of unclipped updates has so much of its noise; that of the updates is right."""

    def steps(self, ticket, total, name, part=""):
        noisy = share_steps(self, ticket, total, name, part)
        if not name.startswith("noise/clip/"):
            return noisy
        return total + np.rint(factor * (noisy - total)).astype(np.int64)

    return mock.patch.object(Gaussian, "share_steps", steps)


def raw_radius(*, noise_too=False):
    """Rows are clipped to the largest of their raw norms; the log says, to the public clip."""
    factor = [1.0]

    def of_norms(self, ticket, mechanism, terms, size):
        radius = float(max(part.norms.max(initial=0.0) for part in terms)) or mechanism.bound
        factor[0] = radius / mechanism.bound
        # The grid follows from the noise, so it stays that of the round.
        return totals(self, ticket, replace(mechanism, bound=radius), terms, size)

    def steps(self, ticket, total, name, part=""):
        noisy = share_steps(self, ticket, total, name, part)
        scale = factor[0] if noise_too else 1.0
        return total + np.rint(scale * (noisy - total)).astype(np.int64)

    both = contextlib.ExitStack()
    both.enter_context(mock.patch.object(Disco, "_totals", of_norms))
    # The row is longer than the clip, so there is no bound on what is sent.
    both.enter_context(mock.patch.object(Disco, "_largest", return_value=None))
    both.enter_context(mock.patch.object(Gaussian, "share_steps", steps))
    return both


def raw_radius_stated():
    """The clip comes from private norms, and the log says so."""

    def private(self, noise_multiplier, clip, number):
        return replace(sum_mechanism(self, noise_multiplier, clip, number), source="private")

    return mock.patch.object(Disco, "sum_mechanism", private)


def float_shares_stated():
    """Sums by shares that are no integers of a ring, as the log says."""
    honest = ShareAggregator.security.fget

    def of_floats(self):
        return replace(honest(self), ring_bits=0)

    return mock.patch.object(ShareAggregator, "security", property(of_floats))


def all_of_the_noise():
    """A peer counts its own noise, and that of its colluders, among what hides others from it."""
    return mock.patch.object(NoiseTerms, "hiding", property(lambda terms: terms.smallest))


def unreleased_quantile():
    """The clip follows the exact share of unclipped updates, of which nothing is released.

    All of a round's budget goes to the sum of updates, and the plan knows of no count.
    """

    def exact(self, gate, number, clip, norms):
        del gate, number
        counts, first = clip_rules.count_terms(norms, clip), self.setup.training.clip
        return clip_rules.from_count(clip, first, float(counts.sum()), len(counts))

    def of_sums(self, noise_multiplier):
        return views_of(self.terms.noise_terms, noise_multiplier)

    parts = contextlib.ExitStack()
    parts.enter_context(mock.patch.object(Disco, "_clip_from_count", exact))
    parts.enter_context(mock.patch.object(Disco, "views", of_sums))
    parts.enter_context(mock.patch.object(clip_rules, "update_multiplier", lambda noise: noise))
    parts.enter_context(mock.patch.object(system, "planned_release", lambda phase, *_: phase))
    return parts


def wrong_sign():
    """A clip that grows where many updates are unclipped, and shrinks where few are."""
    right = clip_rules.from_count

    def other_way(clip, first, noisy_count, peers):
        return right(clip, first, -noisy_count, peers)

    return mock.patch.object(clip_rules, "from_count", other_way)


def shared_in_the_clear():
    """A peer's noise is made to hide it in the sum, and every message is seen by itself."""
    honest = DiscoTerms.noise_terms.func

    def shared(self):
        return replace(honest(self), rule="shared")

    return mock.patch.object(DiscoTerms, "noise_terms", property(shared))


BUGS = {
    "half-noise": lambda: noise_times(0.5),
    "no-clipping": no_clipping,
    "raw-radius": raw_radius,
    "raw-radius-and-noise": lambda: raw_radius(noise_too=True),
    "silent-peer": lambda: silent_peer("noise"),
    "silent-count": silent_count,
    "half-count-noise": lambda: silent_count(0.5),
    "classical-formula": lambda: noise_times(classical_factor()),
    "all-of-the-noise": all_of_the_noise,
    "none": contextlib.nullcontext,
}
"""By name, what breaks the rounds and leaves the log; `none` leaves both as they are."""

STATED = {
    "raw-radius-stated": raw_radius_stated,
    "float-shares": float_shares_stated,
    "shared-in-the-clear": shared_in_the_clear,
    "all-of-the-noise": all_of_the_noise,
    "unreleased-quantile": unreleased_quantile,
    "wrong-sign": wrong_sign,
}
"""By name, what breaks the rounds in a way that the log's own facts tell of, or no audit sees."""


@contextlib.contextmanager
def broken_disco(name: str) -> Iterator[None]:
    """Break every round in one way, for a while."""
    with (BUGS | STATED)[name]():
        yield
