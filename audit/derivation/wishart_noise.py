"""Wishart noise on a matrix: why no facts support a guarantee, and the exact delta as published.

    a share     A + Z Z^T,   Z: d x k independent N(0, c),   c = `share_std`^2, k = `freedom`

Z Z^T has no negative eigenvalue.  So who knows all of A but a row x, and subtracts it with x x^T,
is left with a negative eigenvalue only if x is not in A.  At k = d + 1, as it is published, that
happens with probability 1 - e^{-|x|^2 / 2c}: the delta of one share at every epsilon, for a row
that comes or goes, and at least that of one that is replaced (`accountant.sensitivity.wishart`,
whose exact functions are too heavy for checking a log).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...accountant.records import Contribution, Noise, RoundIntent
from .run_setting import NoProof


def is_wishart(noise: Noise) -> bool:
    """Return whether the noise is stated to be of Wishart matrices."""
    return noise.family == "wishart"


def wishart_reason() -> str:
    """Return why a matrix with such noise has no guarantee, before whoever sees it."""
    return (
        "Wishart noise has no negative eigenvalue, so a matrix that lacks a record may show for "
        "certain that it does"
    )


def require_accounted(noise: Noise) -> None:
    """Raise `NoProof` for Wishart noise: no formula for other noise may be used of it."""
    if is_wishart(noise):
        raise NoProof(wishart_reason())


def published_delta(contribution: Contribution, noise: Noise) -> float | None:
    """Return the exact delta of one share at every epsilon, for the longest row that comes or goes.

    None where that has no such form: for other degrees of freedom than d + 1, and without facts.
    """
    gram = contribution.gram
    if gram is None or noise.freedom != gram.dimension + 1 or not noise.share_std > 0.0:
        return None
    square = gram.trace / gram.rows
    return -math.expm1(-square / (2.0 * noise.share_std**2))


def unusable_wishart(intent: RoundIntent) -> Iterator[str]:
    """Yield which facts of Wishart noise cannot be, or stand where there is none."""
    noise = intent.noise
    if not is_wishart(noise):
        if noise.freedom is not None:
            yield f"`freedom` says nothing of {noise.family} noise, and stands there"
        return
    if intent.contribution.terms != "gram":
        kind = intent.contribution.terms
        yield f"Wishart noise is added to matrices, and terms are of kind `{kind}`"
    if not noise.freedom:
        yield "the degrees of freedom of Wishart noise are not stated"
    if noise.std != noise.share_std:
        yield "`noise.std` of Wishart noise is that of a share, and the two differ"
