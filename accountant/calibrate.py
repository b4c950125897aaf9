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
from .account import combine, engine_named, tightest, with_scope
from .certified_search import UNKNOWNS, CertifiedValue, Unknown, find_certified_value
from .certifiers import Certificate, Certifier, certifiers_for
from .composition import observer_of, unit_of, worst_leaves
from .engine_order import engines_for
from .engines.base import Answer
from .errors import InvalidInput, TargetUnreachable, Unsupported, kind_of
from .guarantee import Bounds, Guarantee
from .lattice_noise import less_lattice_noise, where_delta_falls
from .neighbours import Neighbours, as_neighbours


@dataclass(frozen=True)
class Calibration:
    """The value that was found, what it proves, and how far that is from the target.

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
    make_event: Callable[..., ev.EventLike],
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
    certificate is never above the target.  A bound that counts whole messages, as those of padded
    shuffling do, jumps as noise grows; where it jumps over the target the result is the edge of the
    jump, to a relative 1e-4, and epsilon may lie well below the target.  Discrete Gaussian noise
    may meet a target, miss it with a little more noise, and meet it again: the smallest that a scan
    certifies is returned, and more noise than that need not do.  Range: `epsilon` above 0, `delta`
    in [0, 1).  `engine` forces one engine; the default is led by the engine that is expected to be
    tightest, and checked by the others that `account` asks (see `engine_order`).

    Raises `TargetUnreachable` if no value meets the target, `TargetTrivial` if every value does,
    `InvalidInput` and `Unsupported` as `account` does.

    >>> found = calibrate(lambda s: ev.Repeat(100, ev.Gaussian(s)), epsilon=1, delta=1e-5)
    >>> round(found.value, 2), found.guarantee.epsilon.upper <= 1.0
    (37.31, True)
    """
    target = validate.positive(epsilon=epsilon)
    at_delta = validate.probability_below_one(delta=delta)
    relation = as_neighbours(neighbours)
    validate.choice(tuple(UNKNOWNS), unknown=unknown)
    if engine is not None:
        engine_named(engine)
    quantity = UNKNOWNS[unknown]

    if not callable(make_event):
        raise InvalidInput(f"`make_event` must be callable; it is {kind_of(make_event)}.")
    events: dict[float, ev.Event] = {}

    def event_at(value: float) -> ev.Event:
        # One call for each value: the event that is certified is the event that is returned.
        if value not in events:
            given = make_event(int(value) if quantity.whole else value)
            event = ev.as_event(given)
            if event is None:
                raise InvalidInput(
                    f"`make_event` must return an event; it returned {kind_of(given)}."
                )
            events[value] = event
        return events[value]

    candidates = certifiers_for(event_at(quantity.start), target, at_delta, relation, engine)
    # The first engine that can bring the epsilon below the target leads the search.
    for index, certifier in enumerate(candidates):
        try:
            best = _search(quantity, certifier, event_at)
            break
        except (Unsupported, TargetUnreachable) as refusal:
            if index == len(candidates) - 1:
                if engine is None and isinstance(refusal, Unsupported):
                    raise refusal.unforced() from None
                raise
    best = less_lattice_noise(quantity, best, certifier, event_at)
    guarantee = _guarantee(
        event_at(best.value), best.certificate, at_delta, relation, certifier, engine
    )
    if engine is None and guarantee.engine != certifier.name:
        # Another engine proves more here than the one that led the search: search again by it.
        with contextlib.suppress(Unsupported):
            (other,) = certifiers_for(
                event_at(best.value), target, at_delta, relation, guarantee.engine
            )
            better = _search(replace(quantity, start=best.value), other, event_at)
            if quantity.coordinate(better.value) < quantity.coordinate(best.value):
                event, certificate = event_at(better.value), better.certificate
                guarantee = _guarantee(event, certificate, at_delta, relation, other, engine)
                best = better
    # No epsilon below the lower end is true of the event: nothing better than `gap` was missed.
    gap = target - guarantee.epsilon.lower
    return Calibration(best.value, guarantee, gap, target, event_at(best.value))


def _search(
    quantity: Unknown, certifier: Certifier, event_at: Callable[[float], ev.Event]
) -> CertifiedValue:
    return find_certified_value(
        where_delta_falls(quantity, certifier, event_at),
        certify=lambda value: certifier.certify(worst_leaves(event_at(value))),
        coarse=lambda value: certifier.coarse_log_excess(worst_leaves(event_at(value))),
        estimate=lambda value: certifier.estimated_log_excess(worst_leaves(event_at(value))),
        delta_excess=certifier.delta_log_excess,
    )


def _guarantee(
    event: ev.Event,
    certificate: Certificate,
    delta: float,
    relation: Neighbours,
    certifier: Certifier,
    engine: str | None,
) -> Guarantee:
    """Return what the certifier, and all engines that `account` asks, prove at a value."""
    parts = worst_leaves(event)
    certified = Answer(certificate.bounds(), certificate.steps, certificate.warnings)
    if engine is not None:
        answer, name = combine({certifier.name: certified}, forced=True)
    else:
        names = engines_for(parts, delta)
        names = names if certifier.name in names else (certifier.name, *names)
        answer, name = tightest(
            names,
            lambda name: (
                certified
                if name == certifier.name
                else engine_named(name).epsilon(parts, delta, relation)
            ),
        )
    answer = with_scope(event, answer, relation, delta=delta)
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
