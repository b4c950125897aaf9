"""What is proven of one release of statistics: at its delta, or purely where that is 0."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from ...accountant import events as ev
from ...accountant.account import account
from ...accountant.errors import InvalidInput
from ...accountant.guarantee import Bounds, Guarantee, Step
from ...accountant.neighbours import as_neighbours
from ...accountant.sensitivity.gram import GramBound, sensitivity
from ...accountant.sensitivity.release import sensitivity_multiplier, up


def guarantee_of(
    event: ev.Event, delta: float, neighbours: str, unit: str, observer: str
) -> Guarantee:
    """Return what an event proves for one unit before one observer, at `delta`.

    At delta 0 the event must be Laplace noise, whose epsilon is r / b for noise of b bounds, where
    one unit moves the sum by r bounds (2 under replace-one).  Raises `InvalidInput` for other
    events there, and as `account` does.
    """
    if delta:
        proven = account(event, delta=delta, neighbours=neighbours)
        return replace(proven, unit=unit, observer=observer)
    relation = as_neighbours(neighbours)
    if not isinstance(event, ev.Laplace):
        raise InvalidInput(
            "`delta` must be above 0 for this release.",
            "Only Laplace noise keeps a pure epsilon.",
            'Give a `delta` such as 1e-5, or noise = "laplace".',
        )
    epsilon = up(sensitivity_multiplier(relation) / Fraction(event.noise_multiplier))
    step = Step(
        "mechanism",
        f"Laplace noise of {event.noise_multiplier:.6g} bounds in L1 on every number.",
        "the ratio of its densities, number by number",
        ("noise is even in the coordinates in which the bound is taken",),
    )
    return Guarantee(
        Bounds(0.0, epsilon), Bounds.exactly(0.0), relation, "laplace", unit, observer, (step,)
    )


def supported(event: ev.Event, std: float, bound: GramBound, neighbours: str) -> bool:
    """Return whether noise of `std` (Laplace: scale) supports an event that is stated.

    Only Gaussian and Laplace noise, and the promise of nothing, are events of such a release.
    """
    if isinstance(event, ev.NoGuarantee):
        return True
    if not isinstance(event, (ev.Gaussian, ev.Laplace)):
        return False
    moved = sensitivity(bound, neighbours)
    most = moved.l1 if isinstance(event, ev.Laplace) else moved.l2
    drawn = Fraction(std) * sensitivity_multiplier(as_neighbours(neighbours)) / Fraction(most)
    return Fraction(event.noise_multiplier) <= drawn
