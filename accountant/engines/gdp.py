"""The closed form for Gaussian noise without sampling: exact up to rounding, from both sides.

Releases with noise multipliers s_i, n_i times each, on neighbours c contribution bounds apart,
are as hard to tell apart as N(0, 1) and N(mu, 1) with mu^2 = sum n_i c^2 / s_i^2, and

    delta(eps) = Phi(x) - e^eps Phi(x - mu),   x = mu/2 - eps/mu.

Because phi(x) = e^eps phi(x - mu), this is phi(x) (M(x) - M(x - mu)) with the Mills ratio
M = Phi/phi, which a scaled complementary error function gives without underflow.
Source: Balle and Wang 2018, Theorem 8, arXiv 1805.06530v2; Dong, Roth and Su 2022,
Corollary 2.13 and Corollary 3.3, arXiv 1905.02383v3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from scipy.special import erfcx, log_ndtr, ndtr

from .. import events as ev
from .. import validate
from ..composition import Composition
from ..errors import Unsupported
from ..guarantee import Bounds, Neighbours, Step
from .base import Answer, contribution, refuse_unattained
from .correlated_noise import correlated_noise

_GAUSSIAN_SOURCE: Final = (
    "Balle and Wang 2018, Theorem 8, arXiv 1805.06530v2; Dong, Roth and Su 2022, Corollaries 2.13 "
    "and 3.3, arXiv 1905.02383v3"
)
_ROUNDING_PER_OPERATION: Final = 4.0 * 2.0**-52
"""Allowance for the rounding of one operation or special function."""

_LOG_SQRT_TAU: Final = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class GdpEngine:
    """Exact answers for compositions of unsampled Gaussian releases, as a few-ulp interval.

    Runs with correlated noise are such releases, with a mu between bounds where the sensitivity
    of their strategy is.

    Both ends hold for all three neighbouring relations (`replace-one` doubles mu): the worst pair
    of data sets is the same in every round, so the bound is attained.
    Source: Dong, Roth and Su 2022, arXiv 1905.02383v3.
    """

    name: str = "gdp"

    def epsilon(self, composition: Composition, delta: float, neighbours: Neighbours) -> Answer:
        """Return bounds on the smallest epsilon at `delta` in [0, 1], in nats.

        Epsilon is infinite at delta 0.  Raises `Unsupported` for a leaf that is not an unsampled
        Gaussian, `InvalidInput` for a delta out of range.
        """
        delta = validate.probability(delta=delta)
        mu, steps = _mu(composition, neighbours)
        lower, upper = _epsilon(mu.lower, delta)[0], _epsilon(mu.upper, delta)[1]
        how = f"Epsilon {upper:.6g} at delta {delta:.6g}, by inverting the closed form."
        return Answer(Bounds(lower, upper), (*steps, Step("conversion", how, _GAUSSIAN_SOURCE)))

    def delta(self, composition: Composition, epsilon: float, neighbours: Neighbours) -> Answer:
        """Return bounds on the smallest delta at `epsilon` (0 or above, in nats).

        Raises `Unsupported` for a leaf that is not an unsampled Gaussian, `InvalidInput` for an
        epsilon out of range.
        """
        epsilon = validate.non_negative(epsilon=epsilon)
        mu, steps = _mu(composition, neighbours)
        lower, upper = _delta(mu.lower, epsilon)[0], _delta(mu.upper, epsilon)[1]
        how = f"Delta {upper:.6g} at epsilon {epsilon:.6g}, by the closed form."
        return Answer(Bounds(lower, upper), (*steps, Step("conversion", how, _GAUSSIAN_SOURCE)))


def _mu(composition: Composition, neighbours: Neighbours) -> tuple[Bounds, tuple[Step, ...]]:
    """Return bounds on mu, and the steps that say so."""
    refuse_unattained(composition, "gdp")
    steps: list[Step] = []
    attained, dominating = [], []
    for leaf in composition:
        if isinstance(leaf.event, ev.MatrixGaussian):
            correlated = correlated_noise(leaf.event, neighbours)
            below, above = correlated.attained, correlated.dominating
            steps.append(correlated.step)
        elif isinstance(leaf.event, ev.Gaussian):
            below = above = leaf.event
        else:
            raise Unsupported(
                f"The gdp engine has no mathematics for `{leaf.event.type}`.",
                "Its closed form is for Gaussian noise without sampling.",
                "Leave the choice of the engine to privplan, or use pld or rdp.",
            )
        root = _root_of(leaf.count)
        attained.append(root / below.noise_multiplier if below is not None else 0.0)
        dominating.append(root / above.noise_multiplier)
    c = contribution(neighbours)
    mu = Bounds(c * math.hypot(*attained), c * math.hypot(*dominating))
    if math.isinf(mu.upper) or (dominating and mu.upper == 0.0):
        raise Unsupported(
            "The noise is outside of the range that the gdp engine can compute with.",
            f"It gives mu = {mu.upper}.",
            "Use a noise multiplier between 1e-150 and 1e150.",
        )
    step = Step(
        "mechanism",
        f"Gaussian noise, neighbours {c} apart: N(0, 1) against N(mu, 1), mu = {mu.upper:.6g}.",
        _GAUSSIAN_SOURCE,
        ("no sampling",),
    )
    return mu, (*steps, step)


def _root_of(count: int) -> float:
    try:
        return math.sqrt(count)
    except OverflowError:
        return math.inf


@dataclass(frozen=True)
class _LogDelta:
    """log delta: its `value`, how far off it can be, and its derivative in epsilon."""

    value: float
    error: float
    slope: float

    @property
    def lower(self) -> float:
        return self.value - self.error

    @property
    def upper(self) -> float:
        return self.value + self.error


def _log_delta(mu: float, epsilon: float) -> _LogDelta | None:
    """Return log delta for mu above 0, or None where rounding leaves no digit of it.

    The error adds up what the rounding of mu, x, y = x - mu and each function can do, every one
    weighted with the derivative of log delta (0 < M'(x) <= 1/(1 + x^2) for x <= 0).
    """
    # x and y are the arguments of Phi; `size` is what rounding of either is relative to.
    shift = epsilon / mu
    x, y, size = mu / 2.0 - shift, -mu / 2.0 - shift, mu / 2.0 + shift
    log_density = -x * x / 2.0 - _LOG_SQRT_TAU
    mills_y = _mills(y)
    if x <= 0.0:
        mills_x = _mills(x)
        # delta = phi(x) (M(x) - M(y)): both Mills ratios are positive, nothing underflows.
        gap = mills_x - mills_y
        if gap <= 0.0 or math.isinf(log_density):
            return None
        value, slope = log_density + math.log(gap), -mills_y / gap
        moved_by_rounding = x * x + abs(x) * size + 2.0 * size / (1.0 + x * x) / gap
        parts = moved_by_rounding + (mills_x + mills_y + mu) / gap
    else:
        phi_x, density = float(ndtr(x)), math.exp(log_density)
        # For x > 0 the plain form: Phi(x) is at least 1/2, and phi(x) M(y) = e^eps Phi(y).
        scaled_phi_y = density * mills_y
        if phi_x <= scaled_phi_y:
            return None
        value, slope = math.log(phi_x - scaled_phi_y), -scaled_phi_y / (phi_x - scaled_phi_y)
        moved_by_rounding = density * (size + mu) + scaled_phi_y * (x * x + x * size + size + 2.0)
        parts = (moved_by_rounding + phi_x) / (phi_x - scaled_phi_y)
    # Off by half a nat or more: nothing is left to certify.
    error = _ROUNDING_PER_OPERATION * (4.0 + abs(value) + parts)
    return _LogDelta(value, error, slope) if error < 0.5 else None


def _mills(x: float) -> float:
    """Return Phi(x) / phi(x) for x <= 0."""
    return math.sqrt(math.pi / 2.0) * float(erfcx(-x / math.sqrt(2.0)))


def gaussian_delta(mu: float, epsilon: float) -> Bounds:
    """Return bounds on delta at `epsilon` of N(0, 1) against N(mu, 1).

    Range: both 0 or above.
    """
    return Bounds(*_delta(mu, epsilon))


def _delta(mu: float, epsilon: float) -> tuple[float, float]:
    if mu == 0.0:
        return 0.0, 0.0
    log = _log_delta(mu, epsilon)
    if log is None:  # delta is at most Phi(x), and at most its value at epsilon 0, mu / sqrt(2 pi)
        most = float(ndtr(mu / 2.0 - epsilon / mu)) * (1.0 + 1e-9)
        return 0.0, min(1.0, mu, math.nextafter(most, 1.0))
    upper = math.nextafter(math.exp(min(log.upper, 0.0)), 1.0)
    lower = math.exp(log.lower)
    # Subnormal numbers are not rounded to full precision.
    return min(lower, 1.0) if lower > 1e-300 else 0.0, min(upper, 1.0)


def _epsilon(mu: float, delta: float) -> tuple[float, float]:
    if mu == 0.0 or delta >= 1.0:
        return 0.0, 0.0
    if delta == 0.0:
        return math.inf, math.inf
    target = math.log(delta)
    if _is_met(mu, 0.0, target):
        return 0.0, 0.0
    # Not certified itself: the ends move out from it until the sign is certain.
    root = _root(mu, target)
    log = _log_delta(mu, root)
    # The error in log delta, as a distance in epsilon.
    width = 4.0 * math.ulp(root)
    if log is not None and log.slope < 0.0:
        width = max(width, 2.0 * log.error / -log.slope)
    up = down = width
    # Upper end: delta is met for certain; lower end: it is missed for certain.
    while not _is_met(mu, root + up, target):
        up *= 2.0
    while root > down and not _is_missed(mu, root - down, target):
        down *= 2.0
    return max(0.0, root - down), root + up


def _is_met(mu: float, epsilon: float, target: float) -> bool:
    """Return whether log delta(epsilon) <= target for certain."""
    log = _log_delta(mu, epsilon)
    if log is None:
        most = min(float(log_ndtr(mu / 2.0 - epsilon / mu)) + 1e-9, math.log(mu))
        return most < target
    return log.upper + _ROUNDING_PER_OPERATION * abs(target) <= target


def _is_missed(mu: float, epsilon: float, target: float) -> bool:
    """Return whether log delta(epsilon) >= target for certain."""
    log = _log_delta(mu, epsilon)
    return log is not None and log.lower - _ROUNDING_PER_OPERATION * abs(target) >= target


def _root(mu: float, target: float) -> float:
    """Return about where log delta meets `target`: Newton, kept between known ends.

    delta(eps) <= Phi(mu/2 - eps/mu) <= exp(-(eps/mu - mu/2)^2 / 2) gives the upper end.
    """
    low, high = 0.0, mu * mu / 2.0 + mu * math.sqrt(-2.0 * target)
    at = high
    for _ in range(200):
        log = _log_delta(mu, at)
        if log is None or log.value < target:
            high = at
        else:
            low = at
        newton = at
        if log is not None and log.slope < 0.0:
            newton = at - (log.value - target) / log.slope
        if not low < newton < high:
            newton = low + (high - low) / 2.0
        if abs(newton - at) <= 2.0 * math.ulp(at) or high - low <= 2.0 * math.ulp(high):
            return newton
        at = newton
    return at
