"""Mechanisms: what they state, what they draw, and that the one is the other.

Statistical tests use seeded streams, so a pass stays a pass; on a fresh seed each would raise a
false alarm with the probability `FALSE_ALARM`.
"""

from __future__ import annotations

import math
import traceback
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

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
    Ticket,
)
from privplan.accountant.mechanisms.base import Mechanism
from privplan.accountant.mechanisms.gaussian import SMOOTHING
from privplan.accountant.mechanisms.integers import clipped_integers
from privplan.accountant.mechanisms.sampled_events import covers
from privplan.accountant.neighbours import NEIGHBOURS
from privplan.accountant.odometer import Odometer
from privplan.accountant.randomness import Streams
from privplan.accountant.sensitivity import selection, uldp

FALSE_ALARM = 1e-6
RELATIONS = NEIGHBOURS


class Memory:
    """A recorder that only remembers."""

    def __init__(self) -> None:
        self.lines: list[records.Record] = []

    def append(self, record: records.Record) -> int:
        self.lines.append(record)
        return len(self.lines) - 1

    def seal(self, items: Mapping[str, object]) -> dict[str, str]:
        return dict.fromkeys(items, "c0")


def ticket_for(mechanism: Mechanism, draws: int = 1, seed: int = 1) -> Ticket:
    """Return an open round of a mechanism, without a budget."""
    gate = Gate(None, Memory(), Streams.seeded(seed))
    about = RoundDescription(1, "test", draws=draws, event_override=ev.NoGuarantee("a test"))
    relation = getattr(mechanism, "relation", "replace-one")
    return gate.open(mechanism.intent(about, relation))


# --- Gaussian: what it states ---------------------------------------------------------------------


def test_gaussian_sensitivities() -> None:
    plain = Gaussian(bound=0.5, std=2.0)
    assert [plain.sensitivity(one) for one in RELATIONS] == [0.5, 1.0, 0.5]
    weighted = replace(plain, weights=records.Weights("records", 0.75))
    assert [weighted.sensitivity(one) for one in RELATIONS] == [0.375, 0.75, 0.375]
    silos = replace(plain, terms="silo-delta", shares=4)
    assert [silos.sensitivity(one) for one in RELATIONS] == [4.0, 4.0, 4.0]


def test_gaussian_events_by_relation() -> None:
    """The multiplier is in contribution bounds, of which replace-one moves two."""
    plain = Gaussian(bound=0.5, std=2.0)
    assert [plain.event(one) for one in RELATIONS] == [ev.Gaussian(4.0)] * 3
    silos = replace(plain, terms="silo-delta", shares=4)
    assert [silos.event(one).noise_multiplier for one in RELATIONS] == [0.5, 1.0, 0.5]  # type: ignore[attr-defined]


@pytest.mark.parametrize("relation", ["replace-one", "zero-out"])
def test_silos_updates_on_a_sample_have_no_event_where_a_unit_is_exchanged(relation: str) -> None:
    """Without the unit the sum is 2C away from both; two Gaussians C apart from it miss that."""
    own = Gaussian(1.0, 8.0, terms="silo-delta")
    sampling = records.Sampling("poisson", "user", 0.1, "server")
    with pytest.raises(Unsupported, match="Silos' updates on a sample"):
        own.event(relation, sampling, 100)
    assert own.event("add-remove", sampling) == ev.Poisson(0.1, ev.Gaussian(4.0))


def test_naive_uldp_has_the_event_of_its_release() -> None:
    """Every silo adds sigma C |S|^(1/2): noise sigma C |S| in all, on what moves by 2 C |S|."""
    sigma, clip, silos = 5.0, 0.125, 4
    own = Gaussian(clip, sigma * clip * silos, shares=silos, terms="silo-delta")
    assert own.share_std == sigma * clip * math.sqrt(silos)
    release = uldp.naive_release(sigma, rounds=1, silos=silos)
    assert own.event("add-remove") == release.event
    assert own.sensitivity("add-remove") == uldp.naive_sensitivity(clip, silos).l2


