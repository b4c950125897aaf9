"""DISCO's peers as published, for study: noise that follows the update it is to hide.

    peer i, tensor l    x_il = clip_{r_il}(D_il) + N(0, (r_il z)^2)      r_il: see `radius`
    all                 x + eta_g / m sum_i x_i

**No guarantee**: r_il is computed from D_il, so the size of the noise tells the size of the update,
and a tensor that did not move has noise of 1e-12 z.  The log says so of every round and observer,
and has the published epsilon as a claim.

Noise is drawn by the mechanism, for the radius C, on integers that stand for D_il C / r_il; then
each tensor is shrunk by r_il / C and summed in floats: in the clear, under masks, or by the float
shares of the program (`float_shares`), which hide nothing either.  The norms of the last
rounds are a peer's secret: neither log nor checkpoint has them, so a run that was cut off cannot go
on.

Source: epfml/disco, `discojs/src/privacy.ts` and `aggregator/`, 2024.

The radius of DISCO's noise as published: of each tensor, from a peer's own last updates.

    r_il = max(1e-12, min(C, mean of |D_il| over the last three rounds))       this one included

What a tensor is clipped to, and what its noise is scaled by, is so a function of the very update
that noise is to hide.  Norms and radii are private: they never leave the peer.

Source: epfml/disco, `discojs/src/privacy.ts`, 2024.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from ...accountant import records
from ...accountant.arrays import FloatArray
from ...accountant.claims.disco import FLOOR
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import Gate, Gaussian, Ticket
from ..aggregation.clip_check import about_norms, norms_of
from ..aggregation.sums import float_sum
from ..frame.model import Parameters, Round
from ..frame.opening import OpeningStatement
from ..frame.private_system import PrivateSystem
from ..frame.promise import Promise, claimed, unproven
from ..frame.requirements import refuse
from ..frame.rounds import Draft, NoisySum
from ..frame.setup import Setup
from ..frame.state import Arrays
from ..observers.names import COORDINATOR, MODEL, PEER
from ..observers.reaches import Route, reaches_of
from ..parties.network import silo_name
from . import updates
from .published_noise import published_claim
from .settings import DiscoSettings, peers_complaint, published_complaint
from .terms import PUBLISHED_RADIUS_EVENT, PublishedTerms

if TYPE_CHECKING:
    from ...accountant.arrays import FloatArray
    from .float_shares import FloatShareAggregator

WINDOW: Final = 3
"""Rounds whose norms are averaged, this one included; fewer at the start of a run."""


def radii(norms: Sequence[FloatArray], clip: float) -> FloatArray:
    """Return r_il (peers, tensors), of the norms (peers, tensors) of the rounds so far.

    The last of `norms` are this round's, before any clip.  A norm that is no number counts as
    infinite, so that the radius is the clip.  Range: `clip` at least 1e-12.

    >>> radii([np.array([[0.5, 0.0]]), np.array([[0.25, 9.0]])], 1.0).tolist()
    [[0.375, 1.0]]
    >>> radii([np.array([[0.0]])], 1.0).tolist()
    [[1e-12]]
    """
    window = np.array(norms[-WINDOW:])
    means = np.where(np.isfinite(window), window, np.inf).mean(axis=0)
    return np.asarray(np.maximum(FLOOR, np.minimum(clip, means)))


class PublishedDisco(PrivateSystem):
    """DISCO's peers with the noise of the published program; see the module.

    Raises `InvalidInput` for too few peers, for an epsilon with a noise multiplier, and for what
    the program does not have: another unit than a peer, a clip that moves, a clip below 1e-12, and
    colluders, whom nothing is promised about.
    """

    unsaved = (
        "Each peer's noise depends on the norms of its last updates, which are its secret: neither "
        "the log nor the folder has them."
    )

    def __init__(self, setup: Setup, table: DiscoSettings) -> None:
        super().__init__(setup)
        self._shares: FloatShareAggregator | None = None
        if setup.aggregation == "shares":
            from .float_shares import FloatShareAggregator

            self._shares = FloatShareAggregator(setup.silos, keep=setup.security.keep_transcripts)
            self.aggregator = self._shares
        refuse(setup, peers_complaint(setup.silos, table))
        _require_published(setup, table)
        self.terms: PublishedTerms = PublishedTerms(setup, len(self.sizes))
        self.multiplier = self.terms.multiplier
        self._norms: list[FloatArray] = []  # of the last rounds, (peers, tensors): private
        self._last_round = 0

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The lengths of the model's tensors, in their order."""
        return updates.tensor_sizes(self.setup, self.initial().size)

    def reaches(self) -> Mapping[str, records.Reach] | None:
        """Return which messages reach each observer: as published, shares hide nothing."""
        if self._shares is None:
            return super().reaches()
        return reaches_of((MODEL, PEER, COORDINATOR), Route("plain", self.setup.silos, unit="silo"))

    def mechanism(self, noise_multiplier: float) -> Gaussian:
        """Return the noise of the sum where every radius is the clip."""
        return self.terms.mechanism(noise_multiplier)

    @cached_property
    def promise(self) -> Promise:
        """The promise of the run: nothing is proven, and the published epsilon is claimed."""
        privacy, rounds = self.setup.privacy, self.setup.rounds
        given = replace(privacy, epsilon=None, noise_multiplier=self.multiplier)

        def claim(noise: float) -> float:
            return published_claim(noise, rounds, privacy.delta)

        promise = unproven(self.views, given, rounds, PUBLISHED_RADIUS_EVENT, claim)
        if privacy.epsilon is None:
            return promise
        return replace(promise, claim=claimed(privacy, privacy.epsilon))

    def opening(self) -> OpeningStatement:
        """Return what the first line of the log states, marked as published."""
        return replace(super().opening(), as_published=True)

    def round(
        self, number: int, parameters: Parameters, gate: Gate, state: Arrays | None = None
    ) -> Round:
        """Make one round: train at every peer, clip and add noise by tensor, sum, take the step.

        Raises `InvalidInput` for a round that does not follow the last one made here.
        """
        peers = self.setup.silos
        mechanism = self.mechanism(self.promise.noise_multiplier)
        rows = self.setup.local.silo_deltas(parameters, number)  # x_i - x, (peers, D)
        radius = self._radii(number, rows)

        def work(ticket: Ticket) -> Draft:
            messages = self._messages(ticket, mechanism, rows, radius)
            noisy = NoisySum(self._sum(number, parameters, messages), self.terms.divisor)
            return Draft(
                parameters + noisy.times(self.setup.training.global_rate),
                aggregate=noisy.total,
                normaliser=self.terms.normaliser,
                sealed=about_norms([norm[None] for norm in norms_of(rows)], mechanism.bound),
                shares=peers,
            )

        return self.make_round(number, parameters, gate, work, mechanism=mechanism)

    def _radii(self, number: int, rows: FloatArray) -> FloatArray:
        """Return the radii (peers, tensors) of a round, and remember its norms for the next."""
        if number == 1:
            self._norms = []
        elif number != self._last_round + 1:
            raise InvalidInput(
                f"Round {number} does not follow round {self._last_round}, the last that this "
                "process made.",
                self.unsaved,
                "Begin the run anew in another folder.",
            )
        norms = updates.tensor_norms(rows, self.sizes)
        self._norms = [*self._norms, norms][-WINDOW:]
        self._last_round = number
        return radii(self._norms, self.setup.training.clip)

    def _messages(
        self, ticket: Ticket, mechanism: Gaussian, rows: FloatArray, radius: FloatArray
    ) -> FloatArray:
        """Return what every peer sends: (peers, D), of rows (peers, D) and radii (peers, tensors).

        Noise is added to clip_r(D) C / r, whose tensors have norm at most C; what comes of it is
        shrunk by r / C, and so is the noise.
        """
        peers, clip = range(self.setup.silos), self.setup.training.clip
        shrinking = np.repeat(radius / clip, self.sizes, axis=1)  # r / C of each number: (peers, D)
        shortened = updates.clipped_by_tensor(rows, self.sizes, radius)
        totals = mechanism.totals(shortened / shrinking, peers, len(peers))
        names = [f"noise/{silo_name(peer)}" for peer in peers]
        return shrinking * np.array(mechanism.noisy(ticket, list(totals), names))

    def _sum(self, number: int, parameters: Parameters, messages: FloatArray) -> FloatArray:
        """Return the sum (D,) of messages (peers, D); as shares, of the models that they make.

        The program shares whole models, x + x_i, in floats of 32 bits.
        """
        if self._shares is None:
            return float_sum(self.aggregator, number, messages)
        models = self._shares.float_total(number, parameters + messages, self.sizes)
        return np.asarray(models - len(messages) * parameters)


def _require_published(setup: Setup, table: DiscoSettings) -> None:
    """Raise `InvalidInput` for what the published program does not have."""
    colluders = setup.security.colluders
    refuse(setup, published_complaint(setup.privacy.unit, table, colluders=colluders))
    if table.time_frames:
        raise InvalidInput(
            "`time_frames` are given, and the run is as published.",
            "Nothing counts in how many rounds a peer takes part, as nothing is promised.",
            "Leave them out.",
        )
    clip = setup.training.clip
    if clip < FLOOR:
        raise InvalidInput(
            f"`clip` is {clip:g}, and the least radius that the program uses is {FLOOR:g}.",
            "A radius above the clip would have more noise than is stated.",
            "Give a larger clip.",
        )
