"""DISCO's rounds with noise that holds: peers train, clip, add their shares of noise and sum.

    peer i    x_i = clip_C(D_i) + noise            D_i: its update, or its records' gradients
    all       x + eta_g / m sum_i x_i              from the same sum, so the same model everywhere

The unit is a silo (everything that one peer has) or a record, and the relation replace-one: who
takes part is public.  `noise` says what the noise must hide a unit by, `clip_rules` what C is in a
round.  The sum is divided by the number of peers, or by a public number of records.

Source: epfml/disco, `discojs/src/privacy.ts` and `aggregator/`, 2024, for parties and steps; noise
and clip are privplan's (the program's own are in `published`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from ...accountant import records
from ...accountant.mechanisms import Gate, Gaussian, Ticket
from ..aggregation.clip_check import ClipCheck, about_norms, norms_of
from ..aggregation.residuals import Residuals
from ..aggregation.sums import Sum, noisy_sum
from ..frame.model import Parameters, Round
from ..frame.private_system import PrivateSystem
from ..frame.requirements import refuse
from ..frame.rounds import Draft, NoisySum, planned_release
from ..frame.setup import Setup, setup
from ..frame.state import Arrays, State
from ..observers.names import PEER
from . import clip_rules, updates
from .noise import votes_of_peers
from .published import PublishedDisco
from .settings import (
    COUNT_PHASE,
    FIXED,
    LOCAL,
    QUANTILE,
    DiscoSettings,
    noise_complaint,
    peers_complaint,
    unit_complaint,
)
from .terms import DiscoTerms
from .time_frames import Schedule

if TYPE_CHECKING:
    from ...accountant.arrays import FloatArray, IntArray
    from ...accountant.randomness import Streams
    from ..aggregation.residuals import ResidualMonitor
    from ..data.federation import Federation
    from ..settings.schema import Settings
    from ..training.local_training import LocalTraining

NOISE_ROOM: Final = 2**28
"""Steps of the grid that the noise of one peer stays within: its deviation is below 2^21."""

_MOST_STEPS: Final = 2**40

CLIP: Final = "clip"
"""The name of the clip in the state of a run, where it moves."""


class Disco(PrivateSystem):
    """DISCO's peers with noise that holds; see the module.

    Raises `InvalidInput` for another relation than replace-one, for shared noise without additive
    shares, for too few peers, and for what a record as the unit does not go with.
    """

    def __init__(self, setup: Setup, table: DiscoSettings) -> None:
        super().__init__(setup)
        self.table = table
        self.terms: DiscoTerms = DiscoTerms(setup, table)
        self.schedule = self.terms.schedule
        refuse(
            setup,
            peers_complaint(setup.silos, table),
            unit_complaint(setup.privacy.unit, table),
            noise_complaint(setup.aggregation, table),
        )
        if setup.held_out is not None:
            self.setup = replace(
                setup, held_out=votes_of_peers(setup.held_out, self.terms.noise_terms)
            )
        self.residuals = Residuals()

    @cached_property
    def state(self) -> State:
        """The clip of the next round, where it moves."""
        return State() if self.table.clip == FIXED else State(clip=(1,))

    def initial_state(self) -> Arrays:
        """Return the clip of the first round."""
        if self.table.clip == FIXED:
            return {}
        return {CLIP: np.array([self.setup.training.clip])}

    def reaches(self) -> Mapping[str, records.Reach] | None:
        """Return what of a round reaches each observer: under local noise, each message a peer.

        Its number is then that of a reader of one message, whoever tells it what they sent.
        """
        reaches = super().reaches()
        if reaches is None or self.table.noise != LOCAL or PEER not in reaches:
            return reaches
        return {**reaches, PEER: replace(reaches[PEER], sees="each")}

    def mechanism(self, noise_multiplier: float) -> Gaussian:
        """Return the noise of the first round's sum, at the multiplier of a whole round."""
        return self.terms.mechanism(noise_multiplier)

    def sum_mechanism(self, noise_multiplier: float, clip: float, number: int) -> Gaussian:
        """Return the noise of the sum of round `number`, whose terms are clipped to `clip`."""
        return self.terms.at(number, clip).mechanism(noise_multiplier)

    def count_mechanism(self, noise_multiplier: float, number: int) -> Gaussian:
        """Return the noise of the count of unclipped updates of round `number`."""
        return self.terms.at(number, counts=True).mechanism(noise_multiplier)

    @property
    def counted_rounds(self) -> int | None:
        """How many rounds one peer takes part in at most; None where all take part in all."""
        return self.schedule.most_rounds

    def members(self, number: int) -> Sequence[int]:
        """Return the indices of the peers that take part in round `number`."""
        return self.schedule.members(number)

    def round(
        self, number: int, parameters: Parameters, gate: Gate, state: Arrays | None = None
    ) -> Round:
        """Make one round: train at every peer, clip, sum with noise, and take the step."""
        last = self.initial_state() if state is None else state
        clip = self.setup.training.clip if self.table.clip == FIXED else float(last[CLIP][0])
        terms: Iterable[updates.Terms] = self._terms(parameters, number, clip)
        next_clip: float | None = None
        if not self.clips_records:
            terms = list(terms)  # training may fail, and then before anything is spent
        if self.table.clip == QUANTILE:
            norms = np.concatenate([part.norms for part in terms])
            next_clip = self._clip_from_count(gate, number, clip, norms)
        mechanism = self.sum_mechanism(self.promise.noise_multiplier, clip, number)
        of_round = self.terms.at(number, clip)

        def work(ticket: Ticket) -> Draft:
            totals, sealed, monitor = self._totals(ticket, mechanism, terms, parameters.size)
            arrived = self._sum(ticket, number, mechanism, totals, monitor=monitor)
            noisy = NoisySum(mechanism.units(arrived.total), of_round.peers_or_records)
            return Draft(
                parameters + noisy.times(self.setup.training.global_rate),
                self._next_state(mechanism, noisy, next_clip),
                aggregate=noisy.total,
                normaliser=of_round.normaliser,
                sealed={**monitor.items(), **sealed},
                shares=len(arrived.silos),
            )

        phase = self.promise.training
        if self.table.clip == QUANTILE:
            phase = planned_release(phase, 1)
        silos = of_round.stated_silos
        return self.make_round(
            number, parameters, gate, work, mechanism=mechanism, phase=phase, silos=silos
        )

    @property
    def clips_records(self) -> bool:
        """Whether the gradient of each record is clipped, and not the update of each peer."""
        return self.terms.noise_terms.unit == "record"

    def _terms(self, parameters: Parameters, number: int, clip: float) -> Iterator[updates.Terms]:
        """Yield what every peer clips, its tensors shortened where they are clipped apart."""
        make = updates.record_terms if self.clips_records else updates.silo_terms
        terms = make(self.setup, parameters, number, self.members(number))
        if self.table.clip_by == "model":
            yield from terms
            return
        sizes = updates.tensor_sizes(self.setup, parameters.size)
        radius = clip / math.sqrt(len(sizes))
        for part in terms:
            yield replace(part, rows=updates.clipped_by_tensor(part.rows, sizes, radius))

    def _totals(
        self, ticket: Ticket, mechanism: Gaussian, terms: Iterable[updates.Terms], size: int
    ) -> tuple[IntArray, dict[str, object], ResidualMonitor]:
        """Return the sum of each peer's clipped terms, (peers, D) integers, and what is sealed."""
        silos = self.setup.silos
        totals = np.zeros((silos, size), np.int64)
        again = ClipCheck(ticket.intent, mechanism, silos, size)
        norms, peers = [np.empty(0)], [np.empty(0, np.int64)]
        for part in terms:
            totals += mechanism.totals(part.rows, part.peer, silos)
            again.add(part.rows, part.peer, norms_of(part.rows))
            norms.append(part.norms)
            peers.append(part.peer)
        norm, peer = np.concatenate(norms), np.concatenate(peers)
        sealed = {
            **again.items(totals),
            **about_norms([norm[peer == index] for index in range(silos)], mechanism.bound),
        }
        return totals, sealed, self.residuals.monitor(ticket.intent.noise)

    def _sum(
        self,
        ticket: Ticket,
        number: int,
        mechanism: Gaussian,
        totals: IntArray,
        *,
        named: str = "noise",
        monitor: ResidualMonitor | None = None,
    ) -> Sum:
        """Return the sum of the totals (peers, D) of those who take part, with their noise."""
        members = self.members(number)
        return noisy_sum(
            self.aggregator,
            number,
            mechanism,
            ticket,
            list(totals[np.asarray(members)]),
            named,
            monitor,
            present=self.schedule.stated(number),
            largest=self._largest(mechanism),
        )

    def _largest(self, mechanism: Gaussian) -> int | None:
        """Return a bound in steps on what one peer sends, so that fewer bytes travel, or None.

        The clip and 2^28 steps for the noise, over 2^7 deviations of it.  How many records a peer
        has is no public number, so there is no such bound where each of them is clipped.
        """
        if self.clips_records:
            return None
        steps = math.floor(Fraction(mechanism.bound) / Fraction(mechanism.grid)) + NOISE_ROOM
        return steps if steps < _MOST_STEPS else None

    def _clip_from_count(self, gate: Gate, number: int, clip: float, norms: FloatArray) -> float:
        """Release how many updates were not clipped, with noise; return the next round's clip."""
        mechanism = self.count_mechanism(self.promise.noise_multiplier, number)
        members = self.members(number)
        counts, silos = clip_rules.count_terms(norms, clip), self.setup.silos
        monitor = self.residuals.monitor(mechanism.noise())
        sealed: dict[str, object] = {}

        def work(ticket: Ticket) -> FloatArray:
            peers = np.asarray(members)
            totals = mechanism.totals(counts, peers, silos)
            again = ClipCheck(ticket.intent, mechanism, silos, 1)
            again.add(counts, peers, norms_of(counts))
            arrived = self._sum(
                ticket, number, mechanism, totals, named="noise/clip", monitor=monitor
            )
            sealed.update({**monitor.items(), **again.items(totals)})
            return mechanism.units(arrived.total)

        phase = planned_release(self.promise.training, 0, COUNT_PHASE)
        stated = self.schedule.stated(number)
        noisy = self.release_with_model(
            number, gate, mechanism, work, phase=phase, silos=stated, sealed=sealed
        )
        return clip_rules.from_count(clip, self.setup.training.clip, float(noisy[0]), len(members))

    def _next_state(self, mechanism: Gaussian, noisy: NoisySum, next_clip: float | None) -> Arrays:
        """Return the clip of the next round: a function of what was released."""
        if self.table.clip == FIXED:
            return {}
        if next_clip is None:
            std = mechanism.std / noisy.constant
            next_clip = clip_rules.from_noisy_mean(self.setup.training.clip, noisy.mean, std)
        return {CLIP: np.array([next_clip])}


def disco(
    settings: Settings, federation: Federation, local: LocalTraining, _: Streams
) -> Disco | PublishedDisco:
    """Return DISCO's peers, with noise that holds or as published."""
    table = settings.of(DiscoSettings)
    if table.as_published:
        return PublishedDisco(setup(settings, federation, local), table)
    # A coordinator says who is there, of the peers of a round's schedule.
    schedule = schedule_of(table, federation.silos, settings.run.rounds)
    parts = setup(settings, federation, local, fewest=schedule.smallest)
    return Disco(parts, table)


def schedule_of(table: DiscoSettings, peers: int, rounds: int) -> Schedule:
    """Return who takes part in which round; raises as `Schedule`."""
    return Schedule(table.time_frames, peers, rounds, table.min_participants)
