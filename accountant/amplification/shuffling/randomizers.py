"""Local randomizers, and the privacy blanket that each leaves: what a message owes to nobody.

A randomizer turns a value in [0, 1] (or a category) into a message with law mu_x.  All laws share
the mass gamma = integral of inf_x mu_x, the **blanket** gamma omega = inf_x mu_x.  For the three
randomizers here omega only depends on the loss l = log(mu_0 / mu_1) of a message, through

    mu_0 / (gamma omega) = e^max(l, 0),     mu_1 / (gamma omega) = e^max(-l, 0),

because inf_x mu_x = min(mu_0, mu_1) for symmetric noise that is unimodal and log-concave (the
infimum over x of a unimodal density in x is at an end), and because the other categories of
randomized response have loss 0.

**The worst pair is (0, 1).**  Let r_x = mu_x / omega.  For a set A with omega(A) = m,
mu_x(A) - e^eps mu_x'(A) <= max_m mu_x - e^eps min_m mu_x', the extremes over all sets of that
omega-mass.  r_0 falls and r_1 grows along the line, so the half line with omega-mass m attains
max_m mu_0 and min_m mu_1 at once.  The extreme sets of r_x are half lines, intervals or their
complements, because log r_x is monotone on each side of 1/2; for a complement of (u, v),
mu_x(A) = F(u - x) + 1 - F(v - x) falls up to x = (u + v)/2 and grows from there, so it is at most
max(mu_0(A), mu_1(A)), which is at most max_m mu_0 by symmetry; and min_m mu_x' = 1 - max_(1-m)
mu_x' >= min_m mu_1.  With L = r_x - e^eps r_x' under omega that says E(L - s)+ <= E(L^(0,1) - s)+
for all s, and as both means are 1 - e^eps, L is smaller in convex order; sums of independent
copies keep it.  (Randomized response: order x, the others, x'.)

Here the blanket is carried by finitely many losses.  The mass between two of them is put on both
so that the mean of e^|l| is kept: a spread of L = gamma (e^max(l, 0) - e^(eps + max(-l, 0))), the
same for every eps, and so an upper bound.  Rounding goes up: the share at the outer end is raised
where L grows with it (l > 0) and lowered where it falls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Protocol

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from ... import events as ev
from ...arrays import FloatArray
from ...errors import Unsupported
from ..sums import UNIT_ROUNDOFF

MIN_LOSS_CELLS: Final = 1500
"""Fewest intervals of the loss on each side of 0."""

MAX_AMPLIFIED_LOSS: Final = 100.0
"""Larger losses are not amplified: nobody's blanket has mass enough to hide them."""

LOG_ROUNDING: Final = 1e-13
"""More than the error of a logarithm that takes a few operations."""


