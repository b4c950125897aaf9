"""Private weighting gives, bit for bit, what the plain computation with the same integers gives."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, ProtocolFault
from privplan.accountant.mechanisms import FineGaussian, Gate, RoundDescription
from privplan.accountant.randomness import Streams
from privplan.fl.crypto.keys import Identity
from privplan.fl.crypto.oblivious import real_slots
from privplan.fl.parties.network import Network
from privplan.fl.uldp.weighting.counts import exact_weights, reduced_counts, rounded_weights
from privplan.fl.uldp.weighting.protocol import PrivateWeighting, names
from privplan.fl.uldp.weighting.sampling import common_slots
from privplan.fl.uldp.weighting.terms import WeightingTerms, common_multiple

from ..cases import for_each


def plain(
    terms: WeightingTerms,
    counts: Any,
    rows: Any,
    noise: Any,
    joining: Any = None,
) -> list[int]:
    """Return V by the definition, one fraction after the other."""
    weights = exact_weights(reduced_counts(counts, terms))
    total = [Fraction(0)] * terms.dimensions
    for silo, (users, digits) in enumerate(rows):
        for user, row in zip(users, digits, strict=True):
            if joining is None or joining[user]:
                weight = terms.multiple * weights[user][silo]
                total = [one + weight * int(d) for one, d in zip(total, row, strict=True)]
        total = [one + int(z) for one, z in zip(total, noise[silo], strict=True)]
    assert all(one.denominator == 1 for one in total)
    return [int(one) for one in total]


def small(**change: Any) -> WeightingTerms:
    given: dict[str, Any] = {
        "users": 4,
        "silos": 3,
        "dimensions": 25,
        "largest": 2**11 - 1,
        "tail": 2**40,
        "key_bits": 512,
        "count_limit": 20,
        "digits": 12,
        "weak_key": True,
    }
    return WeightingTerms(**(given | change))


def unit_rows(rng: np.random.Generator, terms: WeightingTerms, users: int) -> np.ndarray:
    """Return digits of norm at most B, as near to it as integers come."""
    drawn = rng.normal(size=(users, terms.dimensions))
    drawn *= terms.largest / np.linalg.norm(drawn, axis=1, keepdims=True)
    return np.trunc(drawn * (1 - 1e-12)).astype(np.int64)


def example(terms: WeightingTerms, seed: int = 0) -> tuple[Any, Any, Any]:
    """Return counts, rows and noise: users without records, capped ones, rows left out."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 3 * terms.count_cap, (terms.users, terms.silos))
    counts[rng.random(counts.shape) < 0.3] = 0
    counts[0] = 0
    rows, noise = [], []
    for silo in range(terms.silos):
        users = np.flatnonzero(counts[:, silo])
        users = rng.permutation(users[rng.random(len(users)) < 0.8])
        rows.append((users, unit_rows(rng, terms, len(users))))
        parts = rng.integers(-(2**40), 2**40 + 1, terms.dimensions)
        noise.append([int(z) * terms.tail // 2**40 for z in parts])
    return counts, rows, noise


def test_several_rounds_are_what_plain_integers_give() -> None:
    terms = small()
    counts, *_ = example(terms)
    session = PrivateWeighting(terms, counts)
    for number in (1, 2, 7):
        rng = np.random.default_rng(number)
        rows, noise = [], []
        for silo in range(terms.silos):
            users = np.flatnonzero(counts[:, silo])
            rows.append((users, unit_rows(rng, terms, len(users))))
            noise.append([int(z) for z in rng.integers(-(2**40), 2**40, terms.dimensions)])
        assert session.round(number, rows, noise) == plain(terms, counts, rows, noise)


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.data())
def test_any_sizes_signs_and_extremes(data: st.DataObject) -> None:
    silos = data.draw(st.integers(2, 4))
    width = data.draw(st.sampled_from([2, 3, 8, 16, 20]))
    terms = small(
        users=data.draw(st.integers(1, 4)),
        silos=silos,
        dimensions=data.draw(st.integers(1, 60)),
        digits=width,
        largest=data.draw(st.integers(1, 2 ** (width - 1) - 1)),
        tail=data.draw(st.sampled_from([0, 1, 2**20, 2**100])),
        count_limit=data.draw(st.integers(silos + 1, 40)),
        records_per_count=data.draw(st.integers(1, 3)),
    )
    counts = np.array(
        data.draw(
            st.lists(
                st.lists(st.integers(0, 90), min_size=silos, max_size=silos),
                min_size=terms.users,
                max_size=terms.users,
            )
        )
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    # A row of norm at most B: one coordinate at its extreme, or many small ones.
    kinds = data.draw(st.lists(st.integers(0, 3), min_size=4, max_size=4))
    rows, noise = [], []
    for silo in range(silos):
        users = np.flatnonzero(counts[:, silo])
        digits = np.zeros((len(users), terms.dimensions), np.int64)
        for row, kind in zip(digits, kinds, strict=False):
            place = rng.integers(terms.dimensions)
            if kind < 2:
                row[place] = (-1) ** kind * terms.largest
            elif kind == 2:
                row[: min(terms.dimensions, terms.largest**2)] = (-1) ** place
            else:
                row[:] = unit_rows(rng, terms, 1)[0]
        rows.append((users, digits))
        shares = [
            int(z * 2**52) * terms.tail // 2**53 for z in rng.uniform(-1, 1, terms.dimensions)
        ]
        shares[0] = data.draw(st.sampled_from([-terms.tail, terms.tail, 0]))
        noise.append(shares)
    assert PrivateWeighting(terms, counts).round(1, rows, noise) == plain(
        terms, counts, rows, noise
    )


@for_each("sign", [-1, 1])
def test_everybody_at_the_extreme_fits(sign: int) -> None:
    terms = small(dimensions=7, tail=2**60)
    counts = np.zeros((4, 3), int)
    counts[:, 1] = 10**6  # the largest weight that one silo can have, and all in one silo
    rows = [([], np.empty((0, 7), int)) for _ in range(3)]
    digits = np.zeros((4, 7), np.int64)
    digits[:, 3] = sign * terms.largest
    rows[1] = (np.arange(4), digits)
    noise = [[sign * terms.tail] * 7 for _ in range(3)]
    total = PrivateWeighting(terms, counts).round(1, rows, noise)
    assert total == plain(terms, counts, rows, noise)
    assert 0.8 * terms.bound < abs(total[3]) <= terms.bound


def test_the_users_that_the_server_draws() -> None:
    terms = small(drawn_by="server")
    counts, rows, noise = example(terms, 3)
    session = PrivateWeighting(terms, counts)
    for number, joining in enumerate(
        ([True, False, True, False], [False] * 4, [True] * 4, [False, True, True, False]), 1
    ):
        total = session.round(number, rows, noise, joining=np.array(joining))
        assert total == plain(terms, counts, rows, noise, joining)


@for_each(("slots", "chosen"), [(4, 2), (3, 3), (5, 1)])
def test_the_users_that_an_oblivious_transfer_draws(slots: int, chosen: int) -> None:
    terms = small(drawn_by="oblivious-transfer", slots=slots, chosen=chosen, dimensions=5)
    counts, rows, noise = example(terms, 4)
    session = PrivateWeighting(terms, counts)
    stream, again = (Streams.seeded(5).stream("slots") for _ in range(2))
    seen = set()
    for number in range(1, 7):
        total = session.round(number, rows, noise, stream=stream)
        member = session._silos[0]._member
        places = common_slots(member.seed, terms, member.session, number)
        real = real_slots(again, terms.users, slots, chosen)
        joining = [bool(row[place]) for row, place in zip(real, places, strict=True)]
        assert total == plain(terms, counts, rows, noise, joining)
        seen.add(tuple(joining))
    assert (seen == {(True,) * 4}) == (slots == chosen)


def test_all_silos_take_the_same_places_and_others_in_every_round() -> None:
    terms = small(users=30, drawn_by="oblivious-transfer", slots=9, chosen=2, dimensions=1)
    session = PrivateWeighting(terms, np.ones((30, 3), int))
    members = [silo._member for silo in session._silos]
    by_round = []
    for number in range(1, 4):
        places = [common_slots(one.seed, terms, one.session, number) for one in members]
        assert all((one == places[0]).all() for one in places)
        by_round.append(tuple(places[0]))
    assert len(set(by_round)) == 3


def test_processes_change_nothing_and_identities_and_a_network_may_be_given() -> None:
    terms = small(dimensions=40)
    counts, rows, noise = example(terms, 6)
    session = PrivateWeighting(terms, counts, processes=2)
    assert session.round(1, rows, noise) == plain(terms, counts, rows, noise)
    terms = small(dimensions=2)
    counts, rows, noise = example(terms, 8)
    identities = {name: Identity.new() for name in reversed(names(terms)[1:])}
    network = Network([*names(terms), "somebody-else"])
    session = PrivateWeighting(terms, counts, network, identities=identities)
    assert session.round(1, rows, noise) == plain(terms, counts, rows, noise)
    assert session.security == terms.security()


def test_noise_is_drawn_when_it_is_needed() -> None:
    terms = small(dimensions=2, silos=2)
    counts = np.ones((4, 2), int)
    rows = [([0], [[1, 2]]), ([], np.empty((0, 2), int))]
    drawn = []

    def draw() -> list[int]:
        drawn.append(1)
        return [5, -5]

    total = PrivateWeighting(terms, counts).round(1, rows, [draw, [0, 0]])
    assert total == plain(terms, counts, rows, [[5, -5], [0, 0]])
    assert drawn == [1]


def test_a_sum_of_floats_to_the_precision_of_the_digits(log: Any) -> None:
    own = FineGaussian(0.5, 2.5, common_multiple(20), shares=3)
    terms = small(largest=own.largest, tail=own.tail, digits=own.digits)
    counts, *_ = example(terms, 14)
    about = RoundDescription(1, "test", event_override=ev.NoGuarantee("a test"))
    ticket = Gate(None, log(), Streams.seeded(7)).open(own.intent(about, "add-remove"))
    weights = rounded_weights(reduced_counts(counts, terms))
    rng = np.random.default_rng(15)
    expected = np.zeros(terms.dimensions)
    rows, noise = [], []
    for silo in range(terms.silos):
        users = np.flatnonzero(counts[:, silo])
        values = rng.normal(size=(len(users), terms.dimensions))
        values *= 0.5 / np.linalg.norm(values, axis=1, keepdims=True)
        rows.append((users, own.clipped(values)))
        noise.append(own.share(ticket, terms.dimensions, f"noise/{silo}"))
        expected += weights[users, silo] @ values + own.units(noise[-1])
    total = own.units(PrivateWeighting(terms, counts).round(1, rows, noise))
    assert np.abs(total - expected).max() <= terms.users * own.unit_grid
    assert np.abs(total - expected).max() > 0.0


def test_what_cannot_begin_and_a_round_twice_are_refused() -> None:
    terms = small()
    with pytest.raises(InvalidInput, match="counts"):
        PrivateWeighting(terms, np.zeros((4, 2), int))
    with pytest.raises(InvalidInput, match="identities"):
        PrivateWeighting(terms, np.zeros((4, 3), int), identities={"silo-0": Identity.new()})
    terms = small(dimensions=2)
    counts, rows, noise = example(terms, 11)
    session = PrivateWeighting(terms, counts)
    session.round(1, rows, noise)
    with pytest.raises(InvalidInput, match="round 1"):
        session._silos[0].begin(1)


def test_a_round_that_is_asked_for_wrongly_is_refused_and_the_session_goes_on() -> None:
    terms = small(dimensions=3)
    counts, rows, noise = example(terms, 9)
    session = PrivateWeighting(terms, counts)
    stream = Streams.seeded(1).stream("slots")
    session.round(3, rows, noise)
    for number, own, shares, more in (
        *((3, rows, noise, {}), (2, rows, noise, {}), (4, rows[:2], noise, {})),
        *((4, rows, noise[:2], {}), (4, rows, noise, {"joining": np.ones(4, bool)})),
        (4, rows, noise, {"stream": stream}),
    ):
        with pytest.raises(InvalidInput):
            session.round(number, own, shares, **more)
    assert session.round(4, rows, noise) == plain(terms, counts, rows, noise)


@for_each("joining", [None, [True] * 3, [1, 0, 1, 0], "yes"])
def test_a_server_that_draws_needs_to_know_who(joining: Any) -> None:
    terms = small(drawn_by="server", dimensions=2)
    counts, rows, noise = example(terms, 10)
    with pytest.raises(InvalidInput, match="joining"):
        PrivateWeighting(terms, counts).round(1, rows, noise, joining=joining)


@for_each(
    ("rows", "noise"),
    [
        (([0], [[2**11, 0]]), [0, 0]),  # a coordinate over the bound
        (([0], [[2**11 - 1, 1]]), [0, 0]),  # the norm over the bound, by less than a digit
        (([0], [[-(2**63), 0]]), [0, 0]),
        (([0], [[1, 2, 3]]), [0, 0]),
        (([0, 1], [[1, 2]]), [0, 0]),
        (([0, 1], [[1, 2], [3]]), [0, 0]),
        (([0, [1]], [[1, 2], [3, 4]]), [0, 0]),
        (([0],), [0, 0]),
        (None, [0, 0]),
        (([0, 0], [[1, 2], [1, 2]]), [0, 0]),
        (([3], [[1, 2]]), [0, 0]),  # no records of this user
        (([4], [[1, 2]]), [0, 0]),
        (([-1], [[1, 2]]), [0, 0]),
        (([0], [[1.0, 2.0]]), [0, 0]),
        (([0.0], [[1, 2]]), [0, 0]),
        (([0], [[1, 2]]), [2**40 + 1, 0]),
        (([0], [[1, 2]]), [0, -(2**40) - 1]),
        (([0], [[1, 2]]), [0]),
        (([0], [[1, 2]]), [0, 0.5]),
        (([0], [[1, 2]]), [0, None]),
    ],
)
def test_what_could_overflow_or_is_no_row_is_refused_before_it_is_sent(rows, noise) -> None:
    terms = small(dimensions=2)
    counts = np.ones((4, 3), int)
    counts[3, 0] = 0
    network = Network(names(terms), keep=True)
    session = PrivateWeighting(terms, counts, network)
    before = len(network.said("silo-0"))
    rest = [([], np.empty((0, 2), int))] * 2
    with pytest.raises(InvalidInput, match="silo-0") as caught:
        session.round(1, [rows, *rest], [noise, [0, 0], [0, 0]])
    assert len(network.said("silo-0")) == before
    assert str(2**40 + 1) not in str(caught.value)
    with pytest.raises(ProtocolFault, match="ended"):
        session.round(2, [([], np.empty((0, 2), int)), *rest], [[0, 0]] * 3)


def test_noise_that_could_not_be_drawn_ends_the_session() -> None:
    terms = small(dimensions=2)
    network = Network(names(terms), keep=True)
    session = PrivateWeighting(terms, np.ones((4, 3), int), network)
    rows = [([], np.empty((0, 2), int))] * 3
    before = len(network.said("silo-0"))

    def fails() -> list[int]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session.round(1, rows, [fails, [0, 0], [0, 0]])
    assert len(network.said("silo-0")) == before
    with pytest.raises(ProtocolFault, match="ended"):
        session.round(2, rows, [[0, 0]] * 3)


def test_wide_digits_are_checked_in_exact_integers() -> None:
    terms = small(digits=32, largest=2**31 - 1, dimensions=2, key_bits=1024)
    counts = np.ones((4, 3), int)
    rest = [([], np.empty((0, 2), int))] * 2
    session = PrivateWeighting(terms, counts)
    rows = [([0], [[2**31 - 1, 0]]), *rest]
    assert session.round(1, rows, [[0, 0]] * 3) == plain(terms, counts, rows, [[0, 0]] * 3)
    with pytest.raises(InvalidInput, match="norm"):
        session.round(2, [([0], [[2**31 - 1, 1]]), *rest], [[0, 0]] * 3)


@pytest.mark.slow
def test_at_full_size() -> None:
    terms = WeightingTerms(users=20, silos=3, dimensions=100, largest=2**15 - 1, tail=2**72)
    counts, rows, noise = example(replace(terms), 12)
    session = PrivateWeighting(terms, counts)
    assert session.round(1, rows, noise) == plain(terms, counts, rows, noise)
    sampled = replace(terms, drawn_by="oblivious-transfer", slots=2, chosen=2, dimensions=3)
    counts, rows, noise = example(sampled, 13)
    total = PrivateWeighting(sampled, counts).round(
        1, rows, noise, stream=Streams.secure().stream("slots")
    )
    assert total == plain(sampled, counts, rows, noise)