@given(
    bound=st.floats(1e-3, 1e3),
    ratio=st.floats(1e-2, 1e3),
    shares=st.integers(1, 40),
    dropouts=st.integers(0, 5),
    largest=st.floats(0.01, 3.0),
    relation=st.sampled_from(RELATIONS),
    terms=st.sampled_from(["unit", "silo-delta"]),
)
def test_gaussian_never_states_more_noise_than_there_is(
    bound: float,
    ratio: float,
    shares: int,
    dropouts: int,
    largest: float,
    relation: str,
    terms: Any,
) -> None:
    own = Gaussian(
        bound,
        bound * ratio,
        shares,
        terms,
        records.Weights("none", largest),
        tolerated_dropouts=min(dropouts, shares - 1),
    )
    event, reach = own.event(relation), 2 if relation == "replace-one" else 1
    assert isinstance(event, ev.Gaussian)
    times = 2 * shares if terms == "silo-delta" else reach
    moved = Fraction(bound) * Fraction(largest) * times
    assert Fraction(own.sensitivity(relation)) >= moved
    assert Fraction(event.noise_multiplier) * moved <= Fraction(own.std) * reach
    # what the log lets others compute: the same multiplier, from its own numbers
    noise = own.noise()
    least = noise.shares - noise.tolerated_dropouts
    assert least * Fraction(noise.share_std) ** 2 >= Fraction(noise.std) ** 2
    assert noise.share_std <= noise.std / math.sqrt(least) * (1 + 1e-15)
    # the noise that is drawn has the stated variance and the smoothing on top
    steps = Fraction(own._parameter) ** 2
    assert steps >= (Fraction(own.share_std) / Fraction(own.grid)) ** 2 + SMOOTHING
    assert math.frexp(own.grid)[0] == 0.5
    assert 2**20 <= own.share_std / own.grid < 2**21


@given(
    st.floats(0.01, 100.0),
    st.floats(1e-3, 1e3),
    st.sampled_from(RELATIONS),
    st.integers(1, 9),
    st.sampled_from(["unit", "silo-delta"]),
)
def test_with_multiplier_gives_at_least_that_and_hardly_more(
    noise: float, bound: float, relation: str, shares: int, terms: Any
) -> None:
    own = Gaussian.with_multiplier(
        noise, bound=bound, relation=relation, shares=shares, terms=terms
    )
    event = own.event(relation)
    assert isinstance(event, ev.Gaussian)
    assert noise <= event.noise_multiplier <= noise * (1 + 1e-15)


