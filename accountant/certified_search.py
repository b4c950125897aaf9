"""The search for the best certified value of an unknown."""

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


NEARLY: Final = 3e-4
"""How far below the target, relatively, the epsilon of an accepted value may lie.

The first value, before two tries have shown the slope, must be as near as `SEARCH_PRECISION`.
"""

ROUGHLY: Final = 2e-2
"""Log excess at which an estimate is good enough: it is off by more itself."""

NEAR: Final = 0.05
"""Log excess below which a rough certificate is near enough to begin with exact ones."""


@dataclass(frozen=True)
class Unknown:
    """Where an unknown is searched; `sign` is +1 if a larger value protects better, else -1."""

    name: str
    low: float
    high: float
    start: float
    sign: int
    whole: bool = False

    def place(self, value: float) -> float:
        """Return the coordinate of a value: its log, turned so that more protects better."""
        return self.sign * math.log(value)

    def value(self, place: float) -> float:
        """Return the value at a coordinate, whole if it must be; the ends exactly."""
        value = math.exp(self.sign * place)
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
}


@dataclass(frozen=True)
class CertifiedValue:
    """The best certified value, and its certificate."""

    value: float
    verdict: Certificate


def find_certified_value(
    unknown: Unknown,
    verdict: Callable[[float], Certificate],
    rough: Callable[[float], float],
    estimate: Callable[[float], float],
    answered: Callable[[Certificate], float] = lambda found: found.log_excess,
) -> CertifiedValue:
    """Return the value that protects least among those certified to meet the target.

    `estimate` says about where it is, `rough` (log excess of a cheap certificate) brings the search
    near, and only `verdict` decides; what it accepts must pass `answered` too (its log excess, when
    the question for delta is asked by itself).  Raises `TargetUnreachable` and `TargetTrivial`.
    """
    start, slope = _estimated(unknown, estimate)
    start, slope = _approached(unknown, rough, start, slope)
    search = _Search(unknown, slope)
    place = start
    for _ in range(MAX_CERTIFICATES):
        value = unknown.value(place)
        found = verdict(value)
        if search.record(value, found) and search.holds_both_ways(answered):
            break
        if not search.good and value == unknown.strongest:
            raise _unreachable(unknown)
        place = search.next()
    if not search.holds_both_ways(answered) or search.good is None:
        raise _unreachable(unknown)
    if search.good.value == unknown.weakest and unknown.name != "sampling rate":
        raise _trivial(unknown, search.good.value)
    return search.good


class _Search:
    """What is known while values are tried: the best that is certified, the best that is not."""

    def __init__(self, unknown: Unknown, slope: float) -> None:
        self._unknown = unknown
        self._slope = slope
        self._tolerance = SEARCH_PRECISION * abs(slope)
        self._tries = 0
        self._last: tuple[float, float] | None = None
        self._offset = 0.0
        self._bad: tuple[float, float] | None = None
        self.good: CertifiedValue | None = None

    def record(self, value: float, found: Certificate) -> bool:
        """Take in a verdict; say whether the search is over."""
        self._tries += 1
        excess, place = found.log_excess + self._offset, self._unknown.place(value)
        self._learn(place, excess)
        near = excess >= -self._tolerance
        if excess <= 0.0 and found.epsilon_upper <= found.epsilon:
            self.good = CertifiedValue(value, found)
            if value == self._unknown.weakest:
                return True
            # Near in delta may be far in epsilon, where delta hardly depends on it.
            nearly = NEARLY if self._tries > 1 else SEARCH_PRECISION
            if near and found.epsilon_upper >= (1.0 - nearly) * found.epsilon:
                return True
        else:
            self._bad = (place, max(excess, 0.0))
        return self._closed()

    def _learn(self, place: float, excess: float) -> None:
        """Take the slope that the last two tries show, where it is much flatter than thought."""
        if self._last is not None and place != self._last[0]:
            seen = (excess - self._last[1]) / (place - self._last[0])
            if 0.5 * self._slope < seen < 0.0:
                self._slope = max(seen, 0.01 * self._slope)
                self._tolerance = SEARCH_PRECISION * abs(self._slope)
        self._last = place, excess

    def holds_both_ways(self, answered: Callable[[Certificate], float]) -> bool:
        """Say whether the best value also passes the check for delta; if not, it counts as bad.

        A plan is checked by asking for epsilon, or by asking for delta, and must pass both.
        """
        if self.good is None:
            return True
        excess = answered(self.good.verdict)
        if excess <= 0.0:
            return True
        # From here on what is certified must be below the target by as much as the two differ.
        self._offset = max(excess - self.good.verdict.log_excess, self._offset)
        self._last = self._bad = self._unknown.place(self.good.value), excess
        self.good = None
        return False

    def _closed(self) -> bool:
        if self.good is None or self._bad is None:
            return False
        good, bad = self._unknown.place(self.good.value), self._bad[0]
        if self._unknown.whole:
            return abs(self.good.value - self._unknown.value(bad)) <= 1.0
        return abs(good - bad) <= SEARCH_PRECISION

    def next(self) -> float:
        """Return where to look next: in the middle of what would be accepted, on the safe side."""
        assert self._last is not None
        place, excess = self._last
        unknown, aim = self._unknown, -0.5 * self._tolerance
        least, most = unknown.place(unknown.weakest), unknown.place(unknown.strongest)
        if self.good is None or self._bad is None:
            step = (aim - excess) / self._slope
            if not math.isfinite(step) or step * excess <= 0.0:
                step = math.copysign(SEARCH_PRECISION, excess)
            # Still on one side after two tries: the slope was off.
            step *= 4.0 ** max(self._tries - 2, 0)
            there = min(max(place + min(max(step, -3.0), 3.0), least), most)
        else:
            there = self._between(unknown.place(self.good.value), *self._bad, aim)
        return self._fresh(there)

    def _between(self, x_good: float, x_bad: float, f_bad: float, aim: float) -> float:
        assert self.good is not None
        f_good = self.good.verdict.log_excess + self._offset
        if (self._tries < 8 or self._tries % 3) and math.isfinite(f_good) and f_bad > f_good:
            there = x_bad + (x_good - x_bad) * (f_bad - aim) / (f_bad - f_good)
            if x_bad < there < x_good:
                return there
        return 0.5 * (x_good + x_bad)

    def _fresh(self, place: float) -> float:
        """Return the place, or the next whole value where it would be one that is known."""
        unknown = self._unknown
        if unknown.whole:
            value = unknown.value(place)
            if self.good and value == self.good.value:
                return unknown.place(value - unknown.sign)
            if self._bad and value == unknown.value(self._bad[0]):
                return unknown.place(max(value + unknown.sign, unknown.low))
        return place


