"""Full dimensions: sampled shuffling with a cap against every round, in exact fractions.

An arriving user's message is kept instead of another user's; and beside colluders, instead of one
that the observer knows.
"""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction

import pytest

import privplan as pp
from privplan import events as ev
from privplan.accountant.amplification.shuffling.double import _revealed
from privplan.accountant.mechanisms import ShuffledRound

from ..cases import for_each
from ..sweeps import sweep
from .capped import (
    READINGS,
    Law,
    Message,
    Sender,
    answer,
    below_log,
    dummy,
    hockey_stick,
    oblivious_law,
    round_law,
    sets,
    told,
    worst,
)

ODDS = 3
ORDERS = tuple(map(Fraction, ("1", "1.1", "1.5", "2.5", "4", "12", "40")))


def response(categories: int) -> ev.Event:
    return ev.RandomizedResponse(math.log(ODDS) * (1 + 1e-15), categories)


def vectors(dimensions: int, categories: int) -> list[tuple[Message, ...]]:
    """Return all data of a user."""
    values = itertools.product(range(categories), repeat=dimensions)
    return [tuple(answer(value, categories, ODDS) for value in each) for each in values]


@functools.cache
def upper(event: ev.Event, order: Fraction, neighbours: str) -> float:
    return pp.account(event, epsilon=below_log(order), neighbours=neighbours).delta.upper


def most(laws: list[Law], others: list[Law], order: Fraction) -> float:
    """Return the worst delta of a pair, in either order; of two of `laws` where these are given."""
    pairs = itertools.combinations(laws, 2) if others is laws else itertools.product(laws, others)
    return float(max(worst(law_p, law_q, order) for law_p, law_q in pairs))


WHOLE = [
    # categories, users, dimensions, chosen, padded_to
    (2, 2, 1, 1, 1),
    (2, 3, 1, 1, 2),
    (3, 3, 1, 1, 2),
    (2, 2, 2, 1, 1),
    (2, 4, 1, 1, 2),
    (2, 2, 2, 2, 1),
    (2, 3, 2, 1, 1),
    (2, 3, 2, 1, 2),
    (2, 3, 2, 2, 2),
    (3, 4, 1, 1, 3),
    (3, 2, 2, 1, 1),
    (2, 2, 3, 2, 1),
    (2, 4, 2, 1, 2),
]


@for_each("reading", [*READINGS, "refuse"])
@for_each("case", sweep([(case,) for case in WHOLE], quick=2))
def test_no_data_exceed_the_bound_however_a_cap_is_read(
    case: tuple[int, int, int, int, int], reading: str
) -> None:
    """All data of all users, any place in the order of arrival; sets are secret."""
    categories, users, dimensions, chosen, padded_to = case
    overflow = "refuse" if reading == "refuse" else "cap"
    event = ev.SampledShuffle(
        *(users, dimensions, chosen, padded_to, "coordinate", "oblivious", overflow),
        response(categories),
    )
    relations = ("add-remove", "zero-out", "replace-one")
    bounds = {(o, r): upper(event, o, r) for o in ORDERS for r in relations}
    everybody = vectors(dimensions, categories)
    nothing = (dummy(categories),) * dimensions
    law = functools.partial(
        oblivious_law, dimensions=dimensions, chosen=chosen, padded_to=padded_to, reading=reading
    )
    ordered = reading in ("first", "last")
    closest = 0.0
    for others in itertools.combinations_with_replacement(everybody, users - 1):
        absent = law(others)
        for here in range(users if ordered else 1):
            before, after = others[:here], others[here:]
            laws = [law((*before, mine, *after)) for mine in everybody]
            compared = {
                "add-remove": [absent],
                "zero-out": [law((*before, nothing, *after))],
                "replace-one": laws,
            }
            for (order, relation), bound in bounds.items():
                truth = most(laws, compared[relation], order)
                assert truth <= bound
                closest = max(closest, truth / bound if bound > 0.0 else 0.0)
    # More messages than places, whoever is absent: each round is refused, and nothing is seen.
    always_refused = overflow == "refuse" and (users - 1) * chosen > dimensions * padded_to
    assert closest == 0.0 if always_refused else closest > 0.3


