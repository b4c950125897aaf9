"""Canaries for FLAME's users: updates of +C or -C in every coordinate that they send.

Who takes part is seen, so a unit is exchanged.  One that is in pulls its coordinates along signs of
its own, and one that is out the other way; all signs turn round by round.  An update is ten clips
long in each coordinate: a clip that is missing shows.  All other users' updates are 0, and dummies
lie around 0: there is no quieter round with Laplace noise.

| observer | what is looked at, along the signs of a canary | against the claim |
|---|---|---|
| analyzer | all messages of each coordinate, one by one | the best of all sums over messages |
| model | the sum of each coordinate | loses up to sqrt 2 of the shift |
| client | the sum, less what it sent itself | likewise |
| shuffler, colluding; tuples | each message with its sender | the likelihood ratio itself |
| shuffler that sees sums | these less its dummies, in coordinates that were sent | as the model |

`canary_scores` says what is counted of a message, and `canary_patterns` where canaries lie.

**How many.**  Where each has coordinates of its own (`topk`), a run has as many as there is room
for; where all lie over all coordinates, an eighth of the users or of the coordinates; where each
message is seen with its sender, all users.  There are as many runs as it takes, each with a gate,
an odometer and noise of its own; the plan is certified once.

**What the tests assume.**  That a unit that is in is told from one that is out no better than is
claimed, which is so for any score, and the tests of the audit compare ranks alone: what is seen
need not be Gaussian, and with few messages it is not.  The tier `claim` also takes canaries to be
independent.  They are, but for those of one run that lie across one another: their scores hang
together by 1 / d, in squares, of which the coins take away the sign.

**Transport.**  Both transports give the same messages.  Ciphertexts carry the messages of the first
runs, as many as fit into half a minute and none where one run takes longer.

**What is not found.**  An order of messages that is not mixed: no sum shows it, and what reaches
whom stands in the log.  A round that is given up because too many users sent a coordinate ends the
rehearsal.

**Which coordinates are sent.**  Under `double` a canary's update is longest in k coordinates.  What
these show, and what the others do, is rotated into two numbers that it moves alike (`looks`): their
sum is all that it shows where coordinates are drawn.  Where the largest are sent, another weight
shows more, which may still be within the claim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..canaries import (
    CanaryObservations,
    RehearsalRequest,
    flip_coins,
    model_size,
    refuse_real_users,
)
from .canary_runs import OBSERVERS, CanaryRuns
from .settings import FlameSettings

if TYPE_CHECKING:
    from ..settings.schema import Settings

_RUN_WORK: Final = 8_000
"""What a round of a run costs besides its messages, in steps of half a microsecond."""

_MESSAGE_WORK: Final = 3
"""What a message costs, in such steps."""


def simulate(request: RehearsalRequest) -> CanaryObservations:
    """Return what an observer sees of users that pull one way or the other.

    Raises `Unsupported` where nothing is claimed before the observer, `InvalidInput` for one that
    the plan does not know and where real users are to be with the canaries, and `ProtocolFault`
    for a round that is given up.
    """
    refuse_real_users(request, "Their updates would take the place of canaries.")
    rng = request.rng()
    runs = CanaryRuns(request, flip_coins(request.canaries, rng), rng)
    return CanaryObservations(
        coins=runs.coins.into,
        observations=runs.seen(),
        shift=runs.view.shift,
        rate=1.0,
        plan=runs.system.plan(),
        opening=runs.system.opening(),
        rounds=runs.rounds,
        looks=runs.view.looks,
        rehearsable=OBSERVERS,
        note=runs.notes(),
    )


def work(settings: Settings, silos: int, canaries: int) -> int:  # noqa: ARG001
    """Return the work of a round of all runs, as far as settings tell: every message of each.

    The observer is not known here: it is as for who sees all that is mixed.
    """
    table, users, dimensions = settings.of(FlameSettings), settings.data.users, model_size(settings)
    sent = dimensions if table.chosen is None else table.chosen + table.decoys
    messages = max(users * sent, dimensions * (table.padded_to or 0))
    room = max(1, min(users // 8, dimensions // 8))
    return -(-canaries // room) * (_RUN_WORK + _MESSAGE_WORK * messages)