@pytest.mark.parametrize(
    ("given_values", "name"),
    [
        ({"bound": 0.0}, "bound"),
        ({"bound": math.inf}, "bound"),
        ({"bound": math.nan}, "bound"),
        ({"bound": -1.0}, "bound"),
        ({"std": 0.0}, "std"),
        ({"std": math.inf}, "std"),
        ({"std": math.nan}, "std"),
        ({"std": True}, "std"),
        ({"shares": 0}, "shares"),
        ({"shares": 2.5}, "shares"),
        ({"tolerated_dropouts": 1}, "tolerated_dropouts"),
        ({"tolerated_dropouts": -1}, "tolerated_dropouts"),
        ({"terms": "whole"}, "terms"),
        ({"weights": records.Weights("none", 0.0)}, "largest_sum"),
        ({"weights": records.Weights("none", math.inf)}, "largest_sum"),
        ({"std": 1e-12}, "steps of the grid"),  # a bound of 2^60 steps
        ({"std": 2.0**21}, "steps of the grid"),  # every term would be cut to zero
    ],
)
def test_gaussian_refuses_values_out_of_range(given_values: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        Gaussian(**{"bound": 1.0, "std": 1.0, **given_values})


def test_unknown_relations_are_refused() -> None:
    with pytest.raises(InvalidInput, match="neighbours"):
        Gaussian(1.0, 1.0).event("swap")


# --- sampling, draws, overrides -------------------------------------------------------------------

USERS = records.Sampling("poisson", "user", 0.25, "server")


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


@pytest.mark.parametrize("own", MECHANISMS, ids=lambda own: type(own).__name__)
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


@pytest.mark.parametrize(
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


def test_less_discrete_gaussian_noise_may_look_more_private() -> None:
    """Why a smaller multiplier of it does not cover a larger one."""
    less, more = (
        pp.account(ev.DiscreteGaussian(noise, 1), delta=1e-5).epsilon for noise in (0.4, 0.45)
    )
    assert less.upper < more.lower


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
@pytest.mark.parametrize("bad", [["4711"], [[4711], [4711, 4711]], [10**400 + 4711], [b"4711"]])
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


@pytest.mark.parametrize(
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


# --- Gaussian: what it draws ----------------------------------------------------------------------


def test_neighbours_differ_by_whole_steps_under_the_same_noise() -> None:
    own = Gaussian(1.0, 4.0, shares=2)
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((20, 30))
    totals = [own.total(rows), own.total(rows[:-1])]
    results = [
        own.noisy(ticket_for(own), [total, np.zeros(30, dtype=np.int64)], ["a", "b"])
        for total in totals
    ]
    shift = totals[0] - totals[1]
    assert (results[0][0] - results[1][0] == shift * own.grid).all()
    assert (results[0][1] == results[1][1]).all()
    steps = results[0][0] / own.grid
    assert (steps == np.rint(steps)).all()
    size = sum(int(step) ** 2 for step in shift)
    assert 0.999 < math.sqrt(size) * own.grid <= own.sensitivity("add-remove")


def test_steps_and_units_are_the_same_draw() -> None:
    own = Gaussian(1.0, 4.0)
    total = own.total(np.ones((3, 8)))
    (units,) = own.noisy(ticket_for(own), [total], ["a"])
    (steps,) = own.noisy_steps(ticket_for(own), [total], ["a"])
    assert steps.dtype == np.int64
    assert (steps * own.grid == units).all()


@pytest.mark.parametrize(("shares", "dropouts"), [(1, 0), (4, 0), (5, 2)])
def test_shares_and_their_sum_have_the_stated_noise(shares: int, dropouts: int) -> None:
    own = Gaussian(0.1, 0.5, shares, tolerated_dropouts=dropouts)
    count = 100_000
    names = [f"silo-{number}" for number in range(shares)]
    drawn = own.noisy(ticket_for(own), [np.zeros(count, dtype=np.int64)] * shares, names)
    for one in drawn:
        squares = np.sum((one / own.share_std) ** 2)
        assert FALSE_ALARM < stats.chi2(count).cdf(squares) < 1 - FALSE_ALARM
        assert stats.kstest(one / own.share_std, "norm").pvalue > FALSE_ALARM
    arrived = np.sum(drawn[: shares - dropouts], axis=0)
    squares = np.sum((arrived / own.std) ** 2)
    assert FALSE_ALARM < stats.chi2(count).cdf(squares) < 1 - FALSE_ALARM
    for other in drawn[1:]:
        assert stats.pearsonr(drawn[0], other).pvalue > FALSE_ALARM


def test_shares_drawn_apart_and_together_sum_to_the_same_number() -> None:
    """Bit for bit, in whatever order and in a ring, since they are integers until the end."""
    own, names = Gaussian(0.1, 0.5, 5), ["a", "b", "c", "d", "e"]
    totals = [own.total(np.full((2, 40), 0.01 * party)) for party in range(5)]
    together = own.noisy_steps(ticket_for(own), totals, names)
    ticket = ticket_for(own)
    apart = [
        own.share_steps(ticket, *one) for one in reversed(list(zip(totals, names, strict=True)))
    ]
    with pytest.raises(Unsupported, match="announces 1 draws"):
        own.share_steps(ticket, totals[0], "f")
    ticket.close()
    assert all((one == other).all() for one, other in zip(together, reversed(apart), strict=True))
    ring = np.sum([one.view(np.uint64) for one in apart], axis=0, dtype=np.uint64)
    total = own.units(np.sum(together, axis=0))
    assert (own.units(ring.view(np.int64)) == total).all()
    again = own.noisy(ticket_for(own), totals, names)
    assert all((own.units(s) == x).all() for s, x in zip(together, again, strict=True))
    assert (own.share(ticket_for(own), totals[0], "a") == again[0]).all()


def test_units_are_steps_of_the_grid_rounded_once() -> None:
    own = Gaussian(0.1, 0.5)
    steps = np.array([0, 1, -3, 2**53 + 1, -(2**60) - 1])
    assert own.units(steps).tolist() == [float(z * Fraction(own.grid)) for z in steps.tolist()]


@pytest.mark.parametrize(
    ("totals", "names"),
    [
        ([np.zeros(3)], ["a"]),
        ([np.zeros(3, dtype=np.int32)], ["a"]),
        ([np.zeros((3, 1), dtype=np.int64)], ["a"]),
        ([np.zeros(3, dtype=np.int64)] * 2, ["a", "a"]),
        ([np.zeros(3, dtype=np.int64)] * 2, ["a"]),
        ([], []),
        ([np.zeros(3, dtype=np.int64), np.zeros(4, dtype=np.int64)], ["a", "b"]),
        ([np.array([2**62 + 1])], ["a"]),
        ([np.array([-(2**63)])], ["a"]),
        ([np.array([2**61 + 1])] * 2, ["a", "b"]),  # each fits, and their sum does not
    ],
    ids=range(10),
)
def test_sums_that_are_no_sums_get_no_noise(totals: list[np.ndarray], names: list[str]) -> None:
    own = Gaussian(1.0, 4.0, shares=max(1, len(totals)))
    ticket = ticket_for(own)
    with pytest.raises(InvalidInput):
        own.noisy(ticket, totals, names)


def test_weights_of_a_row_keep_the_stated_sum() -> None:
    own = Gaussian(1.0, 4.0, weights=records.Weights("uniform", 0.5))
    own.total(np.ones((2, 3)), [0.5, 0.25])
    for weights in ([0.6, 0.1], None):
        with pytest.raises(InvalidInput, match="weights"):
            own.total(np.ones((2, 3)), weights)


# --- why the event of a discrete Gaussian is Gaussian ---------------------------------------------


@pytest.mark.parametrize(("smoothing", "noise"), [(0.25, 0.5), (0.25, 4.0), (1.0, 2.0)])
def test_rounding_by_a_discrete_gaussian_gives_a_discrete_gaussian(
    smoothing: float, noise: float
) -> None:
    """The argument of `gaussian`, at smoothing variances v where its error can be seen at all.

    K(N(0, a^2)) against the discrete Gaussian of variance a^2 + v: equal up to the factor
    1 +- 3 e^(-2 pi^2 v), from the sum over y, and as much again from its own normaliser.
    """
    y = np.arange(-60.0, 60.0, 1 / 64)  # so smooth that sums are integrals
    j = np.arange(-80, 81)[:, None]
    weights = np.exp(-((j - y) ** 2) / (2 * smoothing))
    density = np.exp(-(y**2) / (2 * noise)) / math.sqrt(2 * math.pi * noise) / 64
    rounded = (weights / weights.sum(axis=0) * density).sum(axis=1)
    stated = np.exp(-(j[:, 0] ** 2) / (2 * (noise + smoothing)))
    near = np.abs(j[:, 0]) <= 6
    errors = np.abs(rounded[near] / (stated[near] / stated.sum()) - 1)
    assert errors.max() <= 2 * 3 * math.exp(-2 * math.pi**2 * smoothing) + 1e-13
    if (smoothing, noise) == (0.25, 0.5):
        assert errors.max() > 1e-4  # the test can see an error


def _delta_discrete(parameter: float, shift: int, epsilon: float) -> float:
    """Return delta of the discrete Gaussian for a shift by whole steps, by summing."""
    x = np.arange(-int(40 * parameter), int(40 * parameter) + shift + 1)
    p = np.exp(-((x - shift) ** 2) / (2 * parameter**2))
    q = np.exp(-(x**2) / (2 * parameter**2))
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() / q.sum())


def _delta_continuous(std: float, shift: int, epsilon: float) -> float:
    mu = shift / std
    ahead = stats.norm.cdf(mu / 2 - epsilon / mu)
    return float(ahead - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu))


def test_the_smoothing_is_needed_and_enough() -> None:
    """A discrete Gaussian reveals more than the continuous one of its own parameter, at some
    epsilon; never more than the continuous one with 64 less variance."""
    excess = []
    for parameter in (16.0, 40.0, 80.0):
        for shift in (int(parameter / 8), int(parameter), int(3 * parameter)):
            for epsilon in (0.05, 0.3, 0.7, 1.3, 2.1):
                true = _delta_discrete(parameter, shift, epsilon)
                if true < 1e-12:
                    continue
                excess.append(true / _delta_continuous(parameter, shift, epsilon) - 1)
                smoothed = math.sqrt(parameter**2 - SMOOTHING)
                assert true <= _delta_continuous(smoothed, shift, epsilon)
    assert max(excess) > 1e-4


# --- Laplace --------------------------------------------------------------------------------------


def test_laplace_events() -> None:
    own = Laplace(bound=0.5, scale=2.0, dimensions=7)
    assert [own.event(one) for one in RELATIONS] == [ev.Laplace(4.0)] * 3
    assert [own.sensitivity(one) for one in RELATIONS] == [0.5, 1.0, 0.5]
    assert own.event("add-remove", USERS) == ev.Poisson(0.25, ev.Laplace(4.0))
    stated = own.intent(RoundDescription(1, "train"), "add-remove")
    assert stated.contribution.norm == "l1"
    assert stated.noise == records.Noise("laplace", 2.0, 1, 2.0, 0, 1, own.grid)


@pytest.mark.parametrize("kind", [Laplace, DiscreteLaplace])
def test_sampled_laplace_vectors_are_refused_under_replace_one(kind: Any) -> None:
    vector, single = kind(1, 2.0, dimensions=2), kind(1, 2.0)
    with pytest.raises(Unsupported, match="one dimension"):
        vector.event("replace-one", USERS)
    assert vector.event("replace-one", replace(USERS, rate=1.0)) == single.event("replace-one")
    assert vector.event("add-remove", USERS) == single.event("add-remove", USERS)
    single.event("replace-one", USERS)


def test_laplace_noise_and_shift() -> None:
    own = Laplace(bound=0.5, scale=2.0, dimensions=100_000)
    count = own.dimensions
    nothing = np.zeros(count, dtype=np.int64)
    noise = own.noisy(ticket_for(own), nothing, "a")
    assert stats.kstest(noise / own.scale, "laplace").pvalue > FALSE_ALARM
    total = own.total(np.ones((1, count)))
    assert int(np.abs(total).sum()) * Fraction(own.grid) <= Fraction(own.bound)
    shifted = own.noisy(ticket_for(own), total + 5, "a")
    assert (shifted - noise == (total + 5) * own.grid).all()


def test_laplace_l1_clip_is_exact_and_close() -> None:
    own = Laplace(bound=0.5, scale=2.0, dimensions=3)
    total = own.total([[3.0, -4.0, 1.0]])
    size = int(np.abs(total).sum()) * Fraction(own.grid)
    assert Fraction(1, 2) - 4 * Fraction(own.grid) < size <= Fraction(1, 2)


def test_vectors_longer_than_stated_are_refused() -> None:
    for own in (Laplace(1.0, 2.0), DiscreteLaplace(1, 2.0), DiscreteGaussian(1, 2.0)):
        with pytest.raises(Unsupported, match="coordinates"):
            own.noisy(ticket_for(own), np.zeros(2, dtype=np.int64), "a")


@pytest.mark.parametrize(
    "given_values",
    [{"bound": 0.0}, {"scale": 0.0}, {"scale": math.inf}, {"dimensions": 0}, {"scale": 1e-12}],
)
def test_laplace_refuses_values_out_of_range(given_values: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Laplace(**{"bound": 1.0, "scale": 2.0, **given_values})


# --- integers -------------------------------------------------------------------------------------


def test_discrete_events() -> None:
    assert DiscreteGaussian(3, 6.0).event("add-remove") == ev.DiscreteGaussian(2.0, 3)
    assert DiscreteLaplace(3, 6.0).event("replace-one") == ev.DiscreteLaplace(2.0, 3)
    assert DiscreteLaplace(3, 6.0, dimensions=9).event("add-remove") == ev.DiscreteLaplace(2.0, 3)
    vector = DiscreteGaussian(3, 6.0, dimensions=9)
    assert vector.event("add-remove") == ev.ZCDP(0.125)
    assert vector.event("replace-one") == ev.ZCDP(0.5)
    wide = replace(vector, scale=100.0)
    found = wide.event("add-remove")
    assert isinstance(found, ev.Gaussian)
    assert 0.995 * 100 / 3 < found.noise_multiplier <= math.sqrt(100.0**2 - 64) / 3
    third = DiscreteGaussian(3, 1.0).event("add-remove")
    assert isinstance(third, ev.DiscreteGaussian)
    assert Fraction(third.noise_multiplier) * 3 <= 1


def test_discrete_sensitivities_and_noise() -> None:
    own = DiscreteGaussian(3, 6.0)
    assert [own.sensitivity(one) for one in RELATIONS] == [3.0, 6.0, 3.0]
    stated = own.intent(RoundDescription(1, "count", draws=2), "add-remove")
    assert stated.noise == records.Noise("discrete-gaussian", 6.0, 1, 6.0, 0, 2, 1.0)
    assert stated.contribution == records.Contribution(3.0, "l2", "user")
    assert (
        DiscreteLaplace(3, 6.0).intent(RoundDescription(1, "count"), "add-remove").contribution.norm
        == "l1"
    )


def test_integers_within_the_bound_are_counted_as_they_are() -> None:
    assert DiscreteGaussian(1, 4.0).total(np.ones(100, dtype=np.int64)).tolist() == [100]
    assert DiscreteLaplace(5, 4.0).total([5, -5, 9, -70, 2]).tolist() == [2]
    one_hot = np.eye(4, dtype=np.int64)[[0, 0, 2, 3]]
    assert DiscreteGaussian(1, 4.0, dimensions=4).total(one_hot).tolist() == [2, 0, 1, 1]
    assert DiscreteGaussian(5, 4.0, dimensions=2).total([[3, 4]]).tolist() == [3, 4]
    assert DiscreteLaplace(1, 4.0).total(np.array([True, False, True])).tolist() == [2]
    assert DiscreteLaplace(1, 4.0).total(np.array([2**64 - 1], dtype=np.uint64)).tolist() == [1]
    assert DiscreteLaplace(1, 4.0).total(np.empty(0, dtype=np.int64)).tolist() == [0]


ANY_INTEGER = st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)


@given(
    rows=st.lists(st.lists(ANY_INTEGER, min_size=3, max_size=3)),
    bound=st.integers(1, 2**40) | st.integers(1, 20),
    norm=st.sampled_from(["l1", "l2"]),
)
def test_integer_rows_keep_their_bound_exactly(
    rows: list[list[int]], bound: int, norm: Any
) -> None:
    table = np.array(rows, dtype=np.int64).reshape(len(rows), 3)
    for row, made in zip(rows, clipped_integers(table, bound, norm).tolist(), strict=True):
        power = 1 if norm == "l1" else 2
        assert sum(abs(z) ** power for z in made) <= bound**power
        if sum(abs(z) ** power for z in row) <= bound**power:
            assert made == row
        for now, before in zip(made, row, strict=True):
            assert now * before >= 0
            assert abs(now) <= abs(before)


@pytest.mark.parametrize("values", [[1.5], [[[1]]], ["a"], [None], 3])
def test_terms_are_integers(values: Any) -> None:
    with pytest.raises(InvalidInput, match="integers"):
        DiscreteGaussian(1, 4.0).total(values)


@pytest.mark.parametrize("kind", [DiscreteGaussian, DiscreteLaplace])
def test_discrete_noise_has_its_law(kind: Any) -> None:
    count, scale = 200_000, 3.3
    own = kind(1, scale, dimensions=count)
    noise = own.noisy(ticket_for(own), np.full(count, 7, dtype=np.int64), "a") - 7
    x = np.arange(-200, 201)
    exponent = x**2 / (2 * scale**2) if kind is DiscreteGaussian else np.abs(x) / scale
    expected = np.exp(-exponent) / np.exp(-exponent).sum() * count
    near = np.abs(x) <= 9
    counts = np.array([np.count_nonzero(noise == value) for value in x[near]])
    found = [*counts, count - counts.sum()]
    ideal = [*expected[near], expected[~near].sum()]
    assert stats.chisquare(found, ideal).pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    "given_values",
    [
        {"bound": 0},
        {"bound": 1.5},
        {"bound": 2**41},
        {"scale": 0.0},
        {"scale": 2.0**41},
        {"dimensions": 0},
    ],
)
def test_discrete_mechanisms_refuse_values_out_of_range(given_values: dict[str, Any]) -> None:
    for kind in (DiscreteGaussian, DiscreteLaplace):
        with pytest.raises(InvalidInput):
            kind(**{"bound": 1, "scale": 2.0, **given_values})


