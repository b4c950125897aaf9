"""What a round of Uldp-FL's systems is, for their runs and for audits of these.

| system | the sum that noise is added to | its noise | divided by |
|---|---|---|---|
| `uldp-naive` | every silo's clipped update | 2 sigma C S; as published sigma C S | S |
| `uldp-group` | a silo's sampled records, in each step | sigma C | q n, n = k U / S |
| `uldp-avg`, `uldp-sgd` | users' clipped and weighted updates | sigma C | q U S |

Why these are the numbers is said with each system.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from ...accountant import events as ev
from ...accountant.mechanisms import FineGaussian, Gaussian
from ...accountant.records import RoundIntent, Sampling, Security
from ...accountant.sensitivity import uldp
from ...accountant.sensitivity.release import repeated, sensitivity_multiplier, up
from ..aggregation.weighted_sum import NO_NOISE_LEFT, weighted_sum, weighted_views
from ..declarations.sealed_items import NOISE, NORMS
from ..declarations.shared_tables import PrivacySettings
from ..frame.expected_log import ExpectedPhase, expected_phase, votes_noise
from ..frame.held_out_votes import record_votes_sum
from ..frame.terms import SetupTerms
from ..observers.names import MODEL, PEER, PEER_OBSERVERS, Coalition
from .correlated import Schedule
from .record_flags import FLAGS_CHOSEN_BY
from .settings import BANDED, TABLE

if TYPE_CHECKING:
    from ..declarations.stated_settings import StatedSettings

DrawnBy: TypeAlias = Literal["server", "oblivious-transfer", "shared-secret"]

UPDATE_DIGIT_BITS: Final = 16
"""Bits of one integer of a clipped update under hidden weights, its sign included."""

PUBLISHED_NAIVE_EVENT: Final = ev.NoGuarantee(
    "ULDP-NAIVE as published: its noise is made for half of what a user can move"
)

PUBLISHED_WEIGHTING_EVENT: Final = ev.NoGuarantee(
    "private weighting as published: what is decrypted, and its ciphertexts, show more than the sum"
)


# --- ULDP-NAIVE -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class NaiveTerms(SetupTerms):
    """A round of ULDP-NAIVE (`naive`); `weighted_moments`: moments weighted by records are given.

    Then silos that hold records of a user know more of the moments.
    """

    as_published: bool = False
    weighted_moments: bool = False

    sealed = (*NORMS, *NOISE)

    @property
    def divisor(self) -> float:
        """The number of silos."""
        return float(self.setup.silos)

    def mechanism(self, noise_multiplier: float) -> Gaussian:
        """Return the noise of one round on the sum over all silos, in |S| shares."""
        clip, silos = self.setup.training.clip, self.setup.silos
        sensitivity = uldp.naive_sensitivity_as_published(clip, silos)
        if not self.as_published:
            # Noise multipliers are per contribution: where a unit is replaced, it moves two.
            relation = self.setup.privacy.neighbours
            sensitivity = uldp.naive_sensitivity(clip, silos, relation).l2 / sensitivity_multiplier(
                relation
            )
        return Gaussian(
            bound=clip,
            std=up(Fraction(noise_multiplier) * Fraction(sensitivity)),
            shares=silos,
            terms="silo-delta",
            unit="user",
            tolerated_dropouts=self.setup.security.dropouts,
        )

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        """Return the event of one round for the model, the server, a silo, and coalitions.

        A server that sees every silo's update learns no more than one that sees their sum: in the
        worst case a user moves every silo equally far in one direction, and the sum shows that.
        Silos that collude with the server take what they sent off the sum, their noise included.
        Among peers there is no server, and a peer, alone or with colluders, sees what a silo sees.
        """
        setup, silos, relation = self.setup, self.setup.silos, self.setup.privacy.neighbours
        peers, dropouts = setup.aggregation == "shares", setup.security.dropouts
        coalitions = _coalitions(self)
        if self.as_published:
            observers: tuple[str, ...] = ("model", "server", "silo")
            if peers:
                observers = PEER_OBSERVERS
            elif silos == 1:
                observers = ("model", "server")
            names = (*observers, *(coalition.name for coalition in coalitions))
            return dict.fromkeys(names, PUBLISHED_NAIVE_EVENT)
        # In the paper's unit, C |S|.
        multiplier = 2.0 * noise_multiplier / sensitivity_multiplier(relation)

        def event_of(silos_seen: int) -> ev.Event:
            """Return the event of who sees the sum of so many silos."""
            # As many silos may be missing as are seen: then no noise is left for certain.
            if dropouts >= silos_seen:
                return NO_NOISE_LEFT
            return uldp.naive_release(
                multiplier,
                rounds=1,
                silos=silos,
                seen=silos_seen,
                neighbours=relation,
                tolerated_dropouts=dropouts,
            ).event

        if peers:  # what its colluders sent is not hidden from it: it learns less of the rest
            return {MODEL: event_of(silos), PEER: event_of(silos - 1)}
        views = {"model": event_of(silos), "server": event_of(silos)}
        if silos > 1:
            views["silo"] = event_of(silos - 1)  # it knows its own share of the noise
            if self.weighted_moments:
                views["silo-with-records"] = views["silo"]  # knows more of the moments
        # The records that a colluding silo holds of a user change nothing of what the others send.
        return views | {
            coalition.name: event_of(silos - coalition.colluders) for coalition in coalitions
        }


def naive_terms(given: StatedSettings, *_: object) -> NaiveTerms:
    """Return the terms of a configuration of ULDP-NAIVE."""
    return NaiveTerms(given, given.of(TABLE).as_published)


# --- ULDP-GROUP -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class GroupTerms(SetupTerms):
    """A round of ULDP-GROUP-k (`group`), of `most` records k of a user.

    `given_rate` is the probability that a record joins a step; None: on average one batch of a silo
    with n records.
    """

    most: int
    given_rate: float | None = None

    sealed = (*NOISE, "taking_part")

    @property
    def nominal(self) -> Fraction:
        """n, the records of a silo if every user has k of them over all silos."""
        return Fraction(self.most * self.setup.users, self.setup.silos)

    @property
    def rate(self) -> float:
        """q: where none is given, a silo with n records draws one batch on average; at most 1."""
        if self.given_rate is not None:
            return self.given_rate
        return min(float(self.setup.training.batch / self.nominal), 1.0)

    @property
    def draws(self) -> int:
        """The steps of DP-SGD in a round: ceil(1 / q) visit each record once on average."""
        return self.setup.training.local_epochs * math.ceil(1 / Fraction(self.rate))

    @property
    def sampling(self) -> Sampling:
        """Each silo draws records for each step, of those that it has flagged."""
        if self.rate == 1.0:
            return Sampling(chosen_by=FLAGS_CHOSEN_BY)
        return Sampling("poisson", "record", self.rate, "silos", chosen_by=FLAGS_CHOSEN_BY)

    @property
    def divisor(self) -> float:
        """The public number of records that a step is divided by, q n."""
        return float(Fraction(self.rate) * self.nominal)

    def mechanism(self, noise_multiplier: float) -> Gaussian:
        """Return the noise of one step in one silo: std sigma C on the sum of clipped gradients."""
        clip = self.setup.training.clip
        std = up(Fraction(noise_multiplier) * Fraction(clip))
        return Gaussian(bound=clip, std=std, terms="unit", unit="record")

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        """Return the event of one round for one record; the same for every observer.

        A record is protected by the noise and the samples of its own silo, which draws both, and
        nobody sees more of it than what that silo sends: neither a server that sees every silo's
        update, nor a silo that takes its own off the model, nor one that holds other records of the
        user, as flags are a function of a silo's own records.
        """
        # Each step is a Gaussian sum over a Poisson sample: amplified where q < 1.
        step: ev.Event = ev.Gaussian(noise_multiplier)
        if self.rate < 1.0:
            step = ev.Poisson(self.rate, step)
        observers = ["model", "server"]
        if self.setup.silos > 1:
            observers += ["silo", "silo-with-records"]
        return dict.fromkeys(observers, repeated(self.draws, step))


def group_terms(given: StatedSettings, *_: object) -> GroupTerms:
    """Return the terms of a configuration of ULDP-GROUP."""
    table = given.of(TABLE)
    return GroupTerms(given, table.group_records or 1, table.record_rate)


def group_votes(given: StatedSettings) -> ExpectedPhase:
    """Return what the release of votes states: of flagged records, k of a user."""
    mechanism = record_votes_sum(
        votes_noise(given),
        silos=given.silos,
        most=given.of(TABLE).group_records,
        dropouts=given.security.dropouts,
    )
    sampling = Sampling(chosen_by=FLAGS_CHOSEN_BY)
    return expected_phase(mechanism, given.privacy.neighbours, 1, sampling, None)


# --- ULDP-AVG and ULDP-SGD ------------------------------------------------------------------------


@dataclass(frozen=True)
class WeightedTerms(SetupTerms):
    """A round of ULDP-AVG or ULDP-SGD (`averaging`), whoever knows the weights.

    - `schedule`: in which turns users take part, where rounds share correlated noise.
    - `as_published`: that weights are hidden by the published protocol.
    """

    schedule: Schedule | None = None
    as_published: bool = False

    @property
    def hides_weights(self) -> bool:
        """Whether a protocol that holds sums updates under weights that nobody sees."""
        return self.setup.aggregation == "private-weighting" and not self.as_published

    @property
    def real_slots(self) -> int | None:
        """k, the number of real slots of an oblivious transfer: k / slots is the sampling rate."""
        slots = self.setup.security.slots
        return None if slots is None else round(self.setup.privacy.sampling_rate * slots)

    @property
    def rate(self) -> float:
        """The probability with which a user joins a round; of real slots, rounded up."""
        slots, real = self.setup.security.slots, self.real_slots
        if slots is None or real is None:
            return float(self.setup.privacy.sampling_rate)
        # Rounded up: a larger rate never gives a smaller epsilon.
        return up(Fraction(real, slots))

    @property
    def drawn_by(self) -> DrawnBy:
        """Who draws the sample of users: peers do from a secret that they share."""
        if self.setup.security.slots is not None:
            return "oblivious-transfer"
        return "shared-secret" if self.setup.aggregation == "shares" else "server"

    @property
    def sampling(self) -> Sampling:
        """One draw of users for all silos."""
        if self.rate == 1.0:
            return Sampling()
        return Sampling("poisson", "user", self.rate, self.drawn_by)

    @property
    def divisor(self) -> float:
        """q |U| |S| whoever joined: dividing by the number drawn would release it."""
        constant = self.rate * self.setup.users * self.setup.silos
        return constant if self.schedule is None else constant / self.schedule.cohorts

    @property
    def sealed(self) -> tuple[str, ...]:
        """With norms and noise who joined, where a party draws that."""
        if self.setup.aggregation != "private-weighting":
            return (*NORMS, *NOISE, "joined")
        if self.as_published:
            return (*NORMS, "joined")
        drawn = self.setup.privacy.sampling_rate < 1.0 and self.setup.security.slots is None
        return (*NORMS, *NOISE, "joined") if drawn else (*NORMS, *NOISE)

    def summed(self, noise_multiplier: float) -> Gaussian:
        """Return the Gaussian of one round: std sigma C on the sum of all silos, in |S| shares."""
        setup = self.setup
        return weighted_sum(
            noise_multiplier,
            bound=setup.training.clip,
            users=setup.users,
            silos=setup.silos,
            rule=setup.training.weighting,
            tolerated_dropouts=setup.security.dropouts,
        )

    def mechanism(self, noise_multiplier: float) -> Gaussian | FineGaussian:
        """Return the noise of one round by itself: on a finer grid under hidden weights.

        There every residue of the decrypted integers has noise.
        """
        summed = self.summed(noise_multiplier)
        if not self.hides_weights:
            return summed
        from .weighting.terms import common_multiple

        multiple = common_multiple(self.setup.security.count_limit)
        return FineGaussian.of(summed, multiple, UPDATE_DIGIT_BITS)

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        """Return the event of one round for the model, the server, a silo, and coalitions.

        With a schedule: of one block of rounds.
        """
        setup = self.setup
        if self.as_published:
            coalitions = [coalition.name for coalition in _coalitions(self)]
            observers = ("model", "server", "silo", "silo-with-records", *coalitions)
            return dict.fromkeys(observers, PUBLISHED_WEIGHTING_EVENT)
        of_round = weighted_views(
            noise_multiplier,
            silos=setup.silos,
            rule=setup.training.weighting,
            neighbours=setup.privacy.neighbours,
            rate=self.rate,
            aggregation=setup.aggregation,
            drawn_by=self.drawn_by,
            tolerated_dropouts=setup.security.dropouts,
            coalitions=setup.coalitions,
            colluders=setup.security.colluders,
        )
        return of_round if self.schedule is None else self.schedule.views(of_round)

    def expected(self, privacy: PrivacySettings, intent: RoundIntent) -> ExpectedPhase:
        """Return what a round states; a block begins where an earlier one was cut off."""
        alone = super().expected(privacy, intent)
        if self.schedule is None:
            return alone
        first = intent.round if intent.block is None else intent.block.first
        return replace(alone, block=self.schedule.block(first))

    @property
    def security(self) -> Security:
        """The parameters of private weighting, as they are published or as they hold."""
        setup, security, limit = self.setup, self.setup.security, self.setup.security.count_limit
        return Security(
            "private-weighting",
            parties=setup.silos,
            fewest=setup.silos,
            key_bits=security.key_bits,
            count_limit=limit,
            count_cap=0 if self.as_published else (limit - 1) // setup.silos,
            records_per_count=1 if self.as_published else security.records_per_count,
            slots=security.slots or 0,
            chosen=self.real_slots or 0,
            noise="multiples" if self.as_published else "every-residue",
        )


def weighted_terms(given: StatedSettings, *_: object) -> WeightedTerms:
    """Return the terms of a configuration of ULDP-AVG or ULDP-SGD, or of what is made of them."""
    banded = given.name == "uldp-avg" and given.privacy.noise == BANDED
    published = given.aggregation == "private-weighting" and given.of(TABLE).as_published
    return WeightedTerms(given, Schedule.of(given) if banded else None, published)


def _coalitions(terms: SetupTerms) -> list[Coalition]:
    """Return the coalitions of a server, without and with records of the unit."""
    return [
        Coalition(colluders, holds)
        for colluders in terms.setup.coalitions
        for holds in (False, True)
    ]
