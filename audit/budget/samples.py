"""Samples: against whom they hide a unit, and what they make of an event.

A draw hides a unit only from who does not know it, and only where the unit is left out as a whole:

    drawn by              known to
    server                the server, and silos, which train on those who were drawn
    silos                 the silo that draws (units that lie in one silo)
    shared-secret         the silos
    oblivious-transfer    nobody: the server knows which slots are real, silos which they took

A server with silos that tell it what they know has what each of them knows.

Under private weighting no silo learns who takes part, whoever draws: it gets something encrypted
for every user, and works on all alike.  That holds for a unit of which the silo has nothing: see
`accountant.sensitivity.uldp.insider_release`.
"""

from __future__ import annotations

from typing import Final

from ...accountant import events as ev
from ...fl.observers import coalition_of
from .facts import SERVER, SILO, SILO_WITH_RECORDS, SUMS, Facts, Setting, Unproven
from .protocol import settled

_SHIFTING: Final = ("fixed-size", "truncated-poisson", "shuffled")
"""Samplers in which another unit takes the place of one that goes."""


SAMPLERS: Final = (
    ev.Poisson,
    ev.FixedSize,
    ev.TruncatedPoisson,
    ev.ShuffledBatches,
    ev.RandomAllocation,
)
"""Events that say that a unit hides in a sample."""


def parts_of(event: ev.Event | None) -> list[ev.Event]:
    """Return an event and everything inside it."""
    found, waiting = [], [] if event is None else [event]
    while waiting:
        own = waiting.pop()
        found.append(own)
        waiting += getattr(own, "events", ())
        inner = getattr(own, "event", None)
        if isinstance(inner, ev.Event):
            waiting.append(inner)
    return found


def is_sampled(event: ev.Event | None) -> bool:
    """Return whether an event counts on a sample anywhere."""
    return any(isinstance(part, SAMPLERS) for part in parts_of(event))


def on_sample(
    base: ev.Event, facts: Facts, setting: Setting, observer: str, *, amplifies: bool
) -> ev.Event:
    """Return the event on its sample, as far as the observer does not know it."""
    drawn = facts.sampling
    if drawn.method == "none":
        return base
    there = setting.size(drawn.of)
    if drawn.population is not None and there is not None and drawn.population > there:
        raise Unproven(
            f"a sample of {drawn.population:,} {drawn.of}s is stated where there are {there:,}"
        )
    if isinstance(base, (ev.Laplace, ev.DiscreteLaplace)) and not facts.single:
        amplifies &= setting.neighbours != "replace-one"  # proven in one dimension
    if amplifies and is_hidden(facts, setting, observer):
        if _is_far(facts, setting):
            base = _halved(base)
        if drawn.method == "poisson":
            return base if facts.rate == 1.0 else ev.Poisson(facts.rate, base)
        if drawn.method in ("fixed-size", "truncated-poisson") and drawn.batch and drawn.population:
            if drawn.method == "truncated-poisson":
                return ev.TruncatedPoisson(drawn.rate, drawn.batch, drawn.population, base)
            if drawn.batch < drawn.population:
                return ev.FixedSize(drawn.batch, drawn.population, base)
    if drawn.method in _SHIFTING and setting.neighbours == "add-remove":
        return _halved(base)
    return base


def _is_far(facts: Facts, setting: Setting) -> bool:
    """Return whether a unit that is not drawn leaves the sum farther away than C.

    Poisson sampling under replace-one sets both data sets against the rounds without the unit, from
    which terms that stay lie up to two clips away, while C is one clip.
    """
    near = facts.contribution.terms == "unit" or facts.sampling.method == "fixed-size"
    is_sum = facts.noise.family in SUMS  # a bare epsilon says itself what it holds for
    return setting.neighbours == "replace-one" and is_sum and not near


def is_hidden(facts: Facts, setting: Setting, observer: str) -> bool:
    """Return whether a sample hides the clipped units from an observer."""
    facts, setting = settled(facts, setting)
    drawn = facts.sampling
    if drawn.of != facts.contribution.unit:
        return False
    if observer == SERVER and facts.noise.family not in SUMS and setting.aggregation == "plain":
        return False  # who sends no message was not drawn
    in_one_silo = drawn.of in ("entry", "record")
    if not in_one_silo and drawn.drawn_by == "silos" and setting.silos > 1:
        return False  # the silos may draw a unit apart
    transferred = drawn.drawn_by == "oblivious-transfer"
    if transferred and drawn.method != "poisson":
        return False  # a transfer draws each unit by itself
    private = setting.aggregation == "private-weighting"
    if observer == SERVER:
        return drawn.drawn_by in ("silos", "shared-secret") or (transferred and private)
    if coalition_of(observer) is not None:  # somebody in it draws, or trains on those drawn
        return in_one_silo and drawn.drawn_by == "silos"
    if observer == SILO and not in_one_silo:
        return private and drawn.of == "user" and (transferred or drawn.drawn_by == "server")
    if observer in (SILO, SILO_WITH_RECORDS):
        return in_one_silo and drawn.drawn_by == "silos"
    return True


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
    raise Unproven(f"`{event.type}` on a sample whose size is fixed is not understood")