@pytest.mark.parametrize("split", [(1, 1), (2, 1), (2, 2), (3, 1)])
@pytest.mark.parametrize("scale", [0.7, 2.0])
def test_laplace_vectors_reveal_no_more_than_one_coordinate(
    split: tuple[int, int], scale: float
) -> None:
    """Two shifts by k_1 and k_2 against one by k_1 + k_2, at every epsilon, on a sample or not."""
    x = np.arange(-60, 61)

    def law(shift: int) -> np.ndarray:
        weights = np.exp(-np.abs(x - shift) / scale)
        return weights / weights.sum()

    together = (law(sum(split)), law(0))
    apart = (np.outer(law(split[0]), law(split[1])), np.outer(law(0), law(0)))
    for rate in (1.0, 0.2):
        for epsilon in np.linspace(-2.0, sum(split) / scale + 0.5, 23):
            deltas = []
            for p, q in (together, apart):
                mixed = rate * p + (1 - rate) * q
                deltas.append(
                    (
                        np.maximum(mixed - math.exp(epsilon) * q, 0.0).sum(),
                        np.maximum(q - math.exp(epsilon) * mixed, 0.0).sum(),
                    )
                )
            assert deltas[1][0] <= deltas[0][0] + 1e-12
            assert deltas[1][1] <= deltas[0][1] + 1e-12


