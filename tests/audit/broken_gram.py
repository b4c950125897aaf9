"""Private statistics, broken in the ways that happen, for tests that must notice.

Each bug patches the path that every release takes, and nothing else: the log goes on saying what it
says of a correct release.  `with broken_gram("half-noise"): ...`
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from unittest import mock

import numpy as np

from privplan.accountant.mechanisms import gram_noise, gram_rows
from privplan.accountant.mechanisms.gram_noise import NoisyGram
from privplan.accountant.mechanisms.gram_row_grid import GridScale
from privplan.fl.statistics import exact_sums

draw, draw_share = gram_noise.discrete_gaussian, NoisyGram._noise_of_share
share_steps, sums = NoisyGram.share_steps, exact_sums.gram_total


def noise_times(factor):
    """Every share of noise is that many times as wide as is stated."""

    def drawn(stream, count, scale):
        return draw(stream, count, factor * scale)

    return mock.patch.object(gram_noise, "discrete_gaussian", drawn)


def no_noise_on(part):
    """One part of the release has no noise: `diagonal`, `above` it, or `labels`."""

    def drawn(self, stream):
        noise = draw_share(self, stream)
        labels = np.arange(len(noise)) >= self.label_start
        parts = {"diagonal": self.diagonal, "above": ~self.diagonal & ~labels, "labels": labels}
        noise[parts[part]] = 0
        return noise

    return mock.patch.object(NoisyGram, "_noise_of_share", drawn)


def no_clipping():
    """Rows pass the clip whatever their norm (up to 1,000 times the bound)."""
    most = GridScale.most.func
    return mock.patch.object(GridScale, "most", property(lambda scale: 1_000_000 * most(scale)))


def no_cap():
    """A silo keeps all rows of a unit."""
    return mock.patch.object(gram_rows, "_kept", return_value=None)


def rows_twice():
    """Every silo adds its rows twice."""

    def doubled(*rows, **more):
        exact = sums(*rows, **more)
        return replace(exact, total=2 * exact.total)

    return mock.patch.object(exact_sums, "gram_total", doubled)


def released_twice():
    """Every silo sends its vector twice, with noise of its own, and the mean of both is shown."""

    def mean(stream, count, scale):
        return (draw(stream, count, scale) + draw(stream, count, scale)) // 2

    return mock.patch.object(gram_noise, "discrete_gaussian", mean)


def silent_silo():
    """The last silo adds no noise."""

    def steps(self, ticket, total, name, part=""):
        noisy = share_steps(self, ticket, total, name, part)
        return total if name.endswith(f"silo-{self.shares - 1}") else noisy

    return mock.patch.object(NoisyGram, "share_steps", steps)


BUGS = {
    "half-noise": lambda: noise_times(0.5),
    "no-label-noise": lambda: no_noise_on("labels"),
    "no-diagonal-noise": lambda: no_noise_on("diagonal"),
    "no-noise-above": lambda: no_noise_on("above"),
    "no-clipping": no_clipping,
    "no-cap": no_cap,
    "rows-twice": rows_twice,
    "released-twice": released_twice,
    "silent-silo": silent_silo,
    "none": contextlib.nullcontext,
}
"""By name, what breaks the release; `none` leaves it as it is."""


@contextlib.contextmanager
def broken_gram(name: str) -> Iterator[None]:
    """Break the release in one way, for a while."""
    with BUGS[name]():
        yield
