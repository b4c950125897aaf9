"""How users who are held out vote on FLAME's last model: every user sends two messages more.

    user u      (v_u, 1 - v_u) - 1/2  where it is held out and has a record, else  (0, 0) - 1/2,
                each number in [-1/2, 1/2] with noise of its own
    shuffler    mixes the n first messages, and the n second ones
    analyzer    two sums of n messages, and n / 2 added to each

v_u is the share of u's records that are answered right.  The randomizer is that of the training, so
the noise multiplier b is Laplace noise of scale b / 2, or a randomized response of epsilon 2 / b,
and n is the public list of users.  A replaced user moves both numbers by at most 1 = 2 C, so a
vote costs two messages that are mixed apart: nothing is taken off for v + (1 - v) = 1.  The
release is one round more, composed with those before it, on whichever side a user's records are.

**Everybody sends**, also who is trained on and who has no record.  The bound of a shuffle holds for
whatever the n - 1 others mean, as long as all of them send by the same randomizer; so it is that of
n users, at every choice of who is held out and who has records.

*More who send hide no less.*  Let m of n users send, and let whoever has the mix of m add n - m
messages of a fixed value by the randomizer, and mix all again.  That is the mix of n where the
others send this value, made from the mix of m alone: post-processing.  So every bound of the mix of
m holds for that of n; the other way round does not, and accounting for n where m send would be
below the truth.  Here n send.

*How many send tells nothing.*  Had only who is held out and has a record sent, the number of
messages would be that of these users, without any noise, and a user whose records go would
change it.  As it is, numbers and sizes of all messages are the same for every table.

**Colluders** tell what they sent, so n - c are left (`FlameTerms.mechanism`); a client knows its
own besides.  Where a user's messages stay together (`granularity = "tuple"`) each costs its local
noise.

The noise of a sum is that of n messages (`fl.frame.held_out_messages`), however few are held out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ...accountant.mechanisms import RoundDescription
from ...accountant.plan import PlannedPhase
from ..declarations.declaration import HELD_OUT
from ..frame.held_out_messages import VOTE_MIDDLE, VOTE_NUMBERS, deviation_of_messages
from ..frame.held_out_release import arrays_of_votes, phase_of_votes
from ..frame.model import Parameters, model_digest
from ..frame.phases import Phase, SaveArrays
from ..observers.names import MODEL
from ..shuffling import Shuffling, Terms
from .message_sums import randomised, sums_of_values
from .terms import FlameTerms, votes_terms

if TYPE_CHECKING:
    from ...accountant import events as ev
    from ...accountant.arrays import FloatArray, IntArray
    from ...accountant.mechanisms import Gate, LaplaceMessages, ResponseMessages
    from ...accountant.records import Reach
    from ..frame.held_out_release import HeldOutRelease
    from ..frame.state import Arrays
    from ..shuffling.ideal import IdealShuffling


@dataclass(frozen=True, eq=False)
class ShuffledVotes:
    """The release of votes of all users, through a shuffler; nothing is drawn before `release`.

    - `votes`: what is measured, by whom and with which noise, as settings have it.
    - `terms`: the public facts of the round; `shuffling`: the parties of the training.
    - `listed`: the names of all users, rising, (users,); `rests_on`: what reaches rest on.
    """

    votes: HeldOutRelease
    terms: FlameTerms
    shuffling: Shuffling | IdealShuffling
    listed: IntArray = field(repr=False)
    rests_on: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        votes: HeldOutRelease,
        training: FlameTerms,
        shuffling: Shuffling | IdealShuffling,
        listed: IntArray,
        rests_on: tuple[str, ...] = (),
    ) -> ShuffledVotes:
        """Return the votes of the users of a training, by its parties and its randomizer."""
        terms = votes_terms(training.users, training.colluders, training.table)
        sent = Terms(terms.users, terms.dimensions, terms.sent)
        return cls(votes, terms, shuffling.with_terms(sent), listed, rests_on)

    @property
    def mechanism(self) -> LaplaceMessages | ResponseMessages:
        """The randomizer of one of the two numbers."""
        return self.terms.mechanism(self.votes.noise_multiplier)

    @property
    def views(self) -> Mapping[str, ev.Event]:
        """Its event for each observer."""
        return self.terms.views(self.votes.noise_multiplier)

    @property
    def reaches(self) -> Mapping[str, Reach]:
        """Which of its messages reach each observer."""
        return self.terms.reaches(*self.rests_on)

    @property
    def phase(self) -> PlannedPhase:
        """The phase in a plan: one round, with noise that is given."""
        views = self.views
        return PlannedPhase(HELD_OUT, self.votes.noise_multiplier, views[MODEL], 1, views)

    def as_phase(self, number: int) -> Phase:
        """Return the phase of a system, whose one round has this number."""
        return phase_of_votes(self.phase, number, self.release)

    def values(self, parameters: Parameters) -> FloatArray:
        """Return what every user means to send of a model, (users, 2) in [-1/2, 1/2]; private."""
        rows = self.votes.rows
        right = self.votes.right(parameters)
        answered = np.bincount(rows.user, minlength=rows.users)
        share = np.bincount(rows.user, right, minlength=rows.users) / np.maximum(answered, 1)
        values = np.full((self.terms.users, VOTE_NUMBERS), -VOTE_MIDDLE)
        voting = answered > 0
        places = np.searchsorted(self.listed, rows.names[voting])
        values[places] = np.stack((share, 1.0 - share), axis=1)[voting] - VOTE_MIDDLE
        return values

    def release(self, number: int, parameters: Parameters, gate: Gate, keep: SaveArrays) -> Arrays:
        """Make the one intent and the one release, of votes on a model; return its arrays.

        `keep` is called with them before the release is logged.  Raises what `keep` and the
        shuffler raise.
        """
        mechanism, terms, views = self.mechanism, self.terms, self.views
        about = RoundDescription(
            number,
            HELD_OUT,
            views={observer: event for observer, event in views.items() if observer != MODEL},
            model_in=model_digest(parameters),
            event_override=views[MODEL],
            draws=VOTE_NUMBERS,
            reaches=self.reaches,
        )
        values = self.values(parameters)  # before the intent: a crash here spends nothing
        intent = mechanism.intent(about, self.votes.neighbours)
        with gate.open(intent) as ticket:
            messages = randomised(ticket, mechanism, values, terms, f"{HELD_OUT}/")
            received = self.shuffling.round(number, ticket, messages)
            sums = sums_of_values(mechanism, received.sums[:, 0], terms.users, terms)
            released = sums + terms.users * VOTE_MIDDLE
            deviation = deviation_of_messages(intent.noise, intent.event, terms.users)
            arrays = arrays_of_votes(released, deviation)
            keep(arrays)
            ticket.close(aggregate=released.tobytes(), values=released.size)
        return arrays