@pytest.mark.parametrize("scale", [0.8, 2.0, 6.0])
def test_gaussian_vectors_keep_their_zcdp(scale: float) -> None:
    """The Renyi divergence of two shifted coordinates, by summing, at several orders."""
    own = DiscreteGaussian(2, scale, dimensions=2)
    stated = own.event("add-remove")
    assert isinstance(stated, ev.ZCDP)
    x = np.arange(-120, 121)
    for shift in ((2, 0), (1, 1)):
        for order in (1.5, 2.0, 4.5):
            total = 0.0
            for step in shift:
                p, q = -((x - step) ** 2) / (2 * scale**2), -(x**2) / (2 * scale**2)
                terms = np.exp(order * p + (1 - order) * q)
                total += math.log(terms.sum() / np.exp(q).sum()) / (order - 1)
            assert total <= order * stated.rho * (1 + 1e-12)


# --- randomized response --------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "categories"), [(0.0, 3), (1.0, 2), (2.0, 5)])
def test_reports_have_their_law(epsilon: float, categories: int) -> None:
    own = RandomizedResponse(epsilon, categories)
    count, truth = 100_000, 1
    found = own.reports(ticket_for(own), np.full(count, truth), "a")
    counts = np.bincount(found, minlength=categories)
    weights = np.ones(categories)
    weights[truth] = math.exp(epsilon)
    assert stats.chisquare(counts, weights / weights.sum() * count).pvalue > FALSE_ALARM