@dataclass(frozen=True, eq=False)
class Blanket:
    """The blanket gamma omega of a randomizer, spread onto finitely many losses log(mu_0 / mu_1).

    Mass 1 - gamma is no blanket: there the sum gains nothing.  `outside` is mu_0 mass that was
    left out.  Logs of masses; each mass is right up to the relative `mass_error`.
    """

    losses: FloatArray
    log_masses: FloatArray
    log_rest: float
    outside: float
    mass_error: float

    def terms(self, epsilon: float) -> tuple[FloatArray, FloatArray]:
        """Return the values, rounded up, and log masses of one user's term B Y.

        Y = e^max(l, 0) - e^(epsilon + max(-l, 0)) at the loss l; with mass 1 - gamma it is 0.
        """
        out, back = np.maximum(self.losses, 0.0), epsilon + np.maximum(-self.losses, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            # e^out - e^back without cancelling; then up by the rounding of both.
            value = np.exp(back) * np.expm1(out - back)
            size = np.exp(out) * (1.0 + out) + np.exp(back) * (1.0 + back)
            value += UNIT_ROUNDOFF * (16.0 * np.abs(value) + 4.0 * size)
        value = np.where(out == back, 0.0, value)
        return np.append(value, 0.0), np.append(self.log_masses, self.log_rest)


class Randomizer(Protocol):
    """What a user does to the own value before it is sent."""

    @property
    def largest_loss(self) -> float:
        """The local epsilon: no loss of one message exceeds it."""

    @property
    def description(self) -> str:
        """What it is, in words."""

    def log_local_delta(self, epsilon: float) -> float:
        """Return log delta(epsilon) of one message alone, rounded up; `epsilon` is 0 or above."""

    def blanket(self, outside: float) -> Blanket:
        """Return the blanket, leaving out mu_0 mass of at most about `outside` if it must."""


@dataclass(frozen=True)
class LaplaceRandomizer:
    """A value in [0, 1] with Laplace noise of scale 1 / `epsilon0`; gamma = e^(-epsilon0 / 2)."""

    epsilon0: float

    @property
    def largest_loss(self) -> float:
        """Return epsilon0."""
        return self.epsilon0

    @property
    def description(self) -> str:
        """What it is, in words."""
        return f"Laplace noise, {self.epsilon0:.6g}-LDP"

    def log_local_delta(self, epsilon: float) -> float:
        """Return log(1 - e^((epsilon - epsilon0) / 2)), -inf from epsilon0 on."""
        if epsilon >= self.epsilon0:
            return -math.inf
        return math.log(-math.expm1(0.5 * (epsilon - self.epsilon0))) + LOG_ROUNDING

    def blanket(self, outside: float) -> Blanket:  # nothing is left out
        """Return the blanket: density e^(-epsilon0/2 - |l|/2) / 4, and the rest at +-epsilon0.

        Between losses a and b the mean of e^|l| is e^((a+b)/2).
        """
        epsilon0 = self.epsilon0
        edges = np.linspace(0.0, epsilon0, MIN_LOSS_CELLS + 1)
        low, gap = edges[:-1], np.diff(edges)
        # Blanket mass of each cell of losses on one side; the rest of it lies at +-epsilon0.
        log_cells = math.log(0.5) - 0.5 * epsilon0 - 0.5 * low + np.log(-np.expm1(-0.5 * gap))
        log_end = math.log(0.5) - epsilon0
        losses, log_masses = _spread(edges, log_cells, 0.5 * gap, (log_end, log_end))
        log_rest = math.log(-math.expm1(-0.5 * epsilon0))
        return Blanket(losses, log_masses, log_rest, 0.0, _error(log_masses, losses))


@dataclass(frozen=True)
class ResponseRandomizer:
    """One of `categories`, the true one e^`epsilon0` times as likely as any other."""

    epsilon0: float
    categories: int

    @property
    def largest_loss(self) -> float:
        """Return epsilon0."""
        return self.epsilon0

    @property
    def description(self) -> str:
        """What it is, in words."""
        return f"{self.categories}-ary randomized response, {self.epsilon0:.6g}-LDP"

    def log_local_delta(self, epsilon: float) -> float:
        """Return log((e^epsilon0 - e^epsilon) / (e^epsilon0 + k - 1)), -inf from epsilon0 on."""
        if epsilon >= self.epsilon0:
            return -math.inf
        others = (self.categories - 1) * math.exp(-self.epsilon0)
        return math.log(-math.expm1(epsilon - self.epsilon0)) - math.log1p(others) + LOG_ROUNDING

    def blanket(self, outside: float) -> Blanket:  # nothing is left out
        """Return the blanket: 1 / (e^epsilon0 + k - 1) on each of the k categories."""
        others = self.categories - 2
        log_category = -float(np.logaddexp(self.epsilon0, math.log(self.categories - 1)))
        log_others = log_category + math.log(others) if others else -math.inf
        losses = np.array([-self.epsilon0, 0.0, self.epsilon0])
        log_masses = np.array([log_category, log_others, log_category])
        gained = -math.expm1(-self.epsilon0)
        log_rest = math.log(gained) + self.epsilon0 + log_category if gained > 0.0 else -math.inf
        return Blanket(losses, log_masses, log_rest, 0.0, _error(log_masses, losses))


@dataclass(frozen=True)
class GaussianRandomizer:
    """A value in [0, 1] with Gaussian noise of standard deviation `sigma`.

    gamma = 2 Phi(-1 / (2 sigma)); losses have no largest value.
    """

    sigma: float

    @property
    def largest_loss(self) -> float:
        """Return infinity."""
        return math.inf

    @property
    def description(self) -> str:
        """What it is, in words."""
        return f"Gaussian noise, standard deviation {self.sigma:.6g} of the range"

    def log_local_delta(self, epsilon: float) -> float:
        """Return log(Phi(1/(2s) - eps s) - e^eps Phi(-1/(2s) - eps s)).

        Source: Balle and Wang 2018, Theorem 8, arXiv 1805.06530.
        """
        half, shift = 0.5 / self.sigma, epsilon * self.sigma
        log_p, log_q = float(log_ndtr(half - shift)), float(log_ndtr(-half - shift))
        error = 32.0 * UNIT_ROUNDOFF * (1.0 + epsilon + abs(log_p) + abs(log_q))
        share = -math.expm1(min(epsilon + log_q - log_p, 0.0))
        return min(log_p + math.log(share + error) + error + LOG_ROUNDING, 0.0)

    def blanket(self, outside: float) -> Blanket:
        """Return the blanket on the losses that mu_0 exceeds with probability `outside`.

        The mu_0 mass of larger losses is `Blanket.outside`: (a + b)+ <= a+ + b+.  Losses below
        the smallest one are raised to it.
        """
        sigma = self.sigma
        tail = min(-float(ndtri_exp(math.log(outside))), MAX_AMPLIFIED_LOSS * sigma - 0.5 / sigma)
        near, far = 0.5 / sigma, -tail  # in standard deviations from 0
        other = 1.0 / sigma  # centre of the other law
        cells = max(MIN_LOSS_CELLS, math.ceil(20.0 * (near - far) * (1.0 + other - far)))
        z = np.linspace(near, far, cells + 1)  # outwards, from loss 0
        edges = np.maximum(near - z, 0.0) / sigma
        log_cells, correction = _log_normal_cells(z - other)
        rise = 0.5 * np.diff(edges) + _log_normal_cells(z)[1] - correction
        log_beyond = float(log_ndtr(far - other))
        losses, log_masses = _spread(edges, log_cells, rise, (-math.inf, log_beyond))
        log_rest = float(np.logaddexp(math.log(math.erf(near / math.sqrt(2.0))), log_beyond))
        left_out = math.exp(float(log_ndtr(far))) * (1.0 + 1e-11)
        return Blanket(losses, log_masses, log_rest, left_out, _error(log_masses, losses))


def randomizer_of(event: ev.Event) -> Randomizer | None:
    """Return the randomizer on [0, 1] of an event inside `Shuffle`; None for `Local`.

    One user's value lies in [-bound, +bound], so `Laplace(b)` is (2/b)-LDP and `Gaussian(s)` has
    sigma = s/2.  An epsilon0 that is not a number of the machine is rounded up: Laplace noise of a
    larger scale is Laplace noise of a smaller one with more noise added.  Raises `Unsupported`
    for an event that is not known to be one randomizer with a known blanket.

    >>> randomizer_of(ev.Laplace(4.0))
    LaplaceRandomizer(epsilon0=0.5)
    """
    if isinstance(event, ev.Local):
        return None
    if isinstance(event, ev.RandomizedResponse):
        return ResponseRandomizer(event.epsilon, event.categories)
    if isinstance(event, ev.Laplace):
        ratio = 2.0 / event.noise_multiplier
        if math.isfinite(ratio) and Fraction(ratio) * Fraction(event.noise_multiplier) < 2:
            ratio = math.nextafter(ratio, math.inf)
        if 1e-30 <= ratio <= 1e30:
            return LaplaceRandomizer(ratio)
    if isinstance(event, ev.Gaussian) and 1e-30 <= event.noise_multiplier <= 1e30:
        return GaussianRandomizer(0.5 * event.noise_multiplier)
    if isinstance(event, (ev.Laplace, ev.Gaussian)):
        raise Unsupported(
            f"No shuffle bound here takes noise of multiplier {event.noise_multiplier:g}.",
            next_step="Check the unit of the noise: it is a multiple of the contribution bound.",
        )
    raise Unsupported(
        f"No shuffle bound here takes `{event.type}` as the local randomizer.",
        "Each user sends one message, and its law must be known, or its local epsilon.",
        "Inside Shuffle use laplace, gaussian or randomized-response, or local with the epsilon "
        "that one message has on its own.",
    )


def _spread(
    edges: FloatArray, log_cells: FloatArray, rise: FloatArray, log_ends: tuple[float, float]
) -> tuple[FloatArray, FloatArray]:
    """Return losses, negative ones first, and log masses of a blanket that is symmetric in l.

    A cell's mass goes to its two edges (ascending from 0) so that the mean of e^|l|, which is
    `rise` above the lower edge as a log, is kept; `log_ends` are put on the last edge of the
    positive and of the negative side.  Shares move by more than what rounding may move an edge.
    """
    gap = np.diff(edges)
    # Share s of a cell for the outer edge: s e^gap + (1 - s) = e^rise.
    share = np.expm1(rise) / np.expm1(gap)
    error = 16.0 * UNIT_ROUNDOFF * (2.0 + (edges[1:] + 1e-2) / gap)
    sides = []
    for shares, log_end in zip((share + error, share - error), log_ends, strict=True):
        with np.errstate(divide="ignore"):
            outer = log_cells + np.log(np.clip(shares, 0.0, 1.0))
            inner = log_cells + np.log1p(-np.clip(shares, 0.0, 1.0))
        none = [-math.inf]
        side = np.logaddexp(np.concatenate((inner, none)), np.concatenate((none, outer)))
        side[-1] = np.logaddexp(side[-1], log_end)
        sides.append(side)
    positive, negative = sides
    return np.concatenate((-edges[::-1], edges)), np.concatenate((negative[::-1], positive))


def _log_normal_cells(z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log normal probabilities between consecutive z, and their share that is curvature.

    With w the width and m the middle, w phi(m) (1 + w^2 (m^2-1)/24 + w^4 (m^4-6m^2+3)/1920 + ...);
    for w (1 + |m|) below 0.1 what is left out is below 1e-15.
    """
    # Taylor series of the normal integral around the middle of each cell.
    middle, w2 = 0.5 * (z[:-1] + z[1:]), np.diff(z) ** 2
    m2 = middle * middle
    last = (((m2 - 15.0) * m2 + 45.0) * m2 - 15.0) / 322560.0
    series = w2 * ((m2 - 1.0) / 24.0 + w2 * (((m2 - 6.0) * m2 + 3.0) / 1920.0 + w2 * last))
    curvature = np.log1p(series)
    return 0.5 * np.log(w2 / (2.0 * math.pi)) - 0.5 * m2 + curvature, curvature


def _error(log_masses: FloatArray, losses: FloatArray) -> float:
    """Return a bound on the relative error of masses that were computed as logs."""
    finite = log_masses[np.isfinite(log_masses)]
    largest = float(np.abs(finite).max()) + float(np.abs(losses).max())
    return 16.0 * UNIT_ROUNDOFF * (4.0 + largest)
