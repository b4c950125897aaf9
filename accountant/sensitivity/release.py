"""Sensitivity and release: what the systems share, with roundings that never err towards privacy.

Bounds here are rational numbers or square roots of rational numbers.  They are computed exactly
as fractions and rounded once: sensitivities up, noise multipliers down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from .. import events as ev
from .. import validate
from ..errors import InvalidInput, Unsupported, kind_of
from ..neighbours import Neighbours

_MIN_SQUARE, _MAX_SQUARE = Fraction(1, 10**280), Fraction(10**280)
"""Squares outside of this range are refused: they are mistakes, and would overflow."""


@dataclass(frozen=True)
class Sensitivity:
    """The sensitivity of a release to one unit, for one relation between data sets.

    `l2` and `l1` bound the norm of the difference (`l1` is infinite where none is stated) under
    `neighbours`, for one `unit`; `conditions` is what must hold for them.
    """

    l2: float
    neighbours: Neighbours
    l1: float = math.inf
    unit: str = "record"
    conditions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Release:
    """What a run releases, as an event that is valid for one relation and one observer.

    Account it with `privplan.account_release`: `event` is valid under `neighbours` and no other
    relation, because its noise multipliers are scaled for that one.  Each of `alternatives` is an
    event that bounds the same release too, so the smallest of their epsilons is a guarantee.
    `conditions` is what a run must meet.
    """

    event: ev.Event
    neighbours: Neighbours
    observer: str
    unit: str = "record"
    alternatives: tuple[ev.Event, ...] = ()
    conditions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def events(self) -> tuple[ev.Event, ...]:
        """Every event that bounds this release."""
        return (self.event, *self.alternatives)


def sensitivity_multiplier(neighbours: Neighbours) -> int:
    """Return the sensitivity multiplier: 2 if one unit is replaced, otherwise 1."""
    return 2 if neighbours == "replace-one" else 1


def multiplier(noise: float | Fraction, bound: float | Fraction, neighbours: Neighbours) -> float:
    """Return the noise multiplier of an event whose sum moves by `bound` under `neighbours`.

    sensitivity multiplier x noise / bound, rounded down: under replace-one an engine moves a sum by
    two contribution bounds, so one of them is `bound` / 2.
    """
    return down(sensitivity_multiplier(neighbours) * Fraction(noise) / Fraction(bound))


def root_multiplier(
    noise_square: Fraction, bound: float | Fraction, neighbours: Neighbours
) -> float:
    """Return `multiplier` for noise that is known by its square."""
    return root_down(noise_square * (sensitivity_multiplier(neighbours) / Fraction(bound)) ** 2)


def moved_by(noise_square: float | Fraction, sensitivity: Sensitivity, rounds: int = 1) -> ev.Event:
    """Return `rounds` Gaussian releases, of noise known by its square, on one sensitivity."""
    scaled = root_multiplier(Fraction(noise_square), sensitivity.l2, sensitivity.neighbours)
    return repeated(rounds, ev.Gaussian(scaled))


def repeated(count: int, event: ev.Event) -> ev.Event:
    """Return an event `count` times, without a Repeat around a single one."""
    return event if count == 1 else ev.Repeat(count, event)


def up(value: Fraction) -> float:
    """Return the smallest float at or above a fraction."""
    # `float` rounds to the nearest: one step up where that is below.
    number = float(_in_range(value))
    return number if Fraction(number) >= value else math.nextafter(number, math.inf)


def down(value: Fraction) -> float:
    """Return the largest float at or below a fraction."""
    number = float(_in_range(value))
    return number if Fraction(number) <= value else math.nextafter(number, 0.0)


def root_up(square: Fraction) -> float:
    """Return the smallest float at or above the square root of a fraction."""
    # The float root, then exact comparisons of squares as fractions, one ulp at a time.
    root = math.sqrt(float(_in_range(square)))
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    while Fraction(below := math.nextafter(root, 0.0)) ** 2 >= square:
        root = below
    return root


def root_down(square: Fraction) -> float:
    """Return the largest float at or below the square root of a fraction."""
    root = root_up(square)
    return root if Fraction(root) ** 2 == square else math.nextafter(root, 0.0)


def _in_range(value: Fraction) -> Fraction:
    if not _MIN_SQUARE <= value <= _MAX_SQUARE:
        raise Unsupported(
            "The bounds or the noise are too extreme to compute with.",
            "Squares must lie between 1e-280 and 1e280.",
            "Check the units of the bound and of the noise.",
        )
    return value


def require_public(bound_source: str, *, what: str) -> None:
    """Raise `Unsupported` where a bound was taken from the data that it is to protect.

    `bound_source` is `public` or `private`; `what` names the bound.
    """
    validate.choice(("public", "private"), bound_source=bound_source)
    if bound_source == "private":
        raise Unsupported(
            f"{what} from private data gives no sensitivity.",
            "It moves with the very unit that it is to bound, so neighbouring data sets get "
            "different noise, and the noise itself tells them apart.",
            "Fix it before looking at the data and clip to it, or release it with its own noise, "
            "account for that, and give the released value as public.",
        )


def as_sensitivity(sensitivity: object) -> Sensitivity:
    """Return a `Sensitivity`; raise `InvalidInput` for anything else, such as a printed number."""
    if not isinstance(sensitivity, Sensitivity):
        raise InvalidInput(
            f"`sensitivity` must be a Sensitivity; it is {kind_of(sensitivity)}.",
            "A stated number does not say for which neighbours it holds.",
            "Take one from a function of this package, such as fedpower.row_sensitivity.",
        )
    return sensitivity
