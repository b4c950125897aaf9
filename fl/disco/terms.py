"""What a round of DISCO's peers is, for their runs and for audits of these.

A round has one noisy sum, of `members` whose terms are clipped to `bound`; where the clip follows a
noisy quantile, a count comes before it (`clip_rules`), and the two share the noise of the round.
What is as published is in terms of its own: it proves nothing (`published`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from ...accountant import events as ev
from ...accountant.mechanisms import Gaussian
from ...accountant.records import RoundIntent, Sampling, Security
from ..declarations.declaration import TRAIN
from ..declarations.sealed_items import NOISE, NORMS
from ..declarations.shared_tables import PrivacySettings
from ..frame.expected_log import (
    ExpectedLog,
    ExpectedPhase,
    NotStated,
    expected_phase,
    votes_noise,
)
from ..frame.initial_model import initial_tensors
from ..frame.terms import SetupTerms, by_terms, typed
from ..observers.names import COORDINATOR, MODEL, PEER
from . import clip_rules
from .noise import NoiseTerms, Source, Unit, mechanism_of, sees_each, views_of, votes_mechanism
from .published_noise import published_mechanism, published_multiplier
from .settings import (
    AS_PUBLISHED_NOISE,
    COUNT_PHASE,
    FIXED,
    PREVIOUS,
    QUANTILE,
    TABLE,
    DiscoSettings,
)
from .time_frames import Schedule

if TYPE_CHECKING:
    from ..declarations.stated_settings import StatedSettings

PUBLISHED_RADIUS_EVENT: Final = ev.NoGuarantee(
    "DISCO as published: the radius, and with it the size of the noise, is computed from the "
    "peer's own update"
)


@dataclass(frozen=True)
class DiscoTerms(SetupTerms):
    """One release of a round; see the module.

    - `number`: the round's, from 1; `clip`: what its terms are clipped to, None for the first clip.
    - `counts`: whether it is the count of unclipped updates, and not their sum.
    """

    table: DiscoSettings
    number: int = 1
    clip: float | None = None
    counts: bool = False

    @cached_property
    def schedule(self) -> Schedule:
        """Who takes part in which round; raises as `Schedule`."""
        table, setup = self.table, self.setup
        return Schedule(table.time_frames, setup.silos, setup.rounds, table.min_participants)

    @cached_property
    def noise_terms(self) -> NoiseTerms:
        """What the noise of a round depends on."""
        setup = self.setup
        unit: Unit = "record" if setup.privacy.unit == "record" else "silo"
        return NoiseTerms(
            self.table.noise,
            self.schedule.smallest,
            setup.security.colluders,
            setup.aggregation,
            unit,
        )

    def at(self, number: int, clip: float | None = None, *, counts: bool = False) -> DiscoTerms:
        """Return the sum of another round, or its count."""
        return replace(self, number=number, clip=clip, counts=counts)

    @property
    def members(self) -> tuple[int, ...]:
        """The indices of the peers that take part."""
        return self.schedule.members(self.number)

    @property
    def stated_silos(self) -> tuple[int, ...] | None:
        """What the log states of them: None where all take part in all rounds."""
        return self.schedule.stated(self.number)

    @property
    def peers_or_records(self) -> float:
        """The public number of peers, or of records, that a sum is divided by."""
        return float(self.table.divisor or len(self.members))

    @property
    def divisor(self) -> float | None:
        """What a sum is divided by; None of a count."""
        return None if self.counts else self.peers_or_records

    @property
    def bound(self) -> float:
        """What a peer adds at most: the clip of the round, or 1/2 to a count."""
        if self.counts:
            return clip_rules.COUNT_BOUND
        return self.setup.training.clip if self.clip is None else self.clip

    @property
    def source(self) -> Source:
        """Where that is known from."""
        if self.counts or self.number == 1 or self.table.clip == FIXED:
            return "public"
        return "models" if self.table.clip == PREVIOUS else "released"

    def mechanism(self, noise_multiplier: float) -> Gaussian:
        """Return the noise of this release, at the multiplier of a whole round."""
        multiplier = noise_multiplier
        if self.counts:
            multiplier = clip_rules.count_multiplier(noise_multiplier)
        elif self.table.clip == QUANTILE:
            multiplier = clip_rules.update_multiplier(noise_multiplier)
        members, source = len(self.members), self.source
        return mechanism_of(
            self.noise_terms, multiplier, bound=self.bound, members=members, source=source
        )

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        """Return the event of one round for the model, a peer and the coordinator."""
        if self.table.clip != QUANTILE:
            return views_of(self.noise_terms, noise_multiplier)
        # Two releases in a round: the count of unclipped updates, and their sum.
        count = views_of(self.noise_terms, clip_rules.count_multiplier(noise_multiplier))
        update = views_of(self.noise_terms, clip_rules.update_multiplier(noise_multiplier))
        return {name: ev.Compose((count[name], update[name])) for name in count}


@dataclass(frozen=True)
class PublishedTerms(SetupTerms):
    """A round as published, of a model of so many `tensors`: nothing is proven of it."""

    tensors: int

    @property
    def divisor(self) -> float:
        """The number of peers."""
        return float(self.setup.silos)

    @property
    def multiplier(self) -> float:
        """The noise multiplier: as given, or by the published formula; raises as that."""
        privacy = self.setup.privacy
        return published_multiplier(
            privacy.epsilon, privacy.noise_multiplier, self.setup.rounds, privacy.delta
        )

    def mechanism(self, noise_multiplier: float) -> Gaussian:
        """Return the noise of the sum where every radius is the clip."""
        return published_mechanism(
            noise_multiplier,
            clip=self.setup.training.clip,
            tensors=self.tensors,
            peers=self.setup.silos,
        )

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        """Return the event of one round for each observer: none has a guarantee."""
        del noise_multiplier
        return dict.fromkeys((MODEL, PEER, COORDINATOR), PUBLISHED_RADIUS_EVENT)

    def noise(self, privacy: PrivacySettings, intent: RoundIntent) -> float:
        """Return the noise multiplier, which no intent needs to say."""
        del privacy, intent
        return self.multiplier


def _terms(given: StatedSettings, intent: RoundIntent, _: object) -> DiscoTerms | PublishedTerms:
    """Return the terms of a configuration and of a round of it."""
    table: DiscoSettings = given.of(TABLE)
    if table.noise == AS_PUBLISHED_NOISE:
        model, data = given.training.model, given.data.name
        tensors = initial_tensors(model, data)
        if tensors is None:
            raise NotStated(f"the tensors of {model} on {data}")
        return PublishedTerms(given, len(tensors))
    clip = None
    # A clip that moves is read off the log: it follows from releases, which the log has digests of.
    # One that no release could have led to is not the nearest that one could have.
    if table.clip != FIXED and intent.round > 1 and intent.phase != COUNT_PHASE:
        least, largest = clip_rules.range_of(table.clip, given.training.clip, intent.round)
        clip = min(max(intent.contribution.bound, least), largest)
    return DiscoTerms(given, table, intent.round, clip, intent.phase == COUNT_PHASE)


def _votes(given: StatedSettings) -> ExpectedPhase:
    """Return what the release of votes states; time frames are refused with it."""
    terms = DiscoTerms(given, given.of(TABLE)).noise_terms
    mechanism = votes_mechanism(terms, votes_noise(given))
    votes = expected_phase(mechanism, given.privacy.neighbours, 1, Sampling(), None)
    return replace(votes, sees_each=sees_each(terms))


def _shares(given: StatedSettings, security: Security) -> Security:
    """Return the parameters of shares, by the smallest group; as published in no ring."""
    table: DiscoSettings = given.of(TABLE)
    if table.noise == AS_PUBLISHED_NOISE:
        return replace(security, ring_bits=0)
    return replace(security, fewest=DiscoTerms(given, table).schedule.smallest)


def _sealed(given: StatedSettings) -> Mapping[str, tuple[str, ...]]:
    """Return what is sealed of every sum of updates, and of every count.

    Noise as published is scaled by what it is to hide: there is no stated noise to compare it with.
    """
    table: DiscoSettings = given.of(TABLE)
    if table.noise == AS_PUBLISHED_NOISE:
        return {TRAIN: NORMS}
    items = {TRAIN: (*NORMS, *NOISE)}
    return {COUNT_PHASE: NOISE, **items} if table.clip == QUANTILE else items


EXPECTED: Final = ExpectedLog(
    by_terms(_terms),
    shares=typed(_shares),
    counted=typed(lambda given: DiscoTerms(given, given.of(TABLE)).schedule.most_rounds),
    votes=typed(_votes),
    sealed=typed(_sealed),
)
