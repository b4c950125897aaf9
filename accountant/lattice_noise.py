"""Less noise than the search returned, where delta does not fall all the way as noise grows.

The losses of an integer sum with discrete Gaussian noise lie on a lattice, and delta counts the
points of it above epsilon.  As noise grows, points pass epsilon, and in between delta may rise: the
noise that meets a target is then a union of intervals, and a search for one crossing ends at any of
their lower ends.  So the noise below it is scanned, on a grid that is fine in relative terms.

**Where that can be.**  With t the slope of log delta over epsilon and w = 1 / (m^2 D) the distance
of two losses (multiplier m, sensitivity D), the part of delta that comes and goes with the lattice
is about (t w)^2 / 12 of it, and moves fast enough to turn delta around only if t w is above 2.
Noise that is cut off at a bound has a delta that rises with the noise in the end, whatever t w, and
so have noisy counts with a threshold that hides new keys.

Every value that is returned is certified; that none was missed between two points is not proven.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from . import events as ev
from .certified_search import COARSE_LOG_EXCESS, SEARCH_PRECISION, CertifiedValue, Unknown
from .certifiers import Certifier
from .composition import leaves
from .errors import Unsupported
from .events.parts import events_inside

SCANNED_STEP: Final = 1.0 / 64.0
"""Distance of two points of the scan, in logs of the noise."""

SCANNED_POINTS: Final = 96
"""How many points are looked at, down to e^-1.5 of what the search returned."""

FINE_POINTS: Final = 66
"""Points over two steps of the scan, around a dip of delta."""

DEEPEST_DIP: Final = 1.0
"""Log excess at a point of the scan below which a dip next to it may reach the target."""

LEAST_TURNING: Final = 1.0
"""Least t w from which on the noise below is scanned: half of what turns delta around."""

TURNING_STEP: Final = 0.2
"""Distance of two points, in logs, at which delta is looked at where it turns around."""

POINTS_BELOW: Final = 40
"""How many such points there are below a noise of the bound, or the threshold."""

POINTS_ABOVE: Final = 40
"""How many there are above it, where what is left depends on the noise no more."""

MAX_LEAST_STEPS: Final = 30
"""Most steps towards the noise at which delta is least."""

MAX_SCAN_CERTIFICATES: Final = 8
"""Most points of the scan that are certified, the smallest first."""


def less_lattice_noise(
    unknown: Unknown,
    best: CertifiedValue,
    certifier: Certifier,
    event_at: Callable[[float], ev.Event],
) -> CertifiedValue:
    """Return the smallest certified noise on a grid below `best`, brought down to its edge.

    `best` itself where that has none, and for events whose delta falls as noise grows.
    """
    if unknown.name != "noise multiplier" or best.value <= unknown.low:
        return best
    if not _may_turn(best, certifier, event_at):
        return best

    def certified(value: float) -> CertifiedValue | None:
        certificate = certifier.certify(leaves(event_at(value)))
        meets = certificate.log_excess <= 0.0 and certificate.epsilon_upper <= certificate.epsilon
        if not meets or certifier.delta_log_excess(certificate) > 0.0:
            return None
        return CertifiedValue(value, certificate)

    def excess(value: float) -> float:
        try:
            return certifier.coarse_log_excess(leaves(event_at(value)))
        except Unsupported:
            return math.inf

    points = [best.value * math.exp(-SCANNED_STEP * i) for i in range(SCANNED_POINTS + 1)]
    points = [value for value in points if value >= unknown.low]
    excesses = [excess(value) for value in points]
    # An interval that serves may be narrower than a step, next to the cliff where a loss passes
    # epsilon: between two points around each dip the scan is finer.
    for at in range(1, len(points) - 1):
        if excesses[at] < DEEPEST_DIP and excesses[at] <= min(excesses[at - 1], excesses[at + 1]):
            fine = np.geomspace(points[at + 1], points[at - 1], FINE_POINTS)[1:-1].tolist()
            points += fine
            excesses += [excess(value) for value in fine]
    hopeful = [
        value
        for value, over in zip(points, excesses, strict=True)
        if over <= COARSE_LOG_EXCESS and value < best.value
    ]
    for value in sorted(hopeful)[:MAX_SCAN_CERTIFICATES]:
        smaller = certified(value)
        if smaller is not None:
            return _at_the_edge(smaller, certified)
    return best


def where_delta_falls(
    unknown: Unknown, certifier: Certifier, event_at: Callable[[float], ev.Event]
) -> Unknown:
    """Return the unknown, searched up to about where delta is least, where it turns around.

    Beyond, more noise leaves the range of a bound more often, or lifts a new key above the
    threshold, and what does so tells the data sets apart.
    """
    if unknown.name != "noise multiplier":
        return unknown
    turning = _turning(event_at(unknown.start))
    if not turning:
        return unknown
    # Multipliers at which the noise is as wide as the bound or the threshold.
    widest = max(unknown.start * limit / scale for limit, scale, _ in turning)

    def excess(log_value: float) -> float:
        return certifier.coarse_log_excess(leaves(event_at(math.exp(log_value))))

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


def _turning(event: ev.Event) -> list[tuple[float, float, str]]:
    """Return the limit, the scale of the noise and the kind of limit of what turns around."""
    limits: list[tuple[float, float, str]] = []
    for leaf in leaves(event):
        for inner in events_inside(leaf.event):
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


def _may_turn(
    best: CertifiedValue, certifier: Certifier, event_at: Callable[[float], ev.Event]
) -> bool:
    """Return whether delta may rise with the noise somewhere below `best`."""
    lattices = list(_lattices(event_at(best.value)))
    if not lattices:
        return False
    if any(isinstance(each, ev.TruncatedDiscreteGaussian) for each in lattices):
        return True
    if best.certificate.epsilon == 0.0:
        return True  # an advantage: the rule below is about tails
    # log delta over log noise has slope -2 t epsilon, about: losses go with 1 / noise^2.
    near, off = best.value, best.value * 1.02
    low, high = (certifier.coarse_log_excess(leaves(event_at(value))) for value in (near, off))
    tilt = abs(high - low) / math.log(off / near) / (2.0 * best.certificate.epsilon)
    widest = max(1.0 / (each.noise_multiplier**2 * each.sensitivity) for each in lattices)
    return not tilt * widest < LEAST_TURNING


def _lattices(event: ev.Event) -> Iterator[ev.DiscreteGaussian | ev.TruncatedDiscreteGaussian]:
    for leaf in leaves(event):
        for inner in events_inside(leaf.event):
            if isinstance(inner, (ev.DiscreteGaussian, ev.TruncatedDiscreteGaussian)):
                yield inner
