"""Probabilities too small for a float: what can happen is never counted as what cannot."""

from __future__ import annotations

import math

from privplan import account
from privplan import events as ev
from privplan.accountant.errors import Unsupported

from ..cases import for_each

WIDE = ev.TruncatedDiscreteGaussian(1.0, 1, 60)
"""Its outermost outcome has a probability of about e^-1800."""

HIGH = ev.ThresholdSelection("laplace", 1.0, 750.0, 1)
"""A new key passes with probability e^-749 / 2."""

TINY = ev.Approximate(1.0, 5e-324)


def wrapped(event: ev.Event) -> list[ev.Event]:
    return [
        event,
        ev.BestOf("fixed", 3, event),
        ev.BestOf("geometric", 3, event),
        ev.BestOf("poisson", 3, event),
        ev.ShuffledBatches(3, event),
        ev.RandomAllocation(4, 2, event),
        ev.ClientSampled(0.5, event),
        ev.ClientSampled(0.5, ev.BestOf("fixed", 2, event)),
        ev.ClientSampled(1e-300, event),
        ev.Compose((event, ev.Laplace(1.0))),
        ev.Group(2, event),
        ev.Poisson(0.5, event),
        ev.Group(2, ev.Poisson(0.5, event)),
    ]


UNBOUNDED = [
    *wrapped(WIDE),
    *wrapped(HIGH),
    *wrapped(TINY),
    ev.TruncatedDiscreteGaussian(0.01, 1, 2),
    ev.TruncatedDiscreteGaussian(0.03, 1, 5),
    ev.Poisson(1e-300, ev.Approximate(1.0, 1e-300)),
]


@for_each("event", UNBOUNDED, ids=str)
@for_each("relation", ["add-remove", "replace-one"])
@for_each("engine", [None, "rdp"])
def test_no_epsilon_is_proven_at_delta_0(event, relation, engine):
    try:
        answer = account(event, delta=0.0, neighbours=relation, engine=engine)
    except Unsupported:
        return  # a sentence, and no number
    assert answer.epsilon.upper == math.inf


@for_each("event", [*wrapped(WIDE), *wrapped(TINY), HIGH, ev.ClientSampled(0.5, HIGH)], ids=str)
@for_each("engine", [None, "rdp", "pld"])
def test_delta_is_above_0_however_large_epsilon_is(event, engine):
    try:
        answer = account(event, epsilon=1000.0, engine=engine)
    except Unsupported:
        return
    assert answer.delta.upper > 0.0


def test_a_lower_end_does_not_exceed_what_underflows():
    # e^-749 / 2 is below the smallest float.
    for engine in (None, "pld"):
        assert account(HIGH, epsilon=60.0, engine=engine).delta.lower == 0.0


def test_plain_events_are_answered_and_not_refused():
    for event in (WIDE, HIGH, TINY):
        for relation in ("add-remove", "replace-one"):
            answer = account(event, delta=0.0, neighbours=relation)
            assert answer.epsilon.upper == math.inf
            assert account(event, epsilon=60.0, neighbours=relation).delta.upper > 0.0
