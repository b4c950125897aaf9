"""How much noise do I need?  The smallest noise, most rounds or highest rate that meets a target.

A saddle-point estimate says where to look; every value that is returned carries a certificate
that its epsilon is at most the target, and a lower end that says how much could be left.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from . import events as ev
from . import validate
from .account import combine, engine_named, said_of, tightest
from .certified_search import UNKNOWNS, CertifiedValue, Unknown, find_certified_value
from .certifiers import Certificate, Certifier, certifiers_for
from .composition import leaves, observer_of, unit_of
from .engine_order import engines_for
from .engines.base import Answer
from .errors import InvalidInput, TargetUnreachable, Unsupported, kind_of
from .guarantee import Bounds, Guarantee
from .neighbours import Neighbours, as_neighbours


@dataclass(frozen=True)
class Calibration:
    """The value found, what it proves, and how far that is from the target.

    `value` is the unknown; `event` the event at that value; `guarantee.epsilon.upper` is at most
    `target`; `gap` is `target` minus the proven lower end, so no epsilon below `target - gap` is
    true of the event (it is the whole target where no lower end is known).
    """

    value: float
    guarantee: Guarantee
    gap: float
    target: float
    event: ev.Event


def calibrate(
    make_event: Callable[..., ev.Event],
    *,
    epsilon: float,
    delta: float,
    neighbours: str = "add-remove",
    unknown: str = "noise",
    engine: str | None = None,
) -> Calibration:
    """Return the value of the unknown that just meets (epsilon, delta), with its certificate.

    `make_event(value)` returns the event; its epsilon must fall as a `noise` multiplier grows,
    and grow with the number of `rounds` (an integer) or the sampling `rate`.  The result is the
    smallest noise in [0.001, 1e9], the most rounds up to 1e9, or the highest rate up to 1, to a
    relative 1e-4 of what is true where a two-sided engine is at work (`gap` says so); its
    certificate is never above the target.  Range: `epsilon` above 0, `delta` in (0, 1).  `engine`
    forces one engine; the default is led by the engine that is expected to be tightest, and checked
    by the others that `account` asks (see `engine_order`).

    Raises `TargetUnreachable` if no value meets the target, `TargetTrivial` if every value does,
    `InvalidInput` and `Unsupported` as `account` does.

    >>> found = calibrate(lambda s: ev.Repeat(100, ev.Gaussian(s)), epsilon=1, delta=1e-5)
    >>> round(found.value, 2), found.guarantee.epsilon.upper <= 1.0
    (37.31, True)
    """
    target = validate.positive(epsilon=epsilon)
    at_delta = validate.open_probability(delta=delta)
    relation = as_neighbours(neighbours)
    validate.choice(tuple(UNKNOWNS), unknown=unknown)
    if engine is not None:
        engine_named(engine)
    search = UNKNOWNS[unknown]

    if not callable(make_event):
        raise InvalidInput(f"`make_event` must be callable; it is {kind_of(make_event)}.")
    made: dict[float, ev.Event] = {}

    def event_at(value: float) -> ev.Event:
        # Each value is asked for once: what is judged is what is returned.
        if value not in made:
            event = make_event(int(value) if search.whole else value)
            if not isinstance(event, ev.Event):
                raise InvalidInput(
                    f"`make_event` must return an event; it returned {kind_of(event)}."
                )
            made[value] = event
        return made[value]

    candidates = certifiers_for(event_at(search.start), target, at_delta, relation, engine)
    for place, judge in enumerate(candidates):
        try:
            found = _edge(search, judge, event_at)
            break
        except (Unsupported, TargetUnreachable) as refusal:
            if place == len(candidates) - 1:
                if engine is None and isinstance(refusal, Unsupported):
                    raise refusal.unforced() from None
                raise
    guarantee = _guarantee(event_at(found.value), found.verdict, at_delta, relation, judge, engine)
    if engine is None and guarantee.engine != judge.name:
        # Another engine than the one that led the search proves more here: let it lead, from here.
        with contextlib.suppress(Unsupported):
            (other,) = certifiers_for(
                event_at(found.value), target, at_delta, relation, guarantee.engine
            )
            better = _edge(replace(search, start=found.value), other, event_at)
            if search.place(better.value) < search.place(found.value):
                event, verdict = event_at(better.value), better.verdict
                guarantee = _guarantee(event, verdict, at_delta, relation, other, engine)
                found = better
    gap = target - guarantee.epsilon.lower
    return Calibration(found.value, guarantee, gap, target, event_at(found.value))


def _edge(
    search: Unknown, judge: Certifier, event_at: Callable[[float], ev.Event]
) -> CertifiedValue:
    return find_certified_value(
        search,
        verdict=lambda value: judge.verdict(leaves(event_at(value))),
        rough=lambda value: judge.rough(leaves(event_at(value))),
        estimate=lambda value: judge.estimate(leaves(event_at(value))),
        answered=judge.answered,
    )


def _guarantee(
    event: ev.Event,
    verdict: Certificate,
    delta: float,
    relation: Neighbours,
    judge: Certifier,
    engine: str | None,
) -> Guarantee:
    """Return what is proven at the value found: by the judge, and by all that `account` asks."""
    parts = leaves(event)
    own = Answer(verdict.bounds(), verdict.steps, verdict.warnings)
    if engine is not None:
        answer, name = combine({judge.name: own}, forced=True)
    else:
        names = engines_for(parts)
        names = names if judge.name in names else (judge.name, *names)
        answer, name = tightest(
            names,
            lambda one: (
                own if one == judge.name else engine_named(one).epsilon(parts, delta, relation)
            ),
        )
    answer = said_of(event, answer, relation, delta=delta)
    return Guarantee(
        answer.bounds,
        Bounds.exactly(delta),
        relation,
        name,
        unit_of(event),
        observer_of(event),
        derivation=answer.steps,
        warnings=answer.warnings,
    )
