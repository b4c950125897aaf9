"""FLAME's rounds: users send noisy coordinates through a shuffler, and the analyzer averages them.

    user i      x_i = clip_[-C, C](D_i), coordinates S_i of it, each with noise of its own
    shuffler    pads every coordinate to n_p messages with dummies, and mixes each by itself
    analyzer    x + eta_g sum_i x_i / n',      n' = n, or n k / d where S_i is drawn

Dummies have mean 0, so the sum over all messages of a coordinate is one of the users' values.  The
unit is a user, all of whose records it trains on, and the relation replace-one: who sends is seen.

Source: Liu, Cao, Chen, Guo and Yoshikawa 2021, *FLAME*, AAAI, arXiv 2009.08063v4, Algorithms 2 to
4; Laplace noise and words around the middle, so that dummies cancel.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from ...accountant import records
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import Gate, LaplaceMessages, ResponseMessages, Ticket
from ...accountant.mechanisms.clip import Sparse
from ..frame.model import Parameters, Round
from ..frame.opening import Note
from ..frame.private_system import PrivateSystem
from ..frame.promise import Promise, unproven
from ..frame.requirements import refuse
from ..frame.rounds import Draft, NoisySum
from ..frame.setup import Setup
from ..frame.state import Arrays, State
from ..shuffling import Shuffling, Terms
from ..shuffling.ideal import IdealShuffling
from . import selection
from .index_privacy import index_privacy
from .message_sums import MESSAGE_STREAM, randomised, sums_of_values
from .sealing_cost import (
    MOST_DRAWN,
    MOST_SEALED,
    processor_seconds,
    sealed_messages,
    sealing_note,
    too_many,
    too_many_drawn,
)
from .settings import DOUBLE, SEALED, SIMPLE, TOPK, FlameSettings, Protocol, silos_complaint
from .terms import FlameTerms
from .votes import ShuffledVotes

if TYPE_CHECKING:
    from ...accountant.arrays import FloatArray, IntArray
    from ..parties.network import Network

CHOICE_STREAM: Final = "choice"
DECOY_STREAM: Final = "decoys"


class Flame(PrivateSystem):
    """FLAME's users, shuffler and analyzer; see the module.

    Raises `InvalidInput` for what `FlameTerms` and the shuffler refuse.
    """

    state = State()

    def __init__(self, setup: Setup, table: FlameSettings, protocol: Protocol) -> None:
        super().__init__(setup)
        refuse(setup, silos_complaint(setup.silos))
        size = setup.local.initial().size
        chosen = selection.coordinates_sent(protocol, table, size)
        self.terms: FlameTerms = FlameTerms.of(setup, table, protocol, size, chosen)
        self.table = self.terms.table
        self.sent_terms = Terms(
            self.terms.users,
            self.terms.dimensions,
            self.terms.sent,
            padded_to=self.terms.padded_to,
            overflow=table.overflow,
        )
        _require_few(self.terms, sealed=table.transport == SEALED)
        security = setup.security
        self.shuffling: Shuffling | IdealShuffling
        if table.transport == SEALED:
            self.shuffling = Shuffling(
                self.sent_terms,
                colluders=security.colluders,
                keep=security.keep_transcripts,
                processes=security.processes,
            )
        else:
            self.shuffling = IdealShuffling(self.sent_terms, colluders=security.colluders)
        _require_free_places(self.terms)

    @property
    def security(self) -> records.Security:
        """The public facts of the shuffler's protocol."""
        return self.shuffling.security

    @property
    def network(self) -> Network | None:
        """The parties and their messages; None where nothing is encrypted."""
        return self.shuffling.network

    def mechanism(self, noise_multiplier: float) -> LaplaceMessages | ResponseMessages:
        """Return the randomizer of one message."""
        return self.terms.mechanism(noise_multiplier)

    def reaches(self) -> Mapping[str, records.Reach]:
        """Return what of a round reaches each observer."""
        return self.terms.reaches(*self.table.rests_on)

    @cached_property
    def votes(self) -> ShuffledVotes | None:
        """The release of votes of who is held out: messages of all users, after the rounds."""
        held, federation = self.setup.held_out, self.setup.federation
        if held is None:
            return None
        rests_on = self.table.rests_on
        return ShuffledVotes.of(held, self.terms, self.shuffling, federation.names, rests_on)

    @cached_property
    def promise(self) -> Promise:
        """The promise of the run; without a proof it claims nothing."""
        unsound = self.terms.unsound
        if unsound is None:
            return super().promise
        _require_no_target_without_proof(self.setup, self.terms)
        return unproven(
            self.views,
            self.setup.privacy,
            self.setup.rounds,
            unsound,
            lambda _: float("inf"),
            later=self.later,
        )

    def round(
        self, number: int, parameters: Parameters, gate: Gate, state: Arrays | None = None
    ) -> Round:
        """Make one round: train every user, choose coordinates, randomise, mix, and average."""
        mechanism = self.mechanism(self.promise.noise_multiplier)
        rows = self._rows(parameters, number)

        def work(ticket: Ticket) -> Draft:
            places = self._places(ticket, rows)
            values = np.take_along_axis(rows, places[:, : self.terms.chosen], axis=1)
            messages = self._messages(ticket, mechanism, values)
            received = self.shuffling.round(
                number, ticket, messages, places=places, mechanism=mechanism
            )
            noisy = NoisySum(self._sums(mechanism, received.sums[:, 0]), self.terms.divisor)
            return Draft(
                parameters + noisy.times(self.setup.training.global_rate),
                aggregate=noisy.total,
                normaliser=self.terms.normaliser,
            )

        return self.make_round(number, parameters, gate, work, draws=self.terms.draws)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What ciphertexts cost, and what decoys hide of which coordinates are largest."""
        terms, decoys, rounds = self.terms, self.table.decoys, self.promise.rounds
        notes: list[Note] = []
        sizes = (terms.users, terms.sent, terms.dimensions, terms.padded_to)
        messages = sealed_messages(*sizes)
        if self.table.transport == SEALED and rounds * processor_seconds(messages) >= 1.0:
            notes.append(sealing_note(messages, rounds))
        if terms.protocol == TOPK and decoys:
            notes.append(index_privacy(terms.dimensions, terms.chosen, decoys, rounds))
        return tuple(notes)

    def _rows(self, parameters: Parameters, number: int) -> FloatArray:
        """Return the update of every user, (users, D); zero of one without records."""
        rows = np.zeros((self.terms.users, parameters.size))
        everybody = [np.arange(self.terms.users)]
        for block in self.setup.local.user_deltas(parameters, everybody, number):
            dense = block.rows.dense() if isinstance(block.rows, Sparse) else block.rows
            rows[block.user] = dense
        return rows

    def _places(self, ticket: Ticket, rows: FloatArray) -> IntArray:
        """Return the coordinates of each user's messages, decoys behind: (users, sent)."""
        terms = self.terms
        if terms.protocol == SIMPLE:
            every = np.arange(terms.dimensions)
            return np.broadcast_to(every, (terms.users, terms.dimensions)).astype(np.int64)
        if terms.protocol == DOUBLE:
            stream = ticket.stream(CHOICE_STREAM)
            return selection.random_coordinates(stream, terms.users, terms.dimensions, terms.chosen)
        largest = self._largest(rows)
        if not self.table.decoys:
            return largest
        decoys = selection.decoy_coordinates(
            ticket.stream(DECOY_STREAM), largest, terms.dimensions, self.table.decoys
        )
        return np.concatenate((largest, decoys), axis=1)

    def _largest(self, rows: FloatArray) -> IntArray:
        """Return the coordinates of each user's largest values by size: (users, chosen)."""
        return selection.largest_coordinates(rows, self.terms.chosen)

    def _messages(
        self, ticket: Ticket, mechanism: LaplaceMessages | ResponseMessages, values: FloatArray
    ) -> IntArray:
        """Return a message for each value, (users, k), with a dummy for each decoy behind."""
        messages = randomised(ticket, mechanism, values, self.terms)
        count = len(values) * self.table.decoys
        if not count:
            return messages
        dummies = mechanism.dummies(ticket, count, f"{MESSAGE_STREAM}/{DECOY_STREAM}")
        return np.concatenate((messages, dummies.reshape(len(values), -1)), axis=1)

    def _sums(self, mechanism: LaplaceMessages | ResponseMessages, sums: IntArray) -> FloatArray:
        return sums_of_values(mechanism, sums, self.sent_terms.count, self.terms)