def _estimated(unknown: Unknown, estimate: Callable[[float], float]) -> tuple[float, float]:
    """Return where the estimate crosses 0 and its (negative) slope there."""

    def at(place: float) -> float:
        return estimate(unknown.value(place))

    least, most = unknown.place(unknown.weakest), unknown.place(unknown.strongest)
    bracket = enclose(at, unknown.place(unknown.start), 0.7, least, most)
    if bracket is None:
        return (most, -10.0) if at(unknown.place(unknown.start)) > 0.0 else (least, -10.0)
    found = narrow(at, bracket, absolute=1e-6, value=ROUGHLY, steps=40)
    place = found.low if found.f_low < -found.f_high else found.high
    nudge = 0.01
    slope = (at(min(place + nudge, most)) - at(place)) / nudge
    return place, slope if slope < 0.0 and math.isfinite(slope) else -10.0


def _approached(
    unknown: Unknown, rough: Callable[[float], float], place: float, slope: float
) -> tuple[float, float]:
    """Return a place nearer to the crossing, and the slope there, by a few secant steps."""
    least, most = unknown.place(unknown.weakest), unknown.place(unknown.strongest)
    excess = rough(unknown.value(place))
    for _ in range(3):
        if abs(excess) < NEAR or not math.isfinite(excess):
            break
        there = min(max(place - min(max(excess / slope, -0.5), 0.5), least), most)
        if there == place:
            break
        following = rough(unknown.value(there))
        secant = (following - excess) / (there - place)
        if math.isfinite(secant) and secant < 0.0:
            slope = secant
        place, excess = there, following
    if abs(excess) < 1.0:
        place = min(max(place - excess / slope, least), most)
    return place, slope


def _unreachable(unknown: Unknown) -> TargetUnreachable:
    return TargetUnreachable(
        f"No {unknown.name} from {unknown.low:g} to {unknown.high:g} meets this target.",
        "What does not depend on it costs more than the whole budget.",
        "Ask for a larger epsilon or delta, or release less.",
    )


def _trivial(unknown: Unknown, value: float) -> TargetTrivial:
    if unknown.whole:
        return TargetTrivial(
            f"The target still holds after {value:,.0f} rounds.",
            "The event leaks nothing that adds up, so the number of rounds is not bounded by it.",
        )
    return TargetTrivial(
        f"The target already holds at a {unknown.name} of {value:g}: it needs no noise.",
        "Either epsilon is very large, or hardly anybody is ever drawn, so that delta covers it.",
        "Ask for a smaller epsilon, and a delta well below 1 / (number of records).",
    )
