"""Mechanisms: what they state, what they draw, and that the one is the other.

Statistical tests use seeded streams, so a pass stays a pass; on a fresh seed each would raise a
false alarm with the probability `FALSE_ALARM`.
"""

from __future__ import annotations

import math
import traceback
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    Gate,
    Gaussian,
    Laplace,
    RandomizedResponse,
    RoundDescription,
)
from privplan.accountant.mechanisms.base import Mechanism, covers
from privplan.accountant.odometer import Odometer
from privplan.accountant.randomness import Streams

from ..cases import for_each
from .mechanism_tickets import USERS, Memory, ticket_for


def test_events_on_samples() -> None:
    own = Gaussian(1.0, 4.0)
    base = ev.Gaussian(4.0)
    assert own.event("add-remove", USERS) == ev.Poisson(0.25, base)
    assert own.event("add-remove", replace(USERS, rate=1.0)) == base
    assert own.event("add-remove", USERS, draws=3) == ev.Repeat(3, ev.Poisson(0.25, base))
    fixed = records.Sampling("fixed-size", "user", 0.1, "server", 5, 50)
    assert own.event("replace-one", fixed) == ev.FixedSize(5, 50, base)
    cut = records.Sampling("truncated-poisson", "user", 0.1, "server", 9, 50)
    assert own.event("add-remove", cut) == ev.TruncatedPoisson(0.1, 9, 50, base)


def test_samples_that_hide_no_unit_are_refused() -> None:
    own = Gaussian(1.0, 4.0)
    with pytest.raises(Unsupported, match="one user"):
        own.event("add-remove", replace(USERS, of="record"))
    with pytest.raises(Unsupported, match="shuffled"):
        own.event("add-remove", replace(USERS, method="shuffled"))
    with pytest.raises(InvalidInput, match="batch"):
        own.event("add-remove", replace(USERS, method="fixed-size"))
    with pytest.raises(InvalidInput, match="draws"):
        own.event("add-remove", USERS, draws=0)


def test_the_intent_states_it_all() -> None:
    own = Gaussian(
        0.5, 2.0, 4, "unit", records.Weights("uniform", 0.75), "user", tolerated_dropouts=1
    )
    views = {"server": ev.Gaussian(1.0)}
    about = RoundDescription(7, "train", USERS, views, "ab", draws=2)
    assert own.intent(about, "replace-one") == records.RoundIntent(
        round=7,
        phase="train",
        event=own.event("replace-one", USERS, 2),
        contribution=records.Contribution(0.5, "l2", "user", "unit", "public"),
        noise=records.Noise("gaussian", 2.0, 4, own.share_std, 1, 2, own.grid),
        sensitivity=0.75,
        weights=records.Weights("uniform", 0.75),
        sampling=USERS,
        views=views,
        model_in="ab",
    )


MECHANISMS: list[Mechanism] = [
    Gaussian(1.0, 4.0, source="private"),
    Laplace(1.0, 4.0, source="private"),
    DiscreteGaussian(1, 4.0, source="private"),
    DiscreteLaplace(1, 4.0, source="private"),
    Exponential(1.0, 1.0, "add-remove", source="private"),
]


@for_each("own", MECHANISMS, ids=lambda own: type(own).__name__)
def test_bounds_from_private_data_are_refused(own: Mechanism) -> None:
    with pytest.raises(Unsupported, match="private data"):
        own.intent(RoundDescription(1, "train"), "add-remove")
    with pytest.raises(Unsupported, match="private data"):
        own.event("add-remove")
    published = RoundDescription(
        1, "train", event_override=ev.NoGuarantee("clip taken from the data")
    )
    stated = own.intent(published, "add-remove")
    assert stated.contribution.source == "private"
    assert stated.event == published.event_override


