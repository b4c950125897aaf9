"""Canaries for power iterations: rows that move every product as far as can be, or are not there.

    x_t = <Y_t - known, D_t> / (|D_t| sigma)        D_t = a (Z_t^T a)^T, what the canary a adds

The statistic of a canary is the sum of x_t over the rounds, the likelihood ratio of the claim.
Z_t is released before round t, so D_t is known before its noise is drawn: every x_t has noise of
variance 1 that is independent of earlier rounds and of other canaries (`canary_pairs`), and a mean
of at most the claim's shift.  No more is seen of a unit than that, so a sound run shows no more
than is claimed.

**The shape.**  r canaries lie in one run, along orthonormal directions in the span of the first Z;
there are as many runs as it takes.  A bound depends on neither d nor r, so runs are rehearsed with
as many directions as columns: then every row lies in the span of every Z, and attains its bound in
all rounds, by which the noise is tested hardest.  With fewer directions than columns a row would
leave the span after the first round, unless other rows keep it there.

Rows are ten row norms long, so that a clip that is missing shows, and a silo has twice its cap; the
rows of an entry are within the norm.  Every canary lies in one node.  Whoever sees the node's own
product (the server in the clear) looks there, and a silo looks at the sum less its own.

**What is not found.**  Canaries that are seen no better than claimed prove nothing about another
attack, about other rows, or about faults outside of the rehearsed code.  Noise that repeats in
all rounds is none of this statistic's business, as each round has a direction of its own: the tier
`residual` looks at noise itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ...accountant.errors import Unsupported
from ..canaries import (
    CanaryObservations,
    RehearsalRequest,
    flip_coins,
    mask_pairs,
    refuse_real_users,
)
from ..tables.record_shape import shape_in
from .canary_runs import ROWS_IN_CAPS, CanaryRuns
from .settings import FedPowerSettings

if TYPE_CHECKING:
    from ..settings.schema import Settings

REHEARSED_COLUMNS: Final = 64
"""Columns and directions of a rehearsal, unless the unit decides: canaries of one run."""

MAX_ENTRY_COLUMNS: Final = 1_024
"""Most columns of data whose entries are rehearsed."""

_ROUND_WORK: Final = 20_000
"""What a round costs beside its numbers and its masks, in steps of half a microsecond."""


def simulate(request: RehearsalRequest) -> CanaryObservations:
    """Return what an observer sees of units that are in or out, in runs of a square shape.

    Raises `Unsupported` for products that nodes do not sum in every step and for entries of data
    whose columns are not known, `InvalidInput` for an observer that the plan does not know, and
    where real users are to be beside the canaries.
    """
    side = _side(request.settings, request.silos)
    # Entries of such a basis are near 1; the bound does not depend on where they are cut off.
    table = replace(
        request.settings.of(FedPowerSettings), rank=side, oversampling=0, entry_clip=1.0
    )
    square = replace(request, settings=replace(request.settings, table=table))
    note = f"runs with {side} directions of {side} columns: a bound depends on neither"
    return _observed(square, side, note)


def work(settings: Settings, silos: int, canaries: int) -> int:
    """Return the work of one round of all runs: numbers in every silo, masks, and the gate."""
    side, unit = _side(settings, silos), settings.privacy.unit
    room = silos if unit == "silo" else side // 2
    rows = settings.of(FedPowerSettings).silo_rows or 1
    each = _ROUND_WORK + side * (side * silos + ROWS_IN_CAPS * rows)
    return -(-canaries // room) * (each + 1_000 * mask_pairs(settings, silos))


def _side(settings: Settings, silos: int) -> int:
    """Return how many columns and directions the runs of a rehearsal have; at least 2."""
    unit = settings.privacy.unit
    if unit == "silo":  # each lies in a silo of its own
        return 2 * silos
    if unit != "entry":
        return REHEARSED_COLUMNS
    # The grid adds to an entry's bound by the columns, so they stay those of the data.
    shape = shape_in(settings.data)
    if shape is None or shape[0] > MAX_ENTRY_COLUMNS:
        raise Unsupported(
            f"Entries of {settings.data.name} are not rehearsed with canaries.",
            "Their bound depends on the number of columns, which is not known here, or too large.",
            "Judge the noise by the tier residual.",
        )
    return shape[0]


def _observed(request: RehearsalRequest, columns: int, note: str) -> CanaryObservations:
    refuse_real_users(request, "Their rows would lie across those of the canaries.")
    if request.settings.as_published:
        raise Unsupported(
            f"{request.settings.run.system} as published is not rehearsed with canaries.",
            "Its noise follows from the shape of an iterate and from no bound on a unit, and "
            "promises nothing.",
            "See `privplan audit demo` for what a unit moves, and what noise that is known hides.",
        )
    if request.settings.of(FedPowerSettings).synchronise_every > 1:
        raise Unsupported(
            "Products that nodes make by themselves are not rehearsed with canaries.",
            "What a row adds to them depends on the iterates of its node, which nobody else sees.",
            "Judge the noise by the tier residual, or write synchronise_every = 1.",
        )
    rng = request.rng()
    runs = CanaryRuns(request, columns, flip_coins(request.canaries, rng), rng)
    seen = runs.seen()
    return CanaryObservations(
        coins=runs.coins.into,
        observations=seen,
        shift=runs.shift,
        rate=1.0,
        plan=runs.system.plan(),
        opening=runs.system.opening(),
        rounds=len(seen),
        groups=runs.groups,
        note=(note, f"{runs.room} units at most in each of many runs"),
    )
