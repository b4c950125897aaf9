"""Pairs of balls in bins with correlated noise: a Gaussian beside random allocation, both ways.

amplification/bins.py says what dominates the run and what it attains; here the comparison with
about the least epsilon at the delta in question is taken from above, the one with the most from
below.  Whichever are taken, both ends hold.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Final

from ... import events as ev
from ...amplification.bin_moments import scouted_epsilon
from ...amplification.bins import HiddenBins, bin_comparisons
from ...guarantee import Neighbours, Step
from ..base import contribution
from .pair import Pair
from .registry import DominatedMechanism, pairs

SCOUTED_DELTA: Final = 1e-6
"""The delta that comparisons are chosen for where none is named."""

SOURCE: Final = (
    "Choquette-Choo et al. 2024, arXiv 2410.06266 (the pair); Kahane's inequality, derived with "
    "the comparison in amplification/bins.py"
)


def bins_mechanism(event: ev.MatrixGaussian, neighbours: Neighbours) -> DominatedMechanism:
    """Return the dominated mechanism of a strategy under balls in bins.

    Raises `Unsupported` for a strategy that is too large to write down.
    """
    return replace(
        _fitted_to(event, neighbours, SCOUTED_DELTA), fitted=partial(_fitted_to, event, neighbours)
    )


def _fitted_to(
    event: ev.MatrixGaussian, neighbours: Neighbours, delta: float
) -> DominatedMechanism:
    compared = bin_comparisons(event)
    reach = contribution(neighbours) ** 2

    def scouted(hidden: HiddenBins) -> float:
        return scouted_epsilon(hidden.bins, reach * hidden.shared, reach * hidden.hidden, delta)

    above = min(compared.above, key=scouted)
    first, *rest = _pairs_of(above, neighbours)
    attained: list[Pair] = []
    if compared.below:
        attained = _attained_pairs(max(compared.below, key=scouted), neighbours)
    return DominatedMechanism(
        first,
        attained[0] if attained else None,
        neighbours == "replace-one",  # whatever it is fitted to
        (_step(event, above, neighbours),),
        beside=(rest[0], 1) if rest else None,
        lower_beside=attained[1] if len(attained) > 1 else None,
    )


def _pairs_of(compared: HiddenBins, neighbours: Neighbours) -> list[Pair]:
    """Return the pairs that are composed: where the bin hides, then what shows of every bin."""
    mechanism = compared.mechanism
    result = [] if mechanism is None else [pairs(mechanism, neighbours).pair]
    if compared.shared > 0.0 or not result:
        result.append(pairs(_gaussian(compared.shared), neighbours).pair)
    return result


def _attained_pairs(compared: HiddenBins, neighbours: Neighbours) -> list[Pair]:
    """Return the pairs that are attained together, at most one of each kind."""
    mechanism = compared.mechanism
    attained = None if mechanism is None else pairs(mechanism, neighbours).lower_pair
    result = [] if attained is None else [attained]
    if compared.shared > 0.0:
        gaussian = pairs(_gaussian(compared.shared), neighbours).lower_pair
        assert gaussian is not None
        result.append(gaussian)
    return result


def _gaussian(shared: float) -> ev.Gaussian:
    return ev.Gaussian(1.0 / math.sqrt(shared))


def _step(event: ev.MatrixGaussian, compared: HiddenBins, neighbours: Neighbours) -> Step:
    assert isinstance(event.participation, ev.BallsInBins)
    bins = event.participation.bins
    shared = f"a Gaussian that moves by {math.sqrt(compared.shared):.6g} of the noise"
    if compared.bins == 1:
        statement = f"The bin, 1 of {bins:,}, is counted as known: {shared}."
    else:
        beside = f", beside {shared}" if compared.shared > 0.0 else ""
        statement = (
            f"1 of {bins:,} bins, looked at {compared.bins:,} at a time: random allocation of a "
            f"Gaussian that moves by {math.sqrt(compared.hidden):.6g} of the noise{beside}."
        )
    return Step(
        "sampling",
        statement,
        SOURCE,
        (
            "each unit's bin is uniform, the same in every pass, independent and secret",
            "contributions are at most 1 bound, vectors of any sign, and may depend on the noised "
            "values that hold earlier rounds only",
            f"neighbours: {neighbours}",
        ),
    )