@for_each("reading", READINGS)
@for_each(
    ("categories", "users", "dimensions", "chosen", "padded_to"),
    sweep(
        [(2, 3, 1, 1, 2), (2, 3, 2, 2, 1), (3, 4, 1, 1, 2), (2, 4, 2, 1, 2), (2, 4, 2, 2, 3)],
        quick=2,
    ),
)
def test_full_dimensions_need_no_charge_even_for_who_knows_the_sets(
    categories: int, users: int, dimensions: int, chosen: int, padded_to: int, reading: str
) -> None:
    """The link of the proof: given any sets, k copies of one of n_p messages are never exceeded."""
    event = ev.SampledShuffle(
        *(users, dimensions, chosen, padded_to, "coordinate", "oblivious", "cap"),
        response(categories),
    )
    bound = _revealed(event, "add-remove")
    assert (bound.copies, bound.failure) == (chosen, 0.0)
    copies = ev.Repeat(chosen, ev.Shuffle(padded_to, response(categories)))
    deltas = {order: upper(copies, order, "replace-one") for order in ORDERS}
    everybody = vectors(dimensions, categories)
    senders: list[Sender] = list(itertools.product(sets(dimensions, chosen), everybody))
    for others in itertools.combinations_with_replacement(senders, users - 1):
        absent = round_law(others, dimensions, padded_to, reading)
        for here in range(1 if reading == "random" else users):
            laws = [
                round_law([*others[:here], mine, *others[here:]], dimensions, padded_to, reading)
                for mine in senders
            ]
            for order, delta in deltas.items():
                assert most(laws, [absent], order) <= delta


def beside(dimensions: int, order: Fraction, value: int = 1) -> float:
    """Return delta of three users, one of whom tells, when another one may be absent."""
    known: list[Sender] = [((0,), (told(value, 2),) * dimensions)]
    result = 0.0
    for friend in vectors(dimensions, 2):
        absent = oblivious_law([friend], dimensions, 1, 2, "random", known)
        laws = [
            oblivious_law([mine, friend], dimensions, 1, 2, "random", known)
            for mine in vectors(dimensions, 2)
        ]
        result = max(result, most(laws, [absent], order))
    return result


@for_each("dimensions", [1, 2])
def test_a_cap_may_keep_a_message_instead_of_one_that_is_known(dimensions: int) -> None:
    """The counterexample: the cap of the others alone promises too much, and is refused."""
    mixed = ShuffledRound(3, dimensions, 1, 2, overflow="cap")
    left = mixed.without(1)
    assert left == ShuffledRound(2, dimensions, 1, 1, overflow="refuse")
    promised = ev.SampledShuffle(2, dimensions, 1, 1, "coordinate", "oblivious", "cap", response(2))
    for order in ORDERS:
        assert beside(dimensions, order) <= upper(left.event(response(2), 1), order, "add-remove")
    for order in ORDERS[-3:]:
        assert upper(promised, order, "add-remove") == 0.0
        assert beside(dimensions, order) == pytest.approx(0.1875 / dimensions**2)


def test_a_choice_by_the_data_beside_colluders_has_no_guarantee_where_a_cap_cuts() -> None:
    """Replace-one, too: a user who moves into a full dimension."""
    known: Sender = ((0,), (told(1, 2),) * 2)
    friend: Sender = ((0,), (answer(0, 2, ODDS),) * 2)
    law_p, law_q = (
        round_law([known, friend, ((j,), (answer(0, 2, ODDS),) * 2)], 2, 2, "random")
        for j in (0, 1)
    )
    assert hockey_stick(law_p, law_q, Fraction(100)) == Fraction(3, 16)
    mixed = ShuffledRound(3, 2, 1, 2, selection="data-dependent", overflow="cap")
    promised = ev.SampledShuffle(2, 2, 1, 1, "coordinate", "data-dependent", "cap", response(2))
    assert upper(promised, Fraction(100), "replace-one") == 0.0
    assert upper(mixed.without(1).event(response(2), 1), Fraction(100), "replace-one") == 1.0


@for_each(
    ("users", "padded_to", "reading"),
    [*((3, padded_to, each) for padded_to in (2, 3) for each in READINGS), (4, 3, "random")],
)
def test_what_is_left_beside_a_colluder_is_covered(
    users: int, padded_to: int, reading: str
) -> None:
    """One of the users tells a message of any value in any dimension, first or last to arrive."""
    mixed = ShuffledRound(users, 2, 1, padded_to, overflow="cap")
    left = mixed.without(1)
    assert left.overflow == ("cap" if users <= padded_to else "refuse")
    event = left.event(response(2), 1)
    known: list[Sender] = [((0,), (told(1, 2),) * 2)]  # by symmetry
    everybody = vectors(2, 2)
    for others in itertools.combinations_with_replacement(everybody, users - 2):
        laws = [oblivious_law([m, *others], 2, 1, padded_to, reading, known) for m in everybody]
        absent = [oblivious_law(others, 2, 1, padded_to, reading, known)]
        for order in ORDERS:
            assert most(laws, absent, order) <= upper(event, order, "add-remove")
            assert most(laws, laws, order) <= upper(event, order, "replace-one")


def test_who_does_not_tell_or_cannot_overflow_keeps_the_cap() -> None:
    for mixed in (
        ShuffledRound(9, 4, 1, 5, overflow="cap"),
        ShuffledRound(5, 4, 1, 9, overflow="cap"),
    ):
        assert mixed.without(0) == mixed
    assert ShuffledRound(5, 4, 1, 9, overflow="cap").without(3).overflow == "cap"
