"""Each user sends a few coordinates of its vector, and the analyzer has their noisy means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.mechanisms import LaplaceMessages
from privplan.accountant.randomness import choice
from privplan.fl.frame.private_system import PrivateSystem
from privplan.fl.frame.requirements import require_all_users, require_user_unit
from privplan.fl.frame.rounds import Draft
from privplan.fl.frame.setup import setup
from privplan.fl.frame.state import State
from privplan.fl.shuffling import Shuffling, Terms

BOUND = 1.0


class ToyShuffle(PrivateSystem):
    """Each round releases the mean of every coordinate; `average` is that of all rounds so far."""

    aggregations = ("shuffle",)
    phase = "release"

    def __init__(self, made: Any, terms: Terms) -> None:
        super().__init__(made)
        require_user_unit(made)
        require_all_users(made)
        own = made.security
        self.terms = terms
        self.shuffling = Shuffling(terms, colluders=own.colluders, keep=own.keep_transcripts)

    @property
    def state(self) -> State:
        return State(average=(self.terms.dimensions,))

    @property
    def security(self) -> records.Security:
        return self.shuffling.security

    @property
    def network(self) -> Any:
        return self.shuffling.network

    def initial(self) -> Any:
        return np.zeros(self.terms.dimensions)

    def mechanism(self, noise_multiplier: float) -> LaplaceMessages:
        mixed = self.terms.shuffled(self.security.colluders)
        return LaplaceMessages(BOUND, noise_multiplier * BOUND, shuffled=mixed)

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        own, relation = self.mechanism(noise_multiplier), self.setup.privacy.neighbours
        chosen = self.terms.chosen
        mixed = own.event(relation, draws=chosen)
        return {"model": mixed, "analyzer": mixed, "shuffler": own.local_event(relation, chosen)}

    def reaches(self) -> Mapping[str, records.Reach]:
        mixed = self.terms.shuffled().reach(colluders=self.security.colluders)
        also = ("identities", "index-sets", "sizes")
        own = {"dimensions": mixed.dimensions, "chosen": mixed.chosen, "selection": mixed.selection}
        seen = records.Reach("each", also=also, **own)
        return {"model": mixed, "analyzer": mixed, "shuffler": seen}

    @property
    def senders(self) -> float:
        """How many users send a coordinate on average, a public constant."""
        return self.terms.clients * self.terms.chosen / self.terms.dimensions

    def vectors(self) -> Any:
        """The mean of each user's records: (users, dimensions)."""
        federation = self.setup.federation
        sums = np.zeros((federation.users, self.terms.dimensions))
        np.add.at(sums, federation.user, federation.features[:, : self.terms.dimensions])
        return sums / np.maximum(np.bincount(federation.user, minlength=len(sums)), 1)[:, None]

    def places(self, ticket: Any) -> Any:
        """Which coordinates each user sends, whatever is in them: (users, chosen)."""
        stream, own = ticket.stream("choice"), self.terms
        return np.array([choice(stream, own.dimensions, own.chosen) for _ in range(own.clients)])

    def round(self, number: int, parameters: Any, gate: Any, state: Any) -> Any:
        mechanism = self.mechanism(self.promise.noise_multiplier)

        def work(ticket: Any) -> Draft:
            places = self.places(ticket)
            values = np.take_along_axis(self.vectors(), places, axis=1)
            messages = mechanism.messages(ticket, values, "messages")
            received = self.shuffling.round(
                number, ticket, messages, places=places, mechanism=mechanism
            )
            sums = mechanism.units(received.sums[:, 0])
            mean = sums / self.senders
            average = state["average"] + (mean - state["average"]) / number
            constant = records.Normaliser("constant", self.senders)
            return Draft(mean, {"average": average}, aggregate=sums, normaliser=constant)

        return self.make_round(number, parameters, gate, work, draws=self.terms.chosen)


def make(settings: Any, federation: Any, local: Any, _: Any) -> ToyShuffle:
    """Return the system, as the frame asks for it."""
    own = settings.table
    terms = Terms(federation.users, own.dimensions, own.chosen, padded_to=own.padded_to)
    return ToyShuffle(setup(settings, federation, local), terms)


def measure(prepared: Any, released: Any) -> Mapping[str, float]:
    """Return how far the released means are from those of public test records."""
    test = prepared.federation.test_features[:, : len(released)]
    return {"distance": float(np.abs(released - test.mean(0)).max())}