def _require_few(terms: FlameTerms, *, sealed: bool) -> None:
    """Raise `InvalidInput` for more ciphertexts, or more draws, than a round can have."""
    sizes = (terms.users, terms.sent, terms.dimensions, terms.padded_to)
    messages = sealed_messages(*sizes)
    if messages > (MOST_SEALED if sealed else MOST_DRAWN):
        raise InvalidInput(
            f"A round {'seals' if sealed else 'draws'} {messages:,} messages, for "
            f"{terms.dimensions:,} coordinates.",
            *(too_many(messages) if sealed else too_many_drawn(messages)),
        )


def _require_no_target_without_proof(setup: Setup, terms: FlameTerms) -> None:
    """Raise `InvalidInput` for an epsilon to reach where nothing is proven before the analyzer.

    Which coordinates are largest depends on data, so that whole tuples, or less room than there are
    users, show it (`FlameTerms.unsound`).
    """
    privacy = setup.privacy
    if terms.unsound is None:
        return
    if privacy.noise_multiplier is not None and privacy.epsilon is None:
        return
    without = "noise_multiplier alone in place of epsilon runs it without a guarantee."
    if terms.table.granularity == "tuple":
        raise InvalidInput(
            f'granularity = "tuple" keeps together what a user of {setup.name} sends.',
            "Which coordinates those are depends on its data, so no noise reaches an epsilon: "
            "nothing is proven.",
            f'Write granularity = "coordinate", or leave it out; {without}',
        )
    raise InvalidInput(
        f"padded_to = {terms.padded_to:,} is below users = {terms.users:,}.",
        "Which coordinates are largest depends on the data, so more users may send one than there "
        "is room for, and nothing is proven: no noise reaches an epsilon.",
        f"Write padded_to = {terms.users}, or leave it out; {without}",
    )


def _require_free_places(terms: FlameTerms) -> None:
    """Raise `InvalidInput` where those who tell what they sent may fill a whole coordinate.

    A client that takes part knows its own messages besides, so c + 1 of n_p places are known.
    """
    colluders, padded_to = terms.colluders, terms.padded_to
    if terms.mixed is None or padded_to is None or colluders + 1 < padded_to:
        return
    raise InvalidInput(
        f"`padded_to` in [flame] is {padded_to:,}, and `colluders` in [security] is "
        f"{colluders:,}: no place of a coordinate is left to hide in.",
        "Each who colludes may fill one place, and a client that takes part knows its own.",
        f"Give `padded_to` = {colluders + 2:,} or more, or lower `colluders`.",
    )