@for_each(
    ("stated", "true", "covered"),
    [
        (ev.Gaussian(3.9), ev.Gaussian(4.0), True),
        (ev.Gaussian(4.0), ev.Gaussian(4.0), True),
        (ev.Gaussian(math.nextafter(4.0, 5.0)), ev.Gaussian(4.0), False),
        (ev.Laplace(3.9), ev.Gaussian(4.0), False),
        (ev.Pure(1.0), ev.Gaussian(4.0), False),
        (ev.Poisson(0.3, ev.Gaussian(4.0)), ev.Poisson(0.2, ev.Gaussian(4.0)), True),
        (ev.Poisson(0.1, ev.Gaussian(4.0)), ev.Poisson(0.2, ev.Gaussian(4.0)), False),
        (ev.Poisson(0.2, ev.Gaussian(4.1)), ev.Poisson(0.2, ev.Gaussian(4.0)), False),
        (ev.Repeat(3, ev.Gaussian(4.0)), ev.Repeat(2, ev.Gaussian(4.0)), True),
        (ev.Repeat(1, ev.Gaussian(4.0)), ev.Repeat(2, ev.Gaussian(4.0)), False),
        (ev.Exponential(1.1), ev.Exponential(1.0), True),
        (ev.Exponential(0.9), ev.Exponential(1.0), False),
        (ev.DiscreteGaussian(4.0, 2), ev.DiscreteGaussian(4.0, 3), False),
        (ev.DiscreteGaussian(0.4, 1), ev.DiscreteGaussian(0.4, 1), True),
        (ev.DiscreteGaussian(0.4, 1), ev.DiscreteGaussian(0.45, 1), False),
        (ev.DiscreteLaplace(0.4, 1), ev.DiscreteLaplace(0.45, 1), True),
        (
            ev.TruncatedPoisson(0.3, 4, 9, ev.Gaussian(1.0)),
            ev.TruncatedPoisson(0.2, 4, 9, ev.Gaussian(1.0)),
            False,
        ),
        (ev.FixedSize(4, 9, ev.Gaussian(1.0)), ev.FixedSize(5, 9, ev.Gaussian(1.0)), False),
    ],
)
def test_overrides_may_only_be_less_private(
    stated: ev.Event, true: ev.Event, covered: bool
) -> None:
    assert covers(stated, true) is covered
    if isinstance(true, ev.Gaussian):
        about = RoundDescription(1, "train", event_override=stated)
        if covered:
            assert Gaussian(1.0, 4.0).intent(about, "add-remove").event == stated
        else:
            with pytest.raises(Unsupported, match="not what its mechanism does"):
                Gaussian(1.0, 4.0).intent(about, "add-remove")


@for_each(
    ("opened", "other", "relation"),
    [
        (RandomizedResponse(0.1, 4), RandomizedResponse(9.0, 4), "replace-one"),
        (RandomizedResponse(0.1, 4), RandomizedResponse(0.1, 2), "replace-one"),
        (Exponential(0.1, 1.0, "add-remove"), Exponential(9.0, 1.0, "add-remove"), "add-remove"),
        (DiscreteGaussian(1, 2.0), DiscreteGaussian(1, 2.0, dimensions=5), "add-remove"),
    ],
    ids=str,
)
def test_a_ticket_is_for_the_event_it_states(
    opened: Mechanism, other: Mechanism, relation: str
) -> None:
    """These state the same bound and noise: an epsilon and dimensions stand in the event alone."""
    gate = Gate(Odometer(100.0, 1e-5, relation), Memory(), Streams.seeded(1))
    ticket = gate.open(opened.intent(RoundDescription(1, "test"), relation))
    opened.check_ticket(ticket)
    with pytest.raises(Unsupported, match="another mechanism"):
        other.check_ticket(ticket)


def test_a_sampled_vector_is_not_drawn_on_the_ticket_of_a_number() -> None:
    single, vector = DiscreteLaplace(1, 2.0), DiscreteLaplace(1, 2.0, dimensions=3)
    gate = Gate(Odometer(100.0, 1e-5, "replace-one"), Memory(), Streams.seeded(1))
    ticket = gate.open(single.intent(RoundDescription(1, "test", USERS), "replace-one"))
    with pytest.raises(Unsupported, match="another mechanism"):
        vector.noisy(ticket, np.zeros(3, dtype=np.int64), "a")
    everybody = gate.open(single.intent(RoundDescription(2, "test"), "replace-one"))
    vector.noisy(everybody, np.zeros(3, dtype=np.int64), "a")  # the same event


