"""The search for the best certified value of an unknown: the least noise, say, that meets a target.

Coordinates are logs of the unknown, turned so that the log excess (log odds of the certified delta
over the target's) falls as the coordinate grows.  A value counts only with a certificate at or
below 0, so the result errs on the side of more noise, fewer rounds or a smaller rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from .certifiers import Certificate
from .errors import TargetTrivial, TargetUnreachable
from .rootfinding import enclose, narrow

SEARCH_PRECISION: Final = 2e-5
"""Relative distance to the best certified value at which the search stops."""

MAX_CERTIFICATES: Final = 80
"""Most certificates of one search; the best value so far is returned after that."""


EPSILON_TOLERANCE: Final = 3e-4
"""How far below the target, relatively, the epsilon of an accepted value may lie.

The first value, before two tries have shown the slope, must be as near as `SEARCH_PRECISION`.
"""

ESTIMATE_LOG_EXCESS: Final = 2e-2
"""Log excess at which an estimate is good enough: its own error is larger."""

LEAST_FALL: Final = 1e-3
"""Fall of the log excess, over half the way to the end of a range, that shows in a sentence."""

COARSE_LOG_EXCESS: Final = 0.05
"""Log excess below which a coarse certificate is near enough to begin with exact ones."""


@dataclass(frozen=True)
class Unknown:
    """Where an unknown is searched; `sign` is +1 if a larger value protects better, else -1.

    `limited_by` names what keeps larger values from protecting better, a `bound`, say; then `high`
    is about the value that protects best.
    """

    name: str
    low: float
    high: float
    start: float
    sign: int
    whole: bool = False
    limited_by: str = ""

    def coordinate(self, value: float) -> float:
        """Return the coordinate of a value: its log, turned so that more protects better."""
        return self.sign * math.log(value)

    def value(self, coordinate: float) -> float:
        """Return the value at a coordinate, whole if it must be; the ends exactly."""
        value = math.exp(self.sign * coordinate)
        for end in (self.low, self.high):
            if abs(value - end) <= 1e-12 * end:
                value = end
        value = min(max(value, self.low), self.high)
        return float(round(value)) if self.whole else value

    @property
    def weakest(self) -> float:
        """The value that protects least."""
        return self.low if self.sign > 0 else self.high

    @property
    def strongest(self) -> float:
        """The value that protects most."""
        return self.high if self.sign > 0 else self.low


UNKNOWNS: Final[Mapping[str, Unknown]] = {
    "noise": Unknown("noise multiplier", 1e-3, 1e9, 1.0, +1),
    "rounds": Unknown("number of rounds", 1.0, 1e9, 100.0, -1, whole=True),
    "rate": Unknown("sampling rate", 1e-9, 1.0, 0.1, -1),
    "group": Unknown("group size", 1.0, 1e6, 2.0, -1, whole=True),
}


@dataclass(frozen=True)
class CertifiedValue:
    """The best certified value, and its certificate."""

    value: float
    certificate: Certificate


def find_certified_value(
    unknown: Unknown,
    certify: Callable[[float], Certificate],
    coarse: Callable[[float], float],
    estimate: Callable[[float], float],
    delta_excess: Callable[[Certificate], float] = lambda certificate: certificate.log_excess,
) -> CertifiedValue:
    """Return the value that protects least among those certified to meet the target.

    `estimate` gives the starting point, `coarse` (log excess of a cheap certificate) moves it near
    the target, and only `certify` decides; what it accepts must also meet the target when delta is
    computed at the target's epsilon (`delta_excess`).  Raises `TargetUnreachable` and
    `TargetTrivial`.
    """
    start, slope = _estimated(unknown, estimate)
    start, slope = _approached(unknown, coarse, start, slope)
    search = _Search(unknown, slope)
    coordinate = start
    for _ in range(MAX_CERTIFICATES):
        value = unknown.value(coordinate)
        certificate = certify(value)
        if search.record(value, certificate) and search.meets_delta_query(delta_excess):
            break
        if not search.best and value == unknown.strongest:
            raise _unreachable(unknown, coarse)
        coordinate = search.next()
    if not search.meets_delta_query(delta_excess) or search.best is None:
        raise _unreachable(unknown, coarse)
    if search.best.value == unknown.weakest and unknown.name != "sampling rate":
        raise trivial_target(unknown, search.best.value)
    return search.best


class _Search:
    """What is known while values are tried: the best that is certified, the best that is not."""

    def __init__(self, unknown: Unknown, slope: float) -> None:
        self._unknown = unknown
        self._slope = slope
        self._tolerance = SEARCH_PRECISION * abs(slope)
        self._tries = 0
        self._last: tuple[float, float] | None = None
        self._offset = 0.0
        self._failed: tuple[float, float] | None = None
        self.best: CertifiedValue | None = None

    def record(self, value: float, certificate: Certificate) -> bool:
        """Take in a certificate; return whether the search is over."""
        self._tries += 1
        excess, coordinate = certificate.log_excess + self._offset, self._unknown.coordinate(value)
        self._learn(coordinate, excess)
        near = excess >= -self._tolerance
        # Accepted only if both the delta and the epsilon of the certificate meet the target.
        if excess <= 0.0 and certificate.epsilon_upper <= certificate.epsilon:
            self.best = CertifiedValue(value, certificate)
            if value == self._unknown.weakest:
                return True
            # Near in delta may be far in epsilon, where delta hardly depends on it.
            tolerance = EPSILON_TOLERANCE if self._tries > 1 else SEARCH_PRECISION
            if near and certificate.epsilon_upper >= (1.0 - tolerance) * certificate.epsilon:
                return True
        else:
            self._failed = (coordinate, max(excess, 0.0))
        return self._closed()

    def _learn(self, coordinate: float, excess: float) -> None:
        """Replace the slope by that of the last two tries where theirs is much flatter."""
        if self._last is not None and coordinate != self._last[0]:
            observed = (excess - self._last[1]) / (coordinate - self._last[0])
            if 0.5 * self._slope < observed < 0.0:
                self._slope = max(observed, 0.01 * self._slope)
                self._tolerance = SEARCH_PRECISION * abs(self._slope)
        self._last = coordinate, excess

    def meets_delta_query(self, delta_excess: Callable[[Certificate], float]) -> bool:
        """Return whether the best value also meets the target by delta; if not, it has failed.

        A plan is checked by asking for epsilon, or by asking for delta, and must pass both.
        """
        if self.best is None:
            return True
        excess = delta_excess(self.best.certificate)
        if excess <= 0.0:
            return True
        # The two queries differ by rounding: from here on every certificate must clear the target
        # by that difference, so the search moves to the safe side of it.
        self._offset = max(excess - self.best.certificate.log_excess, self._offset)
        self._last = self._failed = self._unknown.coordinate(self.best.value), excess
        self.best = None
        return False

    def _closed(self) -> bool:
        if self.best is None or self._failed is None:
            return False
        best, failed = self._unknown.coordinate(self.best.value), self._failed[0]
        if self._unknown.whole:
            return abs(self.best.value - self._unknown.value(failed)) <= 1.0
        return abs(best - failed) <= SEARCH_PRECISION

    def next(self) -> float:
        """Return the next coordinate: the middle of what would be accepted, on the safe side."""
        assert self._last is not None
        coordinate, excess = self._last
        unknown, aim = self._unknown, -0.5 * self._tolerance
        lowest, highest = unknown.coordinate(unknown.weakest), unknown.coordinate(unknown.strongest)
        if self.best is None or self._failed is None:
            # Newton's step with the known slope, from the last certificate.
            step = (aim - excess) / self._slope
            if not math.isfinite(step) or step * excess <= 0.0:
                step = math.copysign(SEARCH_PRECISION, excess)
            # Still on one side after two tries: the slope was wrong, so steps grow fourfold.
            step *= 4.0 ** max(self._tries - 2, 0)
            proposal = min(max(coordinate + min(max(step, -3.0), 3.0), lowest), highest)
        else:
            proposal = self._between(unknown.coordinate(self.best.value), *self._failed, aim)
        return self._untried(proposal)

    def _between(self, x_best: float, x_failed: float, f_failed: float, aim: float) -> float:
        assert self.best is not None
        f_best = self.best.certificate.log_excess + self._offset
        # Regula falsi between the best and the failed end; every third try halves, lest it stall.
        if (self._tries < 8 or self._tries % 3) and math.isfinite(f_best) and f_failed > f_best:
            proposal = x_failed + (x_best - x_failed) * (f_failed - aim) / (f_failed - f_best)
            if x_failed < proposal < x_best:
                return proposal
        return 0.5 * (x_best + x_failed)

    def _untried(self, coordinate: float) -> float:
        """Return the coordinate, or the next whole value where it would be one that is known."""
        unknown = self._unknown
        if unknown.whole:
            value = unknown.value(coordinate)
            if self.best and value == self.best.value:
                return unknown.coordinate(value - unknown.sign)
            if self._failed and value == unknown.value(self._failed[0]):
                return unknown.coordinate(max(value + unknown.sign, unknown.low))
        return coordinate


def _estimated(unknown: Unknown, estimate: Callable[[float], float]) -> tuple[float, float]:
    """Return where the estimate crosses 0 and its (negative) slope there."""

    def at(coordinate: float) -> float:
        return estimate(unknown.value(coordinate))

    lowest, highest = unknown.coordinate(unknown.weakest), unknown.coordinate(unknown.strongest)
    bracket = enclose(at, unknown.coordinate(unknown.start), 0.7, lowest, highest)
    if bracket is None:
        return (highest, -10.0) if at(unknown.coordinate(unknown.start)) > 0.0 else (lowest, -10.0)
    crossing = narrow(at, bracket, absolute=1e-6, value=ESTIMATE_LOG_EXCESS, steps=40)
    coordinate = crossing.low if crossing.f_low < -crossing.f_high else crossing.high
    # A one-sided difference: the search only needs a slope of the right sign and size.
    nudge = 0.01
    slope = (at(min(coordinate + nudge, highest)) - at(coordinate)) / nudge
    return coordinate, slope if slope < 0.0 and math.isfinite(slope) else -10.0


def _approached(
    unknown: Unknown, coarse: Callable[[float], float], coordinate: float, slope: float
) -> tuple[float, float]:
    """Return a coordinate nearer to the crossing, and the slope there, by a few secant steps."""
    lowest, highest = unknown.coordinate(unknown.weakest), unknown.coordinate(unknown.strongest)
    excess = coarse(unknown.value(coordinate))
    for _ in range(3):
        if abs(excess) < COARSE_LOG_EXCESS or not math.isfinite(excess):
            break
        proposal = min(max(coordinate - min(max(excess / slope, -0.5), 0.5), lowest), highest)
        if proposal == coordinate:
            break
        following = coarse(unknown.value(proposal))
        secant = (following - excess) / (proposal - coordinate)
        if math.isfinite(secant) and secant < 0.0:
            slope = secant
        coordinate, excess = proposal, following
    if abs(excess) < 1.0:
        coordinate = min(max(coordinate - excess / slope, lowest), highest)
    return coordinate, slope


def _unreachable(unknown: Unknown, coarse: Callable[[float], float]) -> TargetUnreachable:
    if unknown.limited_by:
        limit = unknown.limited_by
        return TargetUnreachable(
            f"No {unknown.name} was found that meets this target.",
            f"Delta is least at about {unknown.high:.4g}: less hides too little, and more passes "
            f"the {limit} more often, which tells the data sets apart.",
            f"Use a larger {limit}, or ask for a larger epsilon or delta.",
        )
    why = "What does not depend on it costs more than the whole budget."
    if unknown.whole:
        why = f"Already the smallest, {unknown.strongest:g}, costs more than the target allows."
    elif _still_falls(unknown, coarse):
        why = (
            f"The search ends at {unknown.strongest:g}, where delta still falls as the "
            f"{unknown.name} {'grows' if unknown.sign > 0 else 'shrinks'}."
        )
    return TargetUnreachable(
        f"No {unknown.name} from {unknown.low:g} to {unknown.high:g} meets this target.",
        why,
        "Ask for a larger epsilon or delta, or release less.",
    )


def _still_falls(unknown: Unknown, coarse: Callable[[float], float]) -> bool:
    """Return whether delta depends on the unknown at the value that protects best."""
    end = unknown.coordinate(unknown.strongest)
    return coarse(unknown.value(end - math.log(2.0))) > coarse(unknown.strongest) + LEAST_FALL


def trivial_target(unknown: Unknown, value: float) -> TargetTrivial:
    """Return the refusal of a target that the least protective value meets."""
    if unknown.name == "group size":
        return TargetTrivial(
            f"The target still holds for groups of {value:,.0f}.",
            "The search ends there: a group that large still leaks less than the target allows.",
        )
    if unknown.whole:
        return TargetTrivial(
            f"The target still holds after {value:,.0f} rounds.",
            "The search ends there: so many rounds still leak less than the target allows.",
        )
    return TargetTrivial(
        f"The target already holds at a {unknown.name} of {value:g}: it needs no noise.",
        "Either epsilon is very large, or hardly anybody is ever drawn, so that delta covers it.",
        "Ask for a smaller epsilon, and a delta well below 1 / (number of records).",
    )