def test_certain_reports_at_an_extreme_epsilon() -> None:
    own = RandomizedResponse(700.0, 3)
    assert own.reports(ticket_for(own), [0, 1, 2], "a").tolist() == [0, 1, 2]


def test_reports_use_as_much_randomness_whatever_the_values() -> None:
    own = RandomizedResponse(1.0, 7)
    positions = set()
    for values in (np.zeros(500, dtype=int), np.arange(500) % 7):
        ticket = ticket_for(own)
        own.reports(ticket, values, "a")
        positions.add(ticket.stream("a").position)
    assert len(positions) == 1


def test_randomized_response_is_for_replace_one() -> None:
    own = RandomizedResponse(1.0, 4)
    assert own.event("replace-one") == ev.RandomizedResponse(1.0, 4)
    for relation in ("add-remove", "zero-out"):
        with pytest.raises(Unsupported, match="who reports"):
            own.event(relation)
    stated = own.intent(RoundDescription(1, "ask"), "replace-one")
    assert (stated.noise.family, stated.noise.std) == ("randomized-response", 0.0)


@pytest.mark.parametrize("values", [[4], [-1], [0.5], [[1]], ["a"]])
def test_values_out_of_range_are_refused_and_not_shown(values: Any) -> None:
    own = RandomizedResponse(1.0, 4)
    with pytest.raises(InvalidInput) as caught:
        own.reports(ticket_for(own), values, "a")
    assert "it is" not in str(caught.value)
    for given_values in ({"epsilon": -1.0}, {"categories": 1}, {"categories": 2**41}):
        with pytest.raises(InvalidInput):
            replace(own, **given_values)


