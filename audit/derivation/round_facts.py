"""The facts that decide a round's cost: its rate, batch, weights and noise, if they can be so.

**Noise that is taken off** a sum, of all silos but one, under a Paillier key:

    masked sum   sum_i (V_i + N_i)
    removal      sum_{i != j} N_i, decrypted by the server, who draws j anew and evenly
    released     sum_i V_i + N_j

Whoever knows no N_i sees the sum with the noise of one silo.  Who knows those of c silos among k
sees the exact sum with probability c/k: `Compose(Gaussian, Approximate(0, c/k))` of one share is
exactly that, delta p + (1 - p) delta_G for p = c/k.  So delta is at least 1 - (1 - c/k)^T over T
rounds, whatever the noise.  That j is even and known to nobody but the server, and that the server
asks for no more to be taken off, nothing in a log can show: it is an assumption behind every
number.

Once noise is taken off it is so for everybody: what reaches any observer of that round has the
noise of one silo, though only one of them is said to see that.  Who sees each silo's message
with it has two views of one unit, with noise that is not even the same, and no number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ...accountant import events as ev
from ...accountant.errors import with_article
from ...accountant.records import (
    Block,
    Contribution,
    Noise,
    Reach,
    RoundIntent,
    RoundRelease,
    Sampling,
    Security,
    Weights,
)
from ...fl.observers.stated_assumptions import ASSUMED_PREFIX
from ..ledger.entries import SpentIntent
from ..ledger.matrix_facts import is_matrix, matrix_name, unusable_matrix, values_of
from ..ledger.phases import CONTINUOUS_FAMILIES
from ..ledger.product_facts import noise_is_taken_off
from .noise import (
    MIN_SHARE_GRID_STEPS,
    SUM_NOISE_FAMILIES,
    is_wishart,
    share_deviation,
    unusable_wishart,
    wishart_reason,
)
from .run_setting import RunSetting

MAX_USABLE_NUMBER: Final = 1e100
MIN_USABLE_NUMBER: Final = 1e-100
"""Bounds and noise outside of this range are mistakes."""


@dataclass(frozen=True)
class RoundFacts:
    """One intent with its release: all that its cost depends on, and nothing that it concludes.

    `shares` are the noise shares that can be relied on, `draws` the noisy sums that may have been
    released; `certain_draws` are those that surely were, with noise of at most `most_shares`
    shares. `single` says that a sum is one number and no vector (of messages:
    `messages.is_number`), `voids` what takes every guarantee away, and `unusable` which of it are
    absurd numbers. `reaches` is what the intent states of who sees what, by observer, None where it
    states nothing; `missing` are observers of whom only other rounds do.  `width` is how many
    values were released, where this one released nothing by the other rounds of its phase; None
    where none did, or no reach is stated.  `roster` is how many silos take part by a public
    schedule; None where none is stated, and all do.  `block` says which rounds share correlated
    noise with this one, and `covered` that it is not the first of them, which is paid for all.
    """

    contribution: Contribution
    noise: Noise
    weights: Weights
    sampling: Sampling
    sensitivity: float
    event: ev.Event
    shares: int
    draws: int
    certain_draws: int
    most_shares: int
    single: bool
    voids: tuple[str, ...] = ()
    unusable: tuple[str, ...] = ()
    reaches: tuple[tuple[str, Reach], ...] | None = None
    missing: tuple[str, ...] = ()
    width: int | None = None
    roster: int | None = None
    block: Block | None = None
    covered: bool = False

    @classmethod
    def of(
        cls,
        spent: SpentIntent,
        voids: tuple[str, ...] = (),
        *,
        single: bool = False,
        missing: tuple[str, ...] = (),
        width: int | None = None,
    ) -> RoundFacts:
        """Return the facts of an intent; the weakest of its releases counts, once for each.

        `single`: every release of its phase held a single value.  `missing`: observers of whom
        other rounds state what reaches them, and this one does not.  `width`: how many values other
        rounds of its phase released, where this one released nothing.
        """
        intent, releases = spent.intent, [release for _, release in spent.releases]
        noise = intent.noise
        promised = noise.shares - noise.tolerated_dropouts
        arrived = [release.shares for release in releases]
        drawn = [max(release.draws, noise.draws, 1) for release in releases]
        # Reasons are kept, not raised: the rounds that are sound still have their numbers.
        strange = (*unusable(intent), *_other_values(intent, releases))
        reasons = [*voids, *_void_reasons(intent), *strange]
        if not all(release.clip_enforced for release in releases):
            reasons.append("the clip was not enforced")
        if any(
            release.normaliser and release.normaliser.kind == "realised" for release in releases
        ):
            reasons.append("the sum was divided by the realised batch, which has no noise")
        return cls(
            intent.contribution,
            noise,
            intent.weights,
            intent.sampling,
            intent.sensitivity,
            intent.event,
            # The fewest shares of any release: noise that did not arrive once is relied on nowhere.
            max(min([promised, *arrived]), 0),
            # Upper count of noisy sums for the guarantee, lower count for what data attain.
            sum(drawn) if drawn else max(noise.draws, 1),
            sum(min(release.draws, noise.draws) for release in releases),
            max([noise.shares, *arrived]),
            single,
            tuple(dict.fromkeys(reasons)),
            strange,
            None if intent.reaches is None else tuple(sorted(intent.reaches.items(), key=_name)),
            missing,
            None
            if intent.reaches is None
            else max((release.values for release in releases), default=width),
            None if intent.silos is None else len(intent.silos),
            intent.block,
            intent.is_covered,
        )

    def reach_to(self, observer: str) -> Reach | None:
        """Return what the intent states to reach an observer; None where it states nothing."""
        return next((reach for name, reach in self.reaches or () if name == observer), None)

    @property
    def messages(self) -> bool:
        """Whether every unit sends a message of its own, with noise that no other shares."""
        return self.contribution.terms == "message" or self.noise.family not in SUM_NOISE_FAMILIES

    @property
    def rate(self) -> float:
        """The rate of a Poisson draw: the stated one, or batch over population where it is more."""
        sampling = self.sampling
        if sampling.batch is None or not sampling.population:
            return sampling.rate
        # Amplification grows as the rate falls, so of two stated rates the higher one counts.
        return max(sampling.rate, sampling.batch / sampling.population)


def _name(pair: tuple[str, Reach]) -> str:
    return pair[0]


def _void_reasons(intent: RoundIntent) -> list[str]:
    """Return why the facts of an intent, as they stand, bound nothing."""
    reasons = []
    if intent.contribution.source == "private":
        reasons.append("no public bound holds of what a unit adds")
    if intent.noise.family == "none":
        reasons.append("no noise was added")
    if is_wishart(intent.noise):
        reasons.append(wishart_reason())
    return reasons


def unusable(intent: RoundIntent) -> list[str]:
    """Return which numbers of an intent cannot be what they say; without noise none matters."""
    if intent.noise.family == "none":
        return []
    reasons = []
    contribution, weights, noise, sampling = (
        intent.contribution,
        intent.weights,
        intent.noise,
        intent.sampling,
    )
    for name, value in (("bound", contribution.bound), ("largest_sum", weights.largest_sum)):
        if not MIN_USABLE_NUMBER <= value <= MAX_USABLE_NUMBER:
            reasons.append(f"`{name}` is {value!r}, which bounds nothing")
    if noise.family in SUM_NOISE_FAMILIES:
        reasons += _noise_reasons(noise)
    if math.isinf(intent.sensitivity):
        reasons.append("`sensitivity` is infinite")
    if not 0.0 < sampling.rate <= 1.0:
        reasons.append(f"`sampling.rate` is {sampling.rate!r}, which is no probability above 0")
    reasons += unusable_matrix(intent)
    reasons += unusable_wishart(intent)
    return reasons


def _other_values(intent: RoundIntent, releases: list[RoundRelease]) -> list[str]:
    """Return why what was released is not the matrix that the facts of an intent bound."""
    contribution = intent.contribution
    if intent.noise.family == "none" or not is_matrix(contribution) or unusable(intent):
        return []
    due, named = values_of(contribution), with_article(matrix_name(contribution))
    return [
        f"{release.values:,} values were released, and {named} of these facts has {due:,}"
        for release in releases
        if release.values != due
    ][:1]


def _noise_reasons(noise: Noise) -> list[str]:
    reasons = []
    if not MIN_USABLE_NUMBER <= noise.std <= MAX_USABLE_NUMBER:
        reasons.append(f"`noise.std` is {noise.std!r}, which is no noise to rely on")
    if noise.shares < 1:
        reasons.append("the noise has no shares")
    if noise.shares > 1 and not MIN_USABLE_NUMBER <= noise.share_std <= MAX_USABLE_NUMBER:
        reasons.append(f"`noise.share_std` is {noise.share_std!r}, so the shares are unknown")
    if (
        noise.shares == 1
        and noise.share_std
        and not MIN_USABLE_NUMBER <= noise.share_std <= MAX_USABLE_NUMBER
    ):
        reasons.append(f"`noise.share_std` is {noise.share_std!r}, which is no noise")
    if not 0.0 <= noise.grid <= MAX_USABLE_NUMBER:
        reasons.append(f"`noise.grid` is {noise.grid!r}, which is no grid")
    elif (
        noise.family in CONTINUOUS_FAMILIES
        and not reasons
        and share_deviation(noise) < MIN_SHARE_GRID_STEPS * noise.grid
    ):
        reasons.append(
            f"`noise.grid` is {noise.grid!r}, too coarse for noise of deviation "
            f"{share_deviation(noise)!r}"
        )
    return reasons


def is_alone(facts: RoundFacts, setting: RunSetting) -> bool:
    """Return whether the unit lies in one silo, which puts all of the noise on its own sum."""
    inside = facts.contribution.unit in ("entry", "record") or setting.silos == 1
    return facts.noise.shares == 1 and inside and facts.contribution.terms == "unit"


REMOVAL_ASSUMPTION: Final = (
    f"{ASSUMED_PREFIX}the server follows the protocol: it draws anew, evenly, whose noise stays, "
    "and tells nobody"
)


def noise_is_removed(facts: RoundFacts, setting: RunSetting) -> bool:
    """Return whether the noise of all silos but one may be taken off a sum of products."""
    return noise_is_taken_off(facts.contribution, _stated(facts), setting.security)


def has_removal_key(facts: RoundFacts, security: Security | None) -> bool:
    """Return whether a protocol has the key under which noise is taken off products."""
    return noise_is_taken_off(facts.contribution, (), security)


def _stated(facts: RoundFacts) -> list[Reach]:
    return [reach for _, reach in facts.reaches or ()]


def unfit_removal(facts: RoundFacts, security: Security) -> Iterator[str]:
    """Yield why the facts of masks are none of a protocol that takes noise off, or lack it."""
    if not has_removal_key(facts, security):
        if noise_is_taken_off(facts.contribution, _stated(facts), None):
            yield "the noise of one silo is said to stay, and no key is stated that takes any off"
        return
    if security.server != "honest-but-curious":
        yield "a server that lies could have all noise taken off"
    if security.fewest != security.parties or facts.noise.tolerated_dropouts:
        yield "noise is taken off only where every party is there"
