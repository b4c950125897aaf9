"""What one round's cost depends on: the facts that its records state, if they can be so."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

from ...accountant import events as ev
from ...accountant.errors import with_article
from ...accountant.guarantee import Neighbours, as_neighbours
from ...accountant.records import (
    Contribution,
    Noise,
    Reach,
    RoundIntent,
    RunOpen,
    Sampling,
    Security,
    Weights,
)
from ...accountant.sensitivity.release import root_down
from ...fl.observers.names import MODEL as MODEL
from ...fl.observers.names import SERVER as SERVER
from ...fl.observers.names import SILO as SILO
from ...fl.observers.names import SILO_WITH_RECORDS as SILO_WITH_RECORDS
from .ledger import Spent

SUMS: Final = ("gaussian", "laplace", "discrete-gaussian", "discrete-laplace")
"""Families whose noise is added to a sum; `std` belongs to them."""

CONTINUOUS: Final = ("gaussian", "laplace")

LEAST_STEPS: Final = 80
SMOOTHING: Final = 64
"""Noise on a grid counts as continuous noise of a smaller variance.

A discrete Gaussian of parameter t steps is a post-processing of continuous noise of variance
t^2 - 64 on the same integers, up to a factor 1 +- 10^-547 at every value: proven in
`accountant/mechanisms/gaussian.py`.  Without the 64 it is not: of 8 steps, on a sum that moves by
half a deviation, its delta at epsilon 3.4 is 3 % above the continuous one's.  Whether `share_std`
is t, or t without the 64, a log does not say, so they are always taken off.  A share below 80
steps, which would lose more than 1 % of its variance, is too coarse.  Laplace noise on a grid is
rounded continuous noise, a post-processing as it is.
"""

LARGEST: Final = 1e100
LEAST: Final = 1e-100
"""Bounds and noise outside of this range are mistakes."""

Scope = Literal["same", "finer", "group"]
"""How the unit of a promise lies in what is clipped together: it is that, a part of it, or several
of it."""

_INSIDE: Final = frozenset(
    {
        ("entry", "record"),
        ("entry", "user"),
        ("entry", "silo"),
        ("record", "user"),
        ("record", "silo"),
    }
)


class Unproven(Exception):
    """The facts support no guarantee; the text says why."""


@dataclass(frozen=True)
class Setting:
    """What holds for the whole run: the promise's unit and relation, and who is there to see.

    `users` and `records` are how many there are, None where that is not public; `aggregation` says
    what the server sees, and `security` by which protocol (see `protocol.settled`).
    """

    unit: str
    neighbours: Neighbours
    group: int
    silos: int
    aggregation: str
    as_published: bool
    users: int | None = None
    records: int | None = None
    security: Security | None = None

    @classmethod
    def of(cls, opened: RunOpen, *, group: int | None = None) -> Setting:
        """Return the setting of a run; `group` replaces the number of records of one unit."""
        claim = opened.claim
        return cls(
            claim.unit,
            as_neighbours(claim.neighbours),
            claim.group if group is None else group,
            opened.population.silos,
            opened.aggregation,
            opened.as_published,
            opened.population.users,
            opened.population.records,
            opened.security,
        )

    @property
    def reach(self) -> int:
        """How many contribution bounds an event lets a sum move under the relation."""
        return 2 if self.neighbours == "replace-one" else 1

    def size(self, unit: str) -> int | None:
        """Return how many units of a kind there are; None where that is not known."""
        known = {"user": self.users, "record": self.records, "silo": self.silos}
        return known.get(unit) or None

    def scope(self, clipped: str) -> Scope:
        """Return how the unit lies in what is clipped together; `Unproven` where it does not."""
        if self.group > 1 and clipped in ("entry", "record"):
            return "group"
        if clipped == self.unit:
            return "same"
        if (self.unit, clipped) in _INSIDE:
            return "finer"
        unit = with_article(self.unit)
        raise Unproven(
            f"each {clipped} is clipped by itself, and {unit} may hold any number of them"
        )


@dataclass(frozen=True)
class Facts:
    """One intent with its release: all that its cost depends on, and nothing that it concludes.

    `shares` are the noise shares that can be relied on, `draws` the noisy sums that may have been
    released; `made` are those that surely were, with noise of at most `most_shares` shares.
    `single` says that a sum is one number and no vector (of messages: `messages.is_number`),
    `voids` what takes every guarantee away, and `unusable` which of it are absurd numbers.
    `reaches` is what the intent states of who sees what, by observer, None where it states nothing;
    `missing` are observers of whom only other rounds do.  `width` is how many values were released,
    where this one released nothing by the other rounds of its phase; None where none did, or no
    reach is stated.
    """

    contribution: Contribution
    noise: Noise
    weights: Weights
    sampling: Sampling
    sensitivity: float
    event: ev.Event
    shares: int
    draws: int
    made: int
    most_shares: int
    single: bool
    voids: tuple[str, ...] = ()
    unusable: tuple[str, ...] = ()
    reaches: tuple[tuple[str, Reach], ...] | None = None
    missing: tuple[str, ...] = ()
    width: int | None = None

    @classmethod
    def of(
        cls,
        spent: Spent,
        voids: tuple[str, ...] = (),
        *,
        single: bool = False,
        missing: tuple[str, ...] = (),
        width: int | None = None,
    ) -> Facts:
        """Return the facts of an intent; the weakest of its releases counts, once for each.

        `single`: every release of its phase held a single value.  `missing`: observers of whom
        other rounds state what reaches them, and this one does not.  `width`: how many values other
        rounds of its phase released, where this one released nothing.
        """
        own, releases = spent.intent, [release for _, release in spent.releases]
        noise = own.noise
        promised = noise.shares - noise.tolerated_dropouts
        arrived = [release.shares for release in releases]
        drawn = [max(release.draws, noise.draws, 1) for release in releases]
        strange = tuple(unusable(own))
        found = [*voids, *_own_voids(own), *strange]
        if not all(release.clip_enforced for release in releases):
            found.append("the clip was not enforced")
        if any(one.normaliser and one.normaliser.kind == "realised" for one in releases):
            found.append("the sum was divided by the realised batch, which has no noise")
        return cls(
            own.contribution,
            noise,
            own.weights,
            own.sampling,
            own.sensitivity,
            own.event,
            max(min([promised, *arrived]), 0),
            sum(drawn) if drawn else max(noise.draws, 1),
            sum(min(release.draws, noise.draws) for release in releases),
            max([noise.shares, *arrived]),
            single,
            tuple(dict.fromkeys(found)),
            strange,
            None if own.reaches is None else tuple(sorted(own.reaches.items(), key=_name)),
            missing,
            None
            if own.reaches is None
            else max((release.values for release in releases), default=width),
        )

    def reach_to(self, observer: str) -> Reach | None:
        """Return what the intent states to reach an observer; None where it states nothing."""
        return next((reach for name, reach in self.reaches or () if name == observer), None)

    @property
    def messages(self) -> bool:
        """Whether every unit sends a message of its own, with noise that no other shares."""
        return self.contribution.terms == "message" or self.noise.family not in SUMS

    @property
    def rate(self) -> float:
        """The rate of a Poisson draw: the stated one, or batch over population where it is more."""
        own = self.sampling
        if own.batch is None or not own.population:
            return own.rate
        return max(own.rate, own.batch / own.population)


def _name(pair: tuple[str, Reach]) -> str:
    return pair[0]


def _own_voids(intent: RoundIntent) -> list[str]:
    """Return why the facts of an intent, as they stand, bound nothing."""
    found = []
    if intent.contribution.source == "private":
        found.append("the clip norm was taken from private data")
    if intent.noise.family == "none":
        found.append("no noise was added")
    return found


def unusable(intent: RoundIntent) -> list[str]:
    """Return which numbers of an intent cannot be what they say; without noise none matters."""
    if intent.noise.family == "none":
        return []
    found = []
    own, weights, noise, drawn = intent.contribution, intent.weights, intent.noise, intent.sampling
    for name, value in (("bound", own.bound), ("largest_sum", weights.largest_sum)):
        if not LEAST <= value <= LARGEST:
            found.append(f"`{name}` is {value!r}, which bounds nothing")
    if noise.family in SUMS:
        found += _noise_voids(noise)
    if math.isinf(intent.sensitivity):
        found.append("`sensitivity` is infinite")
    if not 0.0 < drawn.rate <= 1.0:
        found.append(f"`sampling.rate` is {drawn.rate!r}, which is no probability above 0")
    return found


def _noise_voids(noise: Noise) -> list[str]:
    found = []
    if not LEAST <= noise.std <= LARGEST:
        found.append(f"`noise.std` is {noise.std!r}, which is no noise to rely on")
    if noise.shares < 1:
        found.append("the noise has no shares")
    if noise.shares > 1 and not LEAST <= noise.share_std <= LARGEST:
        found.append(f"`noise.share_std` is {noise.share_std!r}, so the shares are unknown")
    if noise.shares == 1 and noise.share_std and not LEAST <= noise.share_std <= LARGEST:
        found.append(f"`noise.share_std` is {noise.share_std!r}, which is no noise")
    if not 0.0 <= noise.grid <= LARGEST:
        found.append(f"`noise.grid` is {noise.grid!r}, which is no grid")
    elif noise.family in CONTINUOUS and not found and share_of(noise) < LEAST_STEPS * noise.grid:
        found.append(
            f"`noise.grid` is {noise.grid!r}, too coarse for noise of deviation {share_of(noise)!r}"
        )
    return found


def is_alone(facts: Facts, setting: Setting) -> bool:
    """Return whether the unit lies in one silo, which puts all of the noise on its own sum."""
    inside = facts.contribution.unit in ("entry", "record") or setting.silos == 1
    return facts.noise.shares == 1 and inside and facts.contribution.terms == "unit"


def share_of(noise: Noise) -> float:
    """Return the least deviation, or scale, that one share is stated to have.

    The whole sum's deviation is stated as well; where it is less than shares of `share_std` come
    to, the shares are as small as it says.
    """
    if noise.family != "gaussian":
        return min(noise.std, noise.share_std) if noise.share_std > 0.0 else noise.std
    return root_down(_stated_variance(noise))


def share_variance(noise: Noise) -> Fraction:
    """Return the variance of the continuous Gaussian noise that one share is as good as."""
    return _stated_variance(noise) - SMOOTHING * Fraction(noise.grid) ** 2


def _stated_variance(noise: Noise) -> Fraction:
    promised = max(noise.shares - noise.tolerated_dropouts, 1)
    whole = Fraction(noise.std) ** 2 / promised
    return min(whole, Fraction(noise.share_std) ** 2) if noise.share_std > 0.0 else whole
