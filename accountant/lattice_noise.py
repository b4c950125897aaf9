"""Less noise than the search returned, where delta does not fall all the way as noise grows.

The losses of an integer sum with discrete Gaussian noise lie on a lattice, and delta counts the
points of it above epsilon.  As noise grows, points pass epsilon, and in between delta may rise: the
noise that meets a target is then a union of intervals, and a search for one crossing ends at any of
their lower ends.  So the noise below it is scanned, on a grid that is fine in relative terms.

One release, and few of the same noise, are climbed to from below instead (`exact_lattice_noise`);
this scan is for all others, samples of several rounds, say, and for engines with a bound of their
own.  Between two of its points the dips of delta are followed down by golden sections.

**Where that can be.**  With t the slope of log delta over epsilon and w = 1 / (m^2 D) the distance
of two losses (multiplier m, sensitivity D), the part of delta that comes and goes with the lattice
is about (t w)^2 / 12 of it, and moves fast enough to turn delta around only if t w is above 2.
Noise that is cut off at a bound has a delta that rises with the noise in the end, whatever t w, and
so have noisy counts with a threshold that hides new keys.

Every value that is returned is certified; that none was missed between two points is not proven,
and nothing below e^-1.5 of what the search returned is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from . import events as ev
from .certified_search import COARSE_LOG_EXCESS, SEARCH_PRECISION, CertifiedValue, Unknown
from .certifiers import Certifier, CompositionAt
from .composition import Composition
from .errors import Unsupported
from .rootfinding import least_argument

SCANNED_STEP: Final = 1.0 / 64.0
"""Distance of two points of the scan, in logs of the noise."""

SCANNED_POINTS: Final = 96
"""How many points are looked at, down to e^-1.5 of what the search returned."""

DEEPEST_DIP: Final = 2.0
"""Log excess at a point of the scan below which a dip next to it may reach the target."""

DIP_PRECISION: Final = 1e-5
"""How near to the lowest point of a dip golden sections go, in logs of the noise."""

LEAST_TURNING: Final = 0.25
"""Least t w from which on the noise below is scanned: an eighth of what turns delta around."""

TILT_SPANS: Final = (1.02, 1.1, 1.3)
"""Factors of the noise over which t is measured; the largest counts, as steps hide it."""

TURNING_STEP: Final = 0.2
"""Distance of two points, in logs, at which delta is looked at where it turns around."""

POINTS_BELOW: Final = 40
"""How many such points there are below a noise of the bound, or the threshold."""

POINTS_ABOVE: Final = 40
"""How many there are above it, where what is left depends on the noise no more."""

MAX_LEAST_STEPS: Final = 30
"""Most steps towards the noise at which delta is least."""

MAX_SCAN_CERTIFICATES: Final = 24
"""Most dips of the scan whose lowest point is certified, the smallest noise first."""


def less_lattice_noise(
    unknown: Unknown,
    best: CertifiedValue,
    certifier: Certifier,
    composition_at: CompositionAt,
) -> CertifiedValue:
    """Return the smallest certified noise on a grid below `best`, brought down to its edge.

    `best` itself where that has none, and for events whose delta falls as noise grows.
    """
    if unknown.name != "noise multiplier" or best.value <= unknown.low:
        return best
    if not _may_turn(best, certifier, composition_at):
        return best

    def certified(value: float) -> CertifiedValue | None:
        certificate = certifier.certify(composition_at(value))
        meets = certificate.log_excess <= 0.0 and certificate.epsilon_upper <= certificate.epsilon
        if not meets or certifier.delta_log_excess(certificate) > 0.0:
            return None
        return CertifiedValue(value, certificate)

    def excess(value: float) -> float:
        try:
            return certifier.coarse_log_excess(composition_at(value))
        except Unsupported:
            return math.inf

    for value, _ in _dips(best.value, unknown.low, excess)[:MAX_SCAN_CERTIFICATES]:
        smaller = certified(value)
        if smaller is not None:
            return _at_the_edge(smaller, certified)
    return best


def _dips(best: float, least: float, excess: Callable[[float], float]) -> list[tuple[float, float]]:
    """Return the noise below `best` at which an excess is least around, and about met, ascending.

    Dips lie where a heavy loss passes epsilon, and may be much narrower than a step.
    """
    points = [best * math.exp(-SCANNED_STEP * i) for i in range(SCANNED_POINTS + 1)]
    points = sorted(value for value in points if value >= least)
    excesses = [excess(value) for value in points]
    dips = []
    for at in range(len(points) - 1):
        before = excesses[at - 1] if at else math.inf
        if excesses[at] > min(before, excesses[at + 1], DEEPEST_DIP):
            continue
        value, over = points[at], excesses[at]
        if over > -COARSE_LOG_EXCESS and at:
            ends = math.log(points[at - 1]), math.log(points[at + 1])
            nearer = math.exp(least_argument(lambda x: excess(math.exp(x)), *ends, DIP_PRECISION))
            value, over = min((value, over), (nearer, excess(nearer)), key=lambda each: each[1])
        if over <= COARSE_LOG_EXCESS and value < best:
            dips.append((value, over))
    return sorted(dips)


def where_delta_falls(
    unknown: Unknown, certifier: Certifier, composition_at: CompositionAt
) -> Unknown:
    """Return the unknown, searched up to about where delta is least, where it turns around.

    Beyond, more noise leaves the range of a bound more often, or lifts a new key above the
    threshold, and what does so tells the data sets apart.
    """
    if unknown.name != "noise multiplier":
        return unknown
    turning = _turning(composition_at(unknown.start))
    if not turning:
        return unknown
    # Multipliers at which the noise is as wide as the bound or the threshold.
    widest = max(unknown.start * limit / scale for limit, scale, _ in turning)

    def excess(log_value: float) -> float:
        return certifier.coarse_log_excess(composition_at(math.exp(log_value)))

    points = [math.log(widest) + TURNING_STEP * i for i in range(-POINTS_BELOW, POINTS_ABOVE + 1)]
    points = [x for x in points if math.log(unknown.low) < x < math.log(unknown.high)]
    if not points:
        return unknown
    excesses = [excess(x) for x in points]
    least = excesses.index(min(excesses))
    best = _least(excess, points[least], excesses[least])
    limits = " or ".join(dict.fromkeys(name for _, _, name in turning))
    return replace(unknown, start=math.exp(best), high=math.exp(best), limited_by=limits)


def _least(excess: Callable[[float], float], x: float, value: float) -> float:
    """Return about where an excess is least next to `x`, or a point where it is well below 0."""
    step = TURNING_STEP / 2.0
    for _ in range(MAX_LEAST_STEPS):
        if value < -COARSE_LOG_EXCESS or step < SEARCH_PRECISION:
            break
        # A halving pattern search: it needs no slope, which ends at a cliff.
        value, x = min((value, x), (excess(x - step), x - step), (excess(x + step), x + step))
        step /= 2.0
    return x


def _turning(composition: Composition) -> list[tuple[float, float, str]]:
    """Return the limit, the scale of the noise and the kind of limit of what turns around."""
    limits: list[tuple[float, float, str]] = []
    for inner in composition.inside(ev.Event):
        if isinstance(inner, ev.TruncatedDiscreteGaussian):
            scale = inner.noise_multiplier * inner.sensitivity
            limits.append((float(inner.bound), scale, "bound"))
        elif isinstance(inner, ev.ThresholdSelection):
            limits.append((max(inner.threshold, 1.0), inner.noise_scale, "threshold"))
    return limits


def _at_the_edge(
    best: CertifiedValue, certified: Callable[[float], CertifiedValue | None]
) -> CertifiedValue:
    """Return the least certified value between `best` and the next point of the scan, by halves."""
    failed = best.value * math.exp(-SCANNED_STEP)
    while math.log(best.value / failed) > SEARCH_PRECISION:
        middle = math.sqrt(best.value * failed)
        smaller = certified(middle)
        if smaller is None:
            failed = middle
        else:
            best = smaller
    return best


def _may_turn(best: CertifiedValue, certifier: Certifier, composition_at: CompositionAt) -> bool:
    """Return whether delta may rise with the noise somewhere below `best`."""
    composition = composition_at(best.value)
    lattices = composition.inside(ev.DiscreteGaussian)
    if composition.inside(ev.TruncatedDiscreteGaussian):
        return True
    if not lattices:
        return False
    if best.certificate.epsilon == 0.0:
        return True  # an advantage: the rule below is about tails
    # log delta over log noise has slope -2 t epsilon, about: losses go with 1 / noise^2.
    here = certifier.coarse_log_excess(composition)
    falls = [
        abs(certifier.coarse_log_excess(composition_at(best.value * span)) - here) / math.log(span)
        for span in TILT_SPANS
    ]
    tilt = max(falls) / (2.0 * best.certificate.epsilon)
    widest = max(1.0 / (each.noise_multiplier**2 * each.sensitivity) for each in lattices)
    return not tilt * widest < LEAST_TURNING
