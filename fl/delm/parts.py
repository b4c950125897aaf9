"""The parts of DELM's epsilon, and the number that the text makes of them.

    claimed    max(epsilon1 + epsilon2 / m, epsilon3 / m)        m layers

epsilon1 is the PCA's, epsilon2 that of the coefficients in one round, epsilon3 the selection's.  A
piece that a run does not have counts 0.  From a claimed epsilon alone parts follow by the ratio
r = epsilon2 / epsilon1, such that both sides of the maximum are the claim: .6, 1.2 and 3 of 1.0 at
r = 2 and m = 3.

Source: Cao et al. 2023, *Differentially Private Federated Learning with Functional Mechanism*
(DELM), equation 25.  What holds of the number: `accountant.claims.delm`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from ...accountant import validate
from ...accountant.claims.delm import published_total
from ...accountant.errors import InvalidInput
from .settings import DelmSettings, parts_complaint

_SAME: Final = 1e-9
"""Relative difference of two claims that rounding explains."""


@dataclass(frozen=True)
class Parts:
    """epsilon1, epsilon2 and epsilon3; 0 for a piece that a run does not have.

    >>> round(Parts(0.6, 1.2, 3.0).claimed(3), 12)
    1.0
    """

    pca: float
    training: float
    selection: float

    def claimed(self, layers: int) -> float:
        """Return the epsilon that the text claims for these parts, of m `layers`."""
        return published_total(self.pca, self.training, self.selection, layers)


def given_parts(table: DelmSettings, *, chooses: bool) -> Parts | None:
    """Return the parts that a table names; None where it names none.

    Raises `InvalidInput` where one is missing, or is of a piece that the run does not have.
    """
    unfit = parts_complaint(table, chooses=chooses)
    if unfit is not None:
        what, why, next_step = unfit
        raise InvalidInput(f"The scheme {what}.", why, next_step)
    values = (table.pca_epsilon, table.training_epsilon, table.selection_epsilon)
    if all(value is None for value in values):
        return None
    return Parts(*(value or 0.0 for value in values))


def parts_by_ratio(
    epsilon: float, ratio: float, layers: int, *, has_pca: bool, has_choice: bool
) -> Parts:
    """Return the parts for which the text claims `epsilon`, of `layers` m.

    Range: all above 0.  Raises `InvalidInput`.

    >>> parts = parts_by_ratio(1.0, 2.0, 3, has_pca=True, has_choice=True)
    >>> [round(part, 12) for part in (parts.pca, parts.training, parts.selection)]
    [0.6, 1.2, 3.0]
    """
    whole, share = validate.positive(epsilon=epsilon), validate.positive(ratio=ratio)
    m = validate.count(layers=layers)
    pca = whole / (1.0 + share / m) if has_pca else 0.0
    training = share * pca if has_pca else m * whole
    return Parts(pca, training, m * whole if has_choice else 0.0)


def require_claim(parts: Parts, epsilon: float, layers: int) -> None:
    """Raise `InvalidInput` where the text claims another epsilon for these parts than `epsilon`."""
    claimed = parts.claimed(layers)
    if math.isclose(claimed, epsilon, rel_tol=_SAME):
        return
    raise InvalidInput(
        f"[privacy] epsilon is {epsilon:g}, and the text claims {claimed:g} for the parts in "
        f"[delm]: max({parts.pca:g} + {parts.training:g}/{layers}, {parts.selection:g}/{layers}).",
        "A run as published claims what its parts come to by that formula, of m = "
        f"{layers} layers.",
        f"Write epsilon = {claimed:.12g}, or leave the parts out: they follow from epsilon.",
    )
