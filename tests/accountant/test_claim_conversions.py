"""Events stated for another unit, relation or observer: converted soundly, or refused."""

from __future__ import annotations

import itertools
import math
import random

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.odometer import converted

from ..cases import for_each

SAMPLED = ev.Repeat(20, ev.Poisson(0.05, ev.Gaussian(1.2)))
RELATIONS = ("add-remove", "replace-one", "zero-out")


def same_unit(event, stated, wanted):
    return converted(event, "record", "record", None, stated, wanted).event


def test_nothing_to_convert_is_left_alone():
    result = converted(SAMPLED, "user", "user", None, "replace-one", "replace-one")
    assert result.event is SAMPLED
    assert result.derivation == ()


@for_each("stated", RELATIONS)
@for_each("wanted", RELATIONS)
def test_noise_over_the_bound_of_a_unit_is_priced_under_the_relation_it_is_wanted_for(
    stated, wanted
):
    for event in (SAMPLED, ev.Laplace(3.0), ev.Compose([ev.Gaussian(2.0), SAMPLED])):
        result = same_unit(event, stated, wanted)
        shown = [
            pp.account(each, delta=1e-5, neighbours=wanted).epsilon.upper
            for each in (result, event)
        ]
        assert shown[0] == pytest.approx(shown[1], rel=1e-9)


@for_each(
    "stated, wanted, steps",
    [
        ("add-remove", "replace-one", 2),
        ("add-remove", "zero-out", 2),
        ("zero-out", "replace-one", 2),
        ("replace-one", "zero-out", 1),
        ("replace-one", "add-remove", None),
        ("zero-out", "add-remove", None),
    ],
)
@for_each("event", [ev.Pure(0.4), ev.Repeat(3, ev.Exponential(0.2)), ev.ZCDP(0.02)])
def test_bare_numbers_take_as_many_steps_as_the_relation_has(stated, wanted, steps, event):
    if steps is None:
        with pytest.raises(Unsupported, match="says nothing"):
            same_unit(event, stated, wanted)
        return
    result = same_unit(event, stated, wanted)
    expected = event if steps == 1 else ev.Group(2, event)
    left, right = (
        pp.account(each, delta=1e-5, neighbours=wanted).epsilon.upper for each in (result, expected)
    )
    assert left == pytest.approx(right, rel=1e-9)
    if steps == 2 and isinstance(event, ev.Pure):
        assert left <= 0.8 * (1 + 1e-9)
        assert pp.account(result, delta=0.0, neighbours=wanted).epsilon.upper >= 0.8


def test_a_user_of_several_records_is_a_group_of_them():
    result = converted(SAMPLED, "record", "user", 4, "add-remove", "add-remove")
    assert result.event == ev.Group(4, SAMPLED)
    (step,) = result.derivation
    assert step.stage == "group"
    assert "at most 4 records" in step.statement
    assert converted(SAMPLED, "record", "user", 1, "add-remove", "add-remove").event == SAMPLED
    both = converted(ev.Pure(0.1), "record", "user", 4, "add-remove", "replace-one").event
    shown = pp.account(both, delta=0.0, neighbours="replace-one").epsilon.upper
    assert shown == pytest.approx(0.8, rel=1e-9)


@for_each("given", [None, 0, -1, 1.5, True])
def test_how_many_records_a_user_has_must_be_told(given):
    with pytest.raises(InvalidInput):
        converted(SAMPLED, "record", "user", given, "add-remove", "add-remove")


# A part of a larger unit.


@for_each(
    "stated, wanted, size",
    [
        ("replace-one", "replace-one", 1),
        ("add-remove", "replace-one", 1),
        ("zero-out", "replace-one", 1),
        ("add-remove", "add-remove", 2),
        ("zero-out", "zero-out", 2),
    ],
)
def test_a_record_of_a_user_moves_noise_by_two_bounds_at_most(stated, wanted, size):
    result = converted(ev.Gaussian(3.0), "user", "record", None, stated, wanted).event
    shown = pp.account(result, delta=1e-5, neighbours=wanted).epsilon.upper
    # Either way: the user's vector of norm 1 becomes another one.
    two = pp.account(ev.Gaussian(1.5), delta=1e-5).epsilon.upper
    assert shown == pytest.approx(two, rel=1e-9)
    assert (size == 1) == (not isinstance(result.event, ev.Group))


