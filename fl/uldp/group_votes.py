"""How users who are held out vote in ULDP-GROUP-k: by up to k records each, in any silos.

    silo s sends   sum of (v_r, 1 - v_r) / k over its flagged records + N(0, sigma^2 / |S|)

v_r says whether record r is answered right.  The flags are those of the training, made anew for who
is held out: at most k records of a user over all silos, so that a user's vote has norm 1 at most,
and that of one record 1 / k.  The plan is one of records, of which a group of k is protected, so an
event is that of a record: k sigma for who sees the sum.  The k records of a group move the vectors
of all silos together by no more than if they lay in one (`fl.aggregation.unweighted_views`).

A silo that holds some of a user's records is stated to see twice as far a move, which is more than
it sees: no audit can tell by a log that what the others cast was not weighted by what it holds.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ...accountant import events as ev
from ...accountant.arrays import BoolArray
from ...accountant.sensitivity.release import down
from ..aggregation.unweighted_views import unweighted_views
from ..data.held_out import HeldOutRows
from ..frame.held_out_votes import record_votes_sum, votes_of_records
from ..observers.names import SILO_WITH_RECORDS
from .record_flags import FLAGS_CHOSEN_BY, records_taking_part

if TYPE_CHECKING:
    from ..frame.held_out_release import HeldOutRelease
    from ..frame.setup import Setup


def votes_of_group(setup: Setup, votes: HeldOutRelease, seed: int) -> HeldOutRelease:
    """Return the release of votes of records, of which each user has at most k.

    `seed` is the public seed of the flags.
    """
    most, security = setup.privacy.group, setup.security
    mechanism = record_votes_sum(
        votes.noise_multiplier, silos=setup.silos, most=most, dropouts=security.dropouts
    )

    def views(moved: int) -> dict[str, ev.Event]:
        return unweighted_views(
            down(Fraction(mechanism.std) / Fraction(mechanism.bound) / moved),
            family="gaussian",
            unit="user",
            silos=setup.silos,
            aggregation=security.aggregation,
            dropouts=security.dropouts,
            coalitions=setup.coalitions,
            colluders=security.colluders,
        )

    events = views(1)
    if SILO_WITH_RECORDS in events:
        events[SILO_WITH_RECORDS] = views(2)[SILO_WITH_RECORDS]

    def voting(held: HeldOutRows) -> BoolArray:
        return records_taking_part(held, most, seed)

    cast = votes_of_records(most, voting)
    return votes.of_votes(mechanism, events, cast, chosen_by=FLAGS_CHOSEN_BY)
