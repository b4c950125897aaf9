"""Events: validation at the door, JSON there and back, and clear refusals."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privplan import account
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput
from privplan.accountant.events import base

from ..cases import for_each
from .event_examples import EXAMPLES


def test_the_examples_cover_every_type():
    assert {type(event) for event, _ in EXAMPLES} == set(ev.TYPES.values())


@for_each(("event", "expected"), EXAMPLES, ids=lambda x: getattr(x, "type", ""))
def test_json_is_the_contract_and_events_are_values(event, expected):
    assert event.to_json() == expected
    assert list(event.to_json()) == list(expected)  # the order of the contract
    assert ev.from_json(json.dumps(expected)) == event
    assert ev.from_json(expected) == event
    with pytest.raises(AttributeError):
        event.type = "another"


@given(
    st.recursive(
        st.one_of(
            st.builds(ev.Gaussian, st.floats(1e-3, 1e3)),
            st.builds(ev.Pure, st.floats(0, 10)),
            st.builds(ev.Approximate, st.floats(0, 10), st.floats(0, 1)),
        ),
        lambda inner: st.one_of(
            st.builds(ev.Poisson, st.floats(0, 1), inner),
            st.builds(ev.Repeat, st.integers(1, 10**9), inner),
            st.builds(ev.Compose, st.lists(inner, max_size=4)),
        ),
        max_leaves=8,
    )
)
def test_any_event_survives_json_text_exactly(event):
    assert ev.from_json(json.dumps(event.to_json())) == event


GAUSSIAN = ev.Gaussian(1.0)


def _shuffled(chosen, overflow):
    return ev.SampledShuffle(9, 5, chosen, 2, "coordinate", "oblivious", overflow, GAUSSIAN)


BAD_NOISE = [0, -1, math.nan, math.inf, -math.inf, "1", None, True, 10**400]


@for_each("noise", BAD_NOISE, ids=repr)
@for_each("make", [ev.Gaussian, ev.Laplace])
def test_noise_must_be_a_finite_number_above_zero(make, noise):
    with pytest.raises(InvalidInput, match=r"`noise_multiplier` must be a finite number above 0"):
        make(noise)


@for_each("rate", [-0.1, 1.0001, math.nan, math.inf, "0.1", None, False])
def test_rate_must_be_a_probability(rate):
    with pytest.raises(InvalidInput, match=r"`rate` must be a number in \[0, 1\]"):
        ev.Poisson(rate, ev.Gaussian(1.0))


@for_each("count", [0, -3, 1.0, 2.5, math.nan, "3", None, True])
def test_counts_must_be_positive_integers(count):
    with pytest.raises(InvalidInput, match="`count` must be a positive integer"):
        ev.Repeat(count, ev.Gaussian(1.0))


@for_each(
    ("make", "words"),
    [
        (lambda: ev.FixedSize(11, 10, GAUSSIAN), "`batch` must be at most `population`"),
        (lambda: ev.TruncatedPoisson(0.1, 11, 10, GAUSSIAN), "`batch` must be at most `pop"),
        (lambda: ev.RandomizedResponse(1.0, 1), "`categories` must be an integer, 2 or above"),
        (lambda: ev.Approximate(1.0, 1.5), r"`delta` must be a number in \[0, 1\]"),
        (lambda: ev.Pure(-1.0), "`epsilon` must be a finite number, 0 or above"),
        (lambda: ev.ZCDP(math.inf), "`rho` must be a finite number, 0 or above"),
        (lambda: ev.NoGuarantee("  "), "`reason` must be a sentence"),
        (lambda: ev.BestOf("uniform", 3, GAUSSIAN), "`distribution` must be one of"),
        (lambda: ev.BestOf("fixed", 2.5, GAUSSIAN), "`mean` must be a positive integer"),
        (lambda: ev.Compose(GAUSSIAN), "`events` must be a list of events"),
        (lambda: ev.Compose([GAUSSIAN, 3]), r"`events\[1\]` must be an event"),
        (lambda: ev.Repeat(3, "gaussian"), "`event` must be an event"),
        (
            lambda: ev.RandomAllocation(3, 4, GAUSSIAN),
            r"`chosen` must be at most `steps` \(3\); it",
        ),
        (lambda: _shuffled(6, "refuse"), "`chosen` must be at most `dimensions`"),
        (lambda: _shuffled(3, "ignore"), "`overflow` must be one of refuse, cap"),
    ],
)
def test_bad_values_are_refused_with_the_field_and_its_range(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()


@for_each(
    ("text", "words"),
    [
        ('{"type": "gausian", "noise_multiplier": 1}', "Did you mean `gaussian`"),
        ('{"type": "dp_ftrl"}', "Did you mean `matrix-gaussian`"),
        (
            '{"type": "matrix-gaussian", "noise_multiplier": 1, "participation": '
            '{"type": "single"}, "strategy": {"type": "blt", "steps": 2}}',
            "Did you mean `buffered-toeplitz`",
        ),
        ('{"type": "gaussian", "noise_multplier": 1}', "Did you mean `noise_multiplier`"),
        ('{"type": "gaussian"}', "lacks the field `noise_multiplier`"),
        ('{"noise_multiplier": 1}', "`event.type` is None"),
        ('{"type": ["gaussian"]}', "not a known event"),
        ('{"type": "gaussian", "noise_multiplier": 1, "delta": 0}', "unknown field `delta`"),
        ('{"type": "gaussian", "noise_multiplier": NaN}', "no number NaN"),
        ('{"type": "gaussian", "noise_multiplier": Infinity}', "no number Infinity"),
        ('{"type": "gaussian", "noise_multiplier": 1, "noise_multiplier": 2}', "stands twice"),
        ('{"type": "gaussian", "noise_multiplier": "1"}', "In `event`: `noise_multiplier`"),
        ('{"type": "compose", "events": {}}', "must be a list of events"),
        ('{"type": "repeat", "count": 3, "event": 7}', "`event.event` must be a JSON object"),
        ("[1, 2]", "must be a JSON object"),
        ("{", "This is not JSON"),
        ("", "This is not JSON"),
        (b"\xff\xfe", "This is not JSON"),
    ],
)
def test_bad_json_is_refused_with_a_sentence(text, words):
    with pytest.raises(InvalidInput, match=words):
        ev.from_json(text)


def test_arrays_are_lists():
    rows = np.array([[1.0, 0.0], [0.5, 1.0]])
    for event, listed in (
        (ev.Renyi(np.array([2, 4]), np.array([0.1, 0.2])), ev.Renyi([2, 4], [0.1, 0.2])),
        (ev.ToeplitzStrategy(2, rows[1]), ev.ToeplitzStrategy(2, [0.5, 1.0])),
        (ev.DenseStrategy(rows), ev.DenseStrategy(rows.tolist())),
        (ev.DenseStrategy(list(rows)), ev.DenseStrategy(rows.tolist())),
        (ev.BandedStrategy([np.ones(2), np.array([0.5])]), ev.BandedStrategy([[1.0, 1.0], [0.5]])),
        (
            ev.GaussianMixture(1.0, rows[1], np.array([0.25, 0.5])),
            ev.GaussianMixture(1.0, [0.5, 1.0], [0.25, 0.5]),
        ),
    ):
        assert event == listed
        json.dumps(event.to_json())


@for_each("empty", [[], (), np.array([])])
def test_an_empty_list_is_called_empty(empty):
    with pytest.raises(InvalidInput, match="must be a list of numbers, at least one; it is empty"):
        ev.ToeplitzStrategy(2, empty)
    with pytest.raises(InvalidInput, match="it is a float"):
        ev.ToeplitzStrategy(2, np.float64(1.0))


def test_deep_nesting_is_refused_and_not_a_crash():
    event = '{"type": "gaussian", "noise_multiplier": 1}'
    for depth in (70, 100_000):
        head = '{"type": "repeat", "count": 1, "event": ' * depth
        with pytest.raises(InvalidInput, match=r"nested more than 64 levels"):
            ev.from_json(head + event + "}" * depth)


def test_a_key_that_stands_twice_among_many_is_found_in_linear_time():
    names = "".join(f'"k{number}": 0, ' for number in range(200_000))
    with pytest.raises(InvalidInput, match="`type` stands twice"):
        ev.from_json("{" + names + '"type": "gaussian", "type": "laplace"}')


def test_many_fields_are_read_in_linear_time():
    fields = ", ".join(f'"f{index}": 1' for index in range(200_000))
    with pytest.raises(InvalidInput, match="unknown field"):
        ev.from_json('{"type": "gaussian", "noise_multiplier": 1, ' + fields + "}")


def test_field_names_are_text():
    with pytest.raises(InvalidInput, match="not text"):
        ev.from_json({"type": "gaussian", 1: 2})


@for_each("count", [10**19, 10**400, 10**5000], ids=["19", "400", "5000"])
def test_counts_beyond_use_are_refused(count):
    with pytest.raises(InvalidInput, match=r"at most 10\^18"):
        ev.Repeat(count, ev.Gaussian(1.0))


def _shared(levels: int, noise: float = 1.0) -> ev.Event:
    """Return a release doubled so many times, each time as one part that is used twice."""
    event: ev.Event = ev.Poisson(0.01, ev.Gaussian(noise))
    for _ in range(levels):
        event = ev.Compose([event, event])
    return event


def test_a_shared_part_is_hashed_and_compared_once_however_often_it_is_used(monkeypatch):
    looked_at = 0
    original = base._values

    def counted(event: ev.Event) -> tuple[object, ...]:
        nonlocal looked_at
        looked_at += 1
        return original(event)

    monkeypatch.setattr(base, "_values", counted)
    one, other, third = _shared(40), _shared(40), _shared(40, noise=2.0)
    assert hash(one) == hash(other)
    assert one == other
    assert one != third
    assert len({one, other, third}) == 2
    assert looked_at < 400  # 2^40 paths lead down


def test_a_part_that_is_shared_in_one_event_and_repeated_in_another_is_equal():
    gaussian = ev.Gaussian(1)
    apart = ev.Compose([ev.Gaussian(1.0), ev.Gaussian(1.0)])
    assert ev.Compose([gaussian, gaussian]) == apart
    assert hash(ev.Compose([gaussian, gaussian])) == hash(apart)


def test_a_shared_part_costs_nothing_to_account():
    assert account(_shared(18), delta=1e-5) == account(
        ev.Repeat(2**18, ev.Poisson(0.01, ev.Gaussian(1.0))), delta=1e-5
    )


@for_each(
    ("one", "other"),
    [
        (ev.Gaussian(1.0), ev.Laplace(1.0)),
        (ev.Pure(1.0), ev.Local(1.0)),
        (ev.Compose([ev.Gaussian(1.0)]), ev.Compose([ev.Gaussian(1.0), ev.Gaussian(1.0)])),
        (ev.Compose([ev.Gaussian(1.0)]), ev.Compose([ev.Gaussian(2.0)])),
        (ev.Repeat(2, ev.Gaussian(1.0)), ev.Group(2, ev.Gaussian(1.0))),
        (ev.Gaussian(1.0), 1.0),
    ],
)
def test_events_that_differ_are_not_equal_even_where_their_hashes_meet(one, other, monkeypatch):
    monkeypatch.setattr(ev.Event, "__hash__", lambda _: 0)
    assert one != other
    assert other != one


@for_each(("event", "expected"), EXAMPLES, ids=lambda item: getattr(item, "type", ""))
def test_a_hashed_event_still_copies_pickles_replaces_and_travels(event, expected):
    hash(event)
    for twin in (
        copy.copy(event),
        copy.deepcopy(event),
        pickle.loads(pickle.dumps(event)),
        dataclasses.replace(event),
        ev.from_json(event.to_json()),
    ):
        assert twin == event
        assert hash(twin) == hash(event)
        assert twin.to_json() == expected
    assert b"_hash" not in pickle.dumps(event)  # text is hashed anew in every process


@for_each(
    ("number", "place"),
    [
        ('{"type": "gaussian", "noise_multiplier": %s}', "$.noise_multiplier"),
        ('{"events": [{}, {"rate": %s}, {"rate": 1}]}', "$.events[1].rate"),
        ("[[], %s]", "$[1]"),
        ("%s", "$"),
    ],
)
@for_each("digits", ["9" * 401, "0." + "3" * 4000])
def test_a_number_of_too_many_digits_is_named_by_its_place(
    number: str, place: str, digits: str
) -> None:
    with pytest.raises(InvalidInput, match=re.escape(f"`{place}` of the JSON has more than 400")):
        ev.from_json(number % digits)
