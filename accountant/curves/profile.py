"""`privacy_profile`: delta as a function of epsilon, of any sign.

With E_t(P||Q) = sup over events S of P(S) - t Q(S), the profile is

    delta(epsilon) = sup E_{e^epsilon}(P||Q)

over the outputs (P, Q) of neighbouring data sets, in both directions.  It falls, and it is convex
in e^epsilon.

**Below 0.**  The complement of S turns one direction into the other: for every pair

    E_{e^-epsilon}(P||Q) = 1 - e^-epsilon + e^-epsilon E_{e^epsilon}(Q||P),

since P(S) - e^-epsilon Q(S) = 1 - e^-epsilon + e^-epsilon (Q(S^c) - e^epsilon P(S^c)).  The right
side grows with its last term, and the supremum is over both directions, so

    delta(-epsilon) = 1 - e^-epsilon + e^-epsilon delta(epsilon),

whether or not the two directions are alike; a bound on the one is a bound on the other.  A single
direction at a negative epsilon would be another number: it is the opposite direction above 0.

Source: the complement is derived here; Zhu, Dong and Wang 2022, Definition 7, arXiv 2106.08567v4
(dominating pairs at every order), and Balle, Barthe and Gaboardi 2018, arXiv 1807.01647v2 (the
profile).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from .. import events as ev
from .. import validate
from ..account import OF_CLASS, account, bounds_on_delta, bounds_on_deltas
from ..arrays import FloatArray
from ..errors import InvalidInput
from ..guarantee import Bounds, Step
from ..neighbours import Neighbours, as_neighbours

_SIGNED_DELTA_ROUNDING: Final = 4e-16
"""Relative error of an exponential, a product and a sum."""

SINGLE_QUESTIONS: Final = 8
"""With fewer epsilons than this each is a question by itself."""


@dataclass(frozen=True, eq=False)
class PrivacyProfile:
    """Bounds on delta at each epsilon: float64 arrays of one length, delta in [0, 1].

    The upper end is a guarantee at its epsilon.  `derivation` and `warnings` are those of the
    epsilon nearest to 0.
    """

    epsilons: FloatArray
    lower: FloatArray
    upper: FloatArray
    neighbours: Neighbours
    derivation: tuple[Step, ...] = field(default=(), repr=False)
    warnings: tuple[str, ...] = field(default=(), repr=False)

    @property
    def deltas(self) -> tuple[Bounds, ...]:
        """The bounds at each epsilon."""
        return tuple(map(Bounds, self.lower.tolist(), self.upper.tolist()))


def privacy_profile(
    event: ev.EventLike, epsilons: Iterable[float], *, neighbours: str = "add-remove"
) -> PrivacyProfile:
    """Return bounds on delta at each of `epsilons`, in nats and of any sign, in any sequence.

    At every epsilon it is the larger of both directions.  Below 0 it is
    delta(-e) = 1 - e^-e + e^-e delta(e), which holds of that maximum for every event.
    `neighbours` is `add-remove`, `replace-one` or `zero-out` of one record.

    Raises `InvalidInput` for values out of range, and as `account` does.
    Source: derived in accountant/curves/profile.py.

    >>> profile = privacy_profile(ev.Gaussian(1.0), [-1.0, 0.0, 1.0])
    >>> profile.upper.round(4).tolist()
    [0.6788, 0.3829, 0.1269]
    """
    relation = as_neighbours(neighbours)
    known = ev.known_event(event)
    at = np.array(validate.listed(epsilons=epsilons))
    for index in np.flatnonzero(~np.isfinite(at))[:1].tolist():
        raise InvalidInput(
            f"`epsilons[{index}]` must be a finite number; it is {at[index]:g}.",
            next_step="Give finite epsilons, of any sign.",
        )
    # One question for each distance from 0, whatever its sign.
    sizes, where = np.unique(np.abs(at), return_inverse=True)
    first = account(known, epsilon=float(sizes[0]), neighbours=relation)
    others: list[float] = sizes[1:].tolist()
    # A few are asked one by one, and say what `account` does to the last digit.
    if len(others) < SINGLE_QUESTIONS:
        rest = [bounds_on_delta(known, epsilon=each, neighbours=relation) for each in others]
    else:
        rest = bounds_on_deltas(known, others, neighbours=relation)
    nearest = first.delta
    if first.lower_of_class:
        # The bounds are those of every mechanism of a class, at every epsilon.
        nearest = bounds_on_delta(known, epsilon=float(sizes[0]), neighbours=relation)
    answers = [nearest, *rest]
    # Delta never rises with epsilon: each bound holds on its side of the others.
    upper = np.minimum.accumulate([bounds.upper for bounds in answers])
    lower = np.maximum.accumulate([bounds.lower for bounds in answers][::-1])[::-1]
    return PrivacyProfile(
        at,
        _signed(at, lower[where], 1.0 - _SIGNED_DELTA_ROUNDING),
        _signed(at, upper[where], 1.0 + _SIGNED_DELTA_ROUNDING),
        relation,
        (*(step for step in first.derivation if step != OF_CLASS), *_mirror_step(at)),
        first.warnings,
    )


def _signed(epsilons: FloatArray, deltas: FloatArray, outward: float) -> FloatArray:
    """Return the bounds at `epsilons` from those at their absolute values."""
    sizes = np.abs(epsilons)
    mirrored = -np.expm1(-sizes) + np.exp(-sizes) * deltas
    # Both terms are positive: each rounds by a few units.
    rounded = np.minimum(mirrored * outward**4, 1.0)
    return np.asarray(np.where(epsilons < 0.0, rounded, deltas))


def _mirror_step(epsilons: FloatArray) -> tuple[Step, ...]:
    if not (epsilons < 0.0).any():
        return ()
    return (
        Step(
            "conversion",
            "Below 0: delta(-e) = 1 - e^-e + e^-e delta(e), of the larger of both directions.",
            "derived in accountant/curves/profile.py",
            ("neighbouring data sets are neighbours either way",),
        ),
    )
