"""How seldom an attack accuses a run that keeps its promise: two levels for every test.

One call of `audit attack` contradicts a sound run with probability at most
`CALL_ERROR_PROBABILITY`, 1 in 1,000, which the tiers that can accuse share as `STRICT_LEVELS` says.
Membership has no share: it gives estimates, and an estimate contradicts nothing; asked for or not,
it takes nothing from the others. A tier that is taken alone keeps its share, so that three calls
for a tier each accuse as seldom as one call for all three.

Every test is made twice.  Rejected at its share, the run is contradicted; rejected at what is left
of alpha (1 - confidence) only, it is unusual: at most 1 sound run in 1 / alpha is.  Thresholds and
numbers of guesses are fixed for each level before the data are seen, by the level, the claim and a
part of the units that is not counted.  So either test alone is wrong with probability at most its
level, whatever the other one does: "contradicted" rests on the strict one alone.  Both are made on
the same canaries, and by the union bound anything at all is said of a sound run with probability
at most strict + rest = alpha.  For the same reason the larger of two lower bounds, one at either
level, is a lower bound with confidence 1 - alpha.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..accountant import validate

CALL_ERROR_PROBABILITY: Final = 0.001
"""How often one call contradicts a sound run, at most."""

STRICT_LEVELS: Final[Mapping[str, float]] = {"claim": 0.0004, "residual": 0.0004, "robust": 0.0002}
"""What each tier has of that."""


@dataclass(frozen=True)
class Levels:
    """At which probabilities a tier errs: `strict` to contradict, `rest` to call unusual."""

    strict: float
    rest: float


def levels_of(tier: str, alpha: float) -> Levels:
    """Return the levels of a tier, which sum to `alpha`.

    The strict one is the share of the tier, or half of `alpha` where that is less.  Range: `alpha`
    in (0, 1).

    >>> levels_of("claim", 0.0002)
    Levels(strict=0.0001, rest=0.0001)
    """
    strict = min(STRICT_LEVELS[tier], validate.open_probability(alpha=alpha) / 2.0)
    return Levels(strict, alpha - strict)


def one_in(probability: float) -> str:
    """Return a probability as people say it.

    >>> one_in(0.0004), one_in(0.05)
    ('1 in 2,500', '1 in 20')
    """
    return f"1 in {round(1.0 / probability):,}"


def unusual(alpha: float, tier: str) -> str:
    """Return what is said of a result that a tier rejects at `alpha` only.

    p-values of the residual tier reach the level, nearly; the others seldom do.

    >>> unusual(1.0 - 0.95, "claim")
    'unusual: at most one honest run in 20 looks like this'
    >>> unusual(1.0 - 0.95, "residual")
    'unusual: about one honest run in 20 looks like this'
    """
    often = "about" if tier == "residual" else "at most"
    return f"unusual: {often} one honest run in {round(1.0 / alpha):,} looks like this"