# --- selection ------------------------------------------------------------------------------------


def law_of(own: Exponential, scores: list[float]) -> np.ndarray:
    weights = np.exp(float(own.exponent) * (np.array(scores) - max(scores)))
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize("change", selection.CHANGES)
def test_selection_has_its_law(change: Any) -> None:
    own = Exponential(2.0, 0.5, "add-remove", change)
    scores = [0.0, 1.0, 0.25, 1.0, -3.0]
    ticket = ticket_for(own, draws=4000)
    chosen = [own.select(ticket, scores, "a")[0] for _ in range(4000)]
    expected = law_of(own, scores) * 4000
    assert stats.chisquare(np.bincount(chosen, minlength=5), expected).pvalue > FALSE_ALARM


def test_selection_without_replacement_is_one_draw_after_the_other() -> None:
    own = Exponential(2.0, 1.0, "add-remove")
    scores = [0.0, 1.0, 0.5]
    ticket = ticket_for(own, draws=8000)
    counts = Counter(tuple(own.select(ticket, scores, "a", count=2)) for _ in range(4000))
    weights = law_of(own, scores)
    expected = [
        4000 * weights[i] * weights[j] / (1 - weights[i]) for i, j in permutations(range(3), 2)
    ]
    found = [counts[pair] for pair in permutations(range(3), 2)]
    assert sum(found) == 4000
    assert stats.chisquare(found, expected).pvalue > FALSE_ALARM


