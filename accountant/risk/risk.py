"""What an attacker of a release can do at best, each answer between two ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .. import events as ev
from ..guarantee import Bounds, Neighbours, Step


@dataclass(frozen=True)
class Risk:
    """What the best attack on a release reaches, each number between two ends.

    `advantage` is the largest TPR - FPR of a test; `tpr` the largest true positive rate at false
    positive rate `fpr`; `bayes_risk` the least probability of error where a member is drawn with
    probability `prior` (its lower end is the guarantee); `reconstruction` the largest probability
    to name the right one of `guesses` equally likely candidates; `mu` the least mu of a Gaussian
    that dominates at every FPR from `from_fpr` on, and `mu_everywhere` at every FPR.  `assumes`
    says of each, in a sentence, what the attacker knows.
    """

    advantage: Bounds
    fpr: float
    tpr: Bounds
    prior: float
    bayes_risk: Bounds
    guesses: int
    reconstruction: Bounds
    from_fpr: float
    mu: Bounds
    mu_everywhere: Bounds
    assumes: Mapping[str, str] = field(repr=False)
    neighbours: Neighbours
    derivation: tuple[Step, ...] = field(default=(), repr=False)
    warnings: tuple[str, ...] = field(default=(), repr=False)


def risk(
    event: ev.EventLike,
    *,
    fpr: float = 0.01,
    prior: float = 0.5,
    guesses: int = 10,
    from_fpr: float = 1e-5,
    neighbours: str = "add-remove",
) -> Risk:
    """Return what the best attack on a release reaches, each number between two ends."""
    raise NotImplementedError
