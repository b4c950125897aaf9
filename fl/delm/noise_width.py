"""How wide the noise of coefficients is: for the printed sensitivity, or the proven one.

    scale = Delta / epsilon2, on every number that a client releases, in every round anew

| sensitivity | Delta |
|---|---|
| `printed` | logistic d + d^2 / 4, all others 2 d + c d^2: d features, c classes |
| `proven` | the L1 norm by which one record moves G and S (`accountant.sensitivity.gram`) |

A run and an audit read it from the same public facts.  For the printed Delta the event is that of
the noise which is drawn, against how far a record truly moves; nothing printed enters it.

Source: Cao et al. 2023, DELM, section 4, as printed (`functional.delta_as_published`).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from ...accountant import events as ev
from ...accountant.mechanisms import Laplace
from ...accountant.neighbours import as_neighbours
from ...accountant.sensitivity.functional import delta_as_published
from ...accountant.sensitivity.release import multiplier, sensitivity_multiplier, up
from ..statistics.run_terms import RunTerms
from .settings import LOGISTIC, PROVEN


def printed_scale(model: str, features: int, classes: int, epsilon: float) -> float:
    """Return Delta / epsilon2 with the printed Delta, for `features` d and `classes` c.

    >>> printed_scale("softmax", 64, 10, 2.0)
    20544.0
    """
    objective = "logistic" if model == LOGISTIC else "softmax"
    return up(Fraction(delta_as_published(objective, features, classes)) / Fraction(epsilon))


def multiplier_of(terms: RunTerms, model: str, sensitivity: str, epsilon: float) -> float:
    """Return the noise multiplier of coefficients of a linear model, for epsilon2."""
    relation = as_neighbours(terms.relation)
    if sensitivity == PROVEN:
        return up(sensitivity_multiplier(relation) / Fraction(epsilon))
    scale = printed_scale(model, terms.features, terms.classes, epsilon)
    return multiplier(scale, terms.gram.l1(relation), relation)


def printed_mechanism(
    model: str, *, features: int, classes: int, parameters: int, epsilon: float
) -> Laplace:
    """Return the noise of each client's message where coefficients depend on the weights.

    The bound is the printed Delta, stated as private: nothing shows that it holds of any record.
    """
    objective = "logistic" if model == LOGISTIC else "softmax"
    return Laplace(
        bound=delta_as_published(objective, features, classes),
        scale=printed_scale(model, features, classes, epsilon),
        dimensions=parameters,
        unit="record",
        source="private",
    )


PRINTED_EVENT: Final = ev.NoGuarantee(
    "DELM as published: the coefficients of this model's objective depend on its weights, and the "
    "noise is made for a sensitivity that is derived for others"
)

UNSPECIFIED_EVENT: Final = ev.NoGuarantee(
    "DELM as published: nothing says what the coefficients of a convolution are, nor how far one "
    "record moves them"
)

_DENSE: Final = ("mlp", "mlp-64")
"""Models of dense layers alone."""


def printed_event(model: str) -> ev.NoGuarantee:
    """Return what a round of a model states: that there is no guarantee, and why."""
    return PRINTED_EVENT if model in _DENSE else UNSPECIFIED_EVENT
