"""Combined pairs: joined at loss 0, mixed with a visible component, scaled to measures."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...arrays import FloatArray
from .atoms import AtomPair
from .continuous import PiecewisePart, ScaledPart, WeightedParts
from .pair import Pair

_ERROR_TAIL = 1e-30
"""Tail at which errors of masses near loss 0 are read off."""


def two_sided(negative: Pair, positive: Pair) -> Pair:
    """Return the pair whose hockey stick is that of `positive` at orders 1 and above, and that of
    `negative` below 1.

    The two must agree at order 1 and meet there in a convex way.  With h(1) the common total
    variation, the P mass at positive losses is P+(loss > 0), at negative losses P-(loss < 0), and
    the rest of the P mass, which equals the rest of the Q mass, has loss 0.
    """
    outcomes = np.concatenate((_outcomes(negative, -1.0), _outcomes(positive, 1.0)), axis=1)
    # P mass of the atoms, then of the continuous parts on both sides of loss 0.
    masses = float(np.exp(outcomes[0]).sum())
    continuous = None
    error = max(negative.mass_error(_ERROR_TAIL), positive.mass_error(_ERROR_TAIL))
    if positive.continuous is not None and negative.continuous is not None:
        continuous = PiecewisePart(negative.continuous, positive.continuous)
        masses += float(np.exp(continuous.negative.log_masses(np.zeros(1))[0][0]))
        masses += float(np.exp(continuous.positive.log_masses(np.zeros(1))[0][-1]))
    # Too much mass at loss 0 keeps an upper bound one.
    # What is missing to mass 1 has loss 0.
    rest = max(1.0 - masses, 0.0) + (2.0 + masses) * error
    middle = np.full((2, 1), math.log(min(rest, 1.0)))
    log_p, log_q = np.concatenate((outcomes, middle), axis=1)
    atoms = AtomPair(
        log_p,
        log_q,
        max(negative.omitted_mass, positive.omitted_mass),
        rounding=max(_rounding(negative), _rounding(positive)),
    )
    return Pair(continuous, atoms, (0.0,))


def _outcomes(pair: Pair, sign: float) -> FloatArray:
    """Return log P and log Q, as rows, of the outcomes whose loss has this sign."""
    if pair.atoms is None:
        return np.empty((2, 0))
    log_p, log_q = pair.atoms.log_p, pair.atoms.log_q
    has_sign = log_p > log_q if sign > 0.0 else log_p < log_q
    return np.stack((log_p[has_sign], log_q[has_sign]))


def _rounding(pair: Pair) -> float:
    return pair.atoms.rounding if pair.atoms is not None else 0.0


def mixture_of_pairs(weighted: Sequence[tuple[float, Pair]]) -> Pair:
    """Return the mixture of pairs whose component is visible.

    `weighted` holds probabilities and pairs.  Its hockey stick is the weighted sum of
    theirs; probabilities that add up to more than 1 give an upper bound.
    """
    pairs = [pair for weight, pair in weighted if weight > 0.0]
    logs = [math.log(weight) for weight, _ in weighted if weight > 0.0]
    continuous = [
        (log, pair.continuous)
        for log, pair in zip(logs, pairs, strict=True)
        if pair.continuous is not None
    ]
    atoms = [
        (log, pair.atoms) for log, pair in zip(logs, pairs, strict=True) if pair.atoms is not None
    ]
    # Parts that all end at one point keep it; otherwise every part's atoms should lie on the
    # grid.
    ends = [pair.support_end for pair in pairs if pair.support_end is not None]
    blend = WeightedParts(
        tuple(log for log, _ in continuous), tuple(part for _, part in continuous)
    )
    outcomes = None
    if atoms:
        outcomes = AtomPair(
            np.concatenate([log + part.log_p for log, part in atoms]),
            np.concatenate([log + part.log_q for log, part in atoms]),
            sum(math.exp(log) * part.omitted_mass for log, part in atoms),
            rounding=max(part.rounding for _, part in atoms),
        )
    end = min(ends) if len(ends) == len(pairs) else None
    grid_atoms = (
        tuple(atom for pair in pairs for atom in pair.grid_atoms) if end is None else end[:1]
    )
    return Pair(blend if continuous else None, outcomes, grid_atoms, end)


def scaled_measures(pair: Pair, p_weight: float, q_weight: float, error: float) -> Pair:
    """Return the measures `p_weight` P and `q_weight` Q of a pair, as one part of a choice.

    `error` bounds the relative errors of both weights, and of the weights inside the pair.  The
    hockey stick of a sum of measures is at most the sum of theirs.
    """
    log_p, log_q = math.log(p_weight), math.log(q_weight)
    offset = log_p - log_q
    atoms = None
    if pair.atoms is not None:
        atoms = AtomPair(
            pair.atoms.log_p + log_p,
            pair.atoms.log_q + log_q,
            pair.atoms.omitted_mass * max(p_weight, q_weight),
            pair.atoms.has_heavy_atoms,
            # The losses are off by both weights.
            pair.atoms.rounding + 2.0 * error,
        )
    return Pair(
        ScaledPart(pair.continuous, log_p, log_q, error) if pair.continuous is not None else None,
        atoms,
        tuple(atom + offset for atom in pair.grid_atoms),
        (pair.support_end[0] + offset, pair.support_end[1])
        if pair.support_end is not None
        else None,
    )
