"""Correlated noise, of all rounds together, as one Gaussian release: from above and from below.

Neighbours move C x by C d, a matrix of a row for each noised value, and the noise is independent in
every entry.  So outputs are as hard to tell apart as N(0, noise^2) and N(s, noise^2), with s the
Frobenius norm of C d: at most the sensitivity, and as much as the vectors d that are known to
attain its lower end.  Contributions may depend on what was released before: C may be turned by a
rotation into one whose values depend on earlier rounds only, and the noise stays as it is.
Source: Denisov, McMahan, Rush, Smith and Thakurta 2022, Theorem 2.1, arXiv 2202.08312.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from .. import events as ev
from ..errors import Unsupported
from ..guarantee import Bounds, Neighbours, Step
from ..neighbours import as_neighbours
from ..sensitivity.matrix import MatrixSensitivity, sensitivity_bounds, strategy_steps
from .base import contribution

LARGEST: Final = Fraction(math.nextafter(math.inf, 0.0)) / 2

UNIT_ROUNDOFF: Final = 2.0**-53

HIDDEN_BIN: Final = "each unit's bin is uniform, the same in every pass, independent and secret"
"""The condition of an upper end that counts what a bin hides."""

SOURCE: Final = (
    "Denisov, McMahan, Rush, Smith and Thakurta 2022, Theorem 2.1, arXiv 2202.08312; the "
    "sensitivity: {}"
)


@dataclass(frozen=True)
class CorrelatedNoise:
    """A run with correlated noise, between two Gaussian releases.

    `dominating` tells as much or more, for every participation and relation.  `attained` is what
    fixed data sets reach; None where a unit's rounds are hidden, as in balls in bins.
    """

    dominating: ev.Gaussian
    attained: ev.Gaussian | None
    sensitivity: MatrixSensitivity
    step: Step


def correlated_noise(event: ev.MatrixGaussian, neighbours: Neighbours) -> CorrelatedNoise:
    """Return the two Gaussian releases; contribution bounds count as in any sum.

    Raises `InvalidInput` for a singular strategy and a participation that does not fit it,
    `Unsupported` for noise that is nothing against the sensitivity.

    >>> event = ev.MatrixGaussian(3.0, ev.TreeStrategy(8, 2), ev.SingleParticipation())
    >>> round(correlated_noise(event, "add-remove").dominating.noise_multiplier, 9)
    1.5
    """
    sensitivity = sensitivity_bounds(event.strategy, event.participation)
    noise = Fraction(event.noise_multiplier)
    lower, upper = sensitivity.bounds.lower, sensitivity.bounds.upper
    hidden = isinstance(event.participation, ev.BallsInBins)
    attained = None
    if not hidden and lower > 0.0 and noise / Fraction(lower) < LARGEST:
        attained = ev.Gaussian(math.nextafter(float(noise / Fraction(lower)), math.inf))
    least = math.nextafter(float(min(noise / Fraction(upper), LARGEST)), 0.0)
    if least == 0.0:
        raise Unsupported(
            f"A unit moves C x by {upper:.3g} contribution bounds, and noise "
            f"{event.noise_multiplier:.3g} is nothing against that.",
            "Their ratio is below all numbers.",
            "Give more noise, or scale the strategy and the noise alike.",
        )
    return CorrelatedNoise(
        ev.Gaussian(least),
        attained,
        sensitivity,
        _step(event, sensitivity, neighbours),
    )


def matrix_shift(event: ev.MatrixGaussian, neighbours: Neighbours) -> Bounds:
    """Return by how many deviations of the noise a unit moves C x: the mu of the run.

    The lower end is 0 where no fixed data sets are known to attain one.

    >>> event = ev.MatrixGaussian(3.0, ev.TreeStrategy(8, 2), ev.SingleParticipation())
    >>> round(matrix_shift(event, "replace-one").upper, 9)
    1.333333333
    """
    ends, reach = correlated_noise(event, neighbours), contribution(neighbours)
    lower = 0.0 if ends.attained is None else reach / ends.attained.noise_multiplier
    return Bounds(
        lower * (1.0 - 4.0 * UNIT_ROUNDOFF),
        reach / ends.dominating.noise_multiplier * (1.0 + 4.0 * UNIT_ROUNDOFF),
    )


def _step(event: ev.MatrixGaussian, sensitivity: MatrixSensitivity, neighbours: Neighbours) -> Step:
    reach = contribution(as_neighbours(neighbours))
    lower, upper = reach * sensitivity.bounds.lower, reach * sensitivity.bounds.upper
    attained = "which signs attain"
    if sensitivity.dimensions > 1:
        attained = f"which vectors of {sensitivity.dimensions} numbers attain"
    moved = f"{upper:.6g} contribution bounds, {attained}"
    if not sensitivity.exact:
        moved = f"at least {lower:.6g} contribution bounds, {attained}, and at most {upper:.6g}"
    twice = (
        (
            "replace-one: two contributions differ by at most the sum of what each can move, and "
            "opposite ones in the same rounds attain it",
        )
        if reach == 2
        else ()
    )
    return Step(
        "mechanism",
        f"Correlated noise {event.noise_multiplier:.6g} over {strategy_steps(event.strategy):,} "
        f"rounds: a unit moves C x by {moved}.",
        SOURCE.format(sensitivity.source),
        (rests_on(event.participation), f"neighbours: {neighbours}", *twice),
    )


def rests_on(participation: ev.Participation) -> str:
    """Return in words in which rounds a unit may contribute, for the number to hold.

    >>> rests_on(ev.SeparatedParticipation(4, 10))
    'every unit contributes in at most 4 rounds, any two at least 10 apart'
    """
    match participation:
        case ev.SeparatedParticipation(most, separation):
            rounds = f"at most {most:,} rounds, any two at least {separation:,} apart"
        case ev.EpochParticipation(epochs):
            rounds = f"one round of each of {epochs:,} passes, always the same one"
        case ev.BallsInBins(bins):
            rounds = f"one of {bins:,} rounds of a pass, drawn once, in every pass"
        case _:
            rounds = "at most one round"
    return f"every unit contributes in {rounds}"
