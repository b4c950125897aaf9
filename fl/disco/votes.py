"""How those who are held out vote on DISCO's last model: by the unit of the run, in one sum more.

    peer i    x_i = its vote, or those of its records + N(0, s^2)       s = held_out_noise / sqrt(m)

A vote is clipped to 1 as an update is clipped to C, so noise, observers and the relation are those
of a round with C = 1 (`noise`): shared noise hides a vote in the sum, local noise by itself.  Where
the unit is a silo, its one vote is the share of right answers to its records that are held out; it
is trained on the others, and pays for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..frame.held_out_votes import VOTE_BOUND, votes_of_records, votes_of_silos
from ..observers.names import PEER
from .noise import NoiseTerms, mechanism_of, views_of
from .settings import LOCAL

if TYPE_CHECKING:
    from ...accountant.mechanisms import Gaussian
    from ..frame.held_out_release import HeldOutRelease


def votes_of_peers(votes: HeldOutRelease, terms: NoiseTerms) -> HeldOutRelease:
    """Return the release of votes of silos, or of records; all peers take part."""
    return votes.of_votes(
        votes_mechanism(terms, votes.noise_multiplier),
        views_of(terms, votes.noise_multiplier),
        votes_of_records(1, None) if terms.unit == "record" else votes_of_silos,
        sees_each=frozenset({PEER}) if terms.rule == LOCAL else frozenset(),
    )


def votes_mechanism(terms: NoiseTerms, noise_multiplier: float) -> Gaussian:
    """Return the noise of the votes of all peers, of whom every round has as many."""
    return mechanism_of(
        terms, noise_multiplier, bound=VOTE_BOUND, members=terms.smallest, source="public"
    )
