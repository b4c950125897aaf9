"""Samples: against whom they hide a unit, and what they make of an event.

A draw hides a unit only from who does not know it (`fl.observers.reaches`), and only
where the unit is left out as a whole:

    drawn by              known to
    server                the server, and silos, which train on those who were drawn
    silos                 the silo that draws (units that lie in one silo)
    shared-secret         the silos
    oblivious-transfer    nobody: the server knows which slots are real, silos which they took

A server with silos that tell it what they know has what each of them knows.

Under private weighting no silo learns who takes part, whoever draws: it gets something encrypted
for every user, and works on all alike.  That holds for a unit of which the silo has nothing: see
`accountant.sensitivity.uldp.insider_release`.

Several draws in one round: each costs, but those that surely do not hold the unit.

At most m of the draws of an epoch hold one unit (`Sampling.most_draws`).  Reveal which: the
order is drawn whatever the data, so under replace-one and zero-out all other sums have the same law
with either data set, and m sums are composed, without amplification; each may depend on what was
released before.  Under add-remove that is so only if one unit more moves no other into another
batch (`moves_others` is False): else a unit that goes lets others move up, in every sum.

Only an order that is cut into batches holds a unit a fixed number of times: draws that are made
independently of each other may all hold it, and without sampling all do.  Of D sums of b of n units
some unit is in D b / n, so m is never taken below that, and sums beyond those that were announced
are taken to hold the unit.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from ...accountant import events as ev
from ...accountant.sensitivity.release import repeated
from ...fl.observers.reaches import SAMPLING_EVENTS, Route, is_sampled, parts_of, reach_of
from .noise import SUM_NOISE_FAMILIES
from .protocol_consistency import reliable_facts
from .round_facts import RoundFacts
from .run_setting import NoProof, RunSetting


def event_of_draws(
    base: ev.Event, facts: RoundFacts, setting: RunSetting, *, hidden: bool
) -> ev.Event:
    """Return the event of all sums of a round; `base` is that of one, before sampling."""
    most = max_draws_per_unit(facts, setting)
    if most is None:
        return repeated(facts.draws, sampled_event(base, facts, setting, hidden=hidden))
    require_population(facts, setting)
    # m sums hold the unit, with the others' batches fixed; no amplification is claimed.
    if facts.sampling.moves_others is False:
        return repeated(most, base)
    # One of draws/m batches holds the unit, at a place that the observer does not know.
    if hidden and facts.draws % most == 0:
        return repeated(most, ev.ShuffledBatches(facts.draws // most, base))
    return repeated(most, base)


def max_draws_per_unit(facts: RoundFacts, setting: RunSetting) -> int | None:
    """Return how many of a round's sums hold one unit at most; None where all of them may."""
    drawn, announced = facts.sampling, max(facts.noise.draws, 1)
    if drawn.most_draws is None or drawn.method != "shuffled" or drawn.most_draws < 1:
        return None
    if drawn.of != facts.contribution.unit:
        return None
    if setting.neighbours == "add-remove" and drawn.moves_others is not False:
        return None
    least = 1
    if drawn.batch and drawn.population:
        # Pigeonhole: D sums of b of n units hold some unit ceil(D b / n) times at least.
        least = -(-Fraction(announced * drawn.batch, drawn.population) // 1)
    most = max(drawn.most_draws, int(least)) + max(facts.draws - announced, 0)
    return most if most < facts.draws else None


__all__ = [
    "SAMPLING_EVENTS",
    "can_hide",
    "is_hidden",
    "is_sampled",
    "parts_of",
    "route_of",
    "sampled_event",
]

_SHIFTING: Final = ("fixed-size", "truncated-poisson", "shuffled")
"""Samplers in which another unit takes the place of one that goes."""


def sampled_event(
    base: ev.Event, facts: RoundFacts, setting: RunSetting, *, hidden: bool
) -> ev.Event:
    """Return the event on its sample; `hidden` says that nobody who sees it knows the sample."""
    drawn = facts.sampling
    if drawn.method == "none":
        return base
    require_population(facts, setting)
    amplifies = hidden
    if isinstance(base, (ev.Laplace, ev.DiscreteLaplace)) and not facts.single:
        # Amplified Laplace noise under replace-one is not proven for vectors: not amplified there.
        amplifies &= setting.neighbours != "replace-one"  # proven in one dimension
    if amplifies:
        if _is_far(facts, setting):
            base = _halved(base)
        if drawn.method == "poisson":
            return base if facts.rate == 1.0 else ev.Poisson(facts.rate, base)
        if drawn.method in ("fixed-size", "truncated-poisson") and drawn.batch and drawn.population:
            if drawn.method == "truncated-poisson":
                # A cap cuts batches by who else is drawn, which has a cost of its own
                # (`TruncatedPoisson`).
                return ev.TruncatedPoisson(drawn.rate, drawn.batch, drawn.population, base)
            if drawn.batch < drawn.population:
                return ev.FixedSize(drawn.batch, drawn.population, base)
    # No amplification, and one unit less lets another in: the sum moves by 2 C instead of C.
    if drawn.method in _SHIFTING and setting.neighbours == "add-remove":
        return _halved(base)
    return base


def require_population(facts: RoundFacts, setting: RunSetting) -> None:
    """Raise `NoProof` where a sample is stated to be of more units than there are."""
    drawn, there = facts.sampling, setting.size(facts.sampling.of)
    if drawn.population is not None and there is not None and drawn.population > there:
        raise NoProof(
            f"a sample of {drawn.population:,} {drawn.of}s is stated where there are {there:,}"
        )


def _is_far(facts: RoundFacts, setting: RunSetting) -> bool:
    """Return whether a unit that is not drawn leaves the sum farther away than C.

    Poisson sampling under replace-one sets both data sets against the rounds without the unit, from
    which terms that stay lie up to two clips away, while C is one clip.
    """
    near = facts.contribution.terms == "unit" or facts.sampling.method == "fixed-size"
    is_sum = (
        facts.noise.family in SUM_NOISE_FAMILIES
    )  # a stated epsilon says itself what it holds for
    return setting.neighbours == "replace-one" and is_sum and not near


def is_hidden(facts: RoundFacts, setting: RunSetting, observer: str) -> bool:
    """Return whether a sample hides the clipped units from an observer."""
    facts, setting = reliable_facts(facts, setting)
    reach = reach_of(observer, route_of(facts, setting))
    return can_hide(facts, setting) and (reach is None or not reach.knows_sample)


def can_hide(facts: RoundFacts, setting: RunSetting) -> bool:
    """Return whether a sample may hide the clipped units from anybody: drawn as a whole, at once.

    `facts` and `setting` as they are `reliable_facts`.
    """
    drawn = facts.sampling
    if drawn.of != facts.contribution.unit:
        return False
    # Independent draws at several silos leave out a part of a user only, which hides nobody.
    apart = drawn.drawn_by == "silos" and setting.silos > 1
    if apart and drawn.of not in ("entry", "record"):
        return False  # the silos may draw a unit apart
    # A transfer draws each unit by itself.
    return drawn.drawn_by != "oblivious-transfer" or drawn.method == "poisson"


def route_of(facts: RoundFacts, setting: RunSetting) -> Route:
    """Return how the terms of a round travel, by its `reliable_facts`."""
    return Route(
        setting.aggregation,
        setting.silos,
        setting.security,
        facts.noise.tolerated_dropouts,
        facts.sampling,
        facts.contribution.unit,
        facts.messages,
    )


def _halved(event: ev.Event) -> ev.Event:
    """Return the event of a sum that moves twice as far: a unit that goes lets another one in."""
    match event:
        case ev.Gaussian(noise):
            return ev.Gaussian(noise / 2.0)
        case ev.Laplace(noise):
            return ev.Laplace(noise / 2.0)
        case ev.ZCDP(rho):
            return ev.ZCDP(4.0 * rho)
        case ev.Pure(epsilon):
            return ev.Pure(2.0 * epsilon)
    raise NoProof(f"`{event.type}` on a sample whose size is fixed is not understood")