def test_the_exponent_spans_the_stated_range() -> None:
    """The event's epsilon is what `selection` proves for this exponent, and no less."""
    for change in selection.CHANGES:
        own = Exponential(0.7, 0.3, "add-remove", change)  # type: ignore[arg-type]
        spread = selection.draw_range(own.exponent, 0.3, change=change)
        assert own.event("add-remove") == ev.Exponential(0.7)
        assert spread == pytest.approx(0.7, rel=1e-15)
        times = 2 if change == "generic" else 1
        assert own.exponent * times * Fraction(0.3) == Fraction(0.7)


def test_neighbouring_scores_keep_the_ratio() -> None:
    own = Exponential(1.0, 1.0, "add-remove")
    for before, after in (([0.0, 1.0, 2.0], [1.0, 0.0, 3.0]), ([5.0, 5.0], [4.0, 6.0])):
        ratio = np.abs(np.log(law_of(own, before) / law_of(own, after)))
        assert ratio.max() <= 1.0 + 1e-12


def test_selection_shows_nothing_by_the_randomness_it_uses() -> None:
    own = Exponential(1.0, 1.0, "add-remove")
    for scores in ([0.0] * 3, [0.0, 1e9, -1e9], list(np.linspace(0, 1, 1000))):
        ticket = ticket_for(own, draws=3)
        own.select(ticket, scores, "a", count=3)
        assert ticket.stream("a").position == 32


def test_extreme_scores() -> None:
    own = Exponential(1.0, 1.0, "add-remove")
    top = float(np.finfo(np.float64).max)
    for scores in ([top, -top], [0.0, -1e4], [1e300, 1e300 * (1 - 1e-10)]):
        assert own.select(ticket_for(own), scores, "a") == [0]
    assert sorted(own.select(ticket_for(own, 3), [top, -top, 0.0], "a", count=3)) == [0, 1, 2]


@pytest.mark.parametrize(
    "scores", [[], [1.0], [math.nan, 1.0], [math.inf, 1.0], [[1.0, 2.0]], np.zeros(2**20 + 1)]
)
def test_scores_are_checked_and_not_shown(scores: Any) -> None:
    own = Exponential(1.0, 1.0, "add-remove")
    ticket = ticket_for(own, draws=2)
    with pytest.raises(InvalidInput, match="Scores"):
        own.select(ticket, scores, "a", count=2)


def test_selection_is_for_its_relation() -> None:
    own = Exponential(1.0, 1.0, "replace-one")
    for ask in (own.event, own.sensitivity):
        with pytest.raises(Unsupported, match="replace-one"):
            ask("add-remove")
    assert own.event("replace-one") == ev.Exponential(1.0)
    for given_values in (
        {"epsilon": 0.0},
        {"score_bound": 0.0},
        {"relation": "swap"},
        {"change": "any"},
        {"epsilon": 1e-300},
    ):
        with pytest.raises(InvalidInput):
            replace(own, **given_values)
