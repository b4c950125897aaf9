"""Canaries for DISCO's peers: peers, or records of them, whose clipped rows are +C or -C.

Who takes part is public, so a unit is exchanged.  One that is in pulls along a direction of its own
and one that is out the other way; all signs alternate by round.  With z the noise multiplier that
is claimed before the observer, what it sees in that direction is, in units of the noise z C,

    x_t  ~  N(+-1 / z, 1)        whatever the clip C of the round is

A row is ten clips long, of whatever round: a clip that is missing shows, and one that moves never
leaves the canary behind.  Where tensors are clipped apart it has an equal part in each of two.

| observer | what is looked at | where canaries lie |
|---|---|---|
| model; coordinator | the sum of all peers | every peer |
| peer, shared noise | the sum less what it and its colluders sent | all but these |
| peer, local noise | each message, as if all others told it | all but the peer |
| coordinator, in the clear | each message | every peer |

**How many.**  A peer's update is clipped as one, so a run has one canary in each peer; of records
there are some hundreds.  There are as many runs as it takes, each with a gate, an odometer and
noise of its own; the plan is certified once.

**A quantile as the clip** is a second release in a round, of one number to which all peers add.
There is one canary in a run, which moves both: in one direction its update is ten clips long, in
the other just as long as the clip, and so counted among the unclipped.  What count and update show
of it is rotated into two numbers that it moves alike (`looks`): their sum is all that it shows
where the noise is right, and where that of the count is not, one of them by itself shows more.

**Sums.**  Peers send integers with their noise in them, whose sum is the same by whatever protocol.
A protocol costs a key agreement for each pair of peers: it carries the sums of the first runs, as
many as fit into half a minute and one at least; those of all others are added in the clear.

**What is not found.**  That an observer gets more than is claimed: what reaches whom stands in the
log, and is judged there.  Little noise of one peer that hides among that of others, and a clip that
follows the data together with its noise: the residual tier looks at every share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...accountant.errors import Unsupported
from ..canaries import CanaryObservations, RehearsalRequest, flip_coins, refuse_real_users
from .canary_runs import OBSERVERS, PAIR_WORK, CanaryRuns, carried_runs, room_of
from .settings import FIXED, QUANTILE, DiscoSettings

if TYPE_CHECKING:
    from ..settings.schema import Settings

_SUM_WORK: Final = 4_000
_SHARE_WORK: Final = 800
_TABLE_WORK: Final = 30_000
"""What a sum costs besides its protocol and its rows, in steps of half a microsecond: as such, for
each share of noise, and where the clip moves, for the tables that noise of another width needs."""


def simulate(request: RehearsalRequest) -> CanaryObservations:
    """Return what an observer sees of peers, or of records, that pull one way or the other.

    Raises `Unsupported` for noise as published, which claims nothing that canaries could test, and
    for other observers; `InvalidInput` for one that the plan does not know, and where real users
    are to be with the canaries.
    """
    refuse_real_users(request, "Their updates would take the place of canaries.")
    if request.settings.as_published:
        raise Unsupported(
            "DISCO's noise as published is not rehearsed with canaries.",
            "Its width follows from norms of private updates, and it promises nothing.",
            "See `privplan audit demo` for what its radius and its shares give away.",
        )
    runs = CanaryRuns(request, flip_coins(request.canaries, request.rng()))
    return CanaryObservations(
        coins=runs.coins.into,
        observations=runs.seen(),
        shift=runs.shift,
        rate=1.0,
        plan=runs.system.plan(),
        opening=runs.system.opening(),
        rounds=runs.rounds,
        looks=len(runs.noise),
        groups=runs.places if runs.apart else None,
        rehearsable=OBSERVERS,
        note=runs.notes(),
    )


def work(settings: Settings, silos: int, canaries: int) -> int:
    """Return the work of a round of all runs: gate, rows, and the protocol of some of them."""
    table = settings.of(DiscoSettings)
    # The observer is not known here: a peer and its colluders, where they watch, hold no canary.
    room = room_of(settings, max(1, silos - 1 - settings.security.colluders))
    runs = -(-canaries // room)
    rows = room**2 if settings.privacy.unit == "record" else room * silos
    each = _SUM_WORK + _SHARE_WORK * silos + rows
    if table.clip != FIXED:
        each += _TABLE_WORK
    protocol = 0
    if settings.security.aggregation != "plain":
        carried = carried_runs(settings, silos, settings.run.rounds, runs)
        protocol = carried * PAIR_WORK * silos**2
    return (2 if table.clip == QUANTILE else 1) * (runs * each + protocol)
