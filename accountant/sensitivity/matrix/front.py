"""`sensitivity`: by how much one unit moves C x, asked for by itself."""

from __future__ import annotations

from dataclasses import replace

from ... import events as ev
from ...decoding import named_keywords
from ...errors import InvalidInput, kind_of, with_article
from ...guarantee import Bounds
from ...neighbours import as_neighbours
from .bounds import MatrixSensitivity, sensitivity_bounds


@named_keywords
def sensitivity(
    strategy: ev.Strategy, participation: ev.Participation, *, neighbours: str = "add-remove"
) -> MatrixSensitivity:
    """Return bounds on how far one unit moves C x in L2, in bounds on one contribution.

        max sqrt(sum_{i, j in pattern} (C^T C)_ij <d_i, d_j>)

    over patterns and vectors |d_i| <= 1, and twice that under `replace-one`.  The noise multiplier
    of a Gaussian release that tells as much as the whole run is that of `matrix-gaussian` over it.
    Of balls in bins it is that of a bin that is known.  `neighbours` is `add-remove`, `replace-one`
    or `zero-out` of one unit.

    Raises `InvalidInput` for a singular strategy and a participation that does not fit it,
    `Unsupported` for matrices that are too large.
    Source: Choquette-Choo et al. 2023, Section 2, arXiv 2211.06530, and equation 5 of arXiv
    2306.08153; see `sensitivity_bounds`.

    >>> moved = sensitivity(ev.ToeplitzStrategy(3, [1.0, 0.5]), ev.SingleParticipation())
    >>> round(moved.bounds.upper, 6), moved.exact
    (1.118034, True)
    """
    relation = as_neighbours(neighbours)
    for name, given, kind in (
        ("strategy", strategy, ev.Strategy),
        ("participation", participation, ev.Participation),
    ):
        if not isinstance(given, kind):
            raise InvalidInput(
                f"`{name}` must be {with_article(name)}; it is {kind_of(given)}.",
                "How far a unit moves a sum depends on both.",
                "Ask as in sensitivity(ToeplitzStrategy(10, [1.0, 0.5]), SingleParticipation()).",
            )
    moved = sensitivity_bounds(strategy, participation)
    if relation != "replace-one":
        return moved
    return replace(moved, bounds=Bounds(2.0 * moved.bounds.lower, 2.0 * moved.bounds.upper))
