"""Pairs of balls in bins with correlated noise: a Gaussian with random allocation, both ways.

amplification/bins.py says what dominates the run and what it attains; here the comparison with
about the least epsilon at the delta in question is taken from above, the one with the most from
below.  Whichever are taken, both ends hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from .... import events as ev
from ....amplification.bin_moments import scouted_epsilon
from ....amplification.bins import BinComparisons, HiddenBins, bin_comparisons, is_extreme
from ....amplification.group import group_step
from ....guarantee import Neighbours, Step
from ...base import contribution
from ...correlated_noise import HIDDEN_BIN, correlated_noise
from ..grid.noise import GaussianNoise
from ..grid.pair import Pair
from ..grid.pair_parts import AtomPair
from .registry import DominatedMechanism, from_above, pairs, single_pair
from .scores import strongest_pair

SCOUTED_DELTA: Final = 1e-6
"""The delta that comparisons are chosen for where none is named."""

CELLS: Final = 4096
"""Into how many cells a value on a line is put."""

CELL_TAIL_MASS: Final = 1e-30

_KNOWN_BIN: Final = "which bin a unit is in does not depend on the data; it may be known"

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


def grouped_bins(size: int, event: ev.MatrixGaussian, neighbours: Neighbours) -> DominatedMechanism:
    """Return the dominated mechanism of a unit of `size` records, each in a bin that is known."""
    correlated = correlated_noise(event, neighbours)
    noise = math.nextafter(correlated.dominating.noise_multiplier / size, 0.0)
    known = from_above(pairs(ev.Gaussian(noise), neighbours))
    return replace(known, steps=(group_step(size, neighbours), correlated.step, *known.steps))


def _fitted_to(
    event: ev.MatrixGaussian, neighbours: Neighbours, delta: float
) -> DominatedMechanism:
    if is_extreme(event):
        pairs(correlated_noise(event, neighbours).dominating, neighbours)  # says what is too much
    compared = bin_comparisons(event)
    scouted = partial(scouted_epsilon, reach=float(contribution(neighbours)), delta=delta)

    above = min(compared.above, key=scouted)
    mechanism = DominatedMechanism(
        tuple((pair, 1) for pair in _pairs_of(above, neighbours)),
        (),
        neighbours == "replace-one",  # whatever it is fitted to
        (_step(event, above, neighbours),),
    )
    if not compared.shifts:
        return mechanism
    # What is set to 0 with some probability is not known where a unit gives way to its opposite.
    below = [each for each in compared.below if each.share == 1.0 or neighbours != "replace-one"]
    attained = _attained_pairs(max(below, key=scouted), neighbours) if below else []
    along = _shifted_pair(compared.shifts, neighbours)
    if neighbours == "replace-one":
        along = strongest_pair([along, *_zeroed_pairs(compared, delta)], either_way=True)
    together = tuple((pair, 1) for pair in attained)
    return replace(mechanism, attained=tuple(each for each in (together, ((along, 1),)) if each))


def _zeroed_pairs(compared: BinComparisons, delta: float) -> list[Pair]:
    """Return pairs that a unit attains that is replaced by one which contributes zeros."""
    result = [_shifted_pair(compared.shifts, "zero-out")]
    alone = [each for each in compared.below if each.shared == 0.0]
    scouted = partial(scouted_epsilon, reach=1.0, delta=delta)
    return result + (_attained_pairs(max(alone, key=scouted), "zero-out") if alone else [])


def _pairs_of(compared: HiddenBins, neighbours: Neighbours) -> list[Pair]:
    """Return the pairs that are composed: where the bin hides, then what shows of every bin."""
    mechanism = compared.mechanism
    result = [] if mechanism is None else [single_pair(pairs(mechanism, neighbours))]
    if compared.shared > 0.0 or not result:
        result.append(single_pair(pairs(_gaussian(compared.shared), neighbours)))
    return result


def _attained_pairs(compared: HiddenBins, neighbours: Neighbours) -> list[Pair]:
    """Return the pairs that are attained together, at most one of each kind."""
    mechanism = compared.mechanism
    attained = None if mechanism is None else pairs(mechanism, neighbours).lower_pair
    if attained is not None and compared.share < 1.0:
        attained = _thinned(attained, compared.share)
    result = [] if attained is None else [attained]
    if compared.shared > 0.0:
        gaussian = pairs(_gaussian(compared.shared), neighbours).lower_pair
        assert gaussian is not None
        result.append(gaussian)
    return result


def _thinned(pair: Pair, share: float) -> Pair:
    """Return (1 - q) Q + q P against Q, on the outcomes of a pair."""
    atoms = pair.atoms
    assert atoms is not None
    assert pair.continuous is None
    log_p = np.logaddexp(math.log(share) + atoms.log_p, math.log1p(-share) + atoms.log_q)
    return Pair.of_outcomes(replace(atoms, log_p=log_p, rounding=2.0 * atoms.rounding + 1e-14))


def _shifted_pair(shifts: Sequence[float], neighbours: Neighbours) -> Pair:
    """Return the average of N(u, 1) against N(0, 1), or N(-u, 1), by the cells a value falls in."""
    noise = GaussianNoise(1.0)
    values, counts = np.unique(np.array(shifts), return_counts=True)
    reach = noise.radius(CELL_TAIL_MASS)
    replaced = neighbours == "replace-one"
    low = -reach - (float(values[-1]) if replaced else 0.0)
    edges = np.linspace(low, float(values[-1]) + reach, CELLS)
    ends = np.concatenate(([-math.inf], edges, [math.inf]))
    log_p, log_q = (
        np.logaddexp.reduce(
            [
                noise.log_interval_masses(ends - sign * value) + math.log(count / len(shifts))
                for value, count in zip(values.tolist(), counts.tolist(), strict=True)
            ]
        )
        for sign in (1.0, -1.0 if replaced else 0.0)
    )
    error = 1e-12 + 8.0 * noise.mass_error(reach + 2.0 * float(values[-1]) + 1.0)
    return Pair.of_outcomes(AtomPair(log_p, log_q, has_heavy_atoms=False, rounding=error))


def _gaussian(shared: float) -> ev.Gaussian:
    return ev.Gaussian(1.0 / math.sqrt(shared))


def _step(event: ev.MatrixGaussian, compared: HiddenBins, neighbours: Neighbours) -> Step:
    assert isinstance(event.participation, ev.BallsInBins)
    bins = event.participation.bins
    shared = f"a Gaussian that moves by {math.sqrt(compared.shared):.6g} of the noise"
    if compared.bins == 1:
        statement = f"The bin, 1 of {bins:,}, is counted as known: {shared}."
    else:
        moved = f", with {shared}" if compared.shared > 0.0 else ""
        statement = (
            f"1 of {bins:,} bins, looked at {compared.bins:,} at a time: random allocation of a "
            f"Gaussian that moves by {math.sqrt(compared.hidden):.6g} of the noise{moved}."
        )
    return Step(
        "sampling",
        statement,
        SOURCE,
        (
            HIDDEN_BIN if compared.bins > 1 else _KNOWN_BIN,
            "contributions are at most 1 bound, vectors of any sign, and may depend on the noised "
            "values that hold earlier rounds only",
            f"neighbours: {neighbours}",
        ),
    )