def test_a_sample_of_users_says_nothing_of_one_record_under_add_remove():
    for wanted in ("add-remove", "zero-out"):
        with pytest.raises(Unsupported, match="sample"):
            converted(SAMPLED, "user", "record", None, "add-remove", wanted)
    kept = converted(SAMPLED, "user", "record", None, "add-remove", "replace-one").event
    left, right = (
        pp.account(each, delta=1e-5, neighbours="replace-one").epsilon.upper
        for each in (kept, SAMPLED)
    )
    assert left == pytest.approx(right, rel=1e-9)


@for_each(
    "event",
    [
        ev.FixedSize(5, 100, ev.Gaussian(1.0)),
        ev.Shuffle(100, ev.Laplace(2.0)),
        ev.Poisson(0.1, ev.Pure(0.3)),
        ev.BestOf("geometric", 4.0, ev.Gaussian(2.0)),
        ev.Renyi([2.0, 8.0], [0.1, 0.4]),
    ],
)
def test_what_is_not_known_is_refused(event):
    with pytest.raises(Unsupported):
        same_unit(event, "add-remove", "replace-one")
    with pytest.raises(Unsupported):
        converted(ev.Compose([ev.Gaussian(1.0), event]), "user", "record", None, *RELATIONS[:2])


def test_what_protects_nobody_stays_so():
    raw = ev.NoGuarantee("a raw gradient")
    result = same_unit(ev.Compose([raw, ev.Gaussian(1.0)]), "add-remove", "replace-one")
    assert math.isinf(pp.account(result, delta=1e-5, neighbours="replace-one").epsilon.upper)


# Observers.


@for_each(
    "stated, wanted, holds",
    [
        ("server", "model", True),
        ("server+3", "model", True),
        ("server+3", "server+2", True),
        ("server+1", "server", True),
        ("server", "server+1", False),
        ("server+2", "server+3", False),
        ("model", "server", False),
        ("silo", "model", False),
        ("servers", "model", False),
        ("server+x", "model", False),
    ],
)
def test_who_sees_no_more_learns_no_more(stated, wanted, holds):
    def ask():
        return converted(
            SAMPLED,
            "user",
            "user",
            None,
            "add-remove",
            "add-remove",
            from_observer=stated,
            to_observer=wanted,
        )

    if holds:
        assert len(ask().derivation) == 1
    else:
        with pytest.raises(Unsupported, match="sees no more"):
            ask()


@for_each(
    "wrong",
    [
        ("city", "user", 2, "add-remove", "add-remove"),
        ("user", "city", 2, "add-remove", "add-remove"),
        ("user", "user", None, "twins", "add-remove"),
        ("user", "user", None, "add-remove", "twins"),
    ],
)
def test_unknown_words_are_refused(wrong):
    with pytest.raises(InvalidInput):
        converted(ev.Gaussian(1.0), *wrong)


# Against exact enumeration: mechanisms on tiny data sets, every chain of steps.


def test_chains_of_bare_steps_bound_every_mechanism_on_three_data_sets():
    """Outputs for no user, this one's data, and other data: steps bound replacement."""
    pick = random.Random(9)
    for _ in range(300):
        rows = [[pick.uniform(0.05, 1.0) for _ in range(3)] for _ in range(3)]
        outputs = [[each / sum(row) for each in row] for row in rows]
        nobody, old, new = outputs

        def loss(p, q):
            return max(math.log(x / y) for x, y in zip(p, q, strict=True))

        step = max(loss(p, q) for p, q in itertools.permutations((nobody, old), 2))
        step = max(step, *(loss(p, q) for p, q in itertools.permutations((nobody, new), 2)))
        replaced = max(loss(old, new), loss(new, old))
        event = same_unit(ev.Pure(step), "add-remove", "replace-one")
        bound = pp.account(event, delta=0.0, neighbours="replace-one").epsilon.upper
        assert replaced <= bound * (1 + 1e-12)
        # A single step would not bound all of them.
    assert bound == pytest.approx(2 * step, rel=1e-9)


@for_each("event", [ev.Pure(0.1), ev.ZCDP(0.1), ev.RandomizedResponse(1.0, 2)])
def test_a_user_who_is_replaced_may_have_another_number_of_records(event: ev.Event) -> None:
    """An exact count of records is private for nothing where one record replaces another."""
    whole = ev.Compose([ev.Gaussian(1.0), event])
    with pytest.raises(Unsupported, match="fewer or more"):
        converted(whole, "record", "user", 4, "replace-one", "replace-one")
    noise = converted(SAMPLED, "record", "user", 4, "replace-one", "replace-one").event
    assert noise == ev.Group(4, SAMPLED)