def test_numbers_of_numpy_are_taken_exactly() -> None:
    """A square of narrow integers wraps around, and single floats are no fractions."""
    for bound in (np.int8(100), np.int64(100)):
        narrow = DiscreteGaussian(bound, 200.0, dimensions=2)  # type: ignore[arg-type]
        assert narrow.event("add-remove") == DiscreteGaussian(100, 200.0, 2).event("add-remove")
    wide = DiscreteGaussian(np.int64(2**32), 2.0**33, dimensions=2)  # type: ignore[arg-type]
    total = wide.total([[2**32, 2**32]])
    assert sum(int(one) ** 2 for one in total) <= 2**64
    single = np.float32(0.1)
    for own in (
        Gaussian(single, single, np.int8(2)),  # type: ignore[arg-type]
        Gaussian(Fraction(1, 3), 1.0),  # type: ignore[arg-type]
        Laplace(single, single),  # type: ignore[arg-type]
        RandomizedResponse(single, np.int16(3)),  # type: ignore[arg-type]
        Exponential(single, single, "replace-one"),  # type: ignore[arg-type]
    ):
        own.intent(RoundDescription(1, "test"), "replace-one")
    assert Gaussian(Fraction(1, 3), 1.0).total([[0.25]]) == [2**18]  # type: ignore[arg-type]


@for_each(
    "draw",
    [
        lambda _, bad: Gaussian(1.0, 4.0).total(bad),
        lambda _, bad: Gaussian(1.0, 4.0).total([[1.0]], bad),
        lambda _, bad: Laplace(1.0, 4.0).total(bad),
        lambda _, bad: DiscreteGaussian(1, 4.0).total(bad),
        lambda ticket, bad: RandomizedResponse(1.0, 4).reports(ticket, bad, "a"),
        lambda ticket, bad: Exponential(1.0, 1.0, "add-remove").select(ticket, bad, "a"),
    ],
    ids=range(6),
)
@for_each("bad", [["4711"], [[4711], [4711, 4711]], [10**400 + 4711], [b"4711"]])
def test_what_is_no_number_is_refused_and_not_shown(draw: Any, bad: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        draw(ticket_for(Gaussian(1.0, 4.0)), bad)
    shown = "".join(traceback.format_exception(caught.value))
    assert "4711" not in shown


def test_noise_near_the_smallest_numbers_is_refused() -> None:
    for tiny in (5e-324, 1e-310):
        with pytest.raises(InvalidInput, match="too small"):
            Laplace(tiny, tiny)


def test_several_choices_by_one_sample_are_refused() -> None:
    own = Exponential(1.0, 1.0, "add-remove")
    gate = Gate(Odometer(100.0, 1e-5), Memory(), Streams.seeded(1))
    ticket = gate.open(own.intent(RoundDescription(1, "test", USERS, draws=3), "add-remove"))
    with pytest.raises(Unsupported, match="one sample"):
        own.select(ticket, [0.0, 1.0], "a", count=2)
    assert ticket.stream("a").position == 0
    own.select(ticket, [0.0, 1.0], "a")
    everybody = RoundDescription(2, "test", replace(USERS, rate=1.0), draws=2)
    own.select(gate.open(own.intent(everybody, "add-remove")), [0.0, 1.0], "b", count=2)


def test_the_most_candidates_may_be_equal() -> None:
    own = Exponential(1.0, 1.0, "add-remove")
    (chosen,) = own.select(ticket_for(own), np.zeros(2**20), "a")
    assert 0 <= chosen < 2**20


def test_integers_of_any_width_are_counted() -> None:
    for kind in (np.uint8, np.int8, np.uint32, np.uint64):
        assert DiscreteLaplace(5, 4.0).total(np.array([1, 9], dtype=kind)).tolist() == [6]


def test_integer_sums_that_could_overflow_are_refused() -> None:
    one = np.zeros((1, 1), dtype=np.int64)
    many = np.broadcast_to(one, (2**21 + 1, 1))
    with pytest.raises(InvalidInput, match="64-bit"):
        DiscreteLaplace(2**40, 4.0).total(many)


@for_each(
    ("own", "relation"),
    [
        (Gaussian(1.0, 4.0), "add-remove"),
        (Laplace(1.0, 4.0, dimensions=9), "replace-one"),
        (DiscreteGaussian(3, 40.0), "add-remove"),
        (DiscreteGaussian(3, 40.0, dimensions=5), "replace-one"),
        (DiscreteGaussian(3, 400.0, dimensions=5), "replace-one"),
        (DiscreteLaplace(2, 9.0, dimensions=5), "add-remove"),
        (RandomizedResponse(1.0, 4), "replace-one"),
        (Exponential(0.5, 1.0, "add-remove"), "add-remove"),
    ],
    ids=str,
)
def test_every_event_can_be_accounted(own: Mechanism, relation: Any) -> None:
    found = pp.account(own.event(relation), delta=1e-5, neighbours=relation)
    assert 0.0 < found.epsilon.upper < 5.0
